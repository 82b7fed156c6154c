"""What students read: the README of an assignment, and the file with its stubs."""

from __future__ import annotations

import textwrap

from firth.experiments.assignments.assignment import Assignment, Competition
from firth.experiments.exercises.stub import exercise_stub
from firth.figures.figure import Table

_WIDTH = 100


def stubs(assignment: Assignment, torch: bool) -> str:
    """The stubs of all exercises as one file."""
    imports, functions = set[str](), []
    for one in assignment.exercises:
        head, function = stub_parts(one.name, torch)
        imports |= {head} - {""}
        functions.append(function.rstrip())
    check = (
        f'"""{assignment.name}. Replace the last line of each function, and check your file: firth check {assignment.name}.py"""'
    )
    return "\n\n".join([check, "\n".join(sorted(imports)), *(f"\n{function}" for function in functions)]) + "\n"


def stub_parts(name: str, torch: bool) -> tuple[str, str]:
    """The import that a stub needs, and its function."""
    tensors = torch and _has_arrays(name)
    head, _, function = exercise_stub(name, tensors).partition("def ")
    return head.strip(), f"def {function}"


def _has_arrays(name: str) -> bool:
    return "np.ndarray" in exercise_stub(name)


def readme(assignment: Assignment, file: str) -> str:
    parts = [f"# {assignment.name}"]
    if assignment.exercises:
        parts += _about_exercises(assignment, file)
    if assignment.competition is not None:
        parts += _about_competition(assignment.competition)
    return "\n\n".join(parts) + "\n"


def _about_exercises(assignment: Assignment, file: str) -> list[str]:
    rows = [(f"`{one.name}`", one.exercise.about, f"{one.points:g}") for one in assignment.exercises]
    table = Table(("function", "what to write", "points"), rows)
    check = (
        f"firth check {file}"
        if not file.endswith(".ipynb")
        else f"Run the cell below each function, or check the whole notebook:\n\nfirth check {file}"
    )
    *before, command = check.split("\n\n")
    return [
        _filled(f"Write these functions in `{file}`: replace the last line of each stub. Do not change their names."),
        markdown(table),
        *(before or ["Check them as often as you like:"]),
        f"```sh\n{command}\n```",
        _filled(
            "The check uses public inputs. You are graded with hidden ones, which are longer: a function that is right passes "
            "both. A function gets all of its points or none."
        ),
        _filled(
            f"Hand in `{file}` alone, not in an archive. It may use anything that is installed, but not firth itself, which has "
            "the solutions. It may not read or write other files, use the network, or start processes. "
            f"Each function has {assignment.seconds:g} seconds for all inputs."
        ),
    ]


def _about_competition(one: Competition) -> list[str]:
    entries = ["a recipe, `recipe.toml`, which we train"]
    entries += ["a trained run, the folder that `firth train` wrote"] if one.runs else []
    text = "on it, or on a text that you hand in beside it" if one.own_text else "on it"
    return [
        "## Competition",
        _filled(
            "The best language model wins: the one with the fewest bits per character on a hidden text, with "
            f"{one.budget.text()}. The training text is `{train_file()}`."
        ),
        _filled(f"Hand in {' or '.join(entries)}. A recipe trains {text}: set `data.path` to the name of the file alone."),
        "Try your recipe, and count its parameters:",
        "```sh\nfirth describe recipe.toml\nfirth train recipe.toml --out run\nfirth evaluate run\n```",
        _filled(
            'The tokenizer has to keep every character ("char" or "bpe"). A training text that contains part of the hidden text '
            "is refused, and so are settings that lead out of your folder, such as `training.init`."
        ),
    ]


def train_file() -> str:
    """The training text in the student's folder."""
    return "train.txt"


def markdown(table: Table) -> str:
    rows = [table.headings, tuple("---" for _ in table.headings), *table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
