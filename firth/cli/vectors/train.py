"""firth vectors train: train word vectors."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, complain, print_json, refuse_given, takes_options, verb
from firth.cli.vectors.group import CorpusArgument, Field, FormatName, Lower, StripPunctuation, group
from firth.errors import ConfigError, Interrupted
from firth.files import is_file
from firth.vectors.config import VectorsConfig
from firth.vectors.display import VectorsDisplay
from firth.vectors.training_log import TrainingLog

if TYPE_CHECKING:
    from firth.vectors.display import Report
    from firth.vectors.wordvectors import WordVectors

_LONG = 1_000_000  # words; on a shorter text a rising loss is chance


def _options() -> dict[str, tuple[Any, None]]:
    """One for each setting of VectorsConfig. It is None unless given, so that --continue can keep the file's own settings."""
    options: dict[str, tuple[Any, None]] = {}
    for one in dataclasses.fields(VectorsConfig):
        shown, meaning = f"no-{one.name}" if one.default is False else one.default, one.metadata["meaning"]
        told = f"{meaning[0].upper()}{meaning[1:]}." + ("" if shown is None else f"  [default: {shown}]")
        kind = int if one.default is None else type(one.default)
        options[one.name] = Annotated[kind | None, typer.Option(help=told)], None
    return options


@verb(within=group)
@takes_options("settings", _options())
def train(
    corpus: CorpusArgument,
    out: Annotated[Path, typer.Option(help="The .firth file to write.")],
    settings: dict[str, Any],
    continue_: Annotated[
        bool,
        typer.Option("--continue", help="Train the vectors in --out further and add new words; start from scratch if absent."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file --out.")] = False,
    log: Annotated[Path | None, typer.Option(help="Write the progress to this file, one line of JSON per update.")] = None,
    lower: Lower = False,
    strip_punctuation: StripPunctuation = False,
    format: FormatName = "auto",
    field: Field = "text",
    as_json: Json = False,
) -> None:
    """Train word vectors on a text.

    Each line is a sentence; words are separated by white space."""
    from firth.training.stop import StopRequest
    from firth.vectors import load, trainer

    if continue_ and overwrite:
        raise ConfigError("--continue and --overwrite cannot be combined. Remove one of them.")
    start = load(out) if continue_ and is_file(out) else None
    own = None if start is None else json.loads(start.metadata.get("config", "{}")).get("loss")
    if (settings["loss"] or own or "ns") != "ns":
        refuse_given({"negatives": settings["negatives"]}, "only applies to --loss ns. Remove it.")
    first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, only the first one prints
    with StopRequest() as stop, LoggedDisplay(log) as display:

        def work(what: str, done: int, total: int) -> None:
            if stop.signal is not None:  # nothing to save yet
                raise KeyboardInterrupt
            if first:
                display.work(what, done, total)

        watcher = trainer.TrainingCallbacks(work, stopping=lambda: stop.signal is not None)
        if first:
            watcher = dataclasses.replace(watcher, block=display.add, notice=complain)
        vectors = trainer.train(
            corpus,
            **settings,
            lower=lower or None,
            strip_punctuation=strip_punctuation or None,
            format=format,
            field=field,
            start=start,
            out=out,
            overwrite=overwrite or start is not None,
            watcher=watcher,
        )
    if not first:
        return
    if vectors.metadata["state"] == "interrupted":
        epochs = json.loads(vectors.metadata["config"])["epochs"]
        raise Interrupted(
            f"stopped after {vectors.metadata['epochs']} of {epochs} epochs and saved the vectors to {out}. "
            "Train them further with --continue",
            stop.signal or 2,
        )
    _print(out, vectors, display, as_json)


class LoggedDisplay(VectorsDisplay):
    """The progress bar, and the same numbers in a log."""

    def __init__(self, log: Path | None = None) -> None:
        super().__init__()
        self.log = None if log is None else TrainingLog(log)
        self.report: Report | None = None

    def add(self, report: Report) -> None:
        self.report = report
        if self.block(report) and self.log is not None:
            self.log.write(report)


def _rose(losses: Sequence[float | None]) -> bool:
    known = [loss for loss in losses[-2:] if loss is not None]
    return len(known) == 2 and known[1] > known[0]


def _print(out: Path, vectors: WordVectors, display: LoggedDisplay, as_json: bool) -> None:
    assert display.report is not None
    losses = display.report.losses
    result: dict[str, Any] = {
        "file": str(out),
        "words": len(vectors),
        "dim": vectors.dim,
        "epochs": float(vectors.metadata["epochs"]),
        "losses": list(losses),
        "words_read": display.report.words,
        "seconds": display.report.seconds,
        "words_per_second": display.report.words_per_second,
        "state": vectors.metadata["state"],
    }
    if display.report.words / display.report.epochs >= _LONG and _rose(losses):
        complain(
            "note: the loss rose in the last epoch, which is normal for a long text in its own order: as the learning rate "
            "falls, the vectors adapt less to the passage at hand"
        )
    if as_json:
        print_json(result)
        return
    loss = "" if losses[-1] is None else f", loss {losses[-1]:.4f} in the last epoch"
    print(f"{out}: {len(vectors):,} words, dimension {vectors.dim}{loss}. Next: firth vectors neighbors {out} WORD")
