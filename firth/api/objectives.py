"""What each objective needs, gives and is good for; and which a model of each family can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Objective = Literal[
    "next-token",
    "masked",
    "span-corruption",
    "classification",
    "tagging",
    "answer",
    "translation",
    "in-context",
    "in-context-regression",
]
Reads = Literal[
    "running text",
    "texts with labels",
    "words with tags",
    "questions",
    "sentence pairs",
    "prompts of tasks",
    "points of functions",
]


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
    "masked": About(
        "running text",
        ("loss", "perplexity", "accuracy", "wic_accuracy"),
        ("loss", "accuracy"),
        "finds masked tokens",
        "use fill",
        'firth complete {run} "a text with __"',
    ),
    "span-corruption": About(
        "running text",
        ("loss", "perplexity"),
        ("loss",),
        "writes what was cut out of a text",
        "use evaluate, or begin another run from it with training.init",
        "firth evaluate {run}",
    ),
    "classification": About(
        "texts with labels",
        ("loss", "accuracy", "macro_f1"),
        ("loss", "accuracy", "macro_f1"),
        "is a classifier",
        "use classify",
        "firth classify {run} TEXT",
    ),
    "tagging": About(
        "words with tags",
        ("loss", "accuracy", "f1"),
        ("loss", "accuracy", "f1"),
        "is a tagger",
        "use tag",
        "firth tag {run} SENTENCE",
    ),
    "answer": About(
        "questions",
        ("loss", "exact", "f1"),
        ("loss", "exact", "f1"),
        "finds answers in a text",
        "use answer",
        "firth answer {run} --context TEXT QUESTION",
    ),
    "translation": About(
        "sentence pairs",
        ("loss", "perplexity", "bleu", "bleu_tokenised", "chrf", "exact", "rouge1", "rouge2", "rougeL"),
        ("loss", "bleu", "exact", "rougeL"),
        "translates",
        "use translate",
        "firth translate {run} TEXT",
    ),
    "in-context": About(
        "prompts of tasks",
        ("loss", "accuracy"),
        ("loss", "accuracy"),
        "learns tasks from the examples in its prompt",
        "use generate or evaluate",
        "firth evaluate {run}",
    ),
    "in-context-regression": About(
        "points of functions",
        ("loss", "squared_error"),
        ("loss",),
        "learns functions from the points in its prompt",
        "use evaluate",
        "firth evaluate {run}",
    ),
}

# The first is the one of a recipe that names none.
OF_FAMILY: dict[str, tuple[Objective, ...]] = {
    "language": ("next-token", "classification", "in-context", "in-context-regression"),
    "encoder": ("classification", "tagging", "masked", "answer"),
    "seq2seq": ("translation", "span-corruption"),
}


def usual(reads: Reads) -> tuple[Objective, str]:
    """The objective that data of this kind are most often for, and the family of a model that has it."""
    _, objective, family = min(
        (place, objective, family)
        for family, objectives in OF_FAMILY.items()
        for place, objective in enumerate(objectives)
        if ABOUT[objective].reads == reads
    )
    return objective, family
