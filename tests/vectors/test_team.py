from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.errors import ConfigError
from firth.vectors import load
from firth.vectors.team import ALONE, Combined, Team, check


@given(st.integers(1, 5), st.integers(0, 300), st.integers(1, 9), st.booleans())
def test_every_place_is_trained_on_once_in_rounds_that_all_processes_share(
    size: int, count: int, most: int, growing: bool
) -> None:
    shares = [list(Team(rank, size, size).share(range(count), most, growing=growing)) for rank in range(size)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(place for share in shares for places in share for place in places) == list(range(count))
    if size > 1:
        assert all(len(places) <= most for share in shares for places in share)


class Fake(Team):
    """Two processes with the same changes."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        values *= 2
        return values


def test_rare_rows_add_their_changes_and_frequent_rows_average_them() -> None:
    matrix = np.ones((3, 2), np.float32)
    combined = Combined(Fake(0, 2, 2), matrix, np.array([0.0, 1e9, 1.0]))
    matrix += 1
    combined.combine(rate=0.02, words=1e4)  # curvature · rate · words · 1 update = 1
    assert matrix[:, 0].tolist() == pytest.approx([3, 2, 1 + (1 - np.exp(-2)) / (1 - np.exp(-1))], abs=1e-5)
    matrix += 1
    combined.combine(rate=0.02, words=1e4)
    assert matrix[:2, 0].tolist() == pytest.approx([5, 3], abs=1e-5)


def test_a_quadratic_loss_ends_up_where_one_process_would() -> None:
    target, start, rate, updates = 3.0, 1.0, 0.02, 400
    pull = 0.005 * rate  # per update, in the small
    matrix = np.full((1, 1), start, np.float32)
    combined = Combined(Fake(0, 2, 2), matrix, np.array([1.0]))
    matrix += (target - start) * (1 - np.exp(-pull * updates * 100))
    combined.combine(rate, updates * 100)
    assert float(matrix[0, 0]) == pytest.approx(target - (target - start) * np.exp(-2 * pull * updates * 100), abs=1e-5)


IN_TWO = """
import os, sys
import numpy as np
import torch.distributed as dist
from firth.vectors.team import Team
rank = 0 if os.fork() else 1
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
team = Team(rank, 2, 2)
matrix = team.in_shared_memory(np.full((3, 2), 5 + rank, np.float32))
assert (matrix == 5).all(), "the values of the first process"
team.wait()
matrix[rank] = rank
team.wait()
assert matrix.tolist() == [[0, 0], [1, 1], [5, 5]], matrix
assert Team(rank, 2, 1).in_shared_memory(matrix) is None, "another machine"
if rank:
    os._exit(0)
assert os.wait()[1] == 0
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="shared memory of Linux")
def test_the_processes_of_one_machine_write_to_the_same_matrix(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", IN_TWO, tmp_path / "store"], check=True, timeout=120)


def test_what_several_processes_cannot_do_is_refused() -> None:
    check(ALONE, ["a text"], "cuda")
    check(Team(0, 2, 2), Path("a.txt"), "cpu")
    for source in ("-", ["a text"]):
        with pytest.raises(ConfigError, match="several processes cannot read standard input"):
            check(Team(0, 2, 2), source, "cpu")
    with pytest.raises(ConfigError, match="can only train word vectors on the CPU"):
        check(Team(0, 2, 2), "a.txt", "cuda")


@pytest.mark.long
def test_two_processes_train_the_vectors_that_one_trains(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    topics = generator.integers(0, 4, 6000)
    lines = [" ".join(f"w{10 * topic + word}" for word in generator.integers(0, 10, 12)) for topic in topics]
    text = tmp_path / "a.txt"
    text.write_text("\n".join(lines))
    os.utime(text, (1, 1))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    settings = [str(text), "--dim", "16", "--epochs", "3", "--threads", "1", "--sample", "0", "--json"]
    train = ["-m", "firth", "vectors", "train", *settings]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29637"]
    commands = {"one": train, "two": [*launcher, *train], "combined": [*launcher, *train, "--deterministic"]}
    for name, command in commands.items():
        run = subprocess.run(
            [sys.executable, *command, "--out", str(tmp_path / f"{name}.firth")],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        report = json.loads(run.stdout)  # one process speaks
        assert (report["words_read"], report["state"]) == (3 * 6000 * 12, "finished")
    for vectors in (load(tmp_path / f"{name}.firth") for name in commands):
        assert set(vectors.words) == {f"w{n}" for n in range(40)}
        near = [{word for word, _ in vectors.most_similar(f"w{n}", topn=9)} for n in range(40)]
        assert all(words == {f"w{m}" for m in range(n // 10 * 10, n // 10 * 10 + 10) if m != n} for n, words in enumerate(near))
