"""Writes docs/drawings/*.svg, the drawings of models that docs/ shows, each from the settings of a recipe or a preset; and
firth/course/drawings/*.svg, those of the lessons. What no recipe draws is drawn by docs/course_drawings/*.py.

python docs/make_drawings.py
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import firth
from firth.figures.diagram import Diagram

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
    "pre-norm-block": ("gpt2", "block", ("model.feedforward.activation=relu",)),
}
# pictures of docs/pictures that lessons show
PICTURES: tuple[str, ...] = ()


def drawn(of: str, kind: str, settings: tuple[str, ...]) -> str:
    """The drawing as SVG, for light pages, as the other pictures are."""
    return firth.draw(of, kind, settings, theme="light").svg()


def own_drawings() -> dict[str, Diagram]:
    """Those of the modules in docs/course_drawings, each of which has a function `drawings`."""
    found: dict[str, Diagram] = {}
    for path in sorted((FOLDER.parent / "course_drawings").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"course_drawings_{path.stem}", path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found |= module.drawings()
    return found


def written() -> dict[Path, str]:
    """Every file with its content."""
    shown = ((FOLDER, DRAWINGS), (COURSE_FOLDER, COURSE))
    drawings = {folder / f"{name}.svg": drawn(*of) for folder, models in shown for name, of in models.items()}
    pictures = FOLDER.parent / "pictures"
    copied = {COURSE_FOLDER / f"{name}.svg": (pictures / f"{name}.svg").read_text(encoding="utf-8") for name in PICTURES}
    own = {COURSE_FOLDER / f"{name}.svg": drawing.svg("light") for name, drawing in own_drawings().items()}
    return drawings | copied | own


if __name__ == "__main__":
    for path, content in written().items():
        path.write_text(content, encoding="utf-8")
