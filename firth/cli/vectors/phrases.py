"""firth vectors phrases: join frequent phrases into single words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import CorpusArgument, Reading, group, reads_text

_SHOWN = 10  # best phrases to print for each pass


@verb(within=group)
@reads_text
def phrases(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Option(help="Text file to write.")],
    threshold: Annotated[float, typer.Option(help="Join pairs that occur more than this many times as often as chance.")] = 100,
    discount: Annotated[int, typer.Option(help="Subtracted from the count of each pair, to exclude rare pairs.")] = 5,
    passes: Annotated[int, typer.Option(help="Number of passes; two passes join up to four words.")] = 1,
    joiner: Annotated[str, typer.Option(help="String between the words of a phrase.")] = "_",
    *,
    reading: Reading,
    as_json: Json = False,
) -> None:
    """Join frequent phrases in a text into one word, as in new_york.

    The result is a text file for `firth vectors train`."""
    from firth.progress.display import Display
    from firth.vectors.phrases import write_phrases

    with Display() as display:
        chosen: Any = {"discount": discount, "threshold": threshold, "passes": passes, "joiner": joiner}
        levels = write_phrases(corpus, out, **chosen, **reading, progress=display.work)
    best: list[list[dict[str, Any]]] = [
        [{"phrase": joiner.join(pair), "score": score} for pair, score in list(one.scores.items())[:_SHOWN]] for one in levels
    ]
    if as_json:
        print_json({"file": str(out), "phrases": [len(one.scores) for one in levels], "best": best})
        return
    for number, (one, shown) in enumerate(zip(levels, best, strict=True), start=1):
        print(f"pass {number}: {len(one.scores):,} distinct phrases")
        for row in shown:
            print(f"  {row['phrase']:<40}{row['score']:>12,.0f}")
    print(f"Wrote {out}. Next: firth vectors train {out} --out FILE")
