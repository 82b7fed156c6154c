"""Writes docs/drawings/*.svg: the drawings of models that docs/ shows, each from the settings of a recipe or a preset.

python docs/make_drawings.py
"""

from __future__ import annotations

from pathlib import Path

import firth

FOLDER = Path(__file__).resolve().parent / "drawings"
# file → what is drawn, the kind of drawing, changed settings
DRAWINGS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "rnn": ("docs-char-rnn", "model", ()),
    "lstm-cell": ("ptb-lstm-medium", "cell", ()),
    "gru-cell": ("docs-char-gru", "cell", ()),
    "rnnenc": ("dates-rnnenc", "model", ()),
    "rnnsearch": ("dates-rnnsearch", "model", ()),
    "luong": ("dates-luong", "model", ()),
    "transformer": ("dates-transformer", "model", ()),
    "gpt": ("tinyshakespeare-gpt", "model", ()),
    "gpt2-block": ("gpt2", "block", ()),
    "gpt3-block": ("gpt3", "block", ()),
    "gla-block": ("docs-char-gla", "block", ()),
    "bert": ("bert-base", "model", ()),
    "classifier": ("sst2-transformer", "model", ()),
    "chat": ("chat-decoder", "model", ()),
    "bert-block": ("bert-base", "block", ()),
    "palm-block": ("palm-8b", "block", ()),
    "transformer-block": ("transformer-base", "block", ()),
    "transformer-masks": ("transformer-base", "mask", ()),
    "prefix-mask": ("chat-prefix", "mask", ()),
    "llama-block": ("llama2-70b", "block", ()),
    "llama-attention": ("llama2-70b", "attention", ()),
    "window": ("gpt2", "mask", ("model.attention.mask=window", "model.attention.span=3")),
}


def drawn(name: str) -> str:
    """The drawing as SVG, for light pages, as the other pictures are."""
    of, kind, settings = DRAWINGS[name]
    return firth.draw(of, kind, settings, theme="light").svg()


if __name__ == "__main__":
    for name in DRAWINGS:
        (FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")
