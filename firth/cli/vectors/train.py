"""firth vectors train"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, complain, print_json, verb
from firth.cli.progress import Display
from firth.cli.vectors.group import group

if TYPE_CHECKING:
    from firth.vectors.trainer import Report
    from firth.vectors.wordvectors import WordVectors

_BETWEEN = 0.2  # seconds between two updates of the bar


@verb(within=group)
def train(
    corpus: Annotated[str, typer.Argument(help="A file, folder, glob, named data set such as wiki8, or '-' for standard input.")],
    out: Annotated[Path, typer.Option(help="The .firth file to write.")],
    model: Annotated[str | None, typer.Option(help="skipgram (default) or cbow.")] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="ns, negative sampling (default); hs, hierarchical softmax; softmax, for small vocabularies."),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Numbers per vector; 100.")] = None,
    window: Annotated[int | None, typer.Option(help="Neighbours on each side, at most; 5.")] = None,
    negatives: Annotated[int | None, typer.Option(help="Words drawn against each true neighbour; 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times the text is read; 5.")] = None,
    min_count: Annotated[int | None, typer.Option(help="Words seen less often are left out; 5.")] = None,
    max_vocab: Annotated[int | None, typer.Option(help="Keep so many words, the most frequent; all.")] = None,
    sample: Annotated[
        float | None, typer.Option(help="Thins out frequent words: the smaller, the more; 0 does not; 0.001.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate at the start; 0.025.")] = None,
    final_rate: Annotated[float | None, typer.Option(help="Learning rate at the end; 0.0001.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads that train side by side; one per core.")] = None,
    seed: Annotated[int | None, typer.Option(help="Where first weights and draws come from; 0.")] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="One thread: same seed, same vectors, to the bit.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="cpu (default) or cuda.")] = None,
    continue_: Annotated[
        bool,
        typer.Option("--continue", help="Train the vectors in --out further, new words included; start if there are none."),
    ] = False,
    lower: Annotated[bool, typer.Option("--lower", help="Read the text in lower case.")] = False,
    format: Annotated[str, typer.Option(help="txt, jsonl, csv, tsv or parquet; by the name of each file.")] = "auto",
    field: Annotated[str, typer.Option(help="The key or column that holds the text, where files have several.")] = "text",
    as_json: Json = False,
) -> None:
    """Train word vectors on a text. A sentence is a line, a word is what white space separates."""
    from firth.errors import Interrupted
    from firth.training.stop import StopRequest
    from firth.vectors import trainer

    start = _start(out, continue_)
    with StopRequest() as stop, VectorsDisplay() as display:

        def work(what: str, done: int, total: int) -> None:
            if stop.signal is not None:  # nothing to save yet
                raise KeyboardInterrupt
            display.work(what, done, total)

        watcher = trainer.Watcher(work, display.block, complain, lambda: stop.signal is not None)
        vectors = trainer.train(
            corpus,
            model=model,  # type: ignore[arg-type]  # what it may be, VectorsConfig says
            loss=loss,  # type: ignore[arg-type]
            dim=dim,
            window=window,
            negatives=negatives,
            epochs=epochs,
            min_count=min_count,
            sample=sample,
            rate=rate,
            final_rate=final_rate,
            max_vocab=max_vocab,
            threads=threads,
            seed=seed,
            deterministic=deterministic or None,
            device=device,  # type: ignore[arg-type]
            lower=lower or None,
            format=format,  # type: ignore[arg-type]
            field=field,
            start=start,
            out=out,
            watcher=watcher,
        )
    if vectors.metadata["state"] == "interrupted":
        asked = json.loads(vectors.metadata["config"])["epochs"]
        raise Interrupted(
            f"stopped after {vectors.metadata['epochs']} of {asked} epochs; {out} holds the vectors as they were then, "
            f"and can be used or trained further with --continue",
            stop.signal or 2,
        )
    _print(out, vectors, display, as_json)


def _start(out: Path, going_on: bool) -> WordVectors | None:
    from firth.errors import RunError

    if not out.is_file():
        return None
    if not going_on:
        raise RunError(f"{out} already exists; add --continue to train it further, or choose another --out")
    from firth.vectors import load

    return load(out)


class VectorsDisplay(Display):
    """A bar with words/s, the time left and the loss of the epoch."""

    def __init__(self) -> None:
        super().__init__("training")
        self.report: Report | None = None
        self.shown = 0.0
        self.epoch = 0

    def block(self, report: Report) -> None:
        now = time.monotonic()
        first, self.report = self.report is None, report
        last, new_epoch = report.words == report.of, len(report.losses) > self.epoch
        self.epoch = len(report.losses)
        if now - self.shown < _BETWEEN and not last and not new_epoch:
            return
        self.shown = now
        loss = "" if report.loss is None else f"loss {report.loss:.4f}  "
        facts = f"epoch {report.epoch}/{report.epochs}  {loss}{report.words_per_second:,.0f} words/s"
        self._show("training", report.words, report.of, facts)
        left = (report.of - report.words) / report.words_per_second
        self._plain(f"training {report.words / report.of:.0%}  {facts}  {left:.0f} s left", always=first or last)


def _print(out: Path, vectors: WordVectors, display: VectorsDisplay, as_json: bool) -> None:
    assert display.report is not None
    losses = display.report.losses
    result: dict[str, Any] = {
        "file": str(out),
        "words": len(vectors),
        "dim": vectors.width,
        "epochs": float(vectors.metadata["epochs"]),
        "losses": list(losses),
        "words_read": display.report.words,
        "seconds": display.report.seconds,
        "words_per_second": display.report.words_per_second,
        "state": vectors.metadata["state"],
    }
    if as_json:
        print_json(result)
        return
    loss = "" if losses[-1] is None else f", loss {losses[-1]:.4f} in the last epoch"
    print(f"{out}: {len(vectors):,} words of {vectors.width} numbers{loss}. Next: firth vectors neighbors {out} WORD")
