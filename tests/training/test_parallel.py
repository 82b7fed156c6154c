"""Several processes train like one: the same losses for every task, the same checkpoints, one log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captioned import caption_table
from chat_lines import chat_table, write_chats
from in_context_tables import linear_table, swap_table
from questions import answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews
from tags import tagger_table
from tags import write as write_tags
from tiny_runs import TEXT
from translations import pair_table, write_pairs

from firth.config import Table
from firth.tasks import TASKS

HERE = Path(__file__).parent
COMMON = {"steps": 4, "batch": 5, "device": "cpu", "log_every": 1, "rate": 0.01, "evaluate_every": 3, "checkpoint_every": 2}
BLOCK: Table = {"kind": "transformer", "width": 16, "depth": 2, "heads": 2}


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
    found: dict[str, Table] = {
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
    for table in found.values():
        common = {key: value for key, value in COMMON.items() if key != "batch" or "batch_tokens" not in table["training"]}
        table["training"] = {**table["training"], **common}
        table["model"] = {key: value for key, value in table["model"].items() if not key.startswith("dropout")}
    return found


def in_processes(folder: Path, groups: list[Table]) -> None:
    (folder / "jobs.json").write_text(json.dumps(groups), encoding="utf-8")
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "FIRTH_CACHE": str(folder / "cache")}
    command = [sys.executable, str(HERE / "process_group.py"), str(folder / "jobs.json"), str(folder)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]


def losses_of(folder: Path, name: str) -> list[float]:
    found: list[float] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["losses"]
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every task, by one, two and four processes."""
    folder = tmp_path_factory.mktemp("parallel")
    given = tables(folder)
    groups = [
        {"world": world, "jobs": [{"name": f"{name} {world}", "table": table} for name, table in given.items()]}
        for world in (1, 2, 4)
    ]
    in_processes(folder, groups)
    return folder


def test_every_task_that_can_be_trained_is_here(tmp_path: Path) -> None:
    assert {table["objective"]["kind"] for table in tables(tmp_path).values()} == {task.name for task in TASKS} - {"embedding"}


@pytest.mark.parametrize("world", [2, 4])
def test_the_losses_do_not_depend_on_the_number_of_processes(trained: Path, world: int) -> None:
    for name in tables(trained):
        expected = losses_of(trained, f"{name} 1")
        assert len(expected) == COMMON["steps"]
        np.testing.assert_allclose(losses_of(trained, f"{name} {world}"), expected, rtol=0, atol=1e-9, err_msg=name)
