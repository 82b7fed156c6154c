"""What a drawing is of: a model, and the settings of its recipe that drawings show."""

from __future__ import annotations

from dataclasses import dataclass

from firth.decoding.config import DecodingConfig
from firth.inspection.beam_tree import BeamTree
from firth.inspection.drawing.block import Layers
from firth.inspection.drawing.parts import Ends
from firth.models.adapters import Lora
from firth.models.caption_config import TransformerCaptionConfig
from firth.models.config import TransformerConfig
from firth.models.encoder_config import TransformerEncoderConfig
from firth.models.network import ModelConfig
from firth.models.seq2seq_config import PrefixConfig, TransformerSeq2SeqConfig
from firth.text.tokenizers.merges import MergedWord


@dataclass(frozen=True)
class Subject:
    name: str
    config: ModelConfig
    ends: Ends = Ends()
    adapters: Lora | None = None  # None: all weights are trained, or none
    decoding: DecodingConfig | None = None  # None: nothing says how it generates
    tree: BeamTree | None = None  # of a search in a run
    merged: tuple[MergedWord, ...] = ()


def layers_of(config: ModelConfig) -> tuple[Layers, ...]:
    """The stacks of layers of a Transformer, that of the decoder last; none of other models."""
    match config:
        case TransformerConfig() | PrefixConfig():
            return (Layers(config, config.depth, prefix=isinstance(config, PrefixConfig)),)
        case TransformerEncoderConfig():
            return (Layers(config, config.depth, bidirectional=True, groups=config.layer_groups),)
        case TransformerSeq2SeqConfig():
            encoder = Layers(config, config.encoder_depth or config.depth, bidirectional=True)
            return encoder, Layers(config, config.depth, cross=True)
        case TransformerCaptionConfig():
            decoder = Layers(config, config.depth, cross=True)
            if not config.layers_over_cells:
                return (decoder,)
            return Layers(config, config.layers_over_cells, bidirectional=True, placed=False), decoder
        case _:
            return ()
