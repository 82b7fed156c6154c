"""firth compare: what it prints is what the functions of inspection and experiments find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import TEXT
from shell import Firth

from firth.experiments.compare import Learning
from firth.inspection.gradient_flow import compare_flow
from firth.training import log


def test_flow_is_that_of_the_four_models(firth: Firth, tmp_path: Path) -> None:
    given = ("compare", "flow", "--length", 20, "--size", 2000)
    told = json.loads(firth(*given, "--json").out)
    expected = compare_flow(length=20, size=2000)
    assert list(told) == list(expected)
    for name, one in expected.items():
        assert told[name]["state"] == one.state.tolist()
    page = tmp_path / "flow.html"
    lines = firth(*given, "--clip", 0.001, "--save", page).out.splitlines()
    assert lines[0].split() == ["distance", *expected]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2", "5", "10", "‖∂θ‖"]
    assert lines[-1].split()[1:] == ["1.00e-03"] * len(expected), "clipped"
    assert lines[1].split()[1:] == ["1.00e+00"] * len(expected)
    assert "Gradient against distance" in page.read_text(encoding="utf-8")


def test_cost_prints_an_exponent_for_each_layer(firth: Firth) -> None:
    given = ("compare", "cost", "--longest", 128, "--widest", 64, "--rounds", 1)
    told = json.loads(firth(*given, "--json").out)
    assert list(told["lstm"]["n_seconds"]) == ["64", "128"]
    assert list(told["lstm"]["d_seconds"]) == ["32", "64", "128"]  # the last one is also along n
    assert told["lstm"]["n"] is None, "two sizes show no exponent"
    head, *lines = firth(*given).out.splitlines()
    assert head.split() == ["layer", "n", "measured", "counted", "sizes", "d", "measured", "counted", "sizes", "steps"]
    assert lines[0].split() == ["rnn", "–", "…128", "–", "…128", "128"]
    assert lines[-1].startswith("–: not measurable up to this size")


@pytest.mark.long
def test_learning_trains_each_kind_and_draws_its_log(firth: Firth, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    given = ("--steps", 10, "--kinds", "rnn, mingru", "--data", tmp_path / "text.txt", "--save", tmp_path / "page.html")
    told = json.loads(firth("compare", "learning", "--out", tmp_path / "runs", *given, "--json").out)
    assert told == {kind: log.read(tmp_path / "runs" / kind / "log.jsonl") for kind in ("rnn", "mingru")}
    assert [line["step"] for line in told["rnn"] if "valid" in line] == list(range(1, 11))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"Loss against {axis}" in page for axis in ("tokens", "step", "seconds"))


def test_a_model_that_is_not_compared_is_refused(firth: Firth, tmp_path: Path) -> None:
    answer = firth("compare", "learning", "--out", tmp_path / "runs", "--kinds", "rnn,cnn")
    assert (answer.code, 'there is no model "cnn" to compare; choose from rnn, lstm' in answer.err) == (2, True)


def test_what_is_told_is_the_first_time_that_all_have_learned_as_much() -> None:
    def lines(*losses: float) -> list[dict[str, object]]:
        return [
            {"step": n, "tokens": 100 * n, "seconds": n / 2, "tokens_per_second": 200, "valid": {"loss": loss}}
            for n, loss in enumerate(losses, start=1)
        ]

    learning = Learning({"slow": lines(4.0, 3.0, 2.0), "fast": lines(3.0, 1.9, 1.5)})
    told = learning.text().splitlines()
    assert told[1].split() == ["slow", "2.000", "3", "300", "1.5", "200"]
    assert told[2].split() == ["fast", "1.500", "2", "200", "1.0", "200"]
    assert told[-1].endswith("until it is 2.000")


def test_the_first_measurement_says_only_that_it_took_no_longer_and_a_model_that_learned_nothing_has_no_number() -> None:
    def lines(*losses: float) -> list[dict[str, object]]:
        return [
            {"step": 10 * n, "tokens": 100 * n, "seconds": n / 2, "tokens_per_second": 200, "valid": {"loss": loss}}
            for n, loss in enumerate(losses, start=1)
        ]

    told = Learning({"idle": lines(3.0, 3.1, 3.2), "quick": lines(2.0, 1.9, 1.5)}).text().splitlines()
    assert told[1].split() == ["idle", "3.200", "–", "–", "–", "200"]
    assert told[2].split() == ["quick", "1.500", "≤10", "≤100", "≤0.5", "200"]
    assert told[4] == "≤: reached at or before the first measurement"
    assert told[5] == "–: the loss of idle never fell below the first measurement. Raise --steps."
