"""A trained Transformer with its rotary positions stretched to a longer context (layers/position/rotary_scaling.py)."""

from __future__ import annotations

import dataclasses

import torch

from firth.errors import ConfigError
from firth.layers.position import RotaryConfig
from firth.layers.position.rotary_scaling import RotaryScaling
from firth.models.language import TransformerLM


def stretched(model: TransformerLM, context: int, scaling: RotaryScaling, trained: int) -> TransformerLM:
    """The same weights, not copied, to read `context` tokens after training on `trained`; "none" gives the usual frequencies.

    A model that was itself trained with stretched positions counts from its `position.context`."""
    own = model.config
    position = own.position
    if not isinstance(position, RotaryConfig):
        raise ConfigError(f'rotary_scaling is "{scaling}", but model.position is "{position.kind}". Remove rotary_scaling.')
    trained = position.context or trained
    if scaling != "none" and context <= trained:
        raise ConfigError(
            f'rotary_scaling is "{scaling}", but a context of {context} is not longer than the trained {trained}. '
            "Choose a longer context, or remove rotary_scaling."
        )
    counted_from = None if scaling == "none" else trained
    longer = dataclasses.replace(position, scaling=scaling, context=counted_from, factor=None)
    config = dataclasses.replace(own, context=context, position=longer)
    with torch.device(model.embedding.weight.device):
        other = TransformerLM(config, model.vocab)
    other.load_state_dict(model.state_dict(), assign=True)
    return other.train(model.training)
