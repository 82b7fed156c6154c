"""LLaMA in GGUF: llama.cpp's names of tensors and keys of metadata.

llama.cpp rotates neighbouring rows of a head, where we rotate halves, so the rows of W^Q and W^K are permuted at the border: in
each head of D rows,

    theirs[2i] = ours[i],  theirs[2i + 1] = ours[i + D/2]

The frequencies of LLaMA 3.1 are no setting there but a tensor, `rope_freqs.weight`: by how much each is divided.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from firth.errors import ConfigError, DataError
from firth.interop.families.llama import LLAMA
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.gguf_file import GGUFFile
from firth.interop.files.weight_map import GATE_UP, QKV, Conversion, Weight, WeightMap
from firth.layers.position.frequencies import frequencies
from firth.layers.position.rotary_scaling import Scaling
from firth.models import TransformerConfig
from firth.models.config import transformer

ARCHITECTURE = "llama"  # general.architecture
FREQUENCIES = "rope_freqs.weight"
_METADATA = "the metadata"
# Keys that say nothing about the computation of logits.
_IGNORED = ("vocab_size", "tensor_data_layout", "rope.scaling.finetuned", "attention.causal")
_SCALINGS = ("none", "linear", "yarn", "llama3")
_CONTEXTS = tuple(1 << power for power in range(13, 2, -1))  # of training; 8192 is that of LLaMA 3


def _interleaved(weight: Tensor, width: int) -> Tensor:
    return weight.reshape(-1, 2, width // 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def _halved(weight: Tensor, width: int) -> Tensor:
    return weight.reshape(-1, width // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def _to_ours(theirs: Sequence[Tensor], model: Any) -> Tensor:
    query, key, value = theirs
    return QKV.to_ours([_halved(query, model.per_head), _halved(key, model.per_head), value], model)


def _to_theirs(ours: Tensor, model: Any) -> Sequence[Tensor]:
    query, key, value = QKV.to_theirs(ours, model)
    return [_interleaved(query, model.per_head), _interleaved(key, model.per_head), value]


_LAYER = "blk.{n}"
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "token_embd.weight"),
        Weight("blocks.{n}.attention_norm.weight", f"{_LAYER}.attn_norm.weight"),
        Weight(
            "blocks.{n}.attention.qkv.weight",
            (f"{_LAYER}.attn_q.weight", f"{_LAYER}.attn_k.weight", f"{_LAYER}.attn_v.weight"),
            Conversion(_to_ours, _to_theirs),
        ),
        Weight("blocks.{n}.attention.out.weight", f"{_LAYER}.attn_output.weight"),
        Weight("blocks.{n}.feedforward_norm.weight", f"{_LAYER}.ffn_norm.weight"),
        Weight("blocks.{n}.feedforward.up.weight", (f"{_LAYER}.ffn_gate.weight", f"{_LAYER}.ffn_up.weight"), GATE_UP),
        Weight("blocks.{n}.feedforward.down.weight", f"{_LAYER}.ffn_down.weight"),
        Weight("norm.weight", "output_norm.weight"),
        Weight("output.weight", "output.weight"),
    ),
    ignored=(FREQUENCIES,),
    config=_METADATA,
)
GGUF_LLAMA = dataclasses.replace(LLAMA, weights=WEIGHTS)


def read(file: GGUFFile) -> TransformerConfig:
    """[model], from the metadata and, where it is about the frequencies of positions, from a tensor."""
    keys = {key.removeprefix(f"{ARCHITECTURE}."): value for key, value in file.metadata.items() if key.startswith("llama.")}
    config = ForeignConfig({key: value for key, value in keys.items() if key not in _IGNORED}, _METADATA)
    width, heads = config.size("embedding_length"), config.size("attention.head_count")
    head_width = config.size("attention.key_length", max(1, width // heads))
    config.expect("attention.value_length", head_width)
    config.expect("rope.dimension_count", head_width)
    context = config.size("context_length")
    model: dict[str, Any] = {
        "width": width,
        "depth": config.size("block_count"),
        "attention.heads": heads,
        "attention.kv_heads": config.size("attention.head_count_kv", heads),
        "attention.head_width": None if head_width * heads == width else head_width,
        "feedforward.hidden": config.size("feed_forward_length"),
        "context": context,
        "norm.eps": config.number("attention.layer_norm_rms_epsilon", 1e-5),
        "tied": "output.weight" not in file.shapes,
        "position.base": config.number("rope.freq_base", 10_000.0),
    }
    scaling = _scaling(config, context) or _frequencies(file, model["position.base"], head_width)
    config.finish()
    try:
        return transformer(TransformerConfig, {**model, **scaling})
    except ConfigError as error:
        raise DataError(f"{_METADATA} does not describe a LLaMA model that firth can build: {error}") from error


def _scaling(config: ForeignConfig, context: int) -> dict[str, Any]:
    kind = config.expect("rope.scaling.type", "none", "linear", "yarn")
    factor = config.number("rope.scaling.factor", config.number("rope.scale_linear", 1.0))
    config.expect("rope.scaling.attn_factor", 1.0)
    trained = config.size("rope.scaling.original_context_length", max(1, int(context / factor)) if factor >= 1 else context)
    if kind == "none":
        if factor != 1.0:
            kind = "linear"
        else:
            return {}
    return {"position.scaling": kind, "position.context": trained, "position.factor": factor}


def _frequencies(file: GGUFFile, base: float, width: int) -> dict[str, Any]:
    """The scaling of LLaMA 3.1 whose divisors are those in the file."""
    if FREQUENCIES not in file.shapes:
        return {}
    trained, factor = _recognised(file.tensor(FREQUENCIES).double(), width, base)
    if trained is None:
        raise DataError(f"{FREQUENCIES} has frequencies that are not those of LLaMA 3.1; firth does not know them.")
    return {"position.scaling": "llama3", "position.context": trained, "position.factor": factor}


def _recognised(given: Tensor, width: int, base: float) -> tuple[int | None, float]:
    """Context of training and factor of the LLaMA 3.1 scaling with these divisors."""
    factor = float(given.max())
    fitting = given.shape == (width // 2,)
    for trained in _CONTEXTS:
        if fitting and torch.allclose(_divisors(trained, factor, width, base), given, rtol=1e-4):
            return trained, factor
    return None, factor


def _divisors(trained: int, factor: float, width: int, base: float) -> Tensor:
    return frequencies(width, base) / Scaling("llama3", trained, factor).frequencies(width, base)


def write_metadata(model: Any, vocab: int) -> Mapping[str, int | float | str]:
    """The keys that `read` reads, without the "llama." before them."""
    scaling: dict[str, int | float | str] = {}
    if model.position.scaling in ("linear", "yarn"):
        scaling = {
            "rope.scaling.type": model.position.scaling,
            "rope.scaling.factor": _factor(model),
            "rope.scaling.original_context_length": _known(model.position.context),
        }
    return {
        "context_length": _known(model.context),
        "embedding_length": model.width,
        "block_count": model.depth,
        "feed_forward_length": model.inner,
        "attention.head_count": model.attention.heads,
        "attention.head_count_kv": model.attention.groups,
        "attention.key_length": model.per_head,
        "attention.value_length": model.per_head,
        "attention.layer_norm_rms_epsilon": model.norm.eps,
        "rope.dimension_count": model.per_head,
        "rope.freq_base": float(model.position.base),
        "vocab_size": vocab,
        **scaling,
    }


def write_weights(weights: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Their tensors, with the frequencies of LLaMA 3.1 among them."""
    tensors = WEIGHTS.write(weights, model)
    if model.position.scaling == "llama3":
        divisors = _divisors(_known(model.position.context), _factor(model), model.per_head, model.position.base)
        tensors[FREQUENCIES] = divisors.float()
    return tensors


def why_not(model: Any) -> str | None:
    """Why a model of ours cannot be written as a LLaMA model of GGUF."""
    reason = LLAMA.why_not(model)
    if reason is None and model.position.scaling not in _SCALINGS:
        reason = f"model.position.scaling = {model.position.scaling!r}"
    if reason is not None or model.position.scaling != "llama3":
        return reason
    divisors = _divisors(model.position.context, _factor(model), model.per_head, model.position.base)
    unknown = _recognised(divisors, model.per_head, model.position.base)[0] is None
    return f"model.position.scaling = 'llama3' with model.position.context = {model.position.context}" if unknown else None


def _factor(model: Any) -> float:
    return float(model.position.factor or _known(model.context) / _known(model.position.context))


def _known(value: int | None) -> int:
    assert value is not None  # a run's recipe is resolved, and a scaling names the context of training
    return value
