"""What a sweep may be asked for: anything else is refused before a run is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sweeping import table

from firth.errors import ConfigError
from firth.experiments.sweeps.samplers import number_of_trials, sampler
from firth.experiments.sweeps.space import SweepSpace, space_of
from firth.experiments.sweeps.sweep import sweep

RATE = "training.rate"


def space(settings: Any, changes: Any = None, *, kind: str = "gru", metric: str | None = None, prune: bool = False) -> SweepSpace:
    recipe = table()
    recipe["model"] = {"kind": kind, "width": 8} | ({"depth": 1, "heads": 2} if kind == "transformer" else {})
    return space_of(recipe, settings, changes or {}, metric, prune)


def test_a_range_has_the_type_of_its_setting() -> None:
    ranges = {
        one.name: one
        for one in space({RATE: "log:1e-4:1e-2", "model.width": "8:32:8", "training.clip": "1:2", "training.warmup": "0:3"}).swept
    }
    assert ranges["model.width"].values == (8, 16, 24, 32)
    assert ranges["training.warmup"].values == (0, 1, 2, 3)
    assert all(type(value) is int for value in ranges["model.width"].ends + ranges["training.warmup"].ends)
    assert ranges["training.clip"].values is None
    assert [type(value) for value in ranges["training.clip"].ends] == [float, float]
    assert ranges[RATE].ends == (1e-4, 1e-2)


def test_a_real_range_with_a_step_has_the_values_that_one_reads_in_it() -> None:
    (one,) = space({"model.dropout": "0:0.3:0.1"}).swept
    assert one.values == (0.0, 0.1, 0.2, 0.3)


def test_int_takes_whole_numbers_of_a_real_setting() -> None:
    (one,) = space({"training.clip": "int:1:3"}).swept
    assert one.values == (1, 2, 3)


def test_combinations_are_counted_and_bound_the_trials() -> None:
    finite = space({"model.width": [8, 16], "training.batch": "1:3"})
    assert finite.combinations == 6
    assert number_of_trials("tpe", finite, None) == number_of_trials("grid", finite, None) == 6
    with pytest.raises(ConfigError, match="only 6 combinations"):
        number_of_trials("random", finite, 7)
    endless = space({"model.width": [8, 16], RATE: "1e-3:1e-2"})
    assert endless.combinations is None
    assert number_of_trials("tpe", endless, None) == 20


def test_old_and_new_names_are_one_setting() -> None:
    with pytest.warns(UserWarning, match=r"now called model\.attention\.heads"):
        (one,) = space({"model.heads": [1, 2]}, kind="transformer").swept
    assert one.name == "model.attention.heads"
    with pytest.raises(ConfigError, match=r"model\.attention\.heads is given twice"):
        space({"model.heads": [1, 2], "model.attention.heads": "1:2"}, kind="transformer")


def test_a_value_that_needs_another_setting_of_the_sweep_is_accepted() -> None:
    """3 heads do not divide a width of 8."""
    heads = {"model.attention.heads": [2, 3], "model.width": [8, 12]}
    assert space(heads, kind="transformer").combinations == 4
    with pytest.raises(ConfigError, match="does not divide"):
        space({"model.attention.heads": [2, 3], "model.width": [8, 16]}, kind="transformer")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "--set KEY=a,b or --range KEY=LOW:HIGH"),
        ({"model.widht": [8, 16]}, 'Did you mean "width"?'),
        ({"model.widht": "8:16"}, 'Did you mean "width"?'),
        ({"modle.width": "8:16"}, 'Did you mean "model"?'),
        ({"width": "8:16"}, "table.key"),
        ({"model.width": [8, "wide"]}, "\"model.width\" is 'wide'; expected a whole number"),
        ({"model.width": [8]}, "has one value; a sweep needs two or more. Set a fixed value with --model.width=VALUE"),
        ({"model.width": []}, "has no values"),
        ({"model.width": [8, ""]}, "one of the values of model.width is empty"),
        ({"model.width": [8, 16, 8]}, "has the value 8 twice"),
        ({"model.kind": "1:2"}, "model.kind is not a number, so it has no range. List its values with --set"),
        ({"model.width": "8"}, 'is "8"; expected LOW:HIGH'),
        ({"model.width": "8:16:4:2"}, "expected LOW:HIGH"),
        ({"model.width": "lin:8:16"}, '"lin" is not a number'),
        ({"model.width": "log:log:8:16"}, "expected LOW:HIGH"),
        ({"model.width": "8:8"}, "expected a first number below the second"),
        ({"model.width": "16:8"}, "expected a first number below the second"),
        ({"model.width": "8:16.5"}, "model.width is a whole number"),
        ({"model.width": "8:16:3"}, "expected a step above 0 that leads from 8 to 16"),
        ({"model.width": "8:16:0"}, "expected a step above 0"),
        ({RATE: "8:inf"}, "expected finite numbers"),
        ({RATE: "log:0:1"}, "logarithmic; expected numbers above 0"),
        ({RATE: "log:0.1:1:0.1"}, "a logarithmic range has no step"),
        ({RATE: "-1:1"}, "training.rate is -1.0; expected more than 0"),
        ({"training.select": ["loss", "bleu"]}, "Use --metric"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        space(settings)
    assert message in error.value.for_command()


def test_a_setting_is_either_fixed_or_swept() -> None:
    with pytest.raises(ConfigError, match=r"training\.rate is fixed, but also swept"):
        space({RATE: "1e-3:1e-2"}, {RATE: 0.1})


def test_a_metric_that_the_task_lacks_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        space({RATE: "1e-3:1e-2"}, metric="bleu")
    assert error.value.for_command() == '--metric is "bleu"; for next-token choose "loss".'


@pytest.mark.parametrize("changes", [{"training.evaluate_every": 0}, {"training.steps": 2}])
def test_pruning_needs_validations_before_the_end(changes: Any) -> None:
    with pytest.raises(ConfigError, match=r"Set training\.evaluate_every"):
        space({RATE: "1e-3:1e-2"}, changes, prune=True)


@pytest.mark.parametrize("text", ["1e-3:1e-2", "log:1e-3:1e-2"])
def test_a_grid_needs_finitely_many_values(text: str) -> None:
    with pytest.raises(ConfigError, match="needs a finite set of values"):
        sampler("grid", space({RATE: text}), 0, 0)


def test_one_standard_input_cannot_feed_many_trials(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one standard input"):
        sweep(table() | {"data": {"path": "-"}}, {RATE: [0.1, 0.2]}, out=tmp_path / "sweep")
    assert not list(tmp_path.iterdir())
