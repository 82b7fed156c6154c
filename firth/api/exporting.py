"""Our models for other tools: a run written as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from firth import interop
from firth.api.importing import appearing
from firth.api.loading import load
from firth.api.recipe import Recipe
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.interop import Export
from firth.interop.model_card import Card
from firth.models import TransformerLM
from firth.training import log
from firth.training.folder import RunFolder

ExportFormat = Literal["hf"]


def export_model(run: str | Path, out: str | Path, *, format: ExportFormat = "hf", license: str = "unknown") -> Path:
    """Write a run as a folder that `transformers` opens: AutoModelForCausalLM.from_pretrained(out) computes the same logits.

    A run whose architecture does not exist there is refused with the reason. `license` goes into the model card."""
    if format not in get_args(ExportFormat):
        raise ConfigError(f'unknown format "{format}"; choose one of: {", ".join(get_args(ExportFormat))}')
    model = load(run, "cpu")
    recipe, network = model.recipe, model.network
    family = interop.family_of(recipe.model, recipe.objective.kind, recipe.imported)
    if family.model == "language" and not isinstance(network, TransformerLM):
        raise ConfigError(f"of language models only the models themselves can be exported, and this run is {model.task.is_a}.")
    card = Card(
        name=Path(out).resolve().name,
        family=family.title,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        summary=recipe.summary,
        recipe=recipe.toml(),
        data=_data(recipe),
        results=_results(Path(run)),
        license=license,
        auto_class=family.auto_class,
    )
    export = Export(
        family,
        recipe.model,
        network.state_dict(),
        model.tokenizer,
        _sampling(recipe.decoding),
        card.markdown(),
        labels=getattr(recipe.data, "labels", None) or (),
        objective=recipe.objective,
    )
    with appearing(Path(out)) as folder:
        export.write(folder)
    return Path(out)


def _sampling(decoding: DecodingConfig) -> dict[str, Any]:
    """[decoding] as generation_config.json has it."""
    found: dict[str, Any] = {"max_new_tokens": decoding.tokens, "repetition_penalty": decoding.repetition_penalty}
    if decoding.temperature == 0 or decoding.beam > 1:
        return {**found, "do_sample": False, "num_beams": decoding.beam}
    return {
        **found,
        "do_sample": True,
        "temperature": decoding.temperature,
        "top_k": decoding.top_k,
        "top_p": decoding.top_p,
        **({"min_p": decoding.min_p} if decoding.min_p else {}),
    }


def _data(recipe: Recipe) -> str:
    data = recipe.data
    if recipe.imported is not None:
        return f"Imported from a checkpoint of {recipe.imported}; see there."
    source = data.name or (Path(data.path).name if data.path not in (None, "-") else "a text of its own")
    return f"{source} (SHA-256 {data.sha256})" if data.sha256 else str(source)


def _results(run: Path) -> dict[str, Any]:
    """The metrics of the last validation."""
    found = [line["valid"] for line in log.read(RunFolder(run).log) if "valid" in line]
    return dict(found[-1]) if found else {}
