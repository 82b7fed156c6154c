"""Phi-3 (Abdin et al. 2024) and Phi-4: LLaMA with one matrix for queries, keys and values, and one for gate and value, as
ours are. All layers may attend to a window; in Phi-4-mini, only part of each head turns.

The numbers that turn stand first in a head, as in GPT-NeoX. The models for 128,000 tokens, whose rope_type is "longrope", are
refused: their frequencies depend on the length of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama import LAYER, SILU, sizes, weight_map
from firth.interop.families.rope import read_partial_rope, write_rope
from firth.interop.families.windows import one_window
from firth.interop.files.config_map import Entry, Settings, done, dropout, written
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, turned
from firth.layers.position import partial_order


def _order(model: Any) -> Sequence[int] | None:
    fraction = model.position.fraction
    return None if fraction is None else partial_order(model.per_head, int(model.per_head * fraction))


_QKV = Weight("blocks.{n}.attention.qkv.weight", f"{LAYER}.self_attn.qkv_proj.weight", turned(_order))
_UP = Weight("blocks.{n}.feedforward.up.weight", f"{LAYER}.mlp.gate_up_proj.weight")


def _read_rope(config: ForeignConfig, before: Settings) -> Settings:
    base, fraction = config.number("rope_theta", 10_000.0), config.positive("partial_rotary_factor", 1.0)
    return read_partial_rope(config, before["context"], base, fraction, kinds=())


def _write_rope(model: Any) -> dict[str, Any]:
    fraction, rope = model.position.fraction or 1.0, write_rope(model)
    table = {**rope["rope_parameters"], "partial_rotary_factor": fraction}
    return {**rope, "partial_rotary_factor": fraction, "rope_parameters": table}


PHI3 = Family(
    title="Phi-3",
    model_type="phi3",
    architecture="Phi3ForCausalLM",
    weights=weight_map(qkv=_QKV, up=_UP),
    config=(
        *sizes(context=4096, eps=1e-5),
        SILU,
        dropout("resid_pdrop", "embd_pdrop"),
        one_window(None),
        Entry(
            lambda config, _: done(config.take("original_max_position_embeddings")),  # of longrope
            lambda model: {"original_max_position_embeddings": model.context},
        ),
        written(pad_token_id=None),  # by default a row that a small vocabulary lacks
        Entry(_read_rope, _write_rope, ("position.base", "position.fraction"), {"position.scaling": (None, "none")}),
    ),
)
