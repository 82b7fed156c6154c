"""firth caption"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import complain, verb
from firth.cli.decoding_options import Settings, beam_of, check_beam, check_sample, takes_decoding
from firth.cli.save_option import Save, save_figures, section
from firth.decoding.config import CONSTRAINING
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.inspection.image_attention import ImageAttention
    from firth.tasks.abilities.image_captioner import Caption

_BATCH = 256  # images captioned at once


def _png(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() != ".png":
        raise ConfigError(f'--overlay writes a PNG file, but "{path}" does not end in .png. Rename it, or use --save.')
    return path


@verb()
@takes_decoding(sample=True, without=("stop", *CONSTRAINING))
def caption(
    run: Annotated[Path, typer.Argument(help="Run folder of a captioner.")],
    images: Annotated[list[Path], typer.Argument(help="Image files, PNG or JPEG.")],
    decoding: Settings,
    nbest: Annotated[int, typer.Option(help="Captions per image, printed as `number ||| text ||| score`.", min=1)] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample a caption instead of searching for the most probable one.")
    ] = False,
    save: Save = None,
    overlay: Annotated[
        Path | None, typer.Option(help="PNG file (.png) to write, which shows for each word where it attends.", callback=_png)
    ] = None,
    attention: Annotated[bool, typer.Option("--attention", help="Show where each word attends, as text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, one for each image.")] = False,
) -> None:
    """Caption images, and show where each word attends."""
    import shutil

    from firth.api import load
    from firth.tasks.ability import CAPTION

    check_sample(sample, decoding, nbest)
    model = load(run, kind=CAPTION)
    config = model.decoding(decoding | {"beam": beam_of(decoding, model.recipe.decoding, nbest)})
    check_beam(config, nbest, decoding)
    looks: dict[Path, ImageAttention] = {}
    cut_off = 0
    for first in range(0, len(images), _BATCH):
        some = images[first : first + _BATCH]
        captions_of = model.captions(some, config, sample=sample, first=first)
        for number, (image, captions) in enumerate(zip(some, captions_of, strict=True), first):
            seen = None
            if save is not None or overlay is not None or attention:
                looks[image] = seen = model.overlay(image, captions[0].text or None)
            cut_off += not captions[0].finished
            if as_json:
                print(_as_json(image, captions[:nbest], seen if attention else None))
            else:
                print(_spelled(number, image, captions[:nbest], len(images) > 1), flush=True)
                if seen is not None and attention:
                    print("\n" + seen.text(shutil.get_terminal_size().columns))
    if cut_off:
        complain(f"note: {cut_off:,} of the captions had not ended after {config.tokens} tokens; raise --tokens")
    if save is not None:
        sections = [section(image.name, " ".join(seen.words[:-1]), [seen.figure()]) for image, seen in looks.items()]
        save_figures(save, f"Captions by {run.name}", sections, "firth caption")
    if overlay is not None:
        from firth.figures.image_attention import overlay_sheet, png
        from firth.files import replacing

        with replacing(overlay) as temporary:
            temporary.write_bytes(png(overlay_sheet([(seen.image, seen.best) for seen in looks.values()])))


def _spelled(number: int, image: Path, candidates: list[Caption], several: bool) -> str:
    if len(candidates) > 1:
        return "\n".join(f"{number} ||| {one.text} ||| {one.score:.4f}" for one in candidates)
    return f"{image}\t{candidates[0].text}" if several else candidates[0].text


def _as_json(image: Path, candidates: list[Caption], seen: ImageAttention | None) -> str:
    best = dataclasses.asdict(candidates[0])
    more = {"nbest": [dataclasses.asdict(one) for one in candidates]} if len(candidates) > 1 else {}
    look = {} if seen is None else {"attention": {"words": seen.words, "weights": seen.best.tolist()}}
    return json.dumps({"image": str(image), "caption": best.pop("text"), **best, **more, **look}, ensure_ascii=False)
