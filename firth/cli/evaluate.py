"""firth evaluate"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.decoding_options import Quantise
from firth.cli.save_option import FORMATS, checked, save_figures
from firth.errors import ConfigError
from firth.progress import Progress, silent

if TYPE_CHECKING:
    from firth.layers.quantised import Quantisation
    from firth.tasks.run import Run
    from firth.tasks.splits import Split


@verb()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[str | None, typer.Option(help="File to evaluate on. [default: the run's own held-out data]")] = None,
    split: Annotated[str | None, typer.Option(help="test, valid or train data of the run. [default: the first it has]")] = None,
    streams: Annotated[
        int | None,
        typer.Option(help="Recurrent models: read the text in parallel streams, faster and slightly worse. [default: 1]"),
    ] = None,
    random_batches: Annotated[
        int | None, typer.Option(help="Language models: also average the loss over this many random batches, as some papers do.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of --random-batches. [default: 0]")] = None,
    context: Annotated[
        int | None,
        typer.Option(help="Transformer language models: tokens per window, even more than in training. [default: the run's]"),
    ] = None,
    rotary_scaling: Annotated[
        str | None, typer.Option(help="With --context: stretch rotary positions, ntk or yarn. [default: none]")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Translators: file with the translations of --data, line by line.")] = None,
    beam: Annotated[int | None, typer.Option(help="Translators: beam size. [default: the recipe's]")] = None,
    contrast: Annotated[
        bool, typer.Option("--contrast", help="Sentiment classifiers: also test pairs such as “like” and “do not like”.")
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="Classifiers: predict --label if its probability is at least this. [default: the stored one]"),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Class that --threshold is for. [default: the last of two classes]")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Classifiers and taggers: write precision, recall and F1 of each class to this csv file.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help=f"Draw the confusion matrix, BLEU by length, or accuracy by examples; save as {FORMATS}.", callback=checked
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="With --save: another run to draw in the same figure. May be repeated.")
    ] = None,
    quantise: Quantise = None,
    as_json: Json = False,
) -> None:
    """Measure a run on held-out data.

    On several GPUs or machines: torchrun --nproc-per-node=N -m firth evaluate RUN"""
    from firth.api import load
    from firth.evaluation.metrics import own_lines
    from firth.training.distributed import is_first

    if random_batches is None:
        refuse_given({"seed": seed}, "only applies to --random-batches. Add that option, or remove --seed.")
    with _together() as work:
        model = load(run)
        if save is not None:
            _refuse_undrawn(model)
        if report is not None:
            _check_report(report, model)
        others = _opened_beside(beside or (), model, save)
        part = cast("Split | None", split)  # `evaluate` refuses other names
        own: dict[str, Any] = {"streams": streams, "random_batches": random_batches, "seed": seed, "target": target, "beam": beam}
        own |= {"context": context, "rotary_scaling": rotary_scaling, "contrast": contrast or None}
        own |= {"threshold": threshold, "label": label}
        options = _options(model, own)
        if quantise is None:
            result = model.evaluate(data, work, split=part, **options)
        else:
            result = _quantised_result(model, quantise, lambda: model.evaluate(data, work, split=part, **options))
        results = {run: result, **{path: other.evaluate(None, work, split=part) for path, other in others.items()}}
    if not is_first():
        return
    if save is not None:
        _save(save, model, results)
    if report is not None:
        _write_report(report, model, result)
    if as_json:
        print_json(result)
        return
    print(model.task.report(result))
    for name, value in own_lines(result):
        print(f"{name:<20}{value}")
    if model.quantised is not None:
        print(_loss_of_quantising(result, str(model.quantised)))


@contextlib.contextmanager
def _together() -> Iterator[Progress]:
    """Evaluate alone or as one of the processes that torchrun started; only the first one prints."""
    from firth.progress.display import Display
    from firth.training.config import TrainingConfig
    from firth.training.distributed import is_first, joined

    if is_first():
        with joined(TrainingConfig()), Display() as display:
            yield display.work
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with joined(TrainingConfig()):
                yield silent
        except ConfigError as error:
            raise typer.Exit(error.exit_code) from None


def _quantised_result(model: Run[Any], kind: str, evaluate: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The metrics of a run after it is quantised, those before, and the differences."""
    import dataclasses

    from firth.models.quantisation import check_kind
    from firth.training.metric import METRICS

    check_kind(kind)
    before = evaluate()
    model.quantise(cast("Quantisation", kind))
    after = evaluate()
    numbers = [name for name in METRICS.kinds if isinstance(after.get(name), float) and isinstance(before.get(name), float)]
    difference = {name: after[name] - before[name] for name in numbers}
    assert model.quantised is not None
    return {**after, "quantised": dataclasses.asdict(model.quantised), "before": before, "difference": difference}


def _loss_of_quantising(result: Mapping[str, Any], what: str) -> str:
    lines = ["", what, f"{'':<20}{'quantised':>12}{'before':>12}{'difference':>12}"]
    for name, change in result["difference"].items():
        before = result["before"][name]
        share = f" ({change / before:+.2%})" if before else ""
        lines.append(f"{name.replace('_', ' '):<20}{result[name]:>12.4f}{before:>12.4f}{change:>+12.4f}{share}")
    return "\n".join(lines)


def _options(model: Run[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set. Refuses an option that this run's `evaluate` does not have."""
    import inspect

    from firth.errors import listed
    from firth.tasks import TASKS

    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen.keys() - inspect.signature(model.evaluate).parameters.keys():
        owners = [task.noun for task in TASKS if name in inspect.signature(task.run_class.evaluate).parameters]
        raise ConfigError(
            f"--{name.replace('_', '-')} only applies to {listed(dict.fromkeys(owners))}; this run is {model.task.noun}. "
            "Remove it."
        )
    return chosen


def _check_report(path: Path, model: Run[Any]) -> None:
    """Before anything is measured."""
    from firth.errors import listed
    from firth.tasks import TASKS

    if model.task.classes_in is None:
        able = listed(task.noun for task in TASKS if task.classes_in is not None)
        raise ConfigError(f"--report only applies to {able}; this run is {model.task.noun}. Remove it.")
    if path.suffix.lower() != ".csv":
        raise ConfigError(f"--report writes csv, not {path.name}. Choose a name that ends in .csv.")


def _write_report(path: Path, model: Run[Any], result: Mapping[str, Any]) -> None:
    from firth.evaluation.classification import report_csv
    from firth.files import write_text

    classes = result[str(model.task.classes_in)]
    write_text(path, report_csv(classes, result["accuracy"]))


def _refuse_undrawn(model: Run[Any]) -> None:
    """Before anything is measured."""
    from firth.errors import listed
    from firth.tasks import TASKS

    if not model.task.draws():
        able = listed(task.name for task in TASKS if task.draws())
        raise ConfigError(f"--save draws the results of {able}; this run is {model.task.noun}. Remove it.")


def _opened_beside(runs: Sequence[Path], model: Run[Any], save: Path | None) -> dict[Path, Run[Any]]:
    """The other runs, which must have been trained on the same data."""
    from firth.api import load
    from firth.tasks.ability import LEARN_IN_CONTEXT

    if runs and LEARN_IN_CONTEXT not in model.abilities:
        raise ConfigError(f"--beside only applies to runs that learn in context; this run is {model.task.noun}. Remove it.")
    if runs and save is None:
        raise ConfigError("--beside adds another run to the figure of --save. Add --save, or remove it.")
    others = {path: load(path) for path in runs}
    for path, other in others.items():
        if other.recipe.data != model.recipe.data:
            raise ConfigError(f"{path} was trained on other tasks. Give a run with the same [data].")
    return others


def _save(path: Path, model: Run[Any], results: Mapping[Path, Mapping[str, Any]]) -> None:
    named = dict(zip(_names(list(results)), results.values(), strict=True))
    section = model.task.picture(named)
    assert section is not None  # see _refuse_undrawn
    save_figures(path, ", ".join(named), [section], "firth evaluate")


def _names(runs: Sequence[Path]) -> list[str]:
    """The names of the folders, or their whole paths where two are the same."""
    short = [run.name for run in runs]
    return short if len(set(short)) == len(short) else [str(run) for run in runs]
