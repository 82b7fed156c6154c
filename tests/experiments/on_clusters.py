"""A study in processes of the command line, for tests of clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from test_studies import TABLE, written

STEPS = {"steps": 400, "log_every": 20, "checkpoint_every": 20}
CELL = """
from firth.layers.recurrent import GRU

class NewCell(GRU):
    kind = "new_cell"
"""


def own_study(folder: Path) -> Path:
    """A study in the folder, with a recipe and a cell of one's own."""
    (folder / "cell.py").write_text(CELL)
    arms = TABLE["arm"] | {"gru": {"recipe": "own.toml", "settings": {"model": {"kind": "new_cell"}}}}
    return written(folder, TABLE | {"arm": arms, "settings": {"training": STEPS}})


def command(verb: str, file: Path, out: Path, *more: object) -> subprocess.Popen[str]:
    """From another folder than the one where the cluster was started."""
    line = [sys.executable, "-m", "firth", verb, file.name, "--out", str(out), "--use", "cell.py", *map(str, more)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        line, cwd=file.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )


def facts(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


def wait_for_checkpoints(process: subprocess.Popen[str], out: Path, runs: int) -> None:
    while len({path.parent for path in out.glob("runs/*/checkpoints/step*.safetensors")}) < runs:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def times_begun(out: Path) -> list[int]:
    """How often the training of each run has begun."""
    return [sum('"cpu"' in line for line in file.read_text().splitlines()) for file in out.glob("runs/*/history.jsonl")]


def saved_steps(out: Path) -> list[int]:
    """The steps of all checkpoints."""
    return [int(path.stem.removeprefix("step-")) for path in out.glob("runs/*/checkpoints/step*.safetensors")]
