"""Our models for other tools: a run written as a Hugging Face folder or as a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from firth import files, interop
from firth.api.importing import Precision, appearing
from firth.api.loading import load
from firth.api.recipe import Recipe
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError, RunError
from firth.interop import Export, GGUFExport
from firth.interop.model_card import Card
from firth.models import TransformerLM
from firth.text import Tokenizer
from firth.text.chat_template import MARKER_TEMPLATE
from firth.training import log
from firth.training.folder import RunFolder

ExportFormat = Literal["hf", "gguf"]


def export_model(
    run: str | Path,
    out: str | Path,
    *,
    format: ExportFormat = "hf",
    license: str = "unknown",
    dtype: Precision | None = None,
) -> Path:
    """Write a run as a folder that `transformers` opens: AutoModelForCausalLM.from_pretrained(out) computes the same logits.
    With format="gguf", write a GGUF file for llama.cpp; if `out` does not end in .gguf, into a folder with a model card.

    A run whose architecture does not exist there is refused with the reason. `license` goes into the model card. `dtype` is the
    type of the written weights, by default that of the run."""
    if format not in get_args(ExportFormat):
        raise ConfigError(f'unknown format "{format}"; choose one of: {", ".join(get_args(ExportFormat))}')
    model = load(run, "cpu", dtype=dtype)
    recipe, network = model.recipe, model.network
    if format == "gguf":
        interop.expect_gguf(recipe.model)
    family = interop.family_of(recipe.model)
    if not isinstance(network, TransformerLM):
        raise ConfigError(f"only language models can be exported, and this run is {model.task.is_a}.")
    card = Card(
        name=Path(out).resolve().name,
        family=family.title,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        summary=recipe.summary,
        recipe=recipe.toml(),
        data=_data(recipe),
        results=_results(Path(run)),
        license=license,
    )
    if format == "gguf":
        template = _chat_template(model.tokenizer, recipe)
        written = GGUFExport(Path(out).stem, recipe.model, network.state_dict(), model.tokenizer, template, license)
        return _write_gguf(written, card, Path(out))
    export = Export(family, recipe.model, network.state_dict(), model.tokenizer, _sampling(recipe.decoding), card.markdown())
    with appearing(Path(out)) as folder:
        export.write(folder)
    return Path(out)


def _chat_template(tokenizer: Tokenizer, recipe: Recipe) -> str | None:
    """The template of a run that was trained with one, or of an imported model; or firth's own markers as a template."""
    own = getattr(recipe.objective, "template", None)
    given = own or tokenizer.settings.get("chat_template") or (MARKER_TEMPLATE if tokenizer.markers else None)
    return given if isinstance(given, str) else None


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


def _write_gguf(export: GGUFExport, card: Card, out: Path) -> Path:
    """A single file, or a folder with the file and the model card."""
    if out.suffix == ".gguf":
        if out.exists():
            raise RunError(f"{out} already exists. Choose another name, or remove it.")
        export.write(out)
        return out
    with appearing(out) as folder:
        export.write(folder / f"{export.name}.gguf")
        files.write_text(folder / "README.md", card.markdown())
    return out
