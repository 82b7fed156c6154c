"""The shipped recipes, by name. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from firth.config import Table, read_toml
from firth.errors import ConfigError, did_you_mean
from firth.files import is_file

FOLDER = Path(__file__).parent / "experiments" / "recipes"


def shipped() -> dict[str, Table]:
    """Every shipped recipe as a TOML table, by name. Does not need torch."""
    paths = {path.stem: path for path in FOLDER.glob("*.toml")}
    return {name: read_toml(paths[name]) for name in sorted(paths)}


def recipe_path(name: str) -> Path:
    """The file of a shipped recipe, or `name` itself if it is a file."""
    own = FOLDER / f"{name}.toml"
    if is_file(own):
        return own
    path = Path(name)
    if is_file(path):
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise ConfigError(f"there is no file {name}; give a TOML file or the name of a shipped recipe (see `firth recipes`)")
    raise ConfigError(f'there is no recipe "{name}".{did_you_mean(name, (p.stem for p in FOLDER.glob("*.toml")))}')
