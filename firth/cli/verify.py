"""firth verify"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.experiments.verify import Verdict


@verb()
def verify(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe or a TOML file with an [expected] table.")],
    as_json: Json = False,
) -> None:
    """Train a recipe from scratch and check its expected result. Exits with code 1 if they differ."""
    from firth.cli.progress import watching
    from firth.experiments.verify import verify as run

    with watching() as watcher:
        verdict = run(recipe, watcher)
    if as_json:
        print_json(dataclasses.asdict(verdict))
    else:
        _print(verdict)
    if not verdict.passed:
        raise typer.Exit(1)


def _print(verdict: Verdict) -> None:
    word = "passed" if verdict.passed else "FAILED"
    print(f"{word}: {verdict.recipe} reached {verdict.metric} {verdict.measured:.4f} on the {verdict.split} split")
    print(f"expected {verdict.expected} ± {verdict.tolerance}")
    if verdict.measured_random is not None:
        before = f", expected {verdict.expected_random}" if verdict.expected_random is not None else ""
        print(f"over random batches {verdict.measured_random:.4f}{before}")
    if verdict.same_text is False:
        print("the text differs from the one that was measured (other versions of Python, numpy or torch)")
    if verdict.published is not None:
        print(f"published {verdict.published}, a gap of {verdict.gap:+.4f}")
