"""Public models as runs: loaded straight from their folder or file, or written as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firth import files, interop
from firth.api.recipe import Recipe
from firth.decoding.config import DecodingConfig
from firth.decoding.foreign import from_generation_config, from_gguf
from firth.interop import ForeignModel
from firth.interop.files.gguf_file import is_gguf
from firth.models import Network
from firth.models.precision import DTYPES, Precision
from firth.models.uninitialised import Uninitialised
from firth.tasks import TASKS
from firth.tasks.run import Run
from firth.text.config import TokenizerConfig
from firth.training.config import Device, TrainingConfig
from firth.training.folder import FORMAT, RunFolder, appearing
from firth.training.loop import device_for

_ANSWER = 512  # tokens of an answer, at most, of models with a chat template
_WINDOW = 1024  # tokens per window of `evaluate`, at most


def recipe_of(foreign: ForeignModel) -> Recipe:
    """The recipe of an imported model, without data."""
    task = TASKS[foreign.family.objective]
    context, pairs = getattr(foreign.model, "context", None) or _WINDOW, task.two_sides
    answers = {"tokens": _ANSWER} if foreign.tokenizer.settings.get("chat_template") else {}
    return Recipe(
        summary=f"{foreign.family.title} model imported from {foreign.folder.resolve().name}",
        imported=foreign.family.architecture,
        data=task.Data(**foreign.data),
        tokenizer=TokenizerConfig(kind="imported", vocab=foreign.tokenizer.vocab, joint=pairs),
        model=foreign.model,
        objective=task.Objective(kind=task.name, **foreign.objective),
        training=_pair_training(context) if pairs else TrainingConfig(context=min(context, _WINDOW), batch=8),
        decoding=DecodingConfig(**(answers | _decoding(foreign, pairs))),
    )


def _decoding(foreign: ForeignModel, pairs: bool) -> dict[str, Any]:
    if is_gguf(foreign.folder):
        return from_gguf(foreign.generation)
    writes = foreign.family.model in ("language", "seq2seq")
    return from_generation_config(foreign.generation, pairs=pairs) if writes else {}


def _pair_training(context: int) -> TrainingConfig:
    return TrainingConfig(context=min(context - 1, _WINDOW))  # <eos> needs a place, too


def load_foreign(path: Path, device: Device, dtype: Precision | None) -> Run[Any]:
    """The model in a Hugging Face folder or a GGUF file as a run; nothing is written."""
    foreign = interop.open_model(path)
    recipe = recipe_of(foreign)
    network = _network(foreign, recipe, dtype)
    network = own_weights(network.to(device_for(device)))
    return recipe.task.run_class(recipe.task, network, foreign.tokenizer, foreign.source_tokenizer)


def _network(foreign: ForeignModel, recipe: Recipe, dtype: Precision | None = None) -> Network:
    network = empty_network(recipe, foreign.tokenizer.vocab)
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    network.load_state_dict(foreign.weights(shapes, None if dtype is None else DTYPES[dtype]), assign=True)
    return network


def own_weights(network: Network) -> Network:
    """The network with a copy of each weight that may be memory-mapped. Otherwise, overwriting the file would change the model's
    answers, and truncating it would end the process."""
    for weight in (*network.parameters(), *network.buffers()):
        if weight.device.type == "cpu":
            weight.data = weight.data.clone()
    return network


def empty_network(recipe: Recipe, vocab: int) -> Network:
    """The network of an imported model before it gets its weights."""
    with Uninitialised():
        return recipe.task.network(vocab, vocab)


def import_model(path: str | Path, out: str | Path) -> Path:
    """Write the model in the Hugging Face folder, or GGUF file, `path` as a run folder `out`, in the type of its weights."""
    foreign = interop.open_model(Path(path))
    recipe = recipe_of(foreign)
    with appearing(Path(out)) as folder:
        run = RunFolder(folder)
        network = _network(foreign, recipe)
        tokenizer = foreign.tokenizer
        files.write_text(run.recipe, recipe.toml())
        files.write_text(run.tokenizer, tokenizer.to_json())
        files.write_text(run.tokenizer_config, tokenizer.settings_json() or "{}")
        if foreign.source_tokenizer not in (None, tokenizer):
            files.write_text(run.source_tokenizer, foreign.source_tokenizer.to_json())
        metadata = {"format": str(FORMAT), "step": "0", **run.tokenizer_hashes()}
        files.save_tensors(run.model, network.state_dict(), metadata)
        files.write_text(run.format, f"{FORMAT}\n")
    return Path(out)
