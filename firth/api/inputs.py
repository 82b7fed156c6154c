"""The files that decide a run besides those of data.sha256, with their hashes, for its history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firth import files
from firth.api.recipe import Recipe
from firth.errors import FirthError
from firth.text.readers.corpus import find
from firth.text.readers.remote import is_url
from firth.training.folder import RunFolder


def fingerprints(recipe: Recipe) -> dict[str, Any]:
    """From each setting that names such files to their fingerprint: held-out data, word vectors, and the weights to start from.
    None for what cannot be read again, such as a pipe, a URL, or a run that is gone."""
    named = {f"data.{key}": getattr(recipe.data, key) for key in recipe.data.paths() if key.startswith(("valid_", "test_"))}
    named |= {"model.embedding.vectors": recipe.model.embedding.vectors, "training.init": recipe.training.init}
    return {name: _fingerprint(str(path), recipe) for name, path in named.items() if path is not None}


def _fingerprint(path: str, recipe: Recipe) -> dict[str, Any] | None:
    try:
        paths = _weights(Path(path)) or _texts(path, recipe)
        return files.fingerprint(paths) if paths else None
    except (OSError, FirthError):  # it was read when the run began
        return None


def _weights(path: Path) -> Sequence[Path]:
    """Those of a run, or of a folder with a public model."""
    run = RunFolder(path)
    return [run.model] if run.exists() else sorted(path.glob("*.safetensors")) if path.is_dir() else []


def _texts(path: str, recipe: Recipe) -> Sequence[Path]:
    place = Path(path).expanduser()
    if is_url(path) or (files.exists(place) and not (place.is_file() or place.is_dir())):
        return []
    return [place] if place.is_file() else find(path, recipe.data.format).files
