"""Several processes train like one: the same losses for every task, the same checkpoints, one log."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captioned import caption_table
from chat_lines import chat_table, write_chats
from in_context_tables import linear_table, swap_table
from questions import answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews
from tags import tagger_table
from tags import write as write_tags
from tiny_runs import TEXT, assert_no_temporaries, tiny
from translations import pair_table, write_pairs

from firth.api import train_recipe
from firth.config import Table
from firth.errors import ConfigError, CorruptFile, RunError
from firth.tasks import TASKS
from firth.training import distributed, sharded_checkpoint
from firth.training.config import TrainingConfig
from firth.training.feed import DeviceBatch
from firth.training.log import read as read_log

HERE = Path(__file__).parent
COMMON = {"steps": 4, "batch": 5, "device": "cpu", "log_every": 1, "rate": 0.01, "evaluate_every": 3, "checkpoint_every": 2}
MEASURED: dict[str, Table] = {"whole": {"random_batches": 3}, "translation": {}}
BLOCK: Table = {"kind": "transformer", "width": 16, "depth": 2, "heads": 2}


OTHERS: dict[str, Table] = {
    "muon": {"optimizer": "muon"},
    "nt-asgd": {"optimizer": "nt-asgd", "rate": 30.0, "evaluate_every": 1, "nonmonotone_interval": 0, "average": 0.0},
    "schedule-free": {"optimizer": "schedule-free", "evaluate_every": 1, "average": 0.0},
}


def text_table(objective: str, model: Table, **training: Any) -> Table:
    return {
        "data": {"text": TEXT, "valid": 0.2},
        "tokenizer": {"kind": "word"},
        "model": model,
        "objective": {"kind": objective},
        "training": {"context": 12} | training,
    }


def tables(folder: Path) -> dict[str, Table]:
    """A small recipe for every task that can be trained, without dropout."""
    encoder, seq2seq = {"family": "encoder"} | BLOCK, {"family": "seq2seq"} | BLOCK
    by_task: dict[str, Table] = {
        "next-token": text_table("next-token", {"family": "language"} | BLOCK, accumulate=5, average=0.9),
        "next-token, carry": text_table("next-token", {"family": "language", "kind": "lstm", "width": 8}, carry=True),
        "masked": text_table("masked", encoder),
        "electra": text_table("electra", encoder),
        "span-corruption": text_table("span-corruption", seq2seq),
        "denoising": text_table("denoising", seq2seq),
        "classification": classifier_table(write_reviews(folder / "reviews.csv"))
        | {"objective": {"kind": "classification", "weights": "balanced"}},
        "translation": pair_table(write_pairs(folder / "pairs.tsv"), batch_tokens=24),
        "tagging": tagger_table(write_tags(folder / "tags.conllu")),
        "answer": answer_table(write_questions(folder / "questions.json")),
        "in-context": swap_table(),
        "in-context-regression": linear_table(),
        "conversation": chat_table(write_chats(folder / "chats.jsonl"))
        | {"objective": {"kind": "conversation", "per": "answer"}},
        "caption": caption_table({"name": "scenes", "count": 40}),
    }
    for table in by_task.values():
        common = {key: value for key, value in COMMON.items() if key != "batch" or "batch_tokens" not in table["training"]}
        table["training"] = {**table["training"], **common}
        table["model"] = {key: value for key, value in table["model"].items() if not key.startswith("dropout")}
    return by_task


def in_processes(folder: Path, groups: list[Table]) -> None:
    (folder / "jobs.json").write_text(json.dumps(groups), encoding="utf-8")
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "FIRTH_CACHE": str(folder / "cache")}
    command = [sys.executable, str(HERE / "process_group.py"), str(folder / "jobs.json"), str(folder)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-4000:]


def losses_of(folder: Path, name: str) -> list[float]:
    losses: list[float] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["losses"]
    return losses


def job(name: str, table: Table, run: str | None = None, *, resume: bool = False, **training: Any) -> Table:
    changed = {**table, "training": {**table["training"], **training}}
    return {"name": name, "run": run or name, "table": changed, "resume": resume}


def measures(world: int) -> list[Table]:
    """Jobs that evaluate runs."""
    return [{"name": f"{name} of {world}", "run": f"{name} 1", "evaluate": options} for name, options in MEASURED.items()]


def measurement(folder: Path, name: str, rank: int) -> Table:
    """The metrics that are numbers."""
    scores: Table = json.loads((folder / f"{name}-{rank}.json").read_text(encoding="utf-8"))
    return {name: value for name, value in scores.items() if isinstance(value, int | float)}


def sharded_tensors(path: Path) -> dict[str, torch.Tensor]:
    return sharded_checkpoint.load(path, sharded_checkpoint.plain)


def assert_equal_losses(folder: Path, name: str, *worlds: int) -> None:
    expected = losses_of(folder, f"{name} 1")
    assert len(expected) == COMMON["steps"]
    for world in worlds:
        np.testing.assert_allclose(losses_of(folder, f"{name} {world}"), expected, rtol=0, atol=1e-9, err_msg=f"{name} {world}")


def test_every_task_that_can_be_trained_is_here(tmp_path: Path) -> None:
    assert {table["objective"]["kind"] for table in tables(tmp_path).values()} == {task.name for task in TASKS} - {"embedding"}


@pytest.mark.long
def test_for_every_task_the_losses_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    given = tables(tmp_path)
    worlds = (1, 2, 4)
    in_processes(
        tmp_path, [{"world": world, "jobs": [job(f"{name} {world}", table) for name, table in given.items()]} for world in worlds]
    )
    for name in given:
        assert_equal_losses(tmp_path, name, 2, 4)


@pytest.mark.long
def test_one_two_and_sharded_processes_train_alike_and_continue_each_other(tmp_path: Path) -> None:
    """Uneven rows (translation), two means (ELECTRA), a carried state; then one run by two processes with DDP, two with FSDP and
    one alone, and another the other way round. A slow disk: a checkpoint holds the weights of its step, although the training
    went on before it was written. Frozen weights (DDP and FSDP). And all of them measure alike."""
    given = tables(tmp_path)
    names = ("next-token, carry", "electra", "translation")
    plain = text_table("next-token", {"family": "language"} | BLOCK, average=0.9)
    plain["training"] |= COMMON | {"batch": 6, "schedule": "constant", "evaluate_every": 4}
    pieces = {"accumulate": 2, "recompute": True}
    frozen = {"freeze": ["embedding", "blocks.0"]}
    other = {name: {**plain, "training": plain["training"] | own} for name, own in OTHERS.items()}
    alone = [
        job("whole 1", plain),
        job("frozen 1", plain, **frozen),
        *(job(f"{name} 1", table) for name, table in other.items()),
        *(job(f"{name} 1", given[name]) for name in names),
    ]
    two = [
        *(job(f"{name} 2", given[name]) for name in names),
        job("whole 2", plain, parallel="fsdp", **pieces),
        *(job(f"frozen {parallel}", plain, parallel=parallel, **frozen) for parallel in ("ddp", "fsdp")),
        job("a1", plain, "a", steps=2) | {"disk": 0.5},
        job("b1", plain, "b", steps=2, parallel="fsdp"),
        job("a2", plain, "a", steps=3, parallel="fsdp", resume=True),
        job("b2", plain, "b", steps=3, resume=True),
        job("c1", plain, "c", steps=3, parallel="fsdp", keep=3) | {"disk": 0.3},
        job("d", plain, steps=2, parallel="fsdp"),
        *(job(f"{name} {parallel}", table, parallel=parallel) for name, table in other.items() for parallel in ("ddp", "fsdp")),
        *(job(f"bf16 {parallel}", plain, parallel=parallel, reduce="bf16") for parallel in ("ddp", "fsdp")),
        *measures(2),
    ]
    last = [
        job("a3", plain, "a", resume=True),
        job("b3", plain, "b", resume=True),
        job("c2", plain, "c", resume=True, keep=3),
        *measures(1),
    ]
    in_processes(tmp_path, [{"world": 1, "jobs": alone}, {"world": 2, "jobs": two}, {"world": 1, "jobs": last}])
    for name in ("whole", *names):
        assert_equal_losses(tmp_path, name, 2)
    for parallel in ("ddp", "fsdp"):
        np.testing.assert_allclose(losses_of(tmp_path, f"frozen {parallel}"), losses_of(tmp_path, "frozen 1"), rtol=0, atol=1e-9)
    for name, parallel in itertools.product(OTHERS, ("ddp", "fsdp")):
        near = 1e-3 if (name, parallel) == ("muon", "fsdp") else 1e-9  # products in bfloat16 are rounded in another order
        np.testing.assert_allclose(losses_of(tmp_path, f"{name} {parallel}"), losses_of(tmp_path, f"{name} 1"), rtol=0, atol=near)
    expected = losses_of(tmp_path, "whole 1")
    for parts in (("a1", "a2", "a3"), ("b1", "b2", "b3"), ("c1", "c2")):
        np.testing.assert_allclose([one for part in parts for one in losses_of(tmp_path, part)], expected, rtol=0, atol=1e-9)
    for rounded in (losses_of(tmp_path, f"bf16 {parallel}") for parallel in ("ddp", "fsdp")):
        np.testing.assert_allclose(rounded[0], expected[0], rtol=1e-9)  # before the first exchange
        np.testing.assert_allclose(rounded, expected, rtol=0.01)
        assert np.abs(np.subtract(rounded, expected))[1:].min() > 1e-6, "gradients were exchanged as they are"
    for run in ("a", "b", "c"):
        assert [line["step"] for line in read_log(tmp_path / run / "log.jsonl")] == [1, 2, 3, 4]
        assert_no_temporaries(tmp_path / run)
    slow, quick = (sharded_tensors(tmp_path / run / "checkpoints" / "step-00000002.sharded") for run in "cd")
    assert slow.keys() == quick.keys()
    assert all(torch.equal(slow[name], quick[name]) for name in slow)
    assert (tmp_path / "c" / "checkpoints" / "step-00000003.sharded").is_dir()
    for name in MEASURED:
        expected = measurement(tmp_path, f"{name} of 1", 0)
        assert "loss" in expected
        for rank in (0, 1):
            assert measurement(tmp_path, f"{name} of 2", rank) == pytest.approx(expected, rel=1e-9)


def test_a_damaged_part_of_a_sharded_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "step-00000001.sharded"
    weights = {"model/w": torch.arange(6.0)}
    complete: list[bool] = []
    writer = sharded_checkpoint.CheckpointWriter(timeout=60)
    writer.begin(path, weights, {"format": "1"}, lambda: complete.append(path.is_dir()))
    writer.close()
    assert complete == [True]
    assert sharded_checkpoint.facts_of(path) == {"format": "1"}
    assert torch.equal(sharded_checkpoint.load(path, sharded_checkpoint.plain)["model/w"], weights["model/w"])
    (part,) = path.glob("shard-*")
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    with pytest.raises(CorruptFile, match=rf"step-00000001\.sharded is damaged: {part.name} is missing or changed"):
        sharded_checkpoint.facts_of(path)


def test_the_parts_of_a_batch_add_up_to_its_loss() -> None:
    """Σ share_P · mean_P with uneven counts, for two terms; a piece that counts nothing has a share of 0."""
    count_BK = np.array([[1.0, 2.0], [0.0, 2.0], [4.0, 2.0], [0.0, 2.0]])
    loss_BK = torch.tensor([[1.0, 5.0], [9.0, 6.0], [2.0, 7.0], [9.0, 8.0]])
    batch = DeviceBatch({"loss": loss_BK}, True, 0, count_BK, count_BK.sum(0))
    weight_BK = torch.from_numpy(count_BK).float()
    total = torch.zeros(())
    for piece in batch.pieces(2):
        own = weight_BK[piece.rows]
        total += piece.part((own * batch.slice_rows(piece.rows)["loss"]).sum(0) / own.sum(0))
    assert torch.allclose(total, (weight_BK * loss_BK).sum(0).div(weight_BK.sum(0)).sum())


def test_several_processes_are_refused_where_only_one_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r'training\.parallel is "none", but 2 processes were started\.'):
        train_recipe(tiny(parallel="none"), tmp_path / "run")


def test_processes_that_do_not_find_each_other_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(message: str) -> None:
        def initialise(*_: Any, **__: Any) -> None:
            raise RuntimeError(message)

        monkeypatch.setattr(distributed.rendezvous, "join", initialise)
        distributed._initialise(TrainingConfig(device="cpu", timeout=7))

    monkeypatch.setenv("RANK", "1")
    with pytest.raises(RunError, match=r"rank 1: .* did not connect to each other \(training\.timeout is 7 seconds"):
        fails("Gloo connectFullMesh failed with Connect timeout")
    with pytest.raises(RuntimeError, match="something else"):
        fails("something else")
