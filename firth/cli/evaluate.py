"""firth evaluate"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.api import Model
    from firth.api.recipe import Split
    from firth.figures.figure import Table

_SHOWN = 12  # classes whose confusion fits into a terminal


@verb()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[str | None, typer.Option(help="Text to evaluate on; the run's own held-out text where not given.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Which of the run's own texts: test, valid or train; the first of them it has.")
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(
            help="Read the text in so many streams side by side: quicker on a long text, a little worse. Recurrent models only, "
            "which otherwise read it as one."
        ),
    ] = None,
    random_batches: Annotated[
        int | None,
        typer.Option(help="Add the loss over so many batches of windows that start anywhere, as some results are published."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Where the random batches come from.")] = 0,
    target: Annotated[str | None, typer.Option(help="The translations of the lines of --data, where they are not in it.")] = None,
    beam: Annotated[int | None, typer.Option(help="To translate with; that of the recipe where not given.")] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="An HTML page to write: by sentence length, who is taken for whom, or by examples in the prompt."),
    ] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="With --save, another run that learns in context, in the same picture; any number.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a run on held-out text: loss, perplexity and bits per character; accuracy of a classifier; BLEU of translations."""
    from firth.api import load
    from firth.cli.progress import Display

    with Display() as display:
        model = load(run)
        others = _opened_beside(beside or (), model, save)
        if save is not None:
            _refuse_undrawn(model)
        part = cast("Split | None", split)  # what it is not, evaluate says
        result = model.evaluate(
            data,
            display.work,
            split=part,
            streams=streams,
            random_batches=random_batches,
            seed=seed,
            target=target,
            beam=beam,
        )
        results = {run: result, **{path: other.evaluate(None, display.work, split=part) for path, other in others.items()}}
    if save is not None:
        _save(save, results)
    if as_json:
        print_json(result)
        return
    if "confusion" in result:
        _print_classes(result)
        return
    if "tags" in result:
        _print_tags(result)
        return
    if "questions" in result:
        _print_answers(result)
        return
    if "by_examples" in result:
        _print_by_examples(result)
        return
    if "bleu" in result:
        _print_translation(result)
        return
    if model.recipe.objective.kind in ("masked", "span-corruption"):
        _print_hidden(result)
        return
    training = model.recipe.training
    windows = f"windows of {training.context} tokens"
    bits = result["bits_per_character"]
    print(f"{'text':<20}{result['split']}")
    print(f"{'tokens':<20}{result['tokens']:,}, read {_reading(result, windows)}")
    print(f"{'loss':<20}{result['loss']:.4f} nats per token")
    print(f"{'perplexity':<20}{result['perplexity']:.4f}")
    print(f"{'bits per character':<20}" + (f"{bits:.4f}" if bits is not None else "not defined: the tokenizer loses characters"))
    if random_batches is not None:
        error = f" ± {result['loss_random_error']:.4f}" if result["loss_random_error"] is not None else ""
        protocol = f"{random_batches:,} random batches of {training.batch} {windows}, seed {seed}"
        print(f"{'loss, random':<20}{result['loss_random']:.4f}{error} ({protocol})")


def _print_classes(result: dict[str, Any]) -> None:
    print(f"{'text':<20}{result['split']}")
    print(f"{'examples':<20}{result['examples']:,}")
    print(f"{'loss':<20}{result['loss']:.4f} nats per text")
    print(f"{'accuracy':<20}{result['accuracy']:.4f}")
    print(f"{'macro F1':<20}{result['macro_f1']:.4f}")
    print(f"\n{'class':<20}{'examples':>10}{'precision':>11}{'recall':>9}{'F1':>9}")
    for one in result["classes"]:
        print(f"{one['label']:<20}{one['examples']:>10,}{one['precision']:>11.4f}{one['recall']:>9.4f}{one['f1']:>9.4f}")
    labels = [one["label"] for one in result["classes"]]
    if len(labels) > _SHOWN:
        print(f"\n{len(labels)} classes: see who is taken for whom with --save page.html")
        return
    wide = max(9, *(len(label) + 2 for label in labels))
    print(f"\n{'true ↓, said →':<20}" + "".join(f"{label:>{wide}}" for label in labels))
    for label, row in zip(labels, result["confusion"], strict=True):
        print(f"{label:<20}" + "".join(f"{count:>{wide},}" for count in row))


def _print_hidden(result: dict[str, Any]) -> None:
    print(f"{'text':<20}{result['split']}")
    what = "that were masked" if "accuracy" in result else "that were cut out, and their sentinels"
    print(f"{'tokens':<20}{result['tokens']:,} {what}")
    print(f"{'loss':<20}{result['loss']:.4f} nats per token")
    print(f"{'perplexity':<20}{result['perplexity']:.4f}")
    if "accuracy" in result:
        print(f"{'accuracy':<20}{result['accuracy']:.4f}")


def _print_tags(result: dict[str, Any]) -> None:
    print(f"{'text':<20}{result['split']}")
    print(f"{'words':<20}{result['words']:,} of {result['sentences']:,} sentences")
    print(f"{'loss':<20}{result['loss']:.4f} nats per word")
    print(f"{'accuracy':<20}{result['accuracy']:.4f}")
    if result["spans"] is not None:
        print(f"{'F1 of spans':<20}{result['f1']:.4f} (precision {result['precision']:.4f}, recall {result['recall']:.4f})")
        if result["f1_strict"] is not None:
            print(f"{'F1, strict':<20}{result['f1_strict']:.4f}")
    tables = [("span", "spans", result["spans"] or ()), ("tag", "words", result["tags"])]
    for heading, counted, rows in tables:
        if rows:
            print(f"\n{heading:<20}{counted:>10}{'precision':>11}{'recall':>9}{'F1':>9}")
        for name, count, precision, recall, f1 in (row.values() for row in rows):
            print(f"{name:<20}{count:>10,}{precision:>11.4f}{recall:>9.4f}{f1:>9.4f}")


def _print_answers(result: dict[str, Any]) -> None:
    print(f"{'text':<20}{result['split']}")
    print(f"{'questions':<20}{result['questions']:,}, read in {result['windows']:,} windows")
    print(f"{'loss':<20}{result['loss']:.4f} nats per end of an answer")
    print(f"{'exact match':<20}{result['exact']:.2%}")
    print(f"{'F1':<20}{result['f1']:.2%}")


def _print_by_examples(result: dict[str, Any]) -> None:
    from firth.figures.in_context import examples_text, measure_of

    measure = measure_of(result)
    print(f"{'prompts':<20}{result['prompts']:,} of {result['split']}")
    print(f"{'loss':<20}{result['loss']:.4f} " + ("nats per character" if measure == "accuracy" else "(ŷ − y)² / D"))
    print(f"{measure.replace('_', ' '):<20}{result[measure]:.4f} after all examples\n")
    print(examples_text(result["by_examples"], measure))


def _print_translation(result: dict[str, Any]) -> None:
    print(f"{'text':<20}{result['split']}")
    print(f"{'sentences':<20}{result['sentences']:,}, translated with a beam of {result['beam']}")
    print(f"{'loss':<20}{result['loss']:.4f} nats per token, perplexity {result['perplexity']:.4f}")
    print(f"{'BLEU':<20}{result['bleu']:.2f} ({result['bleu_signature']})")
    if result["bleu_tokenised"] is not None:
        print(f"{'BLEU, tokenised':<20}{result['bleu_tokenised']:.2f} (Moses' tokens, lower case)")
    print(f"{'chrF':<20}{result['chrf']:.2f} ({result['chrf_signature']})")
    print(f"{'exact match':<20}{result['exact']:.2%}")
    if result["rougeL"] is not None:
        print(f"{'ROUGE-1, -2, -L':<20}{result['rouge1']:.2f}, {result['rouge2']:.2f}, {result['rougeL']:.2f} (F1, no stemming)")
    if result["tasks"]:
        print("by task, the first word of the source:")
        for task in result["tasks"]:
            bleu = "" if task["bleu"] is None else f"BLEU {task['bleu']:.2f}, "
            print(f"{'  ' + task['task']:<20}{bleu}exact {task['exact']:.2%} of {task['sentences']:,}")
    print("by the tokens of the source, <eos> not counted:")
    for bucket in result["buckets"]:
        bleu = "not defined" if bucket["bleu"] is None else f"BLEU {bucket['bleu']:.2f}"
        name = f"  {bucket['shortest']}–{bucket['longest']}"
        print(f"{name:<20}{bleu}, exact {bucket['exact']:.2%} of {bucket['sentences']:,}")


def _refuse_undrawn(model: Model) -> None:
    """Before anything is measured: there is nothing to draw of this run."""
    from firth.api.objectives import ABOUT
    from firth.errors import ConfigError

    kind = model.recipe.objective.kind
    if kind != "classification" and not kind.startswith("in-context") and ABOUT[kind].reads != "sentence pairs":
        raise ConfigError(
            "--save draws translation by sentence length, which classes are taken for which, or answers by number of examples; "
            "this run has none of these: leave it out"
        )


def _opened_beside(runs: Sequence[Path], model: Model, save: Path | None) -> dict[Path, Model]:
    """Other runs, which are to be asked the same."""
    from firth.api import load
    from firth.errors import ConfigError

    if runs and (save is None or not model.recipe.objective.kind.startswith("in-context")):
        raise ConfigError(
            "--beside draws runs that learn in context into one picture; give --save PAGE and such runs, or leave it out"
        )
    found = {path: load(path) for path in runs}
    for path, other in found.items():
        if other.recipe.data != model.recipe.data:
            raise ConfigError(f"{path} was trained on other tasks; expected a run with the same [data]")
    return found


def _names(runs: Sequence[Path]) -> list[str]:
    """Those of the folders, or their whole paths where two have the same."""
    short = [run.name for run in runs]
    return short if len(set(short)) == len(short) else [str(run) for run in runs]


def _save(path: Path, results: Mapping[Path, dict[str, Any]]) -> None:
    """Of the first of them; of several, where they are drawn side by side."""
    from firth.evaluation.translation import LengthBucket
    from firth.figures.confusion import confusion_map
    from firth.figures.figure import Table
    from firth.figures.in_context import measure_of, score_by_examples
    from firth.figures.lengths import score_by_length
    from firth.figures.page import Section, page
    from firth.files import write_text

    run, result = next(iter(results.items()))
    if "confusion" in result:
        labels = [one["label"] for one in result["classes"]]
        lead = f"{result['examples']:,} texts of {result['split']}, {result['accuracy']:.2%} of them right."
        figure = confusion_map(labels, result["confusion"])
        section = Section("Who is taken for whom", lead, _classes(result), [figure])
        write_text(path, page(run.name, [section], "Measured by firth evaluate."))
        return
    if "by_examples" in result:
        lead = f"{result['prompts']:,} prompts of {result['split']}, a new task in each."
        rows = [one["by_examples"] for one in results.values()]
        models = dict(zip(_names(list(results)), rows, strict=True))
        section = Section("By number of examples", lead, Table((), []), [score_by_examples(models, measure_of(result))])
        write_text(path, page(", ".join(models), [section], "Measured by firth evaluate."))
        return
    buckets = {run.name: [LengthBucket(**bucket) for bucket in result["buckets"]]}
    figures = [score_by_length(buckets, "bleu"), score_by_length(buckets, "exact")]
    lead = f"{result['sentences']:,} sentences of {result['split']}, translated with a beam of {result['beam']}."
    section = Section("By length of the source", lead, Table((), []), figures)
    write_text(path, page(run.name, [section], "Measured by firth evaluate."))


def _classes(result: dict[str, Any]) -> Table:
    """Precision, recall and F1 of each class."""
    from firth.figures.figure import Table

    numbers = ("precision", "recall", "f1")
    rows = [(one["label"], f"{one['examples']:,}", *(f"{one[name]:.4f}" for name in numbers)) for one in result["classes"]]
    return Table(("class", "examples", "precision", "recall", "F1"), rows)


def _reading(result: dict[str, Any], windows: str) -> str:
    if result["streams"] is None:
        return f"in {windows} that do not overlap"
    return "as one stream" if result["streams"] == 1 else f"in {result['streams']} streams"
