"""Tagged sentences so plain that a tagger learns them in a second, as the files people have."""

from __future__ import annotations

from pathlib import Path

from runs import trained_once

from firth.api import compose, train_recipe
from firth.config import Table

Tagged = list[tuple[str, str]]

# "light" is an ADJ before a NOUN and a NOUN behind a DET at the end: the word alone does not tell.
SENTENCES: list[Tagged] = [
    [("the", "DET"), ("light", "ADJ"), ("bag", "NOUN"), ("falls", "VERB")],
    [("she", "PRON"), ("sees", "VERB"), ("the", "DET"), ("light", "NOUN")],
    [("the", "DET"), ("bag", "NOUN"), ("is", "VERB"), ("light", "ADJ")],
    [("She", "PRON"), ("falls", "VERB")],
    [("a", "DET"), ("bag", "NOUN"), ("sees", "VERB"), ("a", "DET"), ("light", "ADJ"), ("bag", "NOUN")],
] * 8

SPANS: list[Tagged] = [
    [("Ada", "B-PER"), ("Lovelace", "I-PER"), ("saw", "O"), ("London", "B-LOC")],
    [("London", "B-LOC"), ("saw", "O"), ("Ada", "B-PER")],
    [("he", "O"), ("saw", "O"), ("it", "O")],
] * 8


def write(path: Path, sentences: list[Tagged] = SENTENCES) -> Path:
    """CoNLL or CoNLL-U, by the suffix."""
    conllu = ".conllu" in path.suffixes
    text = ""
    for n, sentence in enumerate(sentences):
        text += f"# sent_id = {n}\n" if conllu else ""
        for place, (word, tag) in enumerate(sentence, start=1):
            text += f"{place}\t{word}\t{word.lower()}\t{tag}\tX{tag}\t_\t0\troot\t_\t_\n" if conllu else f"{word}\t{tag}\n"
        text += "\n"
    path.write_text(text, encoding="utf-8")
    return path


def tagger_table(path: Path, model: Table | None = None, **training: int | float) -> Table:
    return {
        "data": {"path": str(path), "valid": 0.2},
        "tokenizer": {"kind": "word", "lower": True},
        "model": {"family": "encoder", "kind": "lstm", "width": 12, "characters": 4, "dropout": 0.1} if model is None else model,
        "objective": {"kind": "tagging"},
        "training": {"steps": 80, "batch": 8, "rate": 0.02, "device": "cpu", "evaluate_every": 40} | training,
    }


def trained_on_tags() -> Path:
    """A run that tags the sentences."""
    return trained_once("tags", _train) / "run"


def _train(folder: Path) -> None:
    train_recipe(compose(tagger_table(write(folder / "a.conllu"))), folder / "run")
