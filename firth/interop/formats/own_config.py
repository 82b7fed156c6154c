"""The files beside exported weights whose format does not say more: the tokenizer, the model card, and
firth_config.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firth import files
from firth.interop.formats.outgoing import Outgoing
from firth.version import __version__

NAME = "firth_config.json"


def write_beside(run: Outgoing, folder: Path, *, usage: str, library: str, more: Mapping[str, Any]) -> None:
    """The tokenizer, the model card with its `usage`, and firth_config.json with `more`."""
    tokenizer = run.tokenizer
    files.write_text(folder / "tokenizer.json", tokenizer.to_json())
    files.write_text(folder / "tokenizer_config.json", _json(tokenizer.settings or _tokenizer_config(run)))
    if run.source_tokenizer is not tokenizer:
        files.write_text(folder / "source_tokenizer.json", run.source_tokenizer.to_json())
    files.write_text(folder / "README.md", dataclasses.replace(run.card, usage=usage, library=library).markdown())
    files.write_text(folder / NAME, _json({**own_config(run), **more}))


def own_config(run: Outgoing) -> dict[str, Any]:
    """The task, the vocabulary, the special tokens, and the tables [model] and [decoding] of the recipe."""
    return {
        "firth_version": __version__,
        "task": run.objective.kind,
        "vocab": run.tokenizer.vocab,
        "source_vocab": run.source_tokenizer.vocab,
        "context": run.network.context,
        "labels": list(run.labels),
        "opening_ids": [int(id) for id in run.tokenizer.prefix_ids],
        "eos_id": run.tokenizer.eos,
        "model": run.recipe["model"],
        "decoding": run.recipe["decoding"],
    }


def _tokenizer_config(run: Outgoing) -> dict[str, Any]:
    names = {"eos_token": run.tokenizer.eos_name, "unk_token": run.tokenizer.unknown_name}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **{key: name for key, name in names.items() if name is not None},
    }


def _json(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False, indent=2) + "\n"
