"""firth embed: vectors of texts, as cosines, as JSON and as a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shell import Firth

import firth as package


def test_texts_become_vectors(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    texts = ["the list is empty.", "a name is in the list"]
    expected = package.load(bpe_run, "cpu").embed(texts)
    embedded = json.loads(firth("embed", bpe_run, *texts, "--json").out)
    np.testing.assert_allclose([one["vector"] for one in embedded], expected, atol=1e-5)
    assert [one["text"] for one in embedded] == texts
    (tmp_path / "texts.txt").write_text("\n\n".join(texts) + "\n")
    told = firth("embed", bpe_run, "--file", tmp_path / "texts.txt", "--out", tmp_path / "vectors.npy", "--layer", "0").out
    assert told.startswith("2 vectors of dimension ")
    static = package.load(bpe_run, "cpu").embed(texts, layer=0)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), static, atol=1e-5)


def test_cosines_are_printed(firth: Firth, bpe_run: Path) -> None:
    texts = ["the list is empty.", "a name is in the list"]
    x, y = package.load(bpe_run, "cpu").embed(texts, pool="max").astype(np.float64)
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    lines = firth("embed", bpe_run, *texts, "--pool", "max").out.splitlines()
    assert lines[1].split()[:3] == ["1", "1.00", f"{cosine:.2f}"]
    assert lines[2].endswith("a name is in the list")


@pytest.mark.parametrize("options", [("--pool", "words"), ("--pool", "median")])
def test_an_unknown_pooling_is_refused(firth: Firth, bpe_run: Path, options: tuple[str, str]) -> None:
    answer = firth("embed", bpe_run, "a", *options)
    assert answer.code == 2
    assert options[1] in answer.err


def test_a_suffix_that_lies_is_refused_and_nothing_is_written(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    answer = firth("embed", bpe_run, "the list", "--out", tmp_path / "v.csv")
    assert answer.code == 2
    assert "--out writes a NumPy file, but v.csv does not end in .npy" in answer.err
    assert not list(tmp_path.iterdir())
