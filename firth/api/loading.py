"""load(): from a run folder to a run that can be used."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from firth import interop
from firth.api.importing import empty_network, load_foreign, own_weights, recipe_of
from firth.api.recipe import Recipe, read_run_recipe
from firth.api.tokenizers import read_tokenizers
from firth.errors import DataError
from firth.inspection.walk import Walk
from firth.interop.formats.gguf_quantised import GGUFQuantisation
from firth.layers.quantised import Quantisation
from firth.models import Network
from firth.models.precision import DTYPES, Precision, check_precision
from firth.models.quantisation import check_kind
from firth.models.uninitialised import Uninitialised
from firth.progress import Progress, silent
from firth.tasks.abilities.exporting import check_export
from firth.tasks.ability import Ability
from firth.tasks.run import Run, has_template
from firth.tasks.task import Tokenizers
from firth.training import checkpoint
from firth.training.config import Device
from firth.training.folder import RunFolder
from firth.training.loop import device_for

R = TypeVar("R", bound=Run[Any])


@overload
def load(
    path: str | Path, device: Device = "auto", *, dtype: Precision | None = None, quantise: Quantisation | None = None
) -> Run[Any]: ...


@overload
def load(
    path: str | Path,
    device: Device = "auto",
    *,
    kind: type[R],
    dtype: Precision | None = None,
    quantise: Quantisation | None = None,
) -> R: ...


@overload
def load(
    path: str | Path,
    device: Device = "auto",
    *,
    kind: Ability,
    dtype: Precision | None = None,
    quantise: Quantisation | None = None,
) -> Any: ...


def load(
    path: str | Path,
    device: Device = "auto",
    *,
    kind: type[Any] | Ability | None = None,
    dtype: Precision | None = None,
    quantise: Quantisation | None = None,
) -> Any:
    """The run in the folder `path`, with the weights that were best on validation: a LanguageModelRun, ClassifierRun, …
    A Hugging Face folder or GGUF file with a model of a known family is such a run, too.

    `kind`: the class that the run must have, or an ability; any other run is an error that says what it can do. `dtype`: the
    type of the weights in memory, by default that of the file. `quantise`: "int8" or "int4" rounds the matrices of a Transformer
    after that, to decode with less memory; `Run.quantised` tells how much."""
    if quantise is not None:
        check_kind(quantise)
    if dtype is not None:
        check_precision(dtype)
    run = _loaded(Path(path), device, kind, dtype)
    if quantise is not None:
        run.quantise(quantise)
    return run


def _loaded(path: Path, device: Device, kind: type[Any] | Ability | None, dtype: Precision | None) -> Any:
    if is_foreign(path):
        run = load_foreign(path, device, dtype)
        return run if kind is None else run.expect(kind)
    folder = RunFolder.open(path)
    recipe = read_run_recipe(folder.recipe)
    source, tokenizer = read_tokenizers(folder, recipe)
    if kind is not None:
        recipe.task.expect(kind, has_template(tokenizer))
    imported = recipe.imported is not None
    network = empty_network(recipe, tokenizer.vocab) if imported else recipe.task.network(source.vocab, tokenizer.vocab)
    weights = checkpoint.load_weights(folder, lambda message: warnings.warn(message, stacklevel=2))
    try:
        network.load_state_dict(weights, assign=imported)  # assigned, a weight keeps the type that it has in the file
    except RuntimeError as error:
        raise DataError(f"the weights in {folder.path} do not fit {_misfit(network, weights)}") from error
    if dtype is not None:
        network = network.to(DTYPES[dtype])
    network = network.to(device_for(device))
    run = recipe.task.run_class(recipe.task, own_weights(network) if imported else network, tokenizer, source)
    run.path = folder.path
    return run


def export_model(
    run: str | Path,
    out: str | Path,
    *,
    format: str = "hf",
    license: str = "unknown",
    dtype: Precision | None = None,
    quantise: GGUFQuantisation | None = None,
    progress: Progress = silent,
) -> Path:
    """Write the run in the folder `run`, or a public model, into the new folder `out` for other tools.

    `format`, `license`, `dtype` and `quantise` are those of Run.export."""
    check_export(Path(out), format, dtype, quantise)
    loaded = load(run, "cpu", dtype=dtype)
    return loaded.export(out, format=format, license=license, quantise=quantise, progress=progress)


def walk(run: Run[Any] | str | Path, text: str, *, target: str | None = None) -> Walk:
    """The whole forward pass of `run`, a run or its folder, over `text`, as stages with their equations and numbers.

    `target`: the translation to walk through, for a translator; by default its own."""
    return (run if isinstance(run, Run) else load(run)).walk(text, target=target)


def network_of(path: Path) -> tuple[Recipe, Network, tuple[Ability, ...]]:
    """The recipe of a run, or of a public model; its network on the meta device, without weights; and its abilities."""
    recipe, (source, tokenizer) = described(path)
    with torch.device("meta"), Uninitialised():
        return recipe, recipe.task.network(source.vocab, tokenizer.vocab), recipe.task.abilities(has_template(tokenizer))


def described(path: Path) -> tuple[Recipe, Tokenizers]:
    """The recipe and the tokenizers of a run, or of a public model, without its weights."""
    if is_foreign(path):
        foreign = interop.open_model(path)
        return recipe_of(foreign), (foreign.source_tokenizer or foreign.tokenizer, foreign.tokenizer)
    folder = RunFolder.open(path)
    recipe = read_run_recipe(folder.recipe)
    return recipe, read_tokenizers(folder, recipe)


def is_foreign(path: Path) -> bool:
    """True if this is a Hugging Face folder or a GGUF file, and no run."""
    return interop.is_model(path) and not RunFolder(path).exists()


def _misfit(network: Network, weights: Mapping[str, Tensor]) -> str:
    own = network.state_dict()
    for table, file in (
        ("embedding.weight", "tokenizer.json"),
        ("encoder.embedding.weight", "tokenizer.json"),
        ("own_embedding.weight", "source_tokenizer.json"),
    ):
        expected, stored = own.get(table), weights.get(table)
        if expected is not None and stored is not None and len(expected) != len(stored):
            return (
                f"its {file}: the weights have {len(stored):,} tokens, {file} has {len(expected):,}. It belongs to another run; "
                "restore this run's own."
            )
    return "its recipe.toml. One of them was edited; restore it."
