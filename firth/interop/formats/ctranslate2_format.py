"""--format ctranslate2: a folder for the Translator or the Generator of CTranslate2, OpenNMT's engine for Transformers.

A model of ours is written through the package's own description of models, without the detour of a public family, because its
Transformer has most of the settings that ours has.

Their fused matrices are ours: queries, keys and values one below the other; of a source, keys and values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from firth import files
from firth.config import settings
from firth.errors import ConfigError
from firth.interop.files.tokenizer_files import ending_json
from firth.interop.formats.outgoing import Outgoing
from firth.layers.activation import is_gated
from firth.layers.position import PositionScheme
from firth.layers.position.t5 import MAX_DISTANCE
from firth.models import ModelConfig, TransformerConfig, TransformerDecoder, TransformerLM, TransformerSeq2SeqConfig
from firth.models.stack import Stack
from firth.text.tokenizers.tokenizer import Tokenizer

_POSITIONS = 1024
_NEVER = -1e9  # bias of a token that is never generated
# Settings that they express whatever their value, and those of which they only know some.
_FREE = frozenset(
    {
        "family", "kind", "width", "depth", "encoder_depth", "attention.heads", "attention.head_width", "feedforward.hidden",
        "context", "position.base", "position.order", "position.max_distance", "position.buckets", "position.per_layer",
        "position.endpoint", "position.first",
        "norm.kind", "norm.eps", "norm.bias", "feedforward.activation", "bias", "output_bias", "embedding.scale", "output_scale",
        "shared", "tied", "dropout", "embedding.vectors", "embedding.vectors_fixed",
    }
)  # fmt: skip
_LIMITED: Mapping[str, tuple[Any, ...]] = {
    "position.kind": ("learned", "sinusoidal", "rotary", "t5"),
    "attention.score": ("scaled_dot", "dot"),
    "norm.placement": ("pre", "post"),
    "embedding.norm": (False, True),
}
_ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "swiglu": "SWISH", "geglu": "GELU",
    "geglu_tanh": "GELUTanh",
}  # fmt: skip


def _why_not(model: ModelConfig) -> str | None:
    """Why CTranslate2 cannot compute such a model."""
    if not isinstance(model, TransformerConfig | TransformerSeq2SeqConfig):
        return f'model.family = "{model.family}" with model.kind = "{model.kind}"'
    for name, value, default in settings(model):
        if name == "attention.kv_heads" and (model.family == "language" or value in (None, model.attention.heads)):
            continue
        if name not in _FREE and value not in _LIMITED.get(name, (default,)):
            return f"model.{name} = {value!r}"
    if model.family == "language" and model.position.kind == "t5":
        return "model.position.kind = 't5' in a language model"
    return None


def _write(network: TransformerLM | TransformerDecoder, source: Tokenizer, tokenizer: Tokenizer, folder: Path) -> None:
    """model.bin, config.json and the vocabularies."""
    specs = _package()
    model: Any = network.config
    weights = {name: _array(tensor) for name, tensor in network.state_dict().items()}
    common = _common(specs, model)
    if isinstance(network, TransformerLM):
        decoder = specs.TransformerDecoderSpec(model.depth, model.attention.heads, with_encoder_attention=False, **common)
        spec = specs.TransformerDecoderModelSpec(decoder)
        _fill(decoder, network, "", weights, model)
        spec.register_vocabulary(_names(tokenizer))
        spec.config.bos_token = _name(tokenizer, tokenizer.begin[0] if tokenizer.begin else tokenizer.eos)
    else:
        source.around_sentence(target=False)  # raises if the model is multilingual and its source language is not set
        encoder = specs.TransformerEncoderSpec(len(network.encoder.blocks), model.attention.heads, **common)
        decoder = specs.TransformerDecoderSpec(model.depth, model.attention.heads, **common)
        spec = specs.TransformerSpec(encoder, decoder)
        _fill(encoder, network.encoder, "encoder.", weights, model)
        _fill(decoder, network.decoder, "decoder.", weights, model)
        encoder.embeddings[0].weight = weights["embedding.weight" if network.own_embedding is None else "own_embedding.weight"]
        spec.register_source_vocabulary(_names(source))
        spec.register_target_vocabulary(_names(tokenizer))
        spec.config.decoder_start_token = _name(tokenizer, tokenizer.decoder.start)
        spec.config.bos_token = spec.config.decoder_start_token
    decoder.embeddings.weight = weights["embedding.weight"]
    _output(decoder, weights, tokenizer.decoder.banned if model.family == "seq2seq" else ())
    if getattr(model, "output_scale", False):
        decoder.scale_outputs = model.width**-0.5
    spec.config.eos_token = _name(tokenizer, tokenizer.eos)
    spec.config.unk_token = tokenizer.unknown_name or spec.config.eos_token
    spec.config.layer_norm_epsilon = model.norm.eps
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))


def _package() -> Any:
    try:
        from ctranslate2.specs import transformer_spec
    except ImportError as error:
        raise ConfigError(
            'the format ctranslate2 needs the package of that name. Install it with pip install "firth[ctranslate2]".'
        ) from error
    return transformer_spec


def _common(specs: Any, model: Any) -> dict[str, Any]:
    """The arguments that their encoders and decoders share."""
    table: dict[str, Any] = {
        "pre_norm": model.norm.placement == "pre",
        "activation": specs.common_spec.Activation[_ACTIVATIONS[model.feedforward.activation]],
        "layernorm_embedding": model.embedding.norm,
        "relative_attention_bias": model.position.kind == "t5",
        "ffn_glu": is_gated(model.feedforward.activation),
        "rms_norm": model.norm.kind == "rms",
        "num_heads_kv": None if model.attention.groups == model.attention.heads else model.attention.groups,
        "head_dim": model.per_head if model.per_head * model.attention.heads != model.width else None,
    }
    if model.position.kind == "rotary":
        table |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": model.position.base}
    return table


def _fill(spec: Any, stack: Stack, prefix: str, weights: Mapping[str, NDArray[Any]], model: Any) -> None:
    """The layers of a stack; `prefix` is before the names of its weights."""
    own = {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
    spec.scale_embeddings = stack.embedding_scale is not None
    if model.position.kind in ("learned", "sinusoidal"):
        spec.position_encodings.encodings = _array(_added_positions(stack.scheme, model.context))
    for name, theirs in (("norm", "layer_norm"), ("embedding_norm", "layernorm_embedding")):
        if f"{name}.weight" in own:
            _norm(getattr(spec, theirs), own, name)
    for n, layer in enumerate(spec.layer):
        block = f"blocks.{n}"
        attention = layer.self_attention
        _norm(attention.layer_norm, own, f"{block}.attention_norm")
        _linear(attention.linear[0], own, f"{block}.attention.qkv")
        _linear(attention.linear[1], own, f"{block}.attention.out")
        if model.position.kind == "t5":
            attention.relative_attention_bias = own.get("relative.table_NH", own.get(f"{block}.attention.attend.table_NH"))
            attention.relative_attention_max_distance = np.int32(model.position.max_distance or MAX_DISTANCE)
        heads = [attention]
        if f"{block}.cross.query.weight" in own:
            heads.append(layer.attention)
            _norm(layer.attention.layer_norm, own, f"{block}.cross_norm")
            for place, name in enumerate(("query", "kv", "out")):
                _linear(layer.attention.linear[place], own, f"{block}.cross.{name}")
        for one in heads:
            if model.attention.score == "dot":
                one.queries_scale = 1.0
        _feedforward(layer.ffn, own, block)


def _added_positions(scheme: PositionScheme, context: int) -> Tensor:
    """The vectors that are added to embedded tokens; those without an end, for at least `_POSITIONS` tokens."""
    table_Td: Tensor = scheme(0, max(context, _POSITIONS) if scheme.end is None else scheme.end)
    return table_Td


def _feedforward(spec: Any, own: Mapping[str, NDArray[Any]], block: str) -> None:
    _norm(spec.layer_norm, own, f"{block}.feedforward_norm")
    _linear(spec.linear_1, own, f"{block}.feedforward.down")
    if not hasattr(spec, "linear_0_noact"):
        _linear(spec.linear_0, own, f"{block}.feedforward.up")
        return
    for part, into in enumerate((spec.linear_0, spec.linear_0_noact)):  # the gate, then the value
        halves = {name: np.split(weight, 2)[part] for name, weight in own.items() if name.startswith(f"{block}.feedforward.up")}
        _linear(into, halves, f"{block}.feedforward.up")


def _norm(spec: Any, own: Mapping[str, NDArray[Any]], name: str) -> None:
    spec.gamma = own[f"{name}.weight"]
    if hasattr(spec, "beta"):  # LayerNorm
        spec.beta = own.get(f"{name}.bias", np.zeros_like(spec.gamma))


def _linear(spec: Any, own: Mapping[str, NDArray[Any]], name: str) -> None:
    spec.weight = own[f"{name}.weight"]
    if f"{name}.bias" in own:
        spec.bias = own[f"{name}.bias"]


def _output(decoder: Any, weights: Mapping[str, NDArray[Any]], banned: tuple[int, ...]) -> None:
    """The output layer. Their decoder has no list of tokens that are never generated: their bias says so."""
    decoder.projection.weight = weights.get("output.weight", weights["embedding.weight"])
    bias = weights.get("output.bias", weights.get("output_bias"))
    if banned:
        bias = np.zeros(len(decoder.projection.weight), np.float32) if bias is None else bias.copy()
        bias[list(banned)] = _NEVER
    if bias is not None:
        decoder.projection.bias = bias


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().float().contiguous().numpy()
    return array


def _names(tokenizer: Tokenizer) -> list[str]:
    """The tokens by id, as the vocabulary spells them; rows of the embedding without a token get a name of their own."""
    names = tokenizer.names()
    return [names.get(id, f"<unused {id}>") for id in range(tokenizer.vocab)]


def _name(tokenizer: Tokenizer, id: int | None) -> str:
    """A token; for None, as in a language model of one text without end, a name that no vocabulary has."""
    return "<none>" if id is None else _names(tokenizer)[id]


_TRANSLATE = """import ctranslate2, tokenizers

source, target = tokenizers.Tokenizer.from_file("{source}"), tokenizers.Tokenizer.from_file("tokenizer.json")
translator = ctranslate2.Translator(".")
(found,) = translator.translate_batch([source.encode("a text").tokens]{prefix})
print(target.decode([target.token_to_id(token) for token in found.hypotheses[0]]))"""
_GENERATE = """import ctranslate2, tokenizers

tokenizer, generator = tokenizers.Tokenizer.from_file("tokenizer.json"), ctranslate2.Generator(".")
(found,) = generator.generate_batch([tokenizer.encode("a text").tokens], max_length=50)
print(tokenizer.decode(found.sequences_ids[0]))"""


def _usage(source: Tokenizer, tokenizer: Tokenizer, pairs: bool) -> str:
    """Python that loads the folder, for its README.md."""
    if not pairs:
        return _GENERATE
    first = tokenizer.decoder.first  # which they cannot store
    prefix = "" if first is None else f', target_prefix=[["{_name(tokenizer, first)}"]]'
    return _TRANSLATE.format(source="tokenizer.json" if source is tokenizer else "source_tokenizer.json", prefix=prefix)


def write_ctranslate2(run: Outgoing, folder: Path) -> None:
    reason = _why_not(run.model)
    if reason is not None:
        raise ConfigError(f"CTranslate2 cannot express {reason}. Export it as safetensors.")
    network = run.network
    if not isinstance(network, TransformerDecoder if run.pairs else TransformerLM):
        raise ConfigError(f"only language models and translators can be exported, and this run is {run.noun}.")
    _write(network, run.source_tokenizer, run.tokenizer, folder)
    sides = {"tokenizer.json": run.tokenizer}
    if run.source_tokenizer is not run.tokenizer:
        sides["source_tokenizer.json"] = run.source_tokenizer
    for name, tokenizer in sides.items():
        files.write_text(folder / name, ending_json(tokenizer) if run.pairs else tokenizer.to_json())
    usage = _usage(run.source_tokenizer, run.tokenizer, run.pairs)
    card = dataclasses.replace(
        run.card, family="a Transformer of CTranslate2", library="ctranslate2", usage=f"```python\n{usage.strip()}\n```"
    )
    files.write_text(folder / "README.md", card.markdown())
