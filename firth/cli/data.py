"""firth data list | get | path | encode | export"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, app, print_json, verb
from firth.cli.suggestions import Verbs
from firth.errors import ConfigError, did_you_mean
from firth.files import exists

if TYPE_CHECKING:
    from firth.text.data_set import DataSet

group = typer.Typer(cls=Verbs, rich_markup_mode=None, help="Named data sets: list, download, locate. Encode text ahead.")
app.add_typer(group, name="data")

Name = Annotated[str, typer.Argument(help="Name of a data set, see `firth data list`.", show_default=False)]


@verb(within=group)
def list_(as_json: Json = False) -> None:
    """List the data sets with size, state and licence. Downloads nothing."""
    from firth.text.data_set import DATA_SETS

    entries = [DATA_SETS[kind] for kind in DATA_SETS.all_kinds]
    if as_json:
        print_json([_facts(entry) for entry in entries])
        return
    for entry in entries:
        facts = _facts(entry)
        print(f"{entry.name:<16} {_size(entry.size) if entry.files else '':>9}  {facts['state']:<7}  {entry.about}")
        origin = DATA_SETS.origin(entry.name)
        notes = [entry.licence, entry.home] if entry.files else [str(entry.holds)]
        notes += [f"from {origin.name}"] if origin else []
        notes += ["mirror only"] if entry.mirror_only else []
        notes += [] if entry.verified else ["unverified"]
        print(f"{'':<36}{'; '.join(notes)}")


@verb(within=group)
def get(name: Name, as_json: Json = False) -> None:
    """Download a data set and print its folder. Files are taken from the mirror FIRTH_DATA if set, and verified."""
    from firth.progress.display import Display
    from firth.text.datasets import download

    with Display() as display:
        folder = download.get(name, display.work)
    _print_place(name, folder, as_json)


@verb(within=group)
def path(
    name: Name,
    file: Annotated[
        str | None, typer.Argument(help="Print the path of this file of the data set instead.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the folder of a downloaded data set, or the path of a file. Downloads nothing."""
    from firth.text.data_set import DATA_SETS
    from firth.text.datasets import download

    names = [known.name for known in DATA_SETS[name].files]
    if file is not None and file not in names:
        raise ConfigError(f'{name} has no file "{file}".{did_you_mean(file, names)}')
    folder = download.local(name)
    if file is None:
        _print_place(name, folder, as_json)
    elif as_json:
        print_json({"name": name, "file": file, "path": str(folder / file)})
    else:
        print(folder / file)


@verb(within=group, takes_settings=True)
def encode(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see `firth recipes`) or a TOML file.", show_default=False)],
    workers: Annotated[int | None, typer.Option(help="Threads. [default: one per core]", min=1, show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Tokenise the text of a recipe into the cache, ahead of training.

    Training does this by itself. An encoding that was interrupted goes on where it stopped. Settings of the recipe can be
    overridden: --data.path=my.txt"""
    from firth.api import encode_recipe, find_recipe
    from firth.cli.settings import settings
    from firth.progress.display import Display

    chosen = find_recipe(recipe, settings(context.args))
    if workers is not None:
        os.environ["FIRTH_WORKERS"] = str(workers)
    with Display() as display:
        data = encode_recipe(chosen, display.work)
    parts = {name: file for name in ("train", "valid", "test") if (file := getattr(data, name)) is not None}
    if as_json:
        shards = {name: [shard._asdict() for shard in file.shards] for name, file in parts.items()}
        listed = {name: {"path": str(file.path), "tokens": file.count, "shards": shards[name]} for name, file in parts.items()}
        print_json(listed)
        return
    for name, file in parts.items():
        print(f"{name:<6} {file.count:>15,} tokens  shards: {len(file.shards):,}  {file.path}")


@verb(within=group)
def export(
    name: Annotated[str, typer.Argument(help="Data set of images: scenes or digits.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write to; it must be empty or absent.", show_default=False)],
    count: Annotated[int, typer.Option(help="Number of images. [default: 10]", min=1, show_default=False)] = 10,
    part: Annotated[
        str, typer.Option(help="Split: train, valid, test, or unseen (only scenes). [default: test]", show_default=False)
    ] = "test",
    size: Annotated[int | None, typer.Option(help="Side of the images in pixels. [default: the data set's own]")] = None,
    as_json: Json = False,
) -> None:
    """Write captioned images as PNG files and a table, captions.tsv."""
    from firth.figures.image_attention import png
    from firth.files import replacing, write_text
    from firth.text.config import CaptionsConfig
    from firth.text.data.captions import some_images
    from firth.text.data_set import DATA_SETS

    known = [one.name for one in DATA_SETS if one.holds == "captioned images"]
    if name not in known:
        raise ConfigError(f'there are no images called "{name}".{did_you_mean(name, known)}')
    if exists(out) and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not an empty folder. Choose another --out.")
    images, captions = some_images(CaptionsConfig(name=name, size=size), part, count)
    names = [f"{number:04}.png" for number in range(len(captions))]
    for image, file in zip(images, names, strict=True):
        with replacing(out / file) as temporary:
            temporary.write_bytes(png(image))
    table = out / "captions.tsv"
    write_text(
        table, "".join(f"{file}\t{caption}\n" for file, caption in [("image", "caption"), *zip(names, captions, strict=True)])
    )
    if as_json:
        print_json({"name": name, "path": str(table), "images": len(names)})
    else:
        print(table)


def _print_place(name: str, folder: Path, as_json: bool) -> None:
    from firth.text.data_set import DATA_SETS

    if not as_json:
        print(folder)
        return
    entry = DATA_SETS[name]
    files = {file.name: str(folder / file.name) for file in entry.files}
    print_json({"name": name, "folder": str(folder), "files": files, "verified": entry.verified})


def _facts(entry: DataSet) -> dict[str, Any]:
    from firth.text.datasets.download import state

    return {
        "name": entry.name,
        "summary": entry.about,
        "licence": entry.licence,
        "home": entry.home,
        "holds": entry.holds,
        "size": entry.size,
        "state": state(entry),
        "verified": entry.verified,
        "mirror_only": entry.mirror_only,
        "files": [{"name": file.name, "size": file.size, "sha256": file.sha256, "url": file.url} for file in entry.files],
    }


def _size(size: int | None) -> str:
    if size is None:
        return "?"
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"
