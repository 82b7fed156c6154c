"""The files of docs/launch: their shells parse them, their YAML is valid, and firth understands the commands in them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from firth.api import compose
from firth.cli.settings import settings

LAUNCH = Path(__file__).resolve().parent.parent / "docs" / "launch"
FILES = sorted(path.name for path in LAUNCH.iterdir())


def firth_arguments(text: str) -> list[str]:
    """The arguments after `-m firth train RECIPE`, with shell variables unexpanded."""
    command = text[text.index("-m firth train") :].replace("\\\n", " ").splitlines()[0]
    return shlex.split(command.rstrip("& "))[3:]


def arguments_of(name: str) -> list[str]:
    text = (LAUNCH / name).read_text(encoding="utf-8")
    if not name.endswith(".yaml"):
        return firth_arguments(text)
    job = pytest.importorskip("yaml").safe_load(text)
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["name"] == "pytorch", "the operator looks for a container of that name"
    return firth_arguments(shlex.join(container["command"]))


@pytest.mark.parametrize("name", FILES)
def test_firth_understands_the_command(name: str) -> None:
    recipe, *rest = arguments_of(name)
    assert recipe
    out = [argument for argument in rest if argument.startswith("--out")]
    assert len(out) == 1
    assert "--resume" in rest, "what is restarted continues"
    given = settings([argument for argument in rest if argument.startswith("--") and "." in argument.partition("=")[0]])
    table = {"data": {"text": "abc"}, "model": {"kind": "gru"}}
    assert compose(table, given).training.checkpoint_every == 1000


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".yaml")])
def test_the_shell_parses_it(name: str) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("needs bash")
    done = subprocess.run([shell, "-n", str(LAUNCH / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_slurm_sends_the_signal_that_firth_saves_at() -> None:
    text = (LAUNCH / "train.sbatch").read_text(encoding="utf-8")
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", text, re.MULTILINE))
    assert options["signal"].startswith("B:TERM@")
    assert "requeue" in options
    assert "scontrol requeue" in text


def test_every_file_is_on_the_page() -> None:
    page = (LAUNCH.parent / "cluster.md").read_text(encoding="utf-8")
    assert all(f"launch/{name}" in page for name in FILES)
