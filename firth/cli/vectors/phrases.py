"""firth vectors phrases"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import group

_SHOWN = 10  # phrases of each pass, the best


@verb(within=group)
def phrases(
    corpus: Annotated[str, typer.Argument(help="A file, folder, glob, named data set such as wiki8, or '-' for standard input.")],
    out: Annotated[Path, typer.Option(help="The text file to write, phrases joined.")],
    threshold: Annotated[
        float, typer.Option(help="Join pairs that stand together more than so many times as often as chance.")
    ] = 100,
    discount: Annotated[int, typer.Option(help="Taken off the count of a pair, so that rare ones do not qualify.")] = 5,
    passes: Annotated[int, typer.Option(help="Two join up to four words, and so on.")] = 1,
    joiner: Annotated[str, typer.Option(help="What stands between the words of a phrase.")] = "_",
    lower: Annotated[bool, typer.Option("--lower", help="Read the text in lower case.")] = False,
    format: Annotated[str, typer.Option(help="txt, jsonl, csv, tsv or parquet; by the name of each file.")] = "auto",
    field: Annotated[str, typer.Option(help="The key or column that holds the text, where files have several.")] = "text",
    as_json: Json = False,
) -> None:
    """Write a text again with its phrases as one word, new_york, for `firth vectors train`."""
    from firth.cli.progress import Display
    from firth.vectors.phrases import write_phrases

    with Display() as display:
        found = write_phrases(
            corpus,
            out,
            discount=discount,
            threshold=threshold,
            passes=passes,
            joiner=joiner,
            lower=lower,
            format=format,  # type: ignore[arg-type]  # what it may be, the reader says
            field=field,
            progress=display.work,
        )
    best: list[list[dict[str, Any]]] = [
        [{"phrase": joiner.join(pair), "score": score} for pair, score in list(one.scores.items())[:_SHOWN]] for one in found
    ]
    if as_json:
        print_json({"file": str(out), "phrases": [len(one.scores) for one in found], "best": best})
        return
    for number, (one, shown) in enumerate(zip(found, best, strict=True), start=1):
        print(f"pass {number}: {len(one.scores):,} kinds of phrases")
        for row in shown:
            print(f"  {row['phrase']:<40}{row['score']:>12,.0f}")
    print(f"{out}: written. Next: firth vectors train {out} --out FILE")
