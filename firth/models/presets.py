"""Well-known models as configurations, to count them and to compare their settings.

`differs` names differences between the published model and ours; if it is empty, the counts agree to the last weight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firth.config import Assignment, Notice, build, named_settings, override, to_table, with_changes
from firth.errors import ConfigError, did_you_mean, option
from firth.models.config import TransformerConfig, note_kept_hidden, transformer
from firth.models.encoder_config import TransformerEncoderConfig
from firth.models.network import ModelConfig
from firth.models.seq2seq_config import TransformerSeq2SeqConfig

VOCAB = "tokenizer.vocab"  # the setting for the size of the vocabulary


@dataclass(frozen=True)
class Preset:
    summary: str
    config: ModelConfig
    vocab: int
    objective: str
    matrices_only: bool = False  # count without norms and biases, as textbooks do
    differs: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # of its objective


@dataclass(frozen=True)
class _Varied:
    """The tables that `varied` changes."""

    model: ModelConfig
    tokenizer: Any


def preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ConfigError(f'there is no preset "{name}".{did_you_mean(name, PRESETS)}')
    return PRESETS[name]()


def varied(chosen: Preset, assignments: Sequence[Assignment], notice: Notice = lambda message: None) -> Preset:
    """The preset with some settings changed: those of [model], and `tokenizer.vocab`. Its summary lists them."""
    named = list(named_settings(assignments))
    for name in named:
        if name != VOCAB and not name.startswith("model."):
            given = option("model.depth=2", "--model.depth=2")
            raise ConfigError(f'a preset has no setting "{name}". Change settings of its model ({given}) or {VOCAB}.')
    before = {"model": to_table(chosen.config), "tokenizer": {"vocab": chosen.vocab}}
    after = override(before, assignments, _Varied, notice)
    note_kept_hidden(before["model"], after["model"], named, notice)
    config = build(type(chosen.config), after["model"], "model", notice)
    vocab = after["tokenizer"]["vocab"]
    if type(vocab) is not int or vocab < 1:
        raise ConfigError(f"{VOCAB} is {vocab!r}; expected a whole number, at least 1")
    return dataclasses.replace(chosen, summary=with_changes(chosen.summary, named), config=config, vocab=vocab)


def _size(width: int, depth: int, heads: int) -> dict[str, Any]:
    return {"width": width, "depth": depth, "attention.heads": heads}


_LAYER_NORM = {"norm.kind": "layer", "bias": True}
_POST_NORM = {**_LAYER_NORM, "norm.placement": "post", "feedforward.activation": "gelu"}
_ROW = "ours has a row for <mask> beside the vocabulary"


def _language(summary: str, vocab: int, settings: Mapping[str, Any], **more: Any) -> Preset:
    return Preset(summary, transformer(TransformerConfig, settings), vocab, "next-token", **more)


def _gpt2(width: int, depth: int, heads: int, size: str) -> Preset:
    own = {"context": 1024, "position.kind": "learned", "feedforward.activation": "gelu_tanh", "tied": True}
    return _language(f"GPT-2, {size} (Radford et al. 2019)", 50_257, {**_size(width, depth, heads), **_LAYER_NORM, **own})


def _gpt3() -> Preset:
    own = {"context": 2048, "position.kind": "none", "norm.kind": "rms", "feedforward.activation": "gelu", "tied": False}
    return _language(
        "GPT-3 (Brown et al. 2020), as lectures count it: every matrix, and nothing else",
        50_257,
        {**_size(12_288, 96, 96), **own},
        matrices_only=True,
        differs="the published one ties its output layer to the embedding, and has biases, LayerNorms and learned positions",
    )


def _llama(width: int, depth: int, heads: int, hidden: int, size: str, kv_heads: int | None = None) -> Preset:
    own = {"attention.kv_heads": kv_heads, "feedforward.hidden": hidden, "context": 4096 if kv_heads else 2048, "tied": False}
    summary = f"LLaMA{' 2' if kv_heads else ''}, {size} (Touvron et al. 2023)"
    return _language(summary, 32_000, {**_size(width, depth, heads), **own})


def _bloom() -> Preset:
    own = {"context": 2048, "position.kind": "alibi", "feedforward.activation": "gelu_tanh", "embedding.norm": True}
    return _language("BLOOM (BigScience 2022)", 250_880, {**_size(14_336, 70, 112), **_LAYER_NORM, **own})


def _palm() -> Preset:
    own = {"attention.kv_heads": 1, "feedforward.hidden": 16_384, "feedforward.parallel": True}
    settings = {**_size(4096, 32, 16), **own, "context": 2048, "norm.kind": "layer"}
    return _language("PaLM, 8 B (Chowdhery et al. 2022)", 256_000, settings)


def _encoder(summary: str, vocab: int, settings: Mapping[str, Any]) -> Preset:
    config = transformer(TransformerEncoderConfig, {**_POST_NORM, "context": 512, "embedding.norm": True, **settings})
    return Preset(summary, config, vocab, "masked", differs=_ROW)


def _bert(width: int, depth: int, heads: int, vocab: int, summary: str, **more: Any) -> Preset:
    own = {"position.kind": "learned", "norm.eps": 1e-12, "segments": 2, **more}
    return _encoder(summary, vocab, {**_size(width, depth, heads), **own})


def _electra() -> Preset:
    """The discriminator, which is what was published as electra-base: a head of its own, and no output layer over the
    vocabulary. <mask> is one of the 30,522 tokens, and our embedding has its row beside the vocabulary."""
    bert = _bert(768, 12, 12, 30_521, "ELECTRA, base: the discriminator, a BERT (Clark et al. 2020)")
    return dataclasses.replace(bert, objective="electra", differs="", settings={"generator": 0.0})


def _deberta(width: int, depth: int, heads: int, size: str) -> Preset:
    position = {"position.kind": "disentangled", "position.buckets": 256, "position.max_distance": 512}
    settings = {**_size(width, depth, heads), **position, "norm.eps": 1e-7}
    return _encoder(f"DeBERTa-v3, {size} (He et al. 2021)", 128_100, settings)


def _pairs(summary: str, vocab: int, settings: Mapping[str, Any], differs: str = "") -> Preset:
    config = transformer(TransformerSeq2SeqConfig, {"context": 512, "shared": True, **settings})
    return Preset(summary, config, vocab, "translation", differs=differs)


def _transformer(width: int, heads: int, hidden: int, size: str) -> Preset:
    own = {"feedforward.hidden": hidden, "position.kind": "sinusoidal", "feedforward.activation": "relu"}
    summary = f"the Transformer, {size} (Vaswani et al. 2017)"
    return _pairs(summary, 37_000, {**_size(width, 6, heads), **_POST_NORM, **own})


def _t5(width: int, depth: int, heads: int, hidden: int, size: str) -> Preset:
    own = {"position.kind": "t5", "attention.score": "dot", "norm.kind": "rms", "feedforward.activation": "relu"}
    settings = {**_size(width, depth, heads), **own, "feedforward.hidden": hidden}
    return _pairs(f"T5, {size} (Raffel et al. 2020)", 32_128, settings)


def _bart() -> Preset:
    own = {"context": 1024, "position.kind": "learned", "embedding.norm": True}
    differs = "the published one has two places more on each side, which no text uses"
    return _pairs("BART, base (Lewis et al. 2020)", 50_265, {**_size(768, 6, 12), **_POST_NORM, **own}, differs)


PRESETS: dict[str, Callable[[], Preset]] = {
    "bart-base": _bart,
    "bert-base": lambda: _bert(768, 12, 12, 30_522, "BERT, base (Devlin et al. 2019)"),
    "bert-large": lambda: _bert(1024, 24, 16, 30_522, "BERT, large (Devlin et al. 2019)"),
    "bloom": _bloom,
    "deberta-v3-base": lambda: _deberta(768, 12, 12, "base"),
    "deberta-v3-large": lambda: _deberta(1024, 24, 16, "large"),
    "electra-base": _electra,
    "gpt2": lambda: _gpt2(768, 12, 12, "small"),
    "gpt2-medium": lambda: _gpt2(1024, 24, 16, "medium"),
    "gpt2-large": lambda: _gpt2(1280, 36, 20, "large"),
    "gpt2-xl": lambda: _gpt2(1600, 48, 25, "extra large"),
    "gpt3": _gpt3,
    "llama-7b": lambda: _llama(4096, 32, 32, 11_008, "7 B"),
    "llama-13b": lambda: _llama(5120, 40, 40, 13_824, "13 B"),
    "llama2-70b": lambda: _llama(8192, 80, 64, 28_672, "70 B", kv_heads=8),
    "palm-8b": _palm,
    "roberta-base": lambda: _bert(768, 12, 12, 50_265, "RoBERTa, base (Liu et al. 2019)", segments=1, context=514),
    "t5-small": lambda: _t5(512, 6, 8, 2048, "small"),
    "t5-base": lambda: _t5(768, 12, 12, 3072, "base"),
    "transformer-base": lambda: _transformer(512, 8, 2048, "base"),
    "transformer-big": lambda: _transformer(1024, 16, 4096, "big"),
}
