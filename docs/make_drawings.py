"""Writes docs/drawings/*.svg, the drawings of models that docs/ shows, each from the settings of a recipe or a preset; and
firth/course/drawings/*.svg, those of the lessons. What no recipe draws is drawn by docs/course_drawings/*.py.

python docs/make_drawings.py [--slides DIR] [--language fr]

With --slides, the drawings of models as slides, in another folder and, if asked, in another language.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import firth
from firth.figures.diagram import Diagram

FOLDER = Path(__file__).resolve().parent / "drawings"
COURSE_FOLDER = FOLDER.parent.parent / "firth" / "course" / "drawings"


class Drawn(NamedTuple):
    """What `firth.draw` draws."""

    of: str
    kind: str
    settings: tuple[str, ...] = ()
    text: str | None = None
    corpus: str | None = None


DRAWINGS: dict[str, Drawn] = {
    "rnn": Drawn("docs-char-rnn", "model"),
    "lstm-cell": Drawn("ptb-lstm-medium", "cell"),
    "gru-cell": Drawn("docs-char-gru", "cell"),
    "rnnenc": Drawn("dates-rnnenc", "model"),
    "rnnsearch": Drawn("dates-rnnsearch", "model"),
    "luong": Drawn("dates-luong", "model"),
    "transformer": Drawn("dates-transformer", "model"),
    "gpt": Drawn("tinyshakespeare-gpt", "model"),
    "gpt2-block": Drawn("gpt2", "block"),
    "gpt3-block": Drawn("gpt3", "block"),
    "gla-block": Drawn("docs-char-gla", "block"),
    "bert": Drawn("bert-base", "model"),
    "classifier": Drawn("sst2-transformer", "model"),
    "chat": Drawn("chat-decoder", "model"),
    "bert-block": Drawn("bert-base", "block"),
    "palm-block": Drawn("palm-8b", "block"),
    "transformer-block": Drawn("transformer-base", "block"),
    "transformer-masks": Drawn("transformer-base", "mask"),
    "prefix-mask": Drawn("chat-prefix", "mask"),
    "llama-block": Drawn("llama2-70b", "block"),
    "llama-attention": Drawn("llama2-70b", "attention"),
    "window": Drawn("gpt2", "mask", ("model.attention.mask=window", "model.attention.span=3")),
    "families": Drawn("dates-transformer", "families"),
    "cache": Drawn("llama2-70b", "cache"),
    "gla": Drawn("docs-char-gla", "state"),
    "lora": Drawn("tinyshakespeare-gpt", "lora", ("training.init=gpt", "training.lora=8", "training.lora_alpha=16")),
    "beam": Drawn("multi30k-en-de-transformer", "beam", ("decoding.beam=3",)),
    "merges": Drawn(  # as in docs/drawings.md
        *("hello", "merges", ("tokenizer.kind=bpe",)),
        text="lowest newer",
        corpus=5 * "low " + 2 * "lower " + 6 * "newest " + 3 * "widest ",
    ),
}
# those that lessons show, too
COURSE = ("rnn", "lstm-cell", "gru-cell", "rnnenc", "rnnsearch", "luong", "llama-attention", "families", "lora", "gla")
# those that only lessons show
COURSE_ONLY = {"pre-norm-block": Drawn("gpt2", "block", ("model.feedforward.activation=relu",))}
# pictures of docs/pictures that lessons show
PICTURES = ("attention-heads", "dates-alignment", "flow", "sinusoid")


def drawn(one: Drawn, **how: Any) -> str:
    """The drawing as SVG, for light pages, as the other pictures are."""
    of, kind, settings, text, corpus = one
    return firth.draw(of, kind, settings, "light", text=text, corpus=corpus, **how).svg()


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
    pages = {name: drawn(one) for name, one in DRAWINGS.items()}
    pictures = {name: (FOLDER.parent / "pictures" / f"{name}.svg").read_text(encoding="utf-8") for name in PICTURES}
    lessons = {
        **{name: pages[name] for name in COURSE},
        **{name: drawn(one) for name, one in COURSE_ONLY.items()},
        **{name: drawing.svg("light") for name, drawing in own_drawings().items()},
        **pictures,
    }
    folders = ((FOLDER, pages), (COURSE_FOLDER, lessons))
    return {folder / f"{name}.svg": svg for folder, svgs in folders for name, svg in svgs.items()}


def slides(folder: Path, language: str) -> dict[Path, str]:
    models = (DRAWINGS | COURSE_ONLY).items()
    return {folder / f"{name}.svg": drawn(one, size="slide", language=language) for name, one in models}


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of docs/ and of the lessons.")
    parser.add_argument("--slides", type=Path, metavar="DIR", help="write them to this folder, as slides")
    parser.add_argument("--language", default="en", help="of the labels of slides")
    given = parser.parse_args()
    if given.slides is None and given.language != "en":
        parser.error("--language is that of slides; add --slides DIR")
    for path, content in (written() if given.slides is None else slides(given.slides, given.language)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
