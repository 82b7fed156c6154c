"""The storage of a sweep: Optuna's journal, a text file to which every process appends lines of JSON.

Only one command works on a sweep at a time, and it holds the lock on the folder; what a killed one left behind, a lock or half of
a last line, is removed before the journal is read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import Study, StudyDirection

from firth import files
from firth.errors import RunError

NAME = "sweep"  # of the study in the journal


def journal_of(out: Path) -> Path:
    return out / "trials.journal"


def open_study(out: Path, higher: bool, prune: bool) -> Study:
    """The study in the folder, which the caller holds; a new one if there is none."""
    journal = journal_of(out)
    for left_over in out.glob(f"{journal.name}.lock*"):
        with files.writing(left_over):
            left_over.unlink(missing_ok=True)
    if files.is_file(journal):
        _cut_half_line(journal)
    try:
        storage = _storage(journal)
        if storage.get_all_studies():
            return joined_study(out, prune)
        direction = StudyDirection.MAXIMIZE if higher else StudyDirection.MINIMIZE
        with _quiet():
            return optuna.create_study(study_name=NAME, storage=storage, direction=direction, pruner=_pruner(prune))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{journal} is damaged: {error}. Restore it, or choose another folder.") from error


def joined_study(out: Path, prune: bool) -> Study:
    """The study that is there already."""
    return optuna.load_study(study_name=NAME, storage=_storage(journal_of(out)), pruner=_pruner(prune), sampler=RandomSampler(0))


def _storage(journal: Path) -> JournalStorage:
    # A link, which Optuna's other lock makes, would need an administrator on Windows.
    return JournalStorage(JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal))))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's message about a new study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _pruner(prune: bool) -> Any:
    return MedianPruner() if prune else NopPruner()


def _cut_half_line(journal: Path) -> None:
    """Remove a last line that a crash of the machine cut off: the next one would be appended to it, and the journal be lost."""
    whole = journal.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        with files.writing(journal):
            os.truncate(journal, end)
