"""The spread of the first embeddings; what it is worth is in LOG.md."""

from __future__ import annotations

import pytest
import torch

from firth.errors import ConfigError
from firth.layers.recurrent import CELLS
from firth.models import ModelConfig, RecurrentConfig, TransformerConfig, language_model
from firth.models.initialise import initialise


@pytest.mark.parametrize(
    ("config", "std"),
    [
        (RecurrentConfig(kind="lstm", width=64), 1.0),
        (RecurrentConfig(kind="lstm", width=64, tied=True), 1 / 8),
        (TransformerConfig(kind="transformer", width=64, depth=1, context=8), 1 / 8),
    ],
)
def test_embeddings_start_with_the_spread_that_their_model_needs(config: ModelConfig, std: float) -> None:
    model = language_model(config, 500)
    initialise(model, torch.Generator().manual_seed(0))
    weight = model.embedding.weight
    assert abs(float(weight.detach().std()) / std - 1) < 0.02  # 32,000 draws: six standard errors


@pytest.mark.parametrize("kind", [cell.kind for cell in CELLS if not cell.has_reset])
def test_the_reset_of_a_gru_is_refused_elsewhere(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf'model.reset only applies to the GRU; model.kind is "{kind}"'):
        RecurrentConfig(kind=kind, reset="before")  # type: ignore[arg-type]
