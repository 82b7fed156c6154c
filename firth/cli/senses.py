"""firth senses: compare the contextual vectors of a word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.save_option import Save, save_figures, section
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.inspection.senses import Senses


@verb()
def senses(
    run: Annotated[Path, typer.Argument(help="Run folder of a language model, encoder or seq2seq model.")],
    word: Annotated[str | None, typer.Argument(help='Word to compare; "word#2" is its second occurrence in a sentence.')] = None,
    sentences: Annotated[list[str] | None, typer.Argument(help="Two or more sentences that contain it.")] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer of the vectors: 0 is the embedding, 1 the first layer, -1 the last.  [default: -1]")
    ] = None,
    save: Save = None,
    wic: Annotated[
        bool, typer.Option("--wic", help="Evaluate on Word-in-Context pairs instead: does a word have the same sense in both?")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of Word-in-Context pairs (with --wic).  [default: the data set wic]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a word's contextual vectors across sentences.

    Prints the cosine similarity of its vectors in each pair of sentences, next to that of its static embedding."""
    from firth.api import load
    from firth.progress.display import Display

    if wic:
        if word is not None or save is not None or layer is not None:
            raise ConfigError("--wic evaluates all layers on its own pairs. Remove the word, the sentences, --layer and --save")
        with Display() as display:
            result = load(run).wic(data, display.work)
        print_json(result) if as_json else _print_wic(result)
        return
    if word is None or not sentences:
        raise ConfigError("nothing to compare. Give a word and two or more sentences that contain it, or --wic")
    if data is not None:
        raise ConfigError(f"--data {data} only applies to --wic. Add --wic, or remove --data")
    occurrences = load(run).senses(word, sentences, layer=-1 if layer is None else layer)
    if save is not None:
        saved = _save(save, run, occurrences)
    if as_json:
        _print_facts(occurrences)
        return
    import shutil

    print(occurrences.text(shutil.get_terminal_size().columns))
    if save is not None:
        print(f"\n{saved}: {len(occurrences.layers)} {'layer' if len(occurrences.layers) == 1 else 'layers'}")


def _save(path: Path, run: Path, occurrences: Senses) -> str:
    lead = "A word has a different contextual vector in each sentence; its embedding is the same in all of them."
    compared = section(f"“{occurrences.word}” in {len(occurrences.sentences)} sentences", lead, [occurrences.figure()])
    return save_figures(path, f"Senses by {run.name}", [compared], "firth senses")


def _print_facts(occurrences: Senses) -> None:
    print_json(
        {
            "word": occurrences.word,
            "sentences": occurrences.sentences,
            "layer": occurrences.layer,
            "depth": len(occurrences.layers) - 1,
            "similarity": occurrences.similarity.tolist(),
            "static": occurrences.static.tolist(),
        }
    )


def _print_wic(result: dict[str, Any]) -> None:
    chosen = f"if cos ≥ {result['threshold']:.4f} in layer {result['layer']}"
    print(f"{'pairs':<20}{result['pairs']:,}; layer and thresholds chosen on {result['train_pairs']:,} training pairs")
    print(f"{'accuracy':<20}{result['accuracy']:.4f}, same sense {chosen}")
    print(f"{'static':<20}{result['static_accuracy']:.4f}, same sense if cos ≥ {result['static_threshold']:.4f} in the embedding")
    print(f"{'majority':<20}{result['majority']:.4f}")
