"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): rotary positions that turn only part of each head, attention
and feed-forward network in parallel, each with a LayerNorm of its own, biases everywhere but in the output layer.

Queries, keys and values alternate by head. The numbers that turn stand first in theirs, and pairs are halves of them; in ours,
pairs are halves of the whole head, so that the rows of W^Q and W^K are permuted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.rope import ROPE_FREE, SCALINGS, read_partial_rope, write_rope
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap, alternating
from firth.layers.position import partial_order
from firth.models import TransformerConfig
from firth.models.config import transformer

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_BASE, _FRACTION = 10_000.0, 0.25  # where config.json says nothing


def _order(model: Any) -> Sequence[int]:
    return partial_order(model.per_head, int(model.per_head * (model.position.fraction or 1.0)))


_LAYER = "gpt_neox.layers.{n}"
_STORED = ("attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq")  # tables, no weights
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "gpt_neox.embed_in.weight"),
        Weight("blocks.{n}.attention_norm.{p}", f"{_LAYER}.input_layernorm.{{p}}"),
        Weight("blocks.{n}.attention.qkv.{p}", f"{_LAYER}.attention.query_key_value.{{p}}", alternating(_order)),
        Weight("blocks.{n}.attention.out.{p}", f"{_LAYER}.attention.dense.{{p}}"),
        Weight("blocks.{n}.feedforward_norm.{p}", f"{_LAYER}.post_attention_layernorm.{{p}}"),
        Weight("blocks.{n}.feedforward.up.{p}", f"{_LAYER}.mlp.dense_h_to_4h.{{p}}"),
        Weight("blocks.{n}.feedforward.down.{p}", f"{_LAYER}.mlp.dense_4h_to_h.{{p}}"),
        Weight("norm.{p}", "gpt_neox.final_layer_norm.{p}"),
        Weight("output.weight", "embed_out.weight"),
    ),
    ignored=tuple(f"{layer}.{name}" for layer in (_LAYER, "layers.{n}") for name in _STORED),
    repeated=dict.fromkeys(("embed_out.weight", "lm_head.weight"), "gpt_neox.embed_in.weight"),
    prefix="gpt_neox.",
    renamed={"embed_out.weight": "lm_head.weight"},
)


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("attention_bias", True)
    config.take("hidden_dropout")
    activation: Any = _ACTIVATIONS[config.expect("hidden_act", *_ACTIVATIONS)]
    parallel = config.expect("use_parallel_residual", True, False)
    context = config.size("max_position_embeddings", 2048)
    return transformer(
        TransformerConfig,
        {
            "width": config.size("hidden_size"),
            "depth": config.size("num_hidden_layers"),
            "attention.heads": config.size("num_attention_heads"),
            "feedforward.hidden": config.size("intermediate_size"),
            "context": context,
            "norm.kind": "layer",
            "norm.eps": config.number("layer_norm_eps", 1e-5),
            "feedforward.parallel": "two_norms" if parallel else False,
            "feedforward.activation": activation,
            "bias": True,
            "output_bias": False,
            "tied": config.expect("tie_word_embeddings", False, True),
            **read_partial_rope(config, context, config.number("rotary_emb_base", _BASE), config.number("rotary_pct", _FRACTION)),
        },
    )


def write(model: Any) -> dict[str, Any]:
    fraction = model.position.fraction or 1.0
    rope = write_rope(model)
    return {
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.attention.heads,
        "intermediate_size": model.inner,
        "max_position_embeddings": rope.get("max_position_embeddings", model.context),
        "hidden_act": next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == model.feedforward.activation),
        "layer_norm_eps": model.norm.eps,
        "use_parallel_residual": model.feedforward.parallel == "two_norms",
        "attention_bias": True,
        "hidden_dropout": model.dropout,
        "attention_dropout": 0.0,
        "tie_word_embeddings": model.tied,
        "rotary_pct": fraction,
        "rotary_emb_base": model.position.base,
        "rope_scaling": rope["rope_scaling"],
        "rope_parameters": {**rope["rope_parameters"], "partial_rotary_factor": fraction},
    }


GPT_NEOX = Family(
    title="GPT-NeoX",
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    objective="next-token",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=ROPE_FREE
    | {"width", "depth", "attention.heads", "feedforward.hidden", "context", "norm.eps", "tied", "position.fraction"},
    limited={
        "position.scaling": SCALINGS,
        "norm.kind": ("layer",),
        "feedforward.parallel": (False, "two_norms"),
        "feedforward.activation": tuple(dict.fromkeys(_ACTIVATIONS.values())),
        "bias": (True,),
    },
)
