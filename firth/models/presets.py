"""Well-known models as configurations, to count them and to compare their settings.

`differs` names differences between the published model and ours; if it is empty, the counts agree to the last weight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firth.config import Assignment, Notice, build, override, split_assignment, to_table, with_changes
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
    named = [split_assignment(assignment)[0] for assignment in assignments]
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


def _gpt2(width: int, depth: int, heads: int, size: str) -> Preset:
    config = transformer(
        TransformerConfig,
        {
            "width": width,
            "depth": depth,
            "attention.heads": heads,
            "context": 1024,
            "position.kind": "learned",
            "norm.kind": "layer",
            "feedforward.activation": "gelu_tanh",
            "bias": True,
            "tied": True,
        },
    )
    return Preset(f"GPT-2, {size} (Radford et al. 2019)", config, 50_257, "next-token")


def _gpt3() -> Preset:
    config = transformer(
        TransformerConfig,
        {
            "width": 12_288,
            "depth": 96,
            "attention.heads": 96,
            "context": 2048,
            "position.kind": "none",
            "norm.kind": "rms",
            "feedforward.activation": "gelu",
            "tied": False,
        },
    )
    return Preset(
        "GPT-3 (Brown et al. 2020), as lectures count it: every matrix, and nothing else",
        config,
        50_257,
        "next-token",
        matrices_only=True,
        differs="the published one ties its output layer to the embedding, and has biases, LayerNorms and learned positions",
    )


def _llama(width: int, depth: int, heads: int, hidden: int, size: str, kv_heads: int | None = None) -> Preset:
    config = transformer(
        TransformerConfig,
        {
            "width": width,
            "depth": depth,
            "attention.heads": heads,
            "attention.kv_heads": kv_heads,
            "feedforward.hidden": hidden,
            "context": 4096 if kv_heads else 2048,
            "tied": False,
        },
    )
    return Preset(f"LLaMA{' 2' if kv_heads else ''}, {size} (Touvron et al. 2023)", config, 32_000, "next-token")


def _bloom() -> Preset:
    config = transformer(
        TransformerConfig,
        {
            "width": 14_336,
            "depth": 70,
            "attention.heads": 112,
            "context": 2048,
            "position.kind": "alibi",
            "norm.kind": "layer",
            "feedforward.activation": "gelu_tanh",
            "bias": True,
            "embedding.norm": True,
        },
    )
    return Preset("BLOOM (BigScience 2022)", config, 250_880, "next-token")


def _palm() -> Preset:
    config = transformer(
        TransformerConfig,
        {
            "width": 4096,
            "depth": 32,
            "attention.heads": 16,
            "attention.kv_heads": 1,
            "feedforward.hidden": 16_384,
            "context": 2048,
            "norm.kind": "layer",
            "feedforward.parallel": True,
        },
    )
    return Preset("PaLM, 8 B (Chowdhery et al. 2022)", config, 256_000, "next-token")


def _bert(width: int, depth: int, heads: int, vocab: int, summary: str, **more: Any) -> Preset:
    settings: dict[str, Any] = {"context": 512, "segments": 2, **more}
    config = transformer(
        TransformerEncoderConfig,
        {
            "width": width,
            "depth": depth,
            "attention.heads": heads,
            "position.kind": "learned",
            "norm.kind": "layer",
            "norm.placement": "post",
            "feedforward.activation": "gelu",
            "bias": True,
            "norm.eps": 1e-12,
            "embedding.norm": True,
            **settings,
        },
    )
    return Preset(summary, config, vocab, "masked", differs="ours has a row for <mask> beside the vocabulary")


def _electra() -> Preset:
    """The discriminator, which is what was published as electra-base: a head of its own, and no output layer over the
    vocabulary. <mask> is one of the 30,522 tokens, and our embedding has its row beside the vocabulary."""
    bert = _bert(768, 12, 12, 30_521, "ELECTRA, base: the discriminator, a BERT (Clark et al. 2020)")
    return dataclasses.replace(bert, objective="electra", differs="", settings={"generator": 0.0})


def _deberta(width: int, depth: int, heads: int, size: str) -> Preset:
    config = transformer(
        TransformerEncoderConfig,
        {
            "width": width,
            "depth": depth,
            "attention.heads": heads,
            "context": 512,
            "position.kind": "disentangled",
            "position.buckets": 256,
            "position.max_distance": 512,
            "norm.kind": "layer",
            "norm.eps": 1e-7,
            "norm.placement": "post",
            "feedforward.activation": "gelu",
            "bias": True,
            "embedding.norm": True,
        },
    )
    return Preset(
        f"DeBERTa-v3, {size} (He et al. 2021)",
        config,
        128_100,
        "masked",
        differs="ours has a row for <mask> beside the vocabulary",
    )


def _transformer(width: int, heads: int, hidden: int, size: str) -> Preset:
    config = transformer(
        TransformerSeq2SeqConfig,
        {
            "width": width,
            "depth": 6,
            "attention.heads": heads,
            "feedforward.hidden": hidden,
            "context": 512,
            "position.kind": "sinusoidal",
            "norm.kind": "layer",
            "norm.placement": "post",
            "feedforward.activation": "relu",
            "bias": True,
            "shared": True,
        },
    )
    return Preset(f"the Transformer, {size} (Vaswani et al. 2017)", config, 37_000, "translation")


def _t5(width: int, depth: int, heads: int, hidden: int, size: str) -> Preset:
    config = transformer(
        TransformerSeq2SeqConfig,
        {
            "width": width,
            "depth": depth,
            "attention.heads": heads,
            "feedforward.hidden": hidden,
            "context": 512,
            "position.kind": "t5",
            "attention.score": "dot",
            "norm.kind": "rms",
            "feedforward.activation": "relu",
            "shared": True,
        },
    )
    return Preset(f"T5, {size} (Raffel et al. 2020)", config, 32_128, "translation")


def _bart() -> Preset:
    config = transformer(
        TransformerSeq2SeqConfig,
        {
            "width": 768,
            "depth": 6,
            "attention.heads": 12,
            "context": 1024,
            "position.kind": "learned",
            "norm.kind": "layer",
            "norm.placement": "post",
            "feedforward.activation": "gelu",
            "bias": True,
            "shared": True,
            "embedding.norm": True,
        },
    )
    return Preset(
        "BART, base (Lewis et al. 2020)",
        config,
        50_265,
        "translation",
        differs="the published one has two places more on each side, which no text uses",
    )


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
