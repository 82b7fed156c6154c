"""Ideas from a file of one's own: trained, resumed, decoded with a cache, remembered, and refused where they do not fit."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_jobs import VOCAB, alone, asked, by_turns, job, prompts
from safetensors.torch import load_file
from shares import half
from tiny_runs import assert_stopping_changes_nothing

import firth
from firth import ideas
from firth.api import compose, train_recipe
from firth.cli.app import without_use
from firth.config import Table, merged
from firth.decoding.config import FILTERS, DecodingConfig
from firth.decoding.engine.engine import Engine
from firth.errors import ConfigError
from firth.layers.activation import ACTIVATIONS
from firth.layers.attention.score import SCORES
from firth.layers.norm import NORMS
from firth.layers.position import SCHEMES
from firth.layers.recurrent import CELLS
from firth.layers.token_mixer import MIXERS
from firth.models import language_model
from firth.models.initialise import initialise
from firth.training.optim import OPTIMIZERS
from firth.training.schedule import SCHEDULES, rate_at

FILES = Path(__file__).parent / "ideas"
TEXT = "the list is empty. a name is in the set. the list has a name.\n" * 40
TRANSFORMER = {"kind": "transformer", "width": 16, "depth": 2, "attention": {"heads": 2}}
RETENTION = {"heads": 2, "kind": "retention"}
# file → collection, kind, and the settings that choose it
OWN: dict[str, tuple[ideas.Ideas[Any], str, Table]] = {
    "score": (SCORES, "manhattan", {"model": {**TRANSFORMER, "attention": {"heads": 2, "score": "manhattan"}}}),
    "position": (SCHEMES, "kerple", {"model": {**TRANSFORMER, "position": {"kind": "kerple"}}}),
    "mixer": (
        MIXERS,
        "retention",
        {"model": {**TRANSFORMER, "attention": {"heads": 2, "kind": "retention"}, "position": {"kind": "none"}}},
    ),
    "norm": (NORMS, "dyt", {"model": {**TRANSFORMER, "norm": {"kind": "dyt"}}}),
    "activation": (ACTIVATIONS, "relu2", {"model": {**TRANSFORMER, "feedforward": {"activation": "relu2"}}}),
    "cell": (CELLS, "mgu", {"model": {"kind": "mgu", "width": 16}}),
    "lion": (OPTIMIZERS, "lion", {"model": {"kind": "gru", "width": 16}, "training": {"optimizer": "lion", "rate": 1e-3}}),
    "schedule": (SCHEDULES, "restarts", {"model": {"kind": "gru", "width": 16}, "training": {"schedule": "restarts"}}),
    "sampling": (FILTERS, "top_a", {"model": {"kind": "gru", "width": 16}, "decoding": {"top_a": 0.5}}),
}
CELL = "from firth.layers.recurrent import Cell\nclass Mine(Cell):\n    gates = ('candidate',)\n"
OF_MODELS = ("score", "position", "mixer", "norm", "activation", "cell")


def table(settings: Table, **training: Any) -> Table:
    usual = {
        "data": {"text": TEXT},
        "tokenizer": {"kind": "char", "start": False},
        "training": {"steps": 6, "batch": 4, "context": 16, "device": "cpu", **training},
        "decoding": {"tokens": 12},
    }
    return merged(usual, settings)


@pytest.mark.parametrize("name", half(OWN))
def test_an_idea_is_trained_resumed_to_the_bit_decoded_with_a_state_and_remembered(name: str, tmp_path: Path, use: Any) -> None:
    collection, kind, settings = OWN[name]
    assert kind not in collection
    if name in ("score", "position", "norm"):  # of the others, firth ships one with a similar name
        with pytest.raises(ConfigError, match=rf"'{kind}'; expected .* One of your own needs its file: give that to firth\.use"):
            compose(table(settings))
    use(FILES / f"{name}.py")
    assert kind in collection
    whole = tmp_path / "whole"
    assert_stopping_changes_nothing(compose(table(settings)), tmp_path, at=4)
    assert (whole / "recipe.toml").read_text(encoding="utf-8").count(f'"{name}.py sha256:') == 1

    run = firth.load(whole, "cpu")
    model = run.network.double()
    token_1T = torch.randint(model.vocab, (1, 12), generator=torch.Generator().manual_seed(0))
    state, steps = model.start(1), []
    for t in range(12):
        logits_11V, state = model.step(token_1T[:, t : t + 1], state)
        steps.append(logits_11V)
    torch.testing.assert_close(torch.cat(steps, dim=1), model(token_1T)[0])


@pytest.mark.parametrize("name", OF_MODELS)
def test_the_engine_writes_what_the_model_writes_alone(name: str, use: Any) -> None:
    use(FILES / f"{name}.py")
    model = language_model(compose(table(OWN[name][2])).resolved().model, VOCAB).double().eval()
    initialise(model, torch.Generator().manual_seed(0))
    jobs = [job(prompt, 10) for prompt in prompts(5, 9)]
    expected = [alone(model, one) for one in jobs]
    engine = Engine(model, slots=3, chunk=4)
    heard = [asked(engine, one) for one in jobs]
    by_turns(engine, *heard)
    assert [one.ids() for one in heard] == expected


@pytest.mark.parametrize("name", OF_MODELS)
def test_formats_that_cannot_carry_an_idea_refuse_it_by_name(name: str, tmp_path: Path, use: Any) -> None:
    _, kind, settings = OWN[name]
    use(FILES / f"{name}.py")
    train_recipe(compose(table(settings, steps=1)), tmp_path / "run")
    for format in ("gguf", "ctranslate2", "hf"):
        with pytest.raises(ConfigError, match=rf'"{kind}" comes from {name}\.py, and the format {format} has no place for it'):
            firth.export_model(tmp_path / "run", tmp_path / "out", format=format)
    assert not (tmp_path / "out").exists()
    written = firth.export_model(tmp_path / "run", tmp_path / "out", format="safetensors")
    weights = load_file(written / "model.safetensors")
    expected = firth.load(tmp_path / "run", "cpu").network.state_dict()
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)


@pytest.mark.long  # torch.export takes eight seconds
@pytest.mark.parametrize("name", OF_MODELS)
def test_onnx_carries_what_can_be_traced(name: str, tmp_path: Path, use: Any) -> None:
    use(FILES / f"{name}.py")
    train_recipe(compose(table(OWN[name][2], steps=1)), tmp_path / "run")
    if name in ("mixer", "cell"):
        with pytest.raises(ConfigError, match=r"Export (it|the run) as safetensors"):
            firth.export_model(tmp_path / "run", tmp_path / "out", format="onnx")
        return
    onnxruntime = pytest.importorskip("onnxruntime")
    folder = firth.export_model(tmp_path / "run", tmp_path / "out", format="onnx")
    network = firth.load(tmp_path / "run", "cpu").network
    token_2T = torch.randint(network.vocab, (2, 7), generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    (logits_2TV,) = session.run(None, {"input_ids": token_2T.numpy()})
    expected, _ = network.step(token_2T, network.start(2))
    torch.testing.assert_close(torch.from_numpy(logits_2TV), expected, rtol=1e-4, atol=1e-5)


def test_a_run_says_which_file_it_wants_and_whether_that_has_changed(tmp_path: Path, use: Any) -> None:
    own = tmp_path / "mine.py"
    own.write_bytes((FILES / "score.py").read_bytes())
    use(own)
    train_recipe(compose(table(OWN["score"][2], steps=1)), tmp_path / "run")
    (origin,) = ideas.in_use()
    SCORES.leave(origin)
    ideas._used.clear()
    del os.environ[ideas.VARIABLE]
    shutil.copy(own, tmp_path / "run" / "mine.py")  # beside the weights, and still not run
    with pytest.raises(ConfigError, match=r"needs the ideas of mine\.py\. Give the path of that file to firth\.use"):
        firth.load(tmp_path / "run", "cpu")
    own.write_text(own.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    use(own)
    with pytest.warns(
        UserWarning, match=r"mine\.py is not the version that this was made with: [0-9a-f]{12} then, [0-9a-f]{12} now"
    ):
        firth.load(tmp_path / "run", "cpu")


def test_a_recipe_runs_no_code(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("raise SystemExit('run')", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"needs the ideas of mine\.py"):
        compose({**table(OWN["cell"][2]), "ideas": ["mine.py"]})
    with pytest.raises(ConfigError, match=r"package firth-lion 0\.1, which is not installed"):
        compose({**table(OWN["cell"][2]), "ideas": ["firth-lion 0.1"]})


def test_a_file_that_is_used_again_replaces_its_ideas(tmp_path: Path, use: Any) -> None:
    own = tmp_path / "mine.py"
    own.write_bytes((FILES / "schedule.py").read_bytes())
    use(own)
    use(own)
    config = compose(table({"model": {"kind": "gru"}, "training": {"schedule": "restarts", "rate": 0.5}})).training
    assert rate_at(config, 0) == 0.5
    own.write_text(own.read_text(encoding="utf-8").replace("config.rate * (1", "2 * config.rate * (1"), encoding="utf-8")
    use(own)
    assert rate_at(config, 0) == 1.0
    own.write_text("def broken(:\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.py could not be run: SyntaxError"):
        use(own)
    assert "restarts" not in SCHEDULES


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "",
            r"mine\.py defines no idea\. Derive a class from the base of its sort, such as firth\.layers\.recurrent\.Cell, and",
        ),
        (f"{CELL}    kind = 'mine'\n", r"mine\.py: Mine does not define step$"),
        (f"{CELL}    kind = 3\n    step = None\n", r"mine\.py: the kind of Mine is 3; expected a string"),
        ("import json\n\n1 / 0", r"could not be run: ZeroDivisionError: division by zero \(line 3\)"),
        (
            "from firth.layers.attention.score import DotLayer\nclass Mine(DotLayer):\n    kind = 'cosine'",
            r'mine\.py defines the attention score "cosine", which firth already has\. Choose another name\.',
        ),
    ],
)
def test_a_file_without_a_new_idea_is_refused(source: str, message: str, tmp_path: Path, use: Any) -> None:
    own = tmp_path / "mine.py"
    own.write_text(source, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        use(own)
    assert not ideas.in_use()
    with pytest.raises(ConfigError, match=r"cannot read .*no\.py: No such file"):
        use(tmp_path / "no.py")


def test_a_file_of_which_one_idea_is_refused_adds_none(tmp_path: Path, use: Any) -> None:
    own = tmp_path / "mine.py"
    taken = "class Taken(MGU):\n    kind = 'gru'\n"
    own.write_text((FILES / "cell.py").read_text(encoding="utf-8") + taken, encoding="utf-8")
    with pytest.raises(ConfigError, match='defines the recurrent cell "gru", which firth already has'):
        use(own)
    assert "mgu" not in CELLS


def test_a_filter_leaves_as_it_came(use: Any) -> None:
    before = DecodingConfig.__bases__
    use(FILES / "sampling.py")
    assert DecodingConfig(top_a=0.5).acting[-1].kind == "top_a"
    with pytest.raises(ConfigError, match=r"decoding\.top_a is 2\.0; expected 0 ≤ top_a ≤ 1"):
        DecodingConfig(top_a=2.0)
    (origin,) = ideas.in_use()
    FILTERS.leave(origin)
    assert DecodingConfig.__bases__ == before
    with pytest.raises(TypeError, match="top_a"):
        DecodingConfig(top_a=0.5)  # type: ignore[call-arg]
    assert DecodingConfig(top_k=3) == DecodingConfig(top_k=3)
    assert hash(DecodingConfig()) == hash(DecodingConfig())


@pytest.mark.long  # a new process imports torch
def test_an_idea_reaches_a_process_that_firth_starts(use: Any) -> None:
    use(FILES / "position.py")
    config = compose(table(OWN["position"][2])).model
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(type_of_position, config).result() == "Kerple.Config"


def type_of_position(config: Any) -> str:
    return type(config.position).__qualname__


def test_help_lists_the_options_of_an_own_filter() -> None:
    listed = run_(sys.executable, "-m", "firth", "generate", "--help", f"--use={FILES / 'sampling.py'}")
    assert "--top-a" in listed.stdout, listed.stderr


def test_what_follows_two_dashes_is_no_option() -> None:
    assert without_use(["generate", "run", "--", "--use"]) == ["generate", "run", "--", "--use"]


@pytest.mark.long
def test_the_command_line_knows_what_use_names(tmp_path: Path) -> None:
    """In a new process: the options of the verbs follow from the ideas."""
    files = [f"--use={FILES / name}.py" for name in ("sampling", "cell")]
    firth_ = [sys.executable, "-m", "firth"]
    settings = [
        "--data.text=the list is empty. the set has a name.",
        "--training.steps=2",
        "--model.kind=mgu",
        "--training.context=8",
    ]
    out = ["--out", str(tmp_path / "run")]
    trained = run_(*firth_, "train", "hello", *settings, *out, *files)
    assert trained.returncode == 0, trained.stderr
    assert "--use=" in (tmp_path / "run" / "history.jsonl").read_text(encoding="utf-8")  # so that the command can be repeated
    written = run_(*firth_, "generate", str(tmp_path / "run"), "the", "--tokens", "3", "--top-a", "0.5", "--json", *files)
    assert written.returncode == 0, written.stderr
    refused = run_(*firth_, "generate", str(tmp_path / "run"), "the")
    assert (refused.returncode, refused.stderr) == (
        2,
        "firth: this needs the ideas of cell.py. Give the path of that file to --use.\n",
    )
    assert run_(*firth_, "recipes", "--use").stderr == "firth: --use needs a file. Write --use FILE.\n"


@pytest.mark.long
def test_an_installed_package_offers_its_ideas(tmp_path: Path) -> None:
    """In a new process: a package with an entry point, installed without the network."""
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    shutil.copy(FILES / "cell.py", package / "firth_mgu.py")
    (package / "pyproject.toml").write_text(
        '[project]\nname = "firth-mgu"\nversion = "0.1"\n[tool.setuptools]\npy-modules = ["firth_mgu"]\n'
        '[project.entry-points."firth.ideas"]\nmgu = "firth_mgu"\n',
        encoding="utf-8",
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    installed = run_(*pip, "--disable-pip-version-check", "--target", str(site), str(package))
    assert installed.returncode == 0, installed.stderr
    program = """
import sys, firth
settings = {"model": {"kind": "mgu"}, "data": {"text": "the list is empty."}, "training": {"steps": 1, "context": 8}}
run = firth.train("hello", out=sys.argv[1], **settings)
print(run.recipe.ideas, run.generate("the", tokens=3, seed=0) != "")
"""
    there = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])}
    trained = run_(sys.executable, "-c", program, str(tmp_path / "run"), env=there)
    assert (trained.returncode, trained.stdout) == (0, "('firth-mgu 0.1',) True\n"), trained.stderr
    missing = run_(sys.executable, "-m", "firth", "generate", str(tmp_path / "run"), "the")
    assert missing.stderr == "firth: this needs the ideas of the package firth-mgu 0.1, which is not installed. Install it.\n"


def run_(*command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)
