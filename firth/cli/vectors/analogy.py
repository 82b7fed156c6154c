"""firth vectors analogy: solve an analogy."""

from __future__ import annotations

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import File, MethodName, Restrict, Top, Word, as_rows, group, method_named, opened, print_neighbors


@verb(within=group)
def analogy(
    file: File, a: Word, b: Word, c: Word, method: MethodName = "add", top: Top = 5, restrict_vocab: Restrict = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Solve an analogy: A is to B as C is to …

    For spain madrid france, the expected answer is paris."""
    neighbors = opened(file).analogy(a, b, c, top, method_named(method), restrict_vocab)
    if as_json:
        answers = as_rows(neighbors, "cosine" if method == "add" else "score")
        print_json({"a": a, "b": b, "c": c, "method": method, "answers": answers})
    else:
        print_neighbors(neighbors)
