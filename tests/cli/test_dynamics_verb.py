from __future__ import annotations

import json
from pathlib import Path

from shell import Firth

from firth.api import load
from firth.inspection.dynamics import evolve, preset
from firth.inspection.dynamics_matrices import parsed


def test_curves_of_a_system_and_of_a_run_beside_each_other(firth: Firth, transformer_run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = firth(
        "dynamics", "--preset", "lecture", "--depth", 5, "--run", transformer_run, "--text", "the list", "--save", page, "--json"
    )
    told = json.loads(answer.out)
    assert list(told) == ["lecture", transformer_run.name]
    assert len(told["lecture"]["effective_rank"]) == 6
    assert len(told[transformer_run.name]["clusters"]) == 1 + load(transformer_run).recipe.model.depth  # the embedding, too
    text = page.read_text(encoding="utf-8")
    assert "Attention dynamics" in text
    assert '"label":"5"' in text  # the last stop of the slider


def test_the_terminal_shows_twelve_layers_in_a_table(firth: Firth) -> None:
    lines = firth("dynamics", "--preset", "clusters", "--depth", 30).out.splitlines()
    assert lines[0] == "clusters: 30 layers of v ← v + P Σ α v"
    assert firth("dynamics", "--rescale", 0.905, "--depth", 3).out.startswith("clusters: 3 layers of v ← 0.905 · (v + P Σ α v)\n")
    assert [line.split()[0] for line in lines[2:-1]] == ["0", "3", "5", "8", "11", "14", "16", "19", "22", "25", "27", "30"]


def test_the_caption_is_that_of_the_run(firth: Firth) -> None:
    for name in ("lecture", "low-rank"):
        told = json.loads(firth("dynamics", "--preset", name, "-d", 64, "--json").out)[name]
        first, last = told["effective_rank"][0], told["effective_rank"][-1]
        assert f"tokens {'rises' if last > first else 'falls'} from {first:.4g} to {last:.4g}" in told["summary"]
        assert (last > first) == (name == "lecture")


def test_matrices_are_those_of_python_for_every_preset(firth: Firth) -> None:
    chosen = ("--p-matrix", "low-rank:1", "--q-matrix", "spectrum:2,1", "--pull", 0.05, "--q-factor", 0.5, "-n", 6, "-d", 3)
    told = json.loads(firth("dynamics", "--preset", "lecture,clusters", *chosen, "--depth", 4, "--seed", 2, "--json").out)
    assert list(told) == ["lecture", "clusters"]
    system = preset("lecture", n=6, d=3, p=0.05, q=0.5, P=parsed("low-rank:1"), Q=parsed("spectrum:2,1"), seed=2)
    assert told["lecture"]["attention_rank"] == list(evolve(system, 4).curves.attention_rank)
    refused = firth("dynamics", "--p-matrix", "diagonal")
    assert refused.code == 2
    assert 'unknown matrix "diagonal"; expected identity' in refused.err


def test_a_run_needs_a_text(firth: Firth, transformer_run: Path) -> None:
    answer = firth("dynamics", "--run", transformer_run)
    assert (answer.code, answer.out) == (2, "")
    assert "--run and --text must be used together; --text is missing" in answer.err
