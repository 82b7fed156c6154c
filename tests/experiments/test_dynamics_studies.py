"""Studies whose arms are attention dynamics: their numbers are those of `evolve`, and what does not fit is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from firth.errors import ConfigError
from firth.experiments.studies import trial
from firth.experiments.studies.plan import StudyPlan, expect_same, plan
from firth.experiments.studies.report import StudyReport
from firth.experiments.studies.study import find_study
from firth.inspection.dynamics import evolve, preset
from firth.progress import silent
from firth.training import history
from firth.training.folder import RunFolder

TABLE: dict[str, Any] = {
    "summary": "Corners",
    "seeds": 2,
    "settings": {"dynamics": {"depth": 30}},
    "arm": {"plane": {"dynamics": {"preset": "clusters", "rescale": 0.9}}, "lecture": {"dynamics": {"n": 12, "d": 5}}},
    "measure": {
        **{name: {"metric": name} for name in ("rank", "attention_rank", "distance", "clusters", "first_rank", "first_clusters")},
        "depth": {"metric": "dynamics.depth"},
    },
    "claim": [{"says": "Fewer clusters.", "check": "clusters(plane) <= first_clusters(plane)"}],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(table: dict[str, Any]) -> StudyPlan:
    Path("corners.toml").write_text(tomli_w.dumps(table))
    _, path, study = find_study("corners.toml")
    return plan(study, "small", Path("out"), path.parent, None, silent)


def report(table: dict[str, Any]) -> StudyReport:
    runs = planned(table)
    results = {job.folder: trial.run_job(job) for job in runs.jobs}
    return StudyReport("corners", find_study("corners.toml")[2], "small", runs, results)


def test_a_study_measures_the_curves_of_the_points() -> None:
    result = report(TABLE)
    systems = {
        "plane": [preset("clusters", seed=seed).rescaled(0.9) for seed in (0, 1)],
        "lecture": [preset("lecture", n=12, d=5, seed=seed) for seed in (0, 1)],
    }
    for arm, each in systems.items():
        curves = [evolve(system, 30).curves for system in each]
        expected = {
            "rank": [one.effective_rank[-1] for one in curves],
            "attention_rank": [one.attention_rank[-1] for one in curves],
            "distance": [one.mean_distance[-1] for one in curves],
            "clusters": [one.clusters[-1] for one in curves],
            "first_rank": [one.effective_rank[0] for one in curves],
            "first_clusters": [one.clusters[0] for one in curves],
            "depth": [30, 30],
        }
        assert {name: result.values(arm, name) for name in expected} == expected
    assert [one.held for one in result.verdicts()] == [True]
    assert result.made()["torch"]
    assert history.read(RunFolder(Path("out/runs/plane-1")))[-1]["outcome"] == "finished"
    result.save("page.html")
    assert "attention dynamics" in Path("page.html").read_text()


def test_finished_dynamics_are_read_and_others_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first = report(TABLE).facts()
    monkeypatch.setattr("firth.experiments.studies.dynamics_learner.evolve", None)  # whoever computes now fails
    assert report(TABLE).facts() == first
    jobs = planned(TABLE | {"settings": {"dynamics": {"depth": 31}}}).jobs
    with pytest.raises(ConfigError, match=r"a finished run with dynamics\.depth = 30 instead of 31"):
        expect_same(jobs, {job.folder: job.asked for job in jobs})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"dynamics": {"deep": 3}}}, 'unknown key "dynamics.deep"'),
        ({"settings": {"training": {"steps": 3}}}, "training.steps is no setting of the arms with [dynamics]"),
        ({"measure": {"x": {"metric": "loss"}}, "claim": []}, 'metric is "loss", which the dynamics of arm "plane" do not have'),
        ({"measure": {"x": {"metric": "cluster"}}, "claim": []}, 'Did you mean "clusters"'),
    ],
)
def test_what_dynamics_do_not_have_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        planned(TABLE | change)
    assert message in str(error.value)
