"""ModernBERT (Warner et al. 2024): rotary positions, LayerNorm without biases before each sublayer, GEGLU, and windows around
each token in two of three layers, with a base of their own. Its queries, keys and values, and its gate and value, are one matrix.

Its classifiers, taggers and question answerers have the hidden layer of its masked language model before their output layer.
"""

from __future__ import annotations

from typing import Any

from firth.errors import DataError
from firth.interop.families.bert import ACTIVATIONS
from firth.interop.families.encoders import EncoderBody, Head, encoder_families
from firth.interop.families.family import SIZES
from firth.interop.files.config_map import Entry, Settings, always, choice, dropout, either, expected, number, size, unused
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight

_ACTIVATIONS = {"gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "silu": "swiglu"}
_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_LETTERS = {_GLOBAL: "G", _LOCAL: "L"}
# Keys that change how it is computed, initialised or trained, but no result.
_UNUSED = (
    "cls_token_id", "deterministic_flash_attn", "initializer_cutoff_factor", "layer_norm_eps",
    "position_embedding_type", "reference_compile", "repad_logits_with_grad", "sparse_pred_ignore_index",
    "sparse_prediction", "classifier_pooling",  # which classifiers have read before
)  # fmt: skip

_OURS, _LAYER = "encoder.stack.blocks.{n}", "model.layers.{n}"
WEIGHTS = (
    Weight("encoder.embedding.weight", "model.embeddings.tok_embeddings.weight"),
    Weight("encoder.stack.embedding_norm.{p}", "model.embeddings.norm.{p}"),
    Weight(f"{_OURS}.attention_norm.{{p}}", f"{_LAYER}.attn_norm.{{p}}"),
    Weight(f"{_OURS}.attention.qkv.{{p}}", f"{_LAYER}.attn.Wqkv.{{p}}"),
    Weight(f"{_OURS}.attention.out.{{p}}", f"{_LAYER}.attn.Wo.{{p}}"),
    Weight(f"{_OURS}.feedforward_norm.{{p}}", f"{_LAYER}.mlp_norm.{{p}}"),
    Weight(f"{_OURS}.feedforward.up.{{p}}", f"{_LAYER}.mlp.Wi.{{p}}"),
    Weight(f"{_OURS}.feedforward.down.{{p}}", f"{_LAYER}.mlp.Wo.{{p}}"),
    Weight("encoder.stack.norm.{p}", "model.final_norm.{p}"),
)
_POOLS = {"cls": "first", "mean": "mean"}  # of classifiers
_LABELS = (
    Weight("transform.dense.{p}", "head.dense.{p}"),
    Weight("transform.norm.{p}", "head.norm.{p}"),
    Weight("output.{p}", "classifier.{p}"),
)
_WITH_TRANSFORM = {"transform": True, "transform_bias": False}
_PREDICTIONS = (
    Weight("transform.{p}", "head.dense.{p}"),
    Weight("norm.{p}", "head.norm.{p}"),
    Weight("output_bias", "decoder.bias"),
    Weight("output.{p}", "decoder.{p}"),
)


def _read_windows(config: ForeignConfig, before: Settings) -> Settings:
    pattern = _pattern(config, before["depth"])
    span = 2 * (config.size("local_attention", 128) // 2) + 1
    everywhere, local = _bases(config)
    if "L" not in pattern:
        return {"position.base": everywhere}
    windows = {"attention.span": span, "attention.window_pattern": pattern}
    return {**windows, "position.base": everywhere, "position.base_local": local}


def _pattern(config: ForeignConfig, depth: int) -> str:
    """The shortest one, such as "GLL"."""
    every = config.size("global_attn_every_n_layers", 3)
    kinds = config.words("layer_types") or [_LOCAL if n % every else _GLOBAL for n in range(depth)]
    if len(kinds) != depth or not set(kinds) <= set(_LETTERS):
        raise DataError(
            f"config.json: layer_types is {str(kinds)[:60]}; expected {_GLOBAL} or {_LOCAL} for each of {depth} layers"
        )
    letters = "".join(_LETTERS[kind] for kind in kinds)
    return next(letters[:n] for n in range(1, depth + 1) if (letters[:n] * depth)[:depth] == letters)


def _bases(config: ForeignConfig) -> tuple[float, float]:
    """The bases of the wavelengths, in layers that attend to the whole text and to a window."""
    config.expect("rope_scaling", None)
    old = config.number("global_rope_theta", 160_000.0), config.number("local_rope_theta", 10_000.0)
    tables = ForeignConfig(config.table("rope_parameters"), "config.json: rope_parameters")
    bases = []
    for kind, base in zip((_GLOBAL, _LOCAL), old, strict=True):
        inner = ForeignConfig(tables.table(kind), f"config.json: rope_parameters.{kind}")
        inner.expect("rope_type", "default")
        bases.append(inner.number("rope_theta", base))
        inner.finish()
    tables.finish()
    return bases[0], bases[1]


def _write_windows(model: Any) -> dict[str, Any]:
    local = model.position.base_local or model.position.base
    return {
        "local_attention": 128 if model.attention.span is None else model.attention.span - 1,
        "layer_types": [_LOCAL if model.attention.in_layer(n) == "window" else _GLOBAL for n in range(model.depth)],
        "rope_parameters": {
            _GLOBAL: {"rope_type": "default", "rope_theta": model.position.base},
            _LOCAL: {"rope_type": "default", "rope_theta": local},
        },
    }


MODERNBERT = encoder_families(
    EncoderBody(
        title="ModernBERT",
        model_type="modernbert",
        prefix="model.",
        weights=WEIGHTS,
        config=(
            unused(*_UNUSED),
            *(expected(key, False) for key in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias")),
            choice("transform_activation", "classifier_activation", ACTIVATIONS),
            choice("feedforward.activation", "hidden_activation", _ACTIVATIONS),
            *SIZES,
            size("feedforward.hidden", "intermediate_size"),
            size("context", "max_position_embeddings", 8192),
            Entry(
                _read_windows,
                _write_windows,
                ("attention.span", "attention.window_pattern", "position.base", "position.base_local"),
            ),
            always("norm.kind", "layer"),
            number("norm.eps", "norm_eps", 1e-5),
            always("embedding.norm", "replaces_first"),
            always("transform_bias", False),
            Entry(
                lambda config, _: {"output_bias": None if config.expect("decoder_bias", True, False) else False},
                lambda model: {"decoder_bias": model.output_bias is not False},
            ),
            either("tied", "tie_word_embeddings", True),
            dropout("embedding_dropout", "mlp_dropout"),
            Entry(write=lambda model: {"classifier_pooling": "mean" if model.pool == "mean" else "cls"}),
        ),
    ),
    (
        Head("embedding", "ModernBertModel"),
        Head(
            "masked",
            "ModernBertForMaskedLM",
            _PREDICTIONS,
            limited={"output_bias": (None, True, False)},
            repeated={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
        ),
        Head(
            "classification",
            "ModernBertForSequenceClassification",
            _LABELS,
            _WITH_TRANSFORM,
            limited={"pool": tuple(_POOLS.values())},
            read=lambda config: {"pool": _POOLS[config.expect("classifier_pooling", *_POOLS)]},
        ),
        Head("tagging", "ModernBertForTokenClassification", _LABELS, _WITH_TRANSFORM),
        Head("answer", "ModernBertForQuestionAnswering", _LABELS, _WITH_TRANSFORM),
    ),
)
