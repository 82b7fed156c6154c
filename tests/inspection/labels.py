"""The words that drawings can say, as the code declares them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import firth.inspection.drawing.drawing
from firth.inspection.drawing import KINDS
from firth.inspection.drawing.parts import Ends
from firth.layers.activation import ACTIVATIONS
from firth.layers.attention.score import SCORES
from firth.layers.norm import NORMS
from firth.layers.position import SCHEMES
from firth.layers.recurrent import CELLS
from firth.layers.token_mixer import MIXERS
from firth.models.adapters import TARGETS
from firth.tasks import TASKS

CODE = Path(firth.inspection.drawing.drawing.__file__).parent


def declared() -> set[str]:
    """Every English label: the arguments of `say` and `of`, and what ideas, tasks and kinds of drawings are called."""
    english = {label for path in CODE.glob("*.py") for label in _said(ast.parse(path.read_text(encoding="utf-8")))}
    english |= {*KINDS, *KINDS.values()} - {"model"}
    ends = [Ends(), Ends("point", "linear", "next value")]
    english |= {words for one in ends for words in (f"{one.token}s", one.embedding, one.predicts)}
    english |= {task.noun for task in TASKS if "encoder" in task.families}
    english |= {"output of attention" if one == "output" else one for one in TARGETS}
    for ideas in (CELLS, SCORES, SCHEMES, NORMS, MIXERS, ACTIVATIONS):
        english |= {ideas[kind].title() for kind in ideas.all_kinds if ideas.origin(kind) is None}
    for ideas in (CELLS, MIXERS):
        english |= {ideas[kind].about for kind in ideas.all_kinds if ideas.origin(kind) is None}
    for kind in CELLS.shipped_kinds:
        quantities = [CELLS[kind].quantity(gate) for gate in CELLS[kind].gates]
        english |= {one.title for one in quantities if one.title != one.letter}
    return english


def _said(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("say", "of")):
            continue
        words = [node.value for argument in call.args for node in _choices(argument) if isinstance(node, ast.Constant)]
        if call.func.id == "say":
            yield from (word for word in words if isinstance(word, str))
        else:
            yield from (form for word in words if isinstance(word, str) for form in (f"{{n}} {word}", f"{{n}} {word}s"))


def _choices(argument: ast.expr) -> list[ast.expr]:
    """An argument, or both values of one that depends on something."""
    return [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
