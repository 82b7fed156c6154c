"""firth vectors evaluate: similarity, analogy and composition tests."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.vectors.group import File, as_rows, group, opened
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.vectors.evaluation import Analogies, AnalogySection, Composition, Similarity


@verb(within=group)
def evaluate(
    file: File,
    similarity: Annotated[
        list[Path] | None, typer.Option(help="File of word pairs with human similarity scores; can be repeated.")
    ] = None,
    analogy: Annotated[
        list[Path] | None, typer.Option(help="File of analogy questions in word2vec's format; can be repeated.")
    ] = None,
    composition: Annotated[bool, typer.Option("--composition", help="Add vectors: czech + currency, german + airline …")] = False,
    restrict_vocab: Annotated[
        int | None, typer.Option(help="Use only the first N words of the file.  [default: 300000]", min=1)
    ] = None,
    case_sensitive: Annotated[bool, typer.Option("--case-sensitive", help="Treat Paris and paris as different words.")] = False,
    as_json: Json = False,
) -> None:
    """Evaluate vectors on similarity, analogies and composition.

    Similarity is Spearman's correlation with human judgements. Analogies are solved by 3CosAdd and by 3CosMul."""
    from firth.progress.display import Display
    from firth.vectors import evaluation

    if not (similarity or analogy or composition):
        raise ConfigError(
            "nothing to evaluate. Add --similarity FILE, --analogy FILE or --composition "
            "(`firth data get wordsim` and `firth data get analogy` fetch standard files)"
        )
    if not (similarity or analogy):
        given = {"restrict_vocab": restrict_vocab, "case_sensitive": case_sensitive}
        refuse_given(given, "only applies to --similarity and --analogy. Add one of them, or remove it.")
    most = evaluation.RESTRICT if restrict_vocab is None else restrict_vocab
    pairs = {path: evaluation.read_pairs(path) for path in similarity or ()}  # report a bad file before the work starts
    questions = {path: evaluation.read_questions(path) for path in analogy or ()}
    vectors, fold = opened(file), not case_sensitive
    judged = [evaluation.similarity(vectors, rows, path.name, fold, most) for path, rows in pairs.items()]
    with Display() as display:
        solved = [
            (path.name, evaluation.analogies(vectors, asked, method, most, fold, display.work))
            for path, asked in questions.items()
            for method in ("add", "mul")
        ]
    composed = evaluation.compositions(vectors) if composition else []
    if as_json:
        print_json(_facts(judged, solved, composed))
    else:
        _print(judged, solved, composed)


def _facts(judged: list[Similarity], solved: list[tuple[str, Analogies]], composed: list[Composition]) -> dict[str, Any]:
    return {
        "similarity": [{**dataclasses.asdict(one), "coverage": one.coverage} for one in judged],
        "analogy": [
            {
                "name": name,
                "method": analogies.method,
                **{part.name: _section(part) for part in (analogies.total, analogies.semantic, analogies.syntactic)},
                "sections": [_section(section) for section in analogies.sections],
            }
            for name, analogies in solved
        ],
        "composition": [
            {"words": one.words, "expected": one.expected, "rank": one.rank, "neighbors": as_rows(one.neighbors)}
            for one in composed
        ],
    }


def _section(section: AnalogySection) -> dict[str, Any]:
    return {**dataclasses.asdict(section), "accuracy": section.accuracy}


def _print(judged: list[Similarity], solved: list[tuple[str, Analogies]], composed: list[Composition]) -> None:
    for one in judged:
        rho = "    –" if one.spearman is None else f"{one.spearman:.4f}"
        print(f"{one.name:<32}Spearman {rho}   {one.covered:,} of {one.pairs:,} pairs")
    by_file: dict[str, list[Analogies]] = {}
    for name, analogies in solved:
        by_file.setdefault(name, []).append(analogies)
    for name, (add, mul) in by_file.items():
        print(f"{name:<32} 3CosAdd  3CosMul  questions")
        for a, m in zip(_parts(add), _parts(mul), strict=True):
            print(f"  {a.name:<30}{_percent(a):>8} {_percent(m):>8}  {a.covered:,} of {a.questions:,}")
    for made in composed:
        near = ", ".join(word for word, _ in made.neighbors) or "not in the vocabulary"
        rank = f"{made.expected} has rank {made.rank:,}" if made.rank else f"{made.expected} is not in the vocabulary"
        print(f"{' + '.join(made.words):<32}{near}" + (f"   ({rank})" if made.neighbors else ""))


def _parts(analogies: Analogies) -> list[AnalogySection]:
    return [*analogies.sections, analogies.semantic, analogies.syntactic, analogies.total]


def _percent(section: AnalogySection) -> str:
    return "–" if section.accuracy is None else f"{section.accuracy:.1%}"
