"""Models to draw: those of the shipped recipes, and settings that no recipe has."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from firth.config import build, read_toml
from firth.decoding.config import DecodingConfig
from firth.experiments.draw import ends_of
from firth.figures.diagram import Diagram
from firth.inspection.drawing import Subject, draw_model
from firth.layers.position import SCHEMES
from firth.layers.recurrent import CELLS
from firth.models.adapters import Lora
from firth.models.network import ModelConfig
from firth.shipped import FOLDER
from firth.tasks import TASKS, default_task
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import pieces_of_text
from firth.text.tokenizers.merges import MergedWord, merged_words
from firth.text.tokenizers.tokenizer import Tokenizer

SVG = "{http://www.w3.org/2000/svg}"
TRANSFORMER = {"family": "language", "kind": "transformer", "width": 64, "depth": 2, "context": 32}
PAIR = TRANSFORMER | {"family": "seq2seq"}
ENCODER = TRANSFORMER | {"family": "encoder"}
RECURRENT = {"family": "seq2seq", "kind": "lstm"}
# Settings that no shipped recipe has, and that change where things stand.
OTHERS: dict[str, dict[str, Any]] = {
    **{f"{one} norms": {**TRANSFORMER, "norm": {"placement": one}} for one in ("post", "sandwich", "after")},
    "post norms, both sides": {**PAIR, "norm": {"placement": "post"}, "position": "sinusoidal"},
    "two norms": {
        **TRANSFORMER,
        "feedforward": {"parallel": "two_norms"},
        "attention": {"heads": 32, "kv_heads": 1, "cap": 30.0},
    },
    "windows": {**TRANSFORMER, "attention": {"mask": "window", "span": 5, "window_pattern": "LLLG"}, "depth": 13},
    "normalised queries": {**TRANSFORMER, "attention": {"qk_norm": True, "cap": 30.0, "scale": 0.3}, "position": "alibi"},
    "groups of layers": {**ENCODER, "layer_groups": 1, "embedding": {"width": 16, "norm": True}, "segments": 2},
    "prefix": {**PAIR, "kind": "prefix"},
    "deep": {**RECURRENT, "attention": "none", "depth": 5, "feed_context": True},
    "fed": {**RECURRENT, "decoder": "luong", "input_feeding": True, "depth": 5},
    "one way": {**RECURRENT, "bidirectional": False, "attention": "bilinear", "depth": 3},
    **{f"{kind} positions": {**TRANSFORMER, "position": kind} for kind in SCHEMES.shipped_kinds if kind != "learned_t5"},
    **{f"{kind} cell": {"family": "language", "kind": kind, "depth": 4} for kind in CELLS.shipped_kinds},
}


@dataclass(frozen=True)
class Only:
    """A recipe with nothing but its model."""

    model: ModelConfig


def config(**settings: Any) -> Any:
    return build(Only, {"model": settings}, notice=lambda note: None).model


def drawn(of: str = "model", /, **settings: Any) -> Diagram:
    return draw_model(Subject("mine", config(**settings)), of)


def words(of: Diagram) -> str:
    """All text of a drawing, as its reader sees it."""
    return " ".join(" ".join(text.itertext()) for text in ElementTree.fromstring(of.svg()).iter(f"{SVG}text")).replace(
        "\u00a0", " "
    )


def shipped() -> Iterator[Subject]:
    """The model of every shipped recipe; composing whole recipes would take seconds."""
    for path in sorted(FOLDER.glob("*.toml")):
        table: Any = read_toml(path)
        model: dict[str, Any] = {"family": "language"} | table["model"]
        objective = table.get("objective", {})
        task = TASKS[objective["kind"]] if "kind" in objective else default_task(model["family"])
        decoding = build(DecodingConfig, table.get("decoding", {}), notice=lambda note: None)
        yield Subject(path.stem, config(**model).with_room(64), ends_of(task), ADAPTERS, decoding, merged=merged())


ADAPTERS = Lora(8, 16.0, 0.1, ("query", "value", "up", "down"))
CORPUS = 5 * "low " + 2 * "lower " + 6 * "newest " + 3 * "widest "


@functools.cache
def merged() -> tuple[MergedWord, ...]:
    """Words of the example of Sennrich et al. (2016)."""
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe"), pieces_of_text(CORPUS), documents=1)
    return merged_words(tokenizer, "lowest newer wide")
