"""What each objective needs, gives and is good for; and which a model of each family can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Objective = Literal["next-token", "classification", "translation"]
Reads = Literal["running text", "texts with labels", "sentence pairs"]


@dataclass(frozen=True)
class About:
    reads: Reads
    metrics: tuple[str, ...]  # that a recipe can promise
    selecting: tuple[str, ...]  # of those, what can choose the best weights
    run: str  # what a run of it is or does, after "this run"
    use: str  # what to ask it instead of what it cannot do
    next: str  # the command to try after training, {run} in it


ABOUT: dict[Objective, About] = {
    "next-token": About(
        "running text",
        ("loss", "perplexity", "bits_per_character"),
        ("loss",),
        "is a language model",
        "use generate or score",
        "firth generate {run} PROMPT",
    ),
    "classification": About(
        "texts with labels",
        ("loss", "accuracy", "macro_f1"),
        ("loss", "accuracy", "macro_f1"),
        "is a classifier",
        "use classify",
        "firth classify {run} TEXT",
    ),
    "translation": About(
        "sentence pairs",
        ("loss", "perplexity", "bleu", "bleu_tokenised", "chrf", "exact"),
        ("loss", "bleu", "exact"),
        "translates",
        "use translate",
        "firth translate {run} TEXT",
    ),
}

# The first is the one of a recipe that names none.
OF_FAMILY: dict[str, tuple[Objective, ...]] = {
    "language": ("next-token",),
    "encoder": ("classification",),
    "seq2seq": ("translation",),
}


def usual(reads: Reads) -> tuple[Objective, str]:
    """The objective that data of this kind are most often for, and the family of a model that has it."""
    for family, objectives in OF_FAMILY.items():
        for objective in objectives:
            if ABOUT[objective].reads == reads:
                return objective, family
    raise ValueError(reads)
