"""Export models for other tools."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

from firth.api.importing import Precision, appearing
from firth.api.loading import load
from firth.api.recipe import Recipe
from firth.config import to_table
from firth.decoding.foreign import to_generation_config
from firth.errors import ConfigError
from firth.interop.formats.formats import FORMATS
from firth.interop.formats.gguf_quantised import GGUFQuantisation, check_quantisation
from firth.interop.formats.model_card import Card
from firth.interop.formats.outgoing import Outgoing
from firth.models import TransformerDecoder
from firth.progress import Progress, silent
from firth.tasks.classification import ClassifierRun
from firth.text import Tokenizer
from firth.text.chat_template import MARKER_TEMPLATE
from firth.training import log
from firth.training.folder import RunFolder


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
    """Write a run, or a public model, into a new folder for other tools; `format` is one of FORMATS in formats/formats.py.
    With "hf", `transformers` computes the same logits: AutoModelForCausalLM.from_pretrained(out).

    A run that the format cannot express is refused with the reason. `license` goes into the model card. `dtype` is the type of
    the written weights, by default that of the run. `quantise` the matrices of a GGUF file: "q8_0", "q4_0" or "q4_k_m"."""
    if format not in FORMATS:
        raise ConfigError(f'unknown format "{format}"; choose one of: {", ".join(FORMATS)}')
    if Path(out).suffix == f".{format}":
        raise ConfigError(f"{out} names a file, but export writes a folder with a model card. Remove .{format} from the name.")
    if quantise is not None:
        check_quantisation(quantise)
        if format != "gguf":
            raise ConfigError(
                f'quantise = "{quantise}" only applies to GGUF files, but the format is "{format}". Choose format gguf.'
            )
        if dtype is not None:
            raise ConfigError("dtype does not apply to quantised weights. Remove dtype or quantise.")
    outgoing = outgoing_run(Path(run), Path(out).resolve().name, license, dtype)
    outgoing = dataclasses.replace(outgoing, quantise=quantise, progress=progress)
    with appearing(Path(out)) as folder:
        FORMATS[format](outgoing, folder)
    return Path(out)


def outgoing_run(path: Path, name: str, license: str = "unknown", dtype: Precision | None = None) -> Outgoing:
    """The run in a folder, in the form that the export formats take."""
    run = load(path, "cpu", dtype=dtype)
    recipe = run.recipe
    if isinstance(run, ClassifierRun) and (stored := run.threshold) is not None:
        warnings.warn(
            f'no format holds the threshold of this run, {stored.threshold:.4g} for "{stored.label}". Apply it to what the '
            "exported model predicts.",
            stacklevel=3,
        )
    pairs = isinstance(run.network, TransformerDecoder) and recipe.task.two_sides
    card = Card(
        name=name,
        parameters=sum(parameter.numel() for parameter in run.network.parameters()),
        summary=recipe.summary,
        recipe=recipe.toml(),
        data=_data(recipe),
        results=_results(path),
        license=license,
    )
    return Outgoing(
        network=run.network,
        model=recipe.model,
        objective=recipe.objective,
        is_a=run.task.is_a,
        tokenizer=run.tokenizer,
        source_tokenizer=run.source_tokenizer,
        labels=tuple(getattr(recipe.data, "labels", None) or ()),
        template=_chat_template(run.tokenizer, recipe),
        imported=recipe.imported,
        pairs=pairs,
        sampling=to_generation_config(recipe.decoding, pairs=pairs),
        recipe=to_table(recipe),
        card=card,
    )


def _chat_template(tokenizer: Tokenizer, recipe: Recipe) -> str | None:
    """The template of a run that was trained with one, or of an imported model; or firth's own markers as a template."""
    own = getattr(recipe.objective, "template", None)
    given = own or tokenizer.settings.get("chat_template") or (MARKER_TEMPLATE if tokenizer.markers else None)
    return given if isinstance(given, str) else None


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
