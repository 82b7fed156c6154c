"""A fault at any moment of writing: one line says so, what was saved stays, and a resume ends where it would have ended.

One run's operations on the disk are counted; then, for each n, the n-th fails. Either with an OSError, as a full disk
does, or as a kill: half of the write lands, and from then on nothing at all reaches the disk.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from tiny_runs import assert_identical, assert_no_temporaries, outcome, steps_saved, tiny, undisturbed

from firth import files
from firth.api import Watcher, load, train_recipe
from firth.errors import RunError
from firth.text import sealed
from firth.training.log import Log

RECIPE = tiny(dropout=0.2, steps=4, checkpoint_every=2, evaluate_every=2, keep=1)


class Killed(BaseException):
    """The process is gone."""


class Disk:
    """Counts operations on the disk; the one number `fails_at` fails, and after a kill so do all that follow."""

    def __init__(self, fails_at: int | None = None, kills: bool = False) -> None:
        self.fails_at, self.kills = fails_at, kills
        self.done: list[str] = []
        self.dead = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(tempfile, "mkstemp", self.faulty("create", tempfile.mkstemp))
        patch.setattr(safetensors.torch, "save_file", self.faulty("write", safetensors.torch.save_file, _half_of_a_tensor_file))
        patch.setattr(Path, "write_text", self.faulty("write", Path.write_text, _half_of_a_text))
        patch.setattr(Log, "write", self.faulty_log(Log.write))
        for name in ("fsync", "replace", "chmod", "unlink"):
            patch.setattr(os, name, self.faulty(name, getattr(os, name)))
        mkdir, faulty_mkdir = os.mkdir, self.faulty("mkdir", os.mkdir)  # of a folder that is there already: no operation
        patch.setattr(os, "mkdir", lambda path, *mode: (mkdir if Path(path).is_dir() else faulty_mkdir)(path, *mode))

    def faulty(self, name: str, real: Callable[..., Any], half: Callable[..., None] | None = None) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            self.done.append(name)
            if len(self.done) != self.fails_at:
                return real(*args, **kwargs)
            if half:
                half(real, *args, **kwargs)
            if self.kills:
                self.dead = True
                raise Killed
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return operation

    def faulty_log(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """The file object under the log gets a faulty `flush`: half a line lands, as a full disk leaves it."""

        def write(log: Log, line: dict[str, Any]) -> None:
            path, file = log._path, log._file
            size = path.stat().st_size

            def half(*_: Any) -> None:
                file.flush()
                with path.open("r+b") as cut:
                    cut.truncate((size + path.stat().st_size) // 2)

            log._file = _Flushing(file, self.faulty("append", file.flush, half))  # type: ignore[assignment]
            try:
                real(log, line)
            finally:
                log._file = file

        return write


class _Flushing:
    def __init__(self, file: Any, flush: Callable[[], None]) -> None:
        self.write, self.flush = file.write, flush


def _half_of_a_text(real: Any, path: Path, text: str, **kwargs: Any) -> None:
    real(path, text[: len(text) // 2], **kwargs)


def _half_of_a_tensor_file(real: Any, tensors: Any, path: Path, **kwargs: Any) -> None:
    real(tensors, path, **kwargs)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


def run_on(disk: Disk, folder: Path, notices: list[str] | None = None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed, "SETTLED", float("inf"))  # no notes about the cache, whatever its age: they are no part of a run
        disk.install(patch)
        train_recipe(RECIPE, folder, resume=True, watcher=Watcher(notice=(notices if notices is not None else []).append))


@pytest.fixture(scope="module", autouse=True)
def _settled() -> Iterator[None]:
    """The first run is also the last that writes to the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed, "SETTLED", 0.0)
        yield


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(RECIPE, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def operations(expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    disk = Disk()
    run_on(disk, tmp_path_factory.mktemp("counted") / "run")
    return disk.done


def test_every_kind_of_operation_is_met(operations: list[str]) -> None:
    """create × {mark, recipe, tokenizer, format, history × 2, log} + {weights, checkpoint} × 2, two lines, and fsyncs of file,
    folder, log."""
    assert operations.count("create") == operations.count("write") == operations.count("replace") == 11
    assert operations.count("append") == 4
    assert operations.count("fsync") == 2 * 11 + 2
    assert set(operations) == {"create", "write", "append", "fsync", "replace", "chmod", "unlink", "mkdir"}


@pytest.mark.parametrize(
    ("kills", "every"),
    [
        pytest.param(True, 13, id="kill at every thirteenth"),
        pytest.param(True, 1, marks=pytest.mark.long, id="kill"),
        pytest.param(False, 1, marks=pytest.mark.long, id="full disk"),
    ],
)
def test_a_fault_at_any_operation_loses_nothing_that_was_saved(
    kills: bool, every: int, operations: list[str], expected: dict[str, Any], tmp_path: Path
) -> None:
    for n, name in list(enumerate(operations, start=1))[::-every]:
        folder = tmp_path / f"{n}-{name}"
        fail(Disk(n, kills), folder, name)
        saved = steps_saved(folder)
        for step in saved:  # whatever bears the name of a checkpoint is one
            files.load_tensors(folder / "checkpoints" / f"step-{step:08d}.safetensors")
        if "append" in operations[:n] and operations[:n].count("replace") > 8:
            assert saved, f"the checkpoint of step 2 is gone after {n} {name}"
        if saved:
            load(folder, "cpu")
        notices: list[str] = []
        train_recipe(RECIPE, folder, resume=True, watcher=Watcher(notice=notices.append))
        assert notices == [], (n, name)
        assert_identical(outcome(folder), expected, f"{n} {name}")
        assert_no_temporaries(folder)


def fail(disk: Disk, folder: Path, name: str) -> None:
    if disk.kills:
        with pytest.raises(Killed):
            run_on(disk, folder)
        return
    try:
        run_on(disk, folder)
    except RunError as error:
        message = str(error)
        assert re.fullmatch(rf"cannot write {re.escape(str(folder))}.*: No space left on device\. Free some space or .*", message)
        assert name == "unlink" or {path.name for path in folder.rglob(files.TEMPORARY + "*")} <= {files.TEMPORARY + "run"}
    else:
        assert name == "unlink", f"a failed {name} went unnoticed"  # a temporary that was renamed need not be removed


def test_a_second_fault_during_the_resume_after_a_first_one_loses_nothing_either(
    operations: list[str], expected: dict[str, Any], tmp_path: Path
) -> None:
    renames = [n for n, name in enumerate(operations, start=1) if name == "replace"]
    for n in renames[-4:-1]:  # after the last one, a resume only writes how the training ended: fewer than 15 operations
        folder = tmp_path / str(n)
        with pytest.raises(Killed):
            run_on(Disk(n, kills=True), folder)
        for again in (3, 9, 15):
            with pytest.raises(Killed):
                run_on(Disk(again, kills=True), folder)
        train_recipe(RECIPE, folder, resume=True)
        assert_identical(outcome(folder), expected)
        assert_no_temporaries(folder)
