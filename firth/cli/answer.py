"""firth answer"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.files import is_file


@verb()
def answer(
    run: Annotated[Path, typer.Argument(help="Run folder of a question-answering model.")],
    questions: Annotated[list[str], typer.Argument(help="One or more questions.")],
    context: Annotated[
        str, typer.Option(help='Text that contains the answers: a file, the text itself, or "-" for standard input.')
    ],
    as_json: Json = False,
) -> None:
    """Find the answers to questions in a text. Prints the best span and its probability, one line per question."""
    from firth.api import load
    from firth.tasks.ability import ANSWER

    model = load(run, kind=ANSWER)
    text = _text(context)
    answers = [model.answer(question, text) for question in questions]
    if as_json:
        print_json([{"question": question, **dataclasses.asdict(one)} for question, one in zip(questions, answers, strict=True)])
        return
    for one in answers:
        print(f"{' '.join(one.text.split())}\t{one.probability:.4f}")


def _text(given: str) -> str:
    from firth.text.data.running_text import read_text

    return read_text(given) if given == "-" or is_file(given) else given
