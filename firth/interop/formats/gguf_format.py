"""--format gguf: a file for llama.cpp and the tools around it, beside a model card."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from firth import files
from firth.errors import ConfigError
from firth.interop.formats import gguf_llama
from firth.interop.formats.gguf_model import GGUFExport
from firth.interop.formats.outgoing import Outgoing
from firth.models import TransformerLM


def write_gguf(run: Outgoing, folder: Path) -> None:
    reason = gguf_llama.why_not(run.model)
    if reason is not None:
        raise ConfigError(f"GGUF files of firth are LLaMA models, and LLaMA cannot express {reason}. Use another format.")
    if not isinstance(run.network, TransformerLM):
        raise ConfigError(f"only language models can be written as GGUF, and this run is {run.noun}.")
    name, card = run.card.name, dataclasses.replace(run.card, family="LLaMA (GGUF)")
    export = GGUFExport(name, run.model, run.network.state_dict(), run.tokenizer, run.template, card.license, run.quantise)
    export.write(folder / f"{name}.gguf", run.progress)
    files.write_text(folder / "README.md", card.markdown())
