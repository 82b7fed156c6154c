"""Writes docs/drawings/*.svg, the drawings of models that docs/ shows, each from the settings of a recipe or a preset; and
firth/course/drawings/*.svg, those of the lessons.

python docs/make_drawings.py
"""

from __future__ import annotations

from pathlib import Path

import firth

FOLDER = Path(__file__).resolve().parent / "drawings"
COURSE_FOLDER = FOLDER.parent.parent / "firth" / "course" / "drawings"
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
    "llama-block": ("llama2-70b", "block", ()),
    "llama-attention": ("llama2-70b", "attention", ()),
    "window": ("gpt2", "mask", ("model.attention.mask=window", "model.attention.span=3")),
}

COURSE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "lstm-cell": DRAWINGS["lstm-cell"],
    "gru-cell": DRAWINGS["gru-cell"],
    "rnnenc": DRAWINGS["rnnenc"],
}
# pictures of docs/pictures that lessons show
PICTURES: tuple[str, ...] = ()


def drawn(of: str, kind: str, settings: tuple[str, ...]) -> str:
    """The drawing as SVG, for light pages, as the other pictures are."""
    return firth.draw(of, kind, settings, theme="light").svg()


def written() -> dict[Path, str]:
    """Every file with its content."""
    shown = ((FOLDER, DRAWINGS), (COURSE_FOLDER, COURSE))
    drawings = {folder / f"{name}.svg": drawn(*of) for folder, models in shown for name, of in models.items()}
    pictures = FOLDER.parent / "pictures"
    copied = {COURSE_FOLDER / f"{name}.svg": (pictures / f"{name}.svg").read_text(encoding="utf-8") for name in PICTURES}
    return drawings | copied


if __name__ == "__main__":
    for path, content in written().items():
        path.write_text(content, encoding="utf-8")
