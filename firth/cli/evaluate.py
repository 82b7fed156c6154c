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
    as_json: Json = False,
) -> None:
    """Measure a run on held-out text: loss, perplexity and bits per character, or the loss and accuracy of a classifier."""
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
        )
    if as_json:
        print_json(result)
        return
    if "accuracy" in result:
        _print_classes(result)
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


def _reading(result: dict[str, Any], windows: str) -> str:
    if result["streams"] is None:
        return f"in {windows} that do not overlap"
    return "as one stream" if result["streams"] == 1 else f"in {result['streams']} streams"
