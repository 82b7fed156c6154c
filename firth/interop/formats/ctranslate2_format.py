"""--format ctranslate2: a folder for the Translator or the Generator of CTranslate2."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from firth import files
from firth.errors import ConfigError
from firth.interop.files.tokenizer_files import ending_json
from firth.interop.formats import ctranslate2_folder
from firth.interop.formats.outgoing import Outgoing
from firth.models import TransformerDecoder, TransformerLM


def write_ctranslate2(run: Outgoing, folder: Path) -> None:
    reason = ctranslate2_folder.why_not(run.model)
    if reason is not None:
        raise ConfigError(f"CTranslate2 cannot express {reason}. Export it as safetensors.")
    network = run.network
    if not isinstance(network, TransformerDecoder if run.pairs else TransformerLM):
        raise ConfigError(f"only language models and translators can be exported, and this run is {run.noun}.")
    ctranslate2_folder.write(network, run.source_tokenizer, run.tokenizer, folder)
    sides = {"tokenizer.json": run.tokenizer}
    if run.source_tokenizer is not run.tokenizer:
        sides["source_tokenizer.json"] = run.source_tokenizer
    for name, tokenizer in sides.items():
        files.write_text(folder / name, ending_json(tokenizer) if run.pairs else tokenizer.to_json())
    usage = ctranslate2_folder.usage(run.source_tokenizer, run.tokenizer, run.pairs)
    card = dataclasses.replace(
        run.card, family="a Transformer of CTranslate2", library="ctranslate2", usage=f"```python\n{usage.strip()}\n```"
    )
    files.write_text(folder / "README.md", card.markdown())
