"""Studies: planned, run, resumed and reported."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from runs import recipe_table
from shares import half
from shell import Firth

import firth
from firth.api.recipe import Recipe
from firth.errors import ConfigError, RunError
from firth.experiments.records.cost_to_loss import NOT_REACHED
from firth.experiments.studies import network_learner, trial
from firth.experiments.studies.network_learner import NetworkLearner
from firth.experiments.studies.plan import StudyJob, StudyPlan, plan
from firth.experiments.studies.recorded import RecordedStudy
from firth.experiments.studies.report import StudyReport
from firth.experiments.studies.reproduce import reproduce
from firth.experiments.studies.study import Study, find_study, shipped_studies
from firth.experiments.studies.tables import MeasuredCell
from firth.models.counting import count
from firth.models.uninitialised import Uninitialised
from firth.progress import silent
from firth.training import log

TABLE: dict[str, Any] = {
    "summary": "A GRU learns faster than an RNN",
    "source": "nobody 2026",
    "seeds": 2,
    "settings": {"training": {"steps": 12, "log_every": 4}},
    "arm": {
        "rnn": {"recipe": "own.toml", "settings": {"model": {"kind": "rnn"}}, "published": {"loss": 1.5}},
        "gru": {"recipe": "own.toml", "about": "with gates"},
    },
    "budget": {"equal": "parameters", "to": "gru"},
    "measure": {
        "loss": {"metric": "loss"},
        "parameters": {"metric": "parameters", "digits": 0},
        "steps": {"metric": "steps", "digits": 0},
    },
    "scale": {"small": {"about": "seconds"}, "one": {"seeds": 1, "arms": ["gru"], "settings": {"training": {"steps": 8}}}},
    "claim": [
        {"says": "The losses are close.", "check": "abs(loss(rnn) - loss(gru)) <= 5", "published": "figure 1"},
        {"says": "The GRU is perfect.", "check": "loss(gru) <= 0.001"},
    ],
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A study of one's own, with a recipe of one's own beside it."""
    return written(tmp_path, TABLE)


def written(folder: Path, table: dict[str, Any]) -> Path:
    (folder / "own.toml").write_text(tomli_w.dumps(recipe_table()))
    (folder / "faster.toml").write_text(tomli_w.dumps(table))
    return folder / "faster.toml"


def planned(file: Path, out: Path, scale: str = "small") -> tuple[Study, StudyPlan]:
    _, path, study = find_study(file)
    return study, plan(study, scale, out, path.parent, None, silent)


def recipe_of(job: StudyJob) -> Recipe:
    assert isinstance(job.learner, NetworkLearner)
    return job.learner.recipe


def report(file: Path, out: Path, scale: str = "small") -> StudyReport:
    """As `reproduce`, in this process."""
    study, runs = planned(file, out, scale)
    return StudyReport(file.stem, study, scale, runs, {job.folder: trial.run_job(job) for job in runs.jobs})


def test_every_arm_has_the_parameters_of_one(own: Path, tmp_path: Path) -> None:
    _, runs = planned(own, tmp_path / "out")
    assert [job.name for job in runs.jobs] == ["rnn, seed 0", "rnn, seed 1", "gru, seed 0", "gru, seed 1"]
    assert [recipe_of(job).training.seed for job in runs.jobs] == [0, 1, 0, 1]
    sizes = {}
    for job in runs.jobs:
        recipe = recipe_of(job).resolved()
        data = recipe.task.read(recipe.tokenizer, silent)
        sizes[job.arm] = count(recipe.task.network(data.tokenizer.vocab, data.tokenizer.vocab)).parameters
    assert sizes["rnn"] == pytest.approx(sizes["gru"], rel=0.02)
    assert runs.settings["rnn"].setting == "model.width"
    assert runs.settings["rnn"].value > 32


def test_the_plan_is_kept_and_a_damaged_one_is_refused(own: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = planned(own, out)[1]
    place = out / "plan.json"
    kept = json.loads(place.read_text())
    kept["arms"]["rnn"]["value"] = 40
    place.write_text(json.dumps(kept))
    assert planned(own, out)[1].settings["rnn"].value == 40  # read, not solved again
    place.write_text(json.dumps({**kept, "key": "of another study"}))
    assert planned(own, out)[1].settings == first.settings
    place.write_text("{")
    with pytest.raises(RunError, match=r"plan\.json is damaged"):
        planned(own, out)


@pytest.mark.parametrize(("equal", "steps"), [("tokens", 12), ("steps", 12), ("flops", None)])
def test_steps_follow_from_other_budgets(tmp_path: Path, equal: str, steps: int | None) -> None:
    file = written(tmp_path, TABLE | {"budget": {"equal": equal, "to": "gru"}})
    _, runs = planned(file, tmp_path / "out")
    recipes = {job.arm: recipe_of(job) for job in runs.jobs}
    assert recipes["gru"].training.steps == 12
    if steps is not None:
        assert recipes["rnn"].training.steps == steps
    else:  # its steps are cheaper
        assert recipes["rnn"].training.steps > 12


def test_a_report_has_what_single_runs_give(own: Path, tmp_path: Path) -> None:
    result = report(own, tmp_path / "out")
    expected = []
    for seed in (0, 1):
        training = {"steps": 12, "log_every": 4, "seed": seed}
        run = firth.train(recipe_table(), tmp_path / f"alone{seed}", training=training, progress=False)
        expected.append(run.evaluate(progress=False)["loss"])
    assert result.values("gru", "loss") == expected
    assert result.cell("gru", "loss").deviation == pytest.approx(torch.tensor(expected).double().std().item())
    assert result.values("gru", "steps") == [12, 12]
    assert [one.held for one in result.verdicts()] == [True, False]
    assert not result.all_held
    told = result.text()
    for part in ("NOT HELD", "held, margin", "(published 1.5)", "nobody 2026", "gru: with gates"):
        assert part in told
    kept = json.loads(json.dumps(result.facts()))
    assert kept["claims"][1]["held"] is False
    recorded = RecordedStudy("faster", result.study, kept)
    assert recorded.table() == result.table()
    assert recorded.verdicts() == result.verdicts()
    assert f"torch {torch.__version__}" in recorded.made
    beside = dataclasses.replace(result, recorded=recorded).text()
    assert beside.count("at full scale: NOT HELD") == 1
    assert recorded.made in beside
    assert "at full scale" not in dataclasses.replace(result, recorded=recorded, scale="full").text()
    rows = list(csv.DictReader(io.StringIO(result.csv())))
    assert [float(row["value"]) for row in rows if (row["arm"], row["measure"]) == ("gru", "loss")] == expected
    assert r"\toprule" in result.latex()
    assert r"\pm" in result.latex()
    result.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "The GRU is perfect." in page
    assert "NOT HELD" in page


def test_a_finished_run_is_read_and_another_study_is_refused(
    own: Path, tmp_path: Path, firth: Firth, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    first = report(own, out, "one").values("gru", "loss")
    monkeypatch.setattr(network_learner, "train_into", None)  # whoever trains now fails
    answer = firth("reproduce", own, "--scale", "one", "--out", out, "--json")
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    assert facts["arms"]["gru"]["loss"]["values"] == first
    assert facts["claims"][0]["held"] is None  # the other arm is not in this scale
    assert (out / "faster.html").is_file()
    other = TABLE | {"settings": {"training": {"steps": 12, "log_every": 4, "rate": 0.02}}}
    answer = firth("reproduce", written(tmp_path, other), "--scale", "one", "--out", out)
    assert (answer.code, answer.out) == (2, "")
    assert "holds a finished run with training.rate = 0.01 instead of 0.02. Choose another --out" in answer.err
    other = TABLE | {"measure": {"loss": {"metric": "perplexity"}}}
    answer = firth("reproduce", written(tmp_path, other), "--scale", "one", "--out", out)
    assert "with other measures. Choose another --out" in answer.err


def test_results_of_an_older_firth_which_lacked_a_setting_still_count(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    first = report(own, out, "one").facts()
    for recipe in out.glob("runs/*/recipe.toml"):
        lines = recipe.read_text().splitlines(keepends=True)
        recipe.write_text("".join(line for line in lines if not line.startswith(("dropout_word =", "schedule ="))))
    monkeypatch.setattr(network_learner, "train_into", None)  # whoever trains now fails
    assert reproduce(own, scale="one", out=out, progress=False).facts() == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": [{"says": "x", "check": "loss(lstm) < 1"}]}, "names the arm lstm"),
        ({"arm": {}}, "at least one table [arm.NAME]"),
        ({"budget": {"equal": "parameters", "to": "gruu"}}, 'no arm "gruu". Did you mean "gru"'),
        ({"seeds": 0}, "seeds is 0"),
        ({"measure": {"loss": {"metrik": "loss"}}}, 'unknown key "measure.loss.metrik"'),
        ({"claim": [{"say": "x", "check": "loss(rnn) < 1"}]}, 'unknown key "claim[0].say"'),
        ({"figure": [{"kind": "pie"}]}, "'bars', 'curves', 'against', 'lengths'"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        find_study(written(tmp_path, TABLE | change))
    assert message in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'faster.toml'}: ")


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("losss", 'has no "losss". It has loss, '),
        ("split", "which is no number"),
        ("loss.x", 'has no "x"'),
        ("bits_per_character", ""),
    ],
)
def test_a_metric_that_a_run_does_not_have_is_refused(tmp_path: Path, metric: str, message: str) -> None:
    table = {key: value for key, value in TABLE.items() if key not in ("budget", "claim")}
    file = written(tmp_path, table | {"measure": {"loss": {"metric": metric}}})
    _, runs = planned(file, tmp_path / "out", "one")
    if not message:
        assert trial.run_job(runs.jobs[0]).measures["loss"] is not None
        return
    with pytest.raises(ConfigError) as error:
        trial.run_job(runs.jobs[0])
    assert message in str(error.value)


def test_each_gives_an_arm_for_every_combination(tmp_path: Path) -> None:
    arm = {"recipe": "own.toml", "each": {"model.kind": ["rnn", "lstm"], "model.width": [8, 16]}}
    table = TABLE | {"arm": {"sizes": arm}, "claim": [{"says": "x", "check": 'loss("rnn-8") < 9'}]}
    table = {key: value for key, value in table.items() if key not in ("budget", "scale")} | {"scale": {"small": {}}}
    _, runs = planned(written(tmp_path, table), tmp_path / "out")
    models = {job.arm: (recipe_of(job).model.kind, recipe_of(job).model.width) for job in runs.jobs}
    assert models == {f"{kind}-{width}": (kind, width) for kind in ("rnn", "lstm") for width in (8, 16)}


@pytest.mark.parametrize("name", half(list(shipped_studies())))
def test_every_shipped_study_can_be_planned_at_every_scale(name: str, tmp_path: Path) -> None:
    _, path, study = find_study(name)
    assert {"tiny", "small", "full"} <= study.scale.keys()
    assert study.claim
    assert study.source
    for scale in study.scale:
        runs = plan(dataclasses.replace(study, budget=None), scale, tmp_path, path.parent, None, silent)
        recipes = [job.learner.recipe for job in runs.jobs if isinstance(job.learner, NetworkLearner)]
        for recipe in {repr((one.model, one.objective)): one for one in recipes}.values():
            with torch.device("meta"), Uninitialised():
                recipe.resolved().task.network(300, 300)


@pytest.mark.long
@pytest.mark.usefixtures("firth_data")
@pytest.mark.parametrize("name", list(shipped_studies()))
def test_every_shipped_study_runs_and_reports_at_the_smallest_scale(name: str, tmp_path: Path) -> None:
    result = reproduce(name, scale="tiny", out=tmp_path / "out", jobs=1, progress=False)
    assert not result.diverged()
    for measure, of in result.study.measure.items():
        numbers = [value for arm in result.arms() for value in result.values(arm, measure) if value is not None]
        assert numbers or of.missing == NOT_REACHED, measure
        assert all(map(math.isfinite, numbers)), measure
    told = result.text()
    assert all(claim.says in told for claim in result.study.claim)
    result.save(tmp_path / "page.html")


def command(*arguments: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "firth", "reproduce", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_study_that_is_killed_and_run_again_gives_the_same_table(tmp_path: Path, end: int) -> None:
    long = TABLE | {"settings": {"training": {"steps": 400, "log_every": 20, "checkpoint_every": 20}}}
    file = written(tmp_path, long)
    whole = reproduce(file, out=tmp_path / "whole", jobs=2, progress=False)
    process = command(file, "--out", tmp_path / "killed", "--jobs", 2)
    runs = tmp_path / "killed" / "runs"
    while not list(runs.glob("*/checkpoints/*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.kill(process.pid, end)
    process.communicate(timeout=120)  # until all that inherited its output are gone, the workers of a killed one, too
    done = command(file, "--out", tmp_path / "killed", "--jobs", 2, "--json")
    out, err = done.communicate(timeout=600)
    assert done.returncode == 0, err
    assert json.loads(out)["arms"] == json.loads(json.dumps(whole.facts()))["arms"]


@pytest.mark.long
def test_the_number_of_jobs_changes_nothing(own: Path, tmp_path: Path) -> None:
    one, three = (reproduce(own, out=tmp_path / str(jobs), jobs=jobs, progress=False) for jobs in (1, 3))
    assert one.facts() == three.facts()


def cost_table(*metrics: str, **training: Any) -> dict[str, Any]:
    """A study of one arm that measures these."""
    few = {"steps": 12, "log_every": 4, "evaluate_every": 3} | training
    measures = {f"m{n}": {"metric": metric} for n, metric in enumerate(metrics)}
    table = {key: value for key, value in TABLE.items() if key not in ("budget", "claim")}
    return table | {"measure": measures, "settings": {"training": few}, "arm": {"gru": {"recipe": "own.toml"}}}


def test_the_cost_of_a_loss_is_that_of_the_first_validation_at_or_below_it(tmp_path: Path) -> None:
    file = written(tmp_path, cost_table("loss"))
    _, runs = planned(file, tmp_path / "out")
    folder = runs.jobs[0].folder
    trial.run_job(runs.jobs[0])
    second = [line for line in log.read(folder / "log.jsonl") if "valid" in line][1]
    value = repr(second["valid"]["loss"])
    (folder / trial.RESULT).unlink()  # measured again, not trained again
    costs = [f"{name}({value})" for name in ("seconds_to", "steps_to", "tokens_to")]
    _, again = planned(written(tmp_path, cost_table(*costs)), tmp_path / "out")
    measures = trial.run_job(again.jobs[0]).measures
    assert list(measures.values()) == [second["seconds"], second["step"], second["tokens"]]


def test_a_loss_that_is_never_reached_is_said_and_is_no_number(tmp_path: Path) -> None:
    table = cost_table("seconds_to(0.01)", "steps_to(99)")
    table["claim"] = [{"says": "At once.", "check": "m0(gru) <= 1"}]
    result = report(written(tmp_path, table), tmp_path / "out")
    assert result.values("gru", "m0") == [None, None]
    assert result.cell("gru", "m0").text() == "not reached"
    assert result.values("gru", "m1") == [3, 3]
    assert [one.held for one in result.verdicts()] == [None]
    assert MeasuredCell.over([4.0, None], None, result.study.measure["m0"]).text() == "4.000, 1 of 2 not reached"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (cost_table("seconds_to"), 'the figure "seconds_to" needs a validation loss, such as seconds_to(1.6)'),
        (cost_table("steps_to(x)"), 'the figure "steps_to(x)" needs a validation loss'),
        (cost_table("tokens_to(1.6, 2)"), "needs a validation loss"),
        (cost_table("steps_to(1.6)", evaluate_every=0), 'measure.m0.metric is "steps_to(1.6)", which needs validations during'),
    ],
)
def test_a_cost_that_cannot_be_measured_is_refused(table: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        planned(written(tmp_path, table), tmp_path / "out")
    assert message in str(error.value)


def test_a_cost_without_held_out_data_is_refused(tmp_path: Path) -> None:
    table = cost_table("steps_to(1.6)", steps=1)
    table["settings"]["data"] = {"valid": 0.0}
    _, runs = planned(written(tmp_path, table), tmp_path / "out")
    with pytest.raises(ConfigError, match=r"no data are held out\. Set data\.valid"):
        trial.run_job(runs.jobs[0])


def test_a_setting_that_is_a_number_is_a_measure_also_of_a_run_that_diverged(tmp_path: Path) -> None:
    table = cost_table("training.rate", "model.width", "loss", rate=0.25)
    assert report(written(tmp_path, table), tmp_path / "out").values("gru", "m0") == [0.25, 0.25]
    table["settings"]["training"] |= {"rate": 1e30, "clip": 0.0, "optimizer": "sgd", "schedule": "constant"}
    _, runs = planned(written(tmp_path, table), tmp_path / "other")
    result = trial.run_job(runs.jobs[0])
    assert result.diverged
    assert result.measures == {"m0": 1e30, "m1": float(recipe_of(runs.jobs[0]).model.width), "m2": None}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("training.rat", 'the metric "training.rat" is no setting of these runs. Did you mean "rate"'),
        ("model.kind", "the metric \"model.kind\" is 'gru' in one of the runs, which is no number"),
    ],
)
def test_a_setting_that_is_no_number_is_refused_before_anything_is_trained(metric: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        planned(written(tmp_path, cost_table(metric)), tmp_path / "out")
    assert message in str(error.value)


def windows_table(folder: Path, **model: Any) -> dict[str, Any]:
    """A Transformer, measured in windows of once and twice the length of those of its training."""
    (folder / "transformer.toml").write_text(tomli_w.dumps(recipe_table(model="transformer")))
    measures = {f"at_{ratio}": {"metric": "loss", "context_ratio": ratio} for ratio in (1, 2)} | {"loss": {"metric": "loss"}}
    arm = {"recipe": "transformer.toml", "settings": {"model": model}}
    return cost_table() | {"measure": measures, "arm": {"one": arm}, "scale": {"small": {}}}


def test_a_loss_in_longer_windows_is_that_of_evaluate(tmp_path: Path) -> None:
    result = report(written(tmp_path, windows_table(tmp_path, position="alibi")), tmp_path / "out")
    run = firth.load(tmp_path / "out" / "runs" / "one-0")
    context = run.recipe.training.context
    assert result.values("one", "at_2")[0] == run.evaluate(context=2 * context, progress=False)["loss"]
    assert result.values("one", "at_1") == result.values("one", "loss")
    assert result.values("one", "at_2") != result.values("one", "loss")


def test_positions_that_end_before_the_longer_windows_have_no_loss_there(tmp_path: Path) -> None:
    result = report(written(tmp_path, windows_table(tmp_path, position="learned")), tmp_path / "out")
    assert result.values("one", "at_1") == result.values("one", "loss")
    assert result.values("one", "at_2") == [None, None]
    assert result.cell("one", "at_2").text() == "–"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            cost_table() | {"measure": {"long": {"metric": "loss", "context_ratio": 2}}},
            "context_ratio only applies to Transformer",
        ),
        (cost_table() | {"measure": {"long": {"metric": "loss", "context_ratio": 0}}}, "context_ratio is 0.0; expected a number"),
    ],
)
def test_longer_windows_of_other_models_are_refused_before_anything_is_trained(
    table: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        planned(written(tmp_path, table), tmp_path / "out")
    assert message in str(error.value)


def test_the_bytes_that_generating_keeps_are_measures(tmp_path: Path) -> None:
    table = windows_table(tmp_path, attention={"kv_heads": 1}, depth=3)
    table["measure"] = {"per_token": {"metric": "state_per_token"}, "state": {"metric": "state"}}
    table["arm"]["lstm"] = {"recipe": "own.toml", "settings": {"model": {"kind": "lstm", "width": 8, "depth": 2}}}
    result = report(written(tmp_path, table), tmp_path / "out")
    assert result.values("one", "per_token") == [4 * 3 * 2 * 16.0] * 2  # bytes × layers × (key and value) × width of a head
    assert result.values("one", "state") == [0.0, 0.0]
    assert result.values("lstm", "per_token") == [0.0, 0.0]
    assert result.values("lstm", "state") == [4 * 2 * 2 * 8.0] * 2  # bytes × layers × (h and c) × width


def test_a_measure_of_some_arms_is_taken_of_them_only_and_a_later_arm_starts_from_an_earlier_one(tmp_path: Path) -> None:
    table = {key: value for key, value in TABLE.items() if key not in ("budget", "scale")} | {"seeds": 1}
    table["arm"] = {"before": {"recipe": "own.toml"}, "gru": {"recipe": "own.toml", "after": "before"}}
    table["measure"] = {"loss": {"metric": "loss", "arms": ["gru"]}, "steps": {"metric": "steps"}}
    table["claim"] = [{"says": "x", "check": "loss(gru) > 0"}, {"says": "y", "check": "loss(before) > 0"}]
    result = report(written(tmp_path, table), tmp_path / "out")
    assert result.values("before", "loss") == [None]
    assert result.cell("before", "loss").text() == "–"
    assert [one.held for one in result.verdicts()] == [True, None]
    assert json.loads((tmp_path / "out/runs/before-0" / trial.RESULT).read_text())["measures"] == {"steps": 12}
    last, first = (log.read(tmp_path / "out/runs" / name / "log.jsonl") for name in ("before-0", "gru-0"))
    assert first[0]["loss"] < last[0]["loss"] - 0.1  # it starts from trained weights
    table["measure"]["loss"]["arms"] = ["grru"]
    with pytest.raises(ConfigError, match='no arm "grru"'):
        planned(written(tmp_path, table), tmp_path / "other")


def test_overrides_of_a_scale_come_after_the_settings_of_the_arms(tmp_path: Path) -> None:
    table = {key: value for key, value in TABLE.items() if key != "budget"}
    table["arm"] = {name: arm | {"settings": {"training": {"steps": 7, "batch": 3}}} for name, arm in TABLE["arm"].items()}
    table["scale"] = {"small": {"settings": {"training": {"steps": 5}}}, "one": {"overrides": {"training": {"steps": 2}}}}
    file = written(tmp_path, table)
    steps = {
        scale: {recipe_of(job).training.steps for job in planned(file, tmp_path / scale, scale)[1].jobs}
        for scale in ("small", "one")
    }
    assert steps == {"small": {7}, "one": {2}}
    assert {recipe_of(job).training.batch for job in planned(file, tmp_path / "one", "one")[1].jobs} == {3}


def test_an_arm_may_have_another_kind_of_an_idea_than_its_recipe(tmp_path: Path) -> None:
    table = windows_table(tmp_path, position={"kind": "shaw", "max_distance": 3})
    table["settings"] |= {"model": {"position": {"kind": "rotary", "base": 500.0}, "norm": {"kind": "layer"}}}
    table["measure"] = {"loss": {"metric": "loss"}}
    same = {"norm": {"kind": "layer", "eps": 0.5}, "position": {"kind": "rotary"}}
    table["arm"]["same"] = {"recipe": "transformer.toml", "settings": {"model": same}}
    _, runs = planned(written(tmp_path, table), tmp_path / "out")
    models = {job.arm: recipe_of(job).model for job in runs.jobs}
    assert (models["one"].position.kind, models["one"].position.max_distance) == ("shaw", 3)
    assert (models["same"].position.kind, models["same"].position.base) == ("rotary", 500.0)
    assert (models["same"].norm.kind, models["same"].norm.eps) == ("layer", 0.5)
