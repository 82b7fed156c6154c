"""Export a run for other tools."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.config import to_table
from firth.decoding.foreign import to_generation_config
from firth.errors import ConfigError, option
from firth.interop.formats.formats import FORMATS, expect_carried
from firth.interop.formats.gguf_quantised import GGUFQuantisation, check_quantisation
from firth.interop.formats.model_card import Card
from firth.interop.formats.outgoing import Outgoing
from firth.models import Network, TransformerDecoder
from firth.models.config import TransformerSettings
from firth.models.parametrization import STANDARD
from firth.models.precision import DTYPES, Precision, check_precision
from firth.models.width_rules import as_standard
from firth.text.chat_template import MARKER_TEMPLATE
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training import log
from firth.training.folder import RunFolder, appearing

if TYPE_CHECKING:
    from firth.tasks.run import Run


def write(outgoing: Outgoing, out: Path, format: str) -> Path:
    """Write the new folder `out`, and return it."""
    expect_carried(outgoing, format)
    with appearing(out) as folder:
        FORMATS[format](outgoing, folder)
    return out


def check_export(out: Path, format: str, dtype: Precision | None, quantise: GGUFQuantisation | None) -> None:
    """Refuse arguments of `export` that no run could be exported with."""
    if format not in FORMATS:
        raise ConfigError(f'unknown format "{format}"; choose one of: {", ".join(FORMATS)}')
    if out.suffix == f".{format}":
        raise ConfigError(f"{out} names a file, but export writes a folder with a model card. Remove .{format} from the name.")
    if dtype is not None:
        check_precision(dtype)
    if quantise is not None:
        check_quantisation(quantise)
        if format != "gguf":
            raise ConfigError(
                f'quantise = "{quantise}" only applies to GGUF files, but the format is "{format}". Choose format gguf.'
            )
        if dtype is not None:
            raise ConfigError("dtype does not apply to quantised weights. Remove dtype or quantise.")


def outgoing_run(run: Run[Any], name: str, license: str = "unknown", dtype: Precision | None = None) -> Outgoing:
    """The run in the form that the export formats take."""
    if run.quantised is not None:
        raise ConfigError(f"quantised weights cannot be exported. Load the run without {option('quantise')}.")
    recipe, stored = run.recipe, getattr(run, "threshold", None)
    if stored is not None:
        warnings.warn(
            f'no export format stores the threshold of this run, {stored.threshold:.4g} for "{stored.label}". Apply it '
            "yourself to the predictions of the exported model.",
            stacklevel=4,
        )
    network = _on_cpu(run.network, dtype)
    if isinstance(recipe.model, TransformerSettings) and recipe.model.parametrization != STANDARD:
        network, model = as_standard(network, recipe.model)  # no other tool has a place for muP
        recipe = dataclasses.replace(recipe, model=model)
    pairs = isinstance(network, TransformerDecoder) and recipe.task.two_sides
    card = Card(
        name=name,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        summary=recipe.summary,
        recipe=run.recipe.toml(),
        data=_data(recipe),
        results=_results(run.path),
        license=license,
    )
    return Outgoing(
        network=network,
        model=recipe.model,
        objective=recipe.objective,
        noun=run.task.noun,
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


def _on_cpu(network: Network, dtype: Precision | None) -> Network:
    """The network on the CPU, in that type: the same one if it already is."""
    chosen = {one.dtype for one in network.parameters()} if dtype is None else {DTYPES[dtype]}
    if all(one.device.type == "cpu" and one.dtype in chosen for one in network.parameters()):
        return network
    return copy.deepcopy(network).to("cpu", None if dtype is None else DTYPES[dtype])


def _chat_template(tokenizer: Tokenizer, recipe: Any) -> str | None:
    """The template of a run that was trained with one, or of an imported model; or firth's own markers as a template."""
    own = getattr(recipe.objective, "template", None)
    given = own or tokenizer.settings.get("chat_template") or (MARKER_TEMPLATE if tokenizer.markers else None)
    return given if isinstance(given, str) else None


def _data(recipe: Any) -> str:
    data = recipe.data
    if recipe.imported is not None:
        return f"Imported from a checkpoint of {recipe.imported}; see there."
    source = data.name or (Path(data.path).name if data.path not in (None, "-") else "a text of its own")
    return f"{source} (SHA-256 {data.sha256})" if data.sha256 else str(source)


def _results(run: Path | None) -> dict[str, Any]:
    """The metrics of the last validation."""
    validations = [] if run is None else [line["valid"] for line in log.read(RunFolder(run).log) if "valid" in line]
    return dict(validations[-1]) if validations else {}
