"""Writes docs/drawings/*.svg: the drawings of models that docs/ shows, each from the settings of a recipe or a preset.

python docs/make_drawings.py [--slides DIR] [--language fr]

With --slides, the same drawings as slides, in another folder and, if asked, in another language.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import firth

FOLDER = Path(__file__).resolve().parent / "drawings"
LORA = ("training.init=gpt", "training.lora=8", "training.lora_alpha=16")
MERGES = {"text": "lowest newer", "corpus": 5 * "low " + 2 * "lower " + 6 * "newest " + 3 * "widest "}  # as in docs/drawings.md
# file → what is drawn, the kind of drawing, changed settings, and what else it needs
DRAWINGS: dict[str, tuple[str, str, tuple[str, ...], dict[str, str]]] = {
    "rnn": ("docs-char-rnn", "model", (), {}),
    "lstm-cell": ("ptb-lstm-medium", "cell", (), {}),
    "gru-cell": ("docs-char-gru", "cell", (), {}),
    "rnnenc": ("dates-rnnenc", "model", (), {}),
    "rnnsearch": ("dates-rnnsearch", "model", (), {}),
    "luong": ("dates-luong", "model", (), {}),
    "transformer": ("dates-transformer", "model", (), {}),
    "gpt": ("tinyshakespeare-gpt", "model", (), {}),
    "llama-block": ("llama2-70b", "block", (), {}),
    "llama-attention": ("llama2-70b", "attention", (), {}),
    "window": ("gpt2", "mask", ("model.attention.mask=window", "model.attention.span=3"), {}),
    "families": ("dates-transformer", "families", (), {}),
    "cache": ("llama2-70b", "cache", (), {}),
    "gla": ("docs-char-gla", "state", (), {}),
    "lora": ("tinyshakespeare-gpt", "lora", LORA, {}),
    "beam": ("multi30k-en-de-transformer", "beam", ("decoding.beam=3",), {}),
    "merges": ("hello", "merges", ("tokenizer.kind=bpe",), MERGES),
}


def drawn(name: str, **how: Any) -> str:
    """The drawing as SVG, for light pages, as the other pictures are."""
    of, kind, settings, more = DRAWINGS[name]
    return firth.draw(of, kind, settings, "light", **more, **how).svg()


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of docs/.")
    parser.add_argument("--slides", type=Path, metavar="DIR", help="write them to this folder, as slides")
    parser.add_argument("--language", default="en", help="of the labels of slides")
    given = parser.parse_args()
    if given.slides is None and given.language != "en":
        parser.error("--language is that of slides; add --slides DIR")
    folder, how = (FOLDER, {}) if given.slides is None else (given.slides, {"size": "slide", "language": given.language})
    folder.mkdir(parents=True, exist_ok=True)
    for name in DRAWINGS:
        (folder / f"{name}.svg").write_text(drawn(name, **how), encoding="utf-8")


if __name__ == "__main__":
    main()
