"""A folder of `sentence-transformers`: modules.json lists an encoder, how its vectors become one, and whether that is normalised.

The encoder is a Hugging Face folder, here or below; the modules after it have a folder each:

    sentence_bert_config.json             max_seq_length, where texts are cut (newer: model_max_length of the tokenizer)
    1_Pooling/config.json                 pooling_mode, or one of the older keys pooling_mode_mean_tokens, …
    config_sentence_transformers.json     prompts, of which one may be put before every text
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth import files
from firth.errors import DataError
from firth.files import is_file
from firth.interop.files.foreign_json import is_inside, parse_json, read_json, read_text, shown
from firth.layers.pool import PoolKind
from firth.version import __version__

MODULES = "modules.json"
_SETTINGS = ("sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json")
_POOLS: dict[str, PoolKind] = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}
_UNLIMITED = 10**9  # tokenizers write a much larger number where there is no limit
_OLD = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class SentenceSettings:
    folder: Path  # of the encoder
    pool: PoolKind
    objective: Mapping[str, Any]  # settings of [objective]


def is_folder(path: Path) -> bool:
    return is_file(path / MODULES)


def read(folder: Path) -> SentenceSettings:
    modules = _modules(folder)
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer"], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise DataError(
            f"{folder / MODULES} lists the modules {', '.join(kinds) or 'none'}; firth only computes Transformer, Pooling, "
            "Normalize."
        )
    encoder = modules[0][1]
    settings: dict[str, Any] = next((read_json(encoder / name) for name in _SETTINGS if (encoder / name).is_file()), {})
    if settings.get("do_lower_case"):
        raise DataError(f"{encoder}: do_lower_case is true, but only the tokenizer can convert texts. Set it there.")
    objective = {"normalize": "Normalize" in kinds, "longest": _longest(encoder, settings), "prompt": _prompt(folder)}
    return SentenceSettings(encoder, _pool(modules[1][1]) if len(modules) > 1 else "mean", objective)


def _longest(encoder: Path, settings: Mapping[str, Any]) -> int | None:
    """After how many tokens texts are cut."""
    tokenizer = read_json(encoder / "tokenizer_config.json", {})
    given = settings.get("max_seq_length") or tokenizer.get("model_max_length")
    return int(given) if given and 0 < given < _UNLIMITED else None


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """The kind of each module, and its folder."""
    path = folder / MODULES
    try:
        modules = [
            (str(one["type"]).rsplit(".", 1)[-1], str(one.get("path", ""))) for one in parse_json(read_text(path), str(path))
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} does not list modules with a type and a path. Download it again.") from error
    for _, name in modules:
        if name and not is_inside(name):
            raise DataError(f"{path} names the folder {shown(name)}, which is not in it. Download it again.")
    return [(kind, folder / name) for kind, name in modules]


def _pool(folder: Path) -> PoolKind:
    table = read_json(folder / "config.json", schema="1_Pooling/config.json")
    modes = table.get("pooling_mode", [mode for key, mode in _OLD.items() if table.get(key)] or "mean")
    mode = modes[0] if isinstance(modes, list) and len(modes) == 1 else modes
    if not isinstance(mode, str) or mode not in _POOLS:
        shown = mode if isinstance(mode, str) else " and ".join(mode) or "missing"
        raise DataError(f"{folder}: the pooling is {shown}; firth only computes one of {', '.join(_POOLS)}.")
    if table.get("include_prompt") is False:
        raise DataError(f"{folder}: include_prompt is false; firth only computes pooling over the prompt, too.")
    return _POOLS[mode]


def _prompt(folder: Path) -> str:
    table = read_json(folder / "config_sentence_transformers.json", {})
    name = table.get("default_prompt_name")
    return "" if name is None else str((table.get("prompts") or {}).get(name, ""))


def write(folder: Path, model: Any, objective: Any) -> None:
    """Everything beside the encoder itself, in the form that old and new versions read."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if objective.normalize else [])]
    places = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": n, "name": str(n), "path": places[n], "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    mode = next(theirs for theirs, ours in _POOLS.items() if ours == model.pool)
    pooling = {"word_embedding_dimension": model.width, **{key: mode == one for key, one in _OLD.items()}}
    prompts = {"prompts": {"default": objective.prompt}, "default_prompt_name": "default"} if objective.prompt else {}
    tables: dict[str, Any] = {
        "sentence_bert_config.json": {"max_seq_length": objective.longest, "do_lower_case": False},
        "1_Pooling/config.json": pooling,
        "config_sentence_transformers.json": {"__version__": {"firth": __version__}, **prompts},
        MODULES: modules,
    }
    for name, table in tables.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        files.write_text(folder / name, json.dumps(table, indent=2) + "\n")
