"""firth evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.api.recipe import Split


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
    save: Annotated[Path | None, typer.Option(help="An HTML page to write: translation by sentence length.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a run on held-out text: loss, perplexity and bits per character; accuracy of a classifier; BLEU of translations."""
    from firth.api import load
    from firth.cli.progress import Display

    with Display() as display:
        model = load(run)
        result = model.evaluate(
            data,
            display.work,
            split=cast("Split | None", split),  # what it is not, evaluate says
            streams=streams,
            random_batches=random_batches,
            seed=seed,
            target=target,
            beam=beam,
        )
    if save is not None:
        _save(save, run, result)
    if as_json:
        print_json(result)
        return
    if "accuracy" in result:
        _print_classes(result)
        return
    if "bleu" in result:
        _print_translation(result)
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


def _print_translation(result: dict[str, Any]) -> None:
    print(f"{'text':<20}{result['split']}")
    print(f"{'sentences':<20}{result['sentences']:,}, translated with a beam of {result['beam']}")
    print(f"{'loss':<20}{result['loss']:.4f} nats per token, perplexity {result['perplexity']:.4f}")
    print(f"{'BLEU':<20}{result['bleu']:.2f} ({result['bleu_signature']})")
    if result["bleu_tokenised"] is not None:
        print(f"{'BLEU, tokenised':<20}{result['bleu_tokenised']:.2f} (Moses' tokens, lower case)")
    print(f"{'chrF':<20}{result['chrf']:.2f} ({result['chrf_signature']})")
    print(f"{'exact match':<20}{result['exact']:.2%}")
    print("by the tokens of the source, <eos> not counted:")
    for bucket in result["buckets"]:
        bleu = "not defined" if bucket["bleu"] is None else f"BLEU {bucket['bleu']:.2f}"
        name = f"  {bucket['shortest']}–{bucket['longest']}"
        print(f"{name:<20}{bleu}, exact {bucket['exact']:.2%} of {bucket['sentences']:,}")


def _save(path: Path, run: Path, result: dict[str, Any]) -> None:
    from firth.errors import ConfigError
    from firth.evaluation.translation import LengthBucket
    from firth.figures.figure import Table
    from firth.figures.lengths import score_by_length
    from firth.figures.page import Section, page
    from firth.files import write_text

    if "buckets" not in result:
        raise ConfigError("--save draws translation by sentence length, and this run does not translate; leave it out")
    buckets = {run.name: [LengthBucket(**bucket) for bucket in result["buckets"]]}
    figures = [score_by_length(buckets, "bleu"), score_by_length(buckets, "exact")]
    lead = f"{result['sentences']:,} sentences of {result['split']}, translated with a beam of {result['beam']}."
    section = Section("By length of the source", lead, Table((), []), figures)
    write_text(path, page(run.name, [section], "Measured by firth evaluate."))


def _reading(result: dict[str, Any], windows: str) -> str:
    if result["streams"] is None:
        return f"in {windows} that do not overlap"
    return "as one stream" if result["streams"] == 1 else f"in {result['streams']} streams"
