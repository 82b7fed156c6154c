"""firth senses"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.inspection.senses import Senses


@verb()
def senses(
    run: Annotated[Path, typer.Argument(help="A run folder of a model that reads: a language model, an encoder, seq2seq.")],
    word: Annotated[
        str | None, typer.Argument(help='The word to compare; "word#2" the second time it stands in a sentence.')
    ] = None,
    sentences: Annotated[list[str] | None, typer.Argument(help="Two sentences or more that have it.")] = None,
    layer: Annotated[
        int, typer.Option(help="Where its vectors are taken: 0 the embedding, 1 after the first block or level, -1 the last.")
    ] = -1,
    save: Annotated[Path | None, typer.Option(help="An HTML page to write; it opens without a network.")] = None,
    wic: Annotated[
        bool, typer.Option("--wic", help="Measure instead on pairs of sentences: has a word the same sense in both?")
    ] = False,
    data: Annotated[Path | None, typer.Option(help='With --wic: a folder of such pairs; the named set "wic" otherwise.')] = None,
    as_json: Json = False,
) -> None:
    """Compare one word in several sentences: the cosine of its contextual vectors, beside that of its one static vector."""
    from firth.api import load
    from firth.cli.progress import Display
    from firth.errors import ConfigError

    if wic:
        if word is not None or save is not None or layer != -1:
            raise ConfigError("--wic measures all its pairs in all layers; leave the word, the sentences, --layer and --save out")
        with Display() as display:
            result = load(run).wic(data, display.work)
        print_json(result) if as_json else _print_wic(result)
        return
    if word is None or not sentences:
        raise ConfigError("there is nothing to compare; give a word and two sentences or more that have it, or --wic")
    if data is not None:
        raise ConfigError(f"--data {data} is a folder of pairs for --wic; add that, or leave it out")
    found = load(run).senses(word, sentences, layer=layer)
    if save is not None:
        _save(save, run, found)
    if as_json:
        _print_facts(found)
        return
    import shutil

    print(found.text(shutil.get_terminal_size().columns))
    if save is not None:
        print(f"\n{save}: {len(found.layers)} {'layer' if len(found.layers) == 1 else 'layers'}")


def _save(path: Path, run: Path, found: Senses) -> None:
    from firth.figures.figure import Table
    from firth.figures.page import Section, page
    from firth.files import write_text

    lead = "In context the same word has a vector for each sentence; its embedding is the same in all of them."
    section = Section(f"“{found.word}” in {len(found.sentences)} sentences", lead, Table((), []), [found.figure()])
    write_text(path, page(f"Senses by {run.name}", [section], "Drawn by firth senses."))


def _print_facts(found: Senses) -> None:
    print_json(
        {
            "word": found.word,
            "sentences": found.sentences,
            "layer": found.layer,
            "depth": len(found.layers) - 1,
            "similarity": found.similarity.tolist(),
            "static": found.static.tolist(),
        }
    )


def _print_wic(result: dict[str, Any]) -> None:
    chosen = f"where cos ≥ {result['threshold']:.4f} in layer {result['layer']}"
    print(f"{'pairs':<20}{result['pairs']:,}; layer and thresholds from {result['train_pairs']:,} others")
    print(f"{'accuracy':<20}{result['accuracy']:.4f}, the same sense {chosen}")
    print(f"{'static':<20}{result['static_accuracy']:.4f}, where cos ≥ {result['static_threshold']:.4f} in the embedding")
    print(f"{'majority':<20}{result['majority']:.4f}")
