"""Our models for other tools: a run written as a Hugging Face folder, or for CTranslate2."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from firth import files, interop
from firth.api.importing import appearing
from firth.api.loading import load
from firth.api.recipe import Recipe
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.interop import Export
from firth.interop.model_card import Card
from firth.models import TransformerLM, TransformerSeq2Seq
from firth.tasks.run import Run
from firth.training import log
from firth.training.folder import RunFolder

ExportFormat = Literal["hf", "ctranslate2"]


def export_model(run: str | Path, out: str | Path, *, format: ExportFormat = "hf", license: str = "unknown") -> Path:
    """Write a run as a folder that `transformers` opens: AutoModelForCausalLM.from_pretrained(out) computes the same logits. With
    the format "ctranslate2", write one for the Translator or Generator of that package.

    A run whose architecture does not exist there is refused with the reason. `license` goes into the model card."""
    if format not in get_args(ExportFormat):
        raise ConfigError(f'unknown format "{format}"; choose one of: {", ".join(get_args(ExportFormat))}')
    model = load(run, "cpu")
    recipe, network = model.recipe, model.network
    if format == "ctranslate2":
        return _for_ctranslate2(model, Path(run), Path(out), license)
    family = interop.family_of(recipe.model)
    pairs = isinstance(network, TransformerSeq2Seq) and recipe.task.two_sides
    if not (pairs or isinstance(network, TransformerLM)):
        raise ConfigError(f"only language models and translators can be exported, and this run is {model.task.is_a}.")
    if model.source_tokenizer is not model.tokenizer:
        raise ConfigError(
            "this translator has a vocabulary for each side, and `transformers` expects one. Set tokenizer.joint = true."
        )
    card = Card(
        name=Path(out).resolve().name,
        family=family.title,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        summary=recipe.summary,
        recipe=recipe.toml(),
        data=_data(recipe),
        results=_results(Path(run)),
        license=license,
        auto_class="AutoModelForSeq2SeqLM" if pairs else "AutoModelForCausalLM",
    )
    sampling = _sampling(recipe.decoding, pairs)
    export = Export(family, recipe.model, network.state_dict(), model.tokenizer, sampling, card.markdown())
    with appearing(Path(out)) as folder:
        export.write(folder)
    return Path(out)


def _for_ctranslate2(model: Run[Any], run: Path, out: Path, license: str) -> Path:
    from firth.interop import ctranslate2_folder
    from firth.interop.tokenizer_files import ending_json

    network, recipe = model.network, model.recipe
    reason = ctranslate2_folder.why_not(recipe.model)
    if reason is not None:
        raise ConfigError(f"CTranslate2 cannot express {reason}.")
    pairs = isinstance(network, TransformerSeq2Seq) and recipe.task.two_sides
    if not (pairs or isinstance(network, TransformerLM)):
        raise ConfigError(f"only language models and translators can be exported, and this run is {model.task.is_a}.")
    card = Card(
        name=out.resolve().name,
        family="a Transformer of CTranslate2",
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        summary=recipe.summary,
        recipe=recipe.toml(),
        data=_data(recipe),
        results=_results(run),
        license=license,
        library="ctranslate2",
        usage=ctranslate2_folder.usage(model.source_tokenizer, model.tokenizer, pairs),
    )
    sides = {"tokenizer.json": model.tokenizer}
    if model.source_tokenizer is not model.tokenizer:
        sides["source_tokenizer.json"] = model.source_tokenizer
    with appearing(out) as folder:
        ctranslate2_folder.write(network, model.source_tokenizer, model.tokenizer, folder)
        for name, tokenizer in sides.items():
            files.write_text(folder / name, ending_json(tokenizer) if pairs else tokenizer.to_json())
        files.write_text(folder / "README.md", card.markdown())
    return out


def _sampling(decoding: DecodingConfig, pairs: bool) -> dict[str, Any]:
    """[decoding] as generation_config.json has it. The length penalty of our own rules has another form there; the exponent is
    kept. Translators (`pairs`) sample only where they are told to."""
    found: dict[str, Any] = {"max_new_tokens": decoding.tokens, "repetition_penalty": decoding.repetition_penalty}
    if decoding.temperature == 0 or decoding.beam > 1 or pairs:
        rules = {"length_penalty": decoding.penalty, "early_stopping": decoding.early_stopping} if pairs else {}
        return {**found, "do_sample": False, "num_beams": decoding.beam, **rules}
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
