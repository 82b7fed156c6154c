"""Disks that are full or read-only, a clock that jumps, and a cache with a flipped byte.

The disks are small file systems in memory, which only root may mount; elsewhere these tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from shell import Firth
from tiny_runs import TEXT, assert_identical, assert_no_temporaries, outcome, recipe_file, tiny, undisturbed

from firth.api import train_recipe
from firth.text.batches.token_files import token_file
from firth.text.config import TokenizerConfig
from firth.text.readers.corpus import find, scan
from firth.text.tokenizers.tokenizer import Tokenizer

RECIPE = tiny(steps=4, checkpoint_every=2)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a file system of some size in memory."""
    mount = shutil.which("mount")
    if not mount or not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()

    def new(options: str) -> Path:
        done = subprocess.run([mount, "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine does not let root mount a tmpfs: {done.stderr.decode().strip()}")
        return folder

    yield new
    subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)


def one_line(answer: object, *parts: str) -> None:
    said = answer.err.strip().splitlines()  # type: ignore[attr-defined]
    assert answer.code == 2, said  # type: ignore[attr-defined]
    assert not any(line.startswith(("Traceback", "  File ")) for line in said), said
    assert [line for line in said if parts[0] in line] == said[-1:], said  # before it there may be notes
    for part in parts:
        assert part in said[-1], said


def test_a_read_only_folder_is_one_line(mounted: Callable[..., Path], firth: Firth, tmp_path: Path) -> None:
    disk = mounted("size=1m,ro")
    one_line(firth("train", recipe_file(RECIPE, tmp_path / "recipe"), "--out", disk / "run"), "Read-only file system")
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    one_line(firth("vectors", "train", text, "--out", disk / "v.firth", "--dim", "4"), "Read-only file system")


@pytest.mark.long
@pytest.mark.parametrize("kilobytes", [4, 16, 40])
def test_a_full_disk_for_the_cache_is_one_line_and_leaves_nothing_wrong(
    kilobytes: int, mounted: Callable[..., Path], firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT * 40)
    disk = mounted(f"size={kilobytes}k")
    monkeypatch.setenv("FIRTH_CACHE", str(disk / "cache"))
    recipe = recipe_file(RECIPE, tmp_path / "recipe")
    arguments = ("train", recipe, "--out", tmp_path / "run", f"--data.path={text}")
    one_line(firth(*arguments), "Set FIRTH_CACHE to a folder")
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    assert firth(*arguments, "--resume").code == 0


@pytest.mark.parametrize("kilobytes", [4, *(pytest.param(size, marks=pytest.mark.long) for size in (16, 24, 32, 48))])
def test_a_disk_that_fills_up_under_a_run_is_one_line_and_the_run_goes_on_when_there_is_room(
    kilobytes: int, mounted: Callable[..., Path], firth: Firth, tmp_path: Path
) -> None:
    disk = mounted(f"size={kilobytes}k")
    arguments = ("train", recipe_file(RECIPE, tmp_path / "recipe"), "--out", disk / "run", "--resume")
    one_line(firth(*arguments), "No space left on device")
    subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
    assert firth(*arguments).code == 0
    assert_identical(outcome(disk / "run"), undisturbed(RECIPE, tmp_path / "whole"))
    assert_no_temporaries(disk)


def test_a_cache_that_has_become_read_only_is_still_read(
    mounted: Callable[..., Path], firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    disk = mounted("size=4m")
    monkeypatch.setenv("FIRTH_CACHE", str(disk))
    arguments = ("train", recipe_file(RECIPE, tmp_path / "recipe"), f"--data.path={tmp_path / 'text.txt'}", "--out")
    os.utime(tmp_path / "text.txt", (1e9, 1e9))
    assert firth(*arguments, tmp_path / "first").code == 0
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert firth(*arguments, tmp_path / "second").code == 0
    (tmp_path / "text.txt").write_text(TEXT + "more")
    os.utime(tmp_path / "text.txt", (1e9, 1e9))
    one_line(firth(*arguments, tmp_path / "third"), "Set FIRTH_CACHE to a folder")


@pytest.mark.long
def test_a_full_disk_for_word_vectors_is_one_line(mounted: Callable[..., Path], firth: Firth, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    disk = mounted("size=4k")
    one_line(firth("vectors", "train", text, "--out", disk / "v.firth", "--dim", "64"), "No space left on device")
    assert not list(disk.iterdir())


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = undisturbed(RECIPE, tmp_path / "whole")
    real, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return real() + (-1) ** calls * 10.0**calls % 1e9

    monkeypatch.setattr(time, "time", jumping)
    train_recipe(RECIPE, tmp_path / "jumped")
    train_recipe(RECIPE, tmp_path / "jumped", resume=True)
    assert_identical(outcome(tmp_path / "jumped"), expected)
    assert_no_temporaries(tmp_path / "jumped")


def test_a_flipped_byte_in_a_token_cache_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(TEXT)
    corpus = find(str(tmp_path / "text.txt"))
    seen = scan(corpus)
    tokenizer = Tokenizer.train(TokenizerConfig(kind="char"), corpus.pieces(), seen.documents, seen.counts)

    def ids() -> list[int]:
        return token_file(corpus, seen, 0, seen.characters, tokenizer).ids.tolist()

    expected = ids()
    (path,) = (tmp_path / "cache").glob("tokens-*.bin")
    content = np.fromfile(path, np.uint8)
    content[len(content) // 2] ^= 1
    content.tofile(path)
    with pytest.warns(UserWarning, match="in the cache is damaged"):
        assert ids() == expected
    content[len(content) // 2] ^= 1
    assert np.array_equal(np.fromfile(path, np.uint8), content), "the file was not mended"
