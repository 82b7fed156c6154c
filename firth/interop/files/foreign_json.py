"""The JSON files of a public model, checked once, where they are read.

`SCHEMAS` says for each file which keys firth uses, and of which kind their values are; families read the rest of config.json with
the accessors of `ForeignConfig`. A key may always be null, which is as if it were missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.text.tokenizers.imported import ENDS
from firth.text.tokenizers.languages import LANGUAGES, SOURCE, TARGET
from firth.text.tokenizers.special_tokens import DECODER

_LIMIT = 256 << 20  # bytes of a file; the largest tokenizers have about 30 million
_LAST = 2**31  # no embedding has more rows
_LONE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a surrogate pair, perhaps
_SHOWN = 60  # characters of a value in a message


@dataclass(frozen=True)
class JsonType:
    expected: str  # for messages
    fits: Callable[[Any], bool]


def _whole(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < _LAST


def _list_of(kind: JsonType) -> JsonType:
    return JsonType(f"a list: {kind.expected} each", lambda value: isinstance(value, list) and all(map(kind.fits, value)))


def _table_of(kind: JsonType) -> JsonType:
    return JsonType(
        f"a table: {kind.expected} each", lambda value: isinstance(value, dict) and all(map(kind.fits, value.values()))
    )


def _either(*kinds: JsonType) -> JsonType:
    return JsonType(" or ".join(kind.expected for kind in kinds), lambda value: any(kind.fits(value) for kind in kinds))


def is_number(value: Any) -> bool:
    """A finite number; what overflows in JSON is infinite here."""
    return type(value) in (int, float) and abs(value) < 1e308


STRING = JsonType("a string", lambda value: isinstance(value, str))
FLAG = JsonType("true or false", lambda value: isinstance(value, bool))
COUNT = JsonType("a whole number of at least 0", _whole)
NUMBER = JsonType("a number", is_number)
TOKEN = JsonType("the id of a token", lambda value: _whole(value, least=-1))  # −1 where there is none
NAME = JsonType(
    "a token", lambda value: isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("content"), str | None))
)
_NAMES = dict.fromkeys(("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"), NAME)
_TEMPLATES = JsonType(
    "a list of named templates",
    lambda value: (
        isinstance(value, list)
        and all(isinstance(one, dict) and STRING.fits(one.get("name")) and STRING.fits(one.get("template")) for one in value)
    ),
)
_GENERATION: dict[str, JsonType] = {
    "eos_token_id": _either(TOKEN, _list_of(TOKEN)),
    **dict.fromkeys(("bos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id"), TOKEN),
    "bad_words_ids": _list_of(_list_of(TOKEN)),
    "suppress_tokens": _list_of(TOKEN),
    **dict.fromkeys(("max_length", "max_new_tokens", "num_beams", "top_k"), COUNT),
    **dict.fromkeys(("temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "length_penalty"), NUMBER),
    "do_sample": FLAG,
    "early_stopping": _either(FLAG, STRING),
}
_DECODER_TOKENS = JsonType(
    "a table with start, first and banned",
    lambda value: (
        isinstance(value, dict)
        and TOKEN.fits(value.get("start"))
        and (value.get("first") is None or TOKEN.fits(value["first"]))
        and isinstance(value.get("banned", []), list)
        and all(map(TOKEN.fits, value.get("banned", [])))
    ),
)
_PLACED = JsonType(
    "a table with place and starts",
    lambda value: isinstance(value, dict) and value.get("place") in ("first", "last") and FLAG.fits(value.get("starts")),
)
_TOKENIZER = _NAMES | {
    ENDS: _list_of(TOKEN),
    DECODER: _DECODER_TOKENS,
    LANGUAGES: _PLACED,
    SOURCE: STRING,
    TARGET: STRING,
    "chat_template": _either(STRING, _TEMPLATES),
    "model_max_length": NUMBER,
    "extra_ids": COUNT,
    **dict.fromkeys(("add_prefix_space", "do_lower_case", "strip_accents"), FLAG),
}
_SENTENCES: dict[str, JsonType] = {"max_seq_length": COUNT, "do_lower_case": FLAG}

SCHEMAS: Mapping[str, Mapping[str, JsonType]] = {
    "config.json": _GENERATION
    | {"architectures": _list_of(STRING), "model_type": STRING, "id2label": _table_of(STRING), "num_labels": COUNT},
    "generation_config.json": _GENERATION,
    "tokenizer_config.json": _TOKENIZER,
    "special_tokens_map.json": _TOKENIZER,
    "vocab.json": {},
    "model.safetensors.index.json": {"weight_map": _table_of(STRING)},
    "pytorch_model.bin.index.json": {"weight_map": _table_of(STRING)},
    "sentence_bert_config.json": _SENTENCES,
    "sentence_roberta_config.json": _SENTENCES,
    "sentence_distilbert_config.json": _SENTENCES,
    "1_Pooling/config.json": {"pooling_mode": _either(STRING, _list_of(STRING)), "include_prompt": FLAG},
    "config_sentence_transformers.json": {"prompts": _table_of(STRING), "default_prompt_name": STRING},
}


def read_json(path: Path, default: dict[str, Any] | None = None, schema: str | None = None) -> dict[str, Any]:
    """The table in a file, `default` where there is none. `schema` is its name in SCHEMAS, where that is not the file's own."""
    if default is not None and not path.is_file():
        return dict(default)
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict):
        raise DataError(f"{path} is not a table. Download it again.")
    for key, kind in SCHEMAS[schema or path.name].items():
        if content.get(key) is not None and not kind.fits(content[key]):
            raise DataError(f"{path.name}: {key} is {shown(content[key])}; expected {kind.expected}")
    return content


def read_text(path: Path) -> str:
    """A file of a bounded size."""
    try:
        if path.stat().st_size > _LIMIT:
            raise DataError(f"{path} has {path.stat().st_size:,} bytes; expected at most {_LIMIT:,}. Download it again.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is damaged: byte 0x{error.object[error.start]:02x} is not UTF-8. Download it again.") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def parse_json(text: str, where: str) -> Any:
    try:
        content = json.loads(text, parse_constant=_no_constant)
        if _LONE.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where} is damaged: a string holds half of a surrogate pair. Download it again.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON: {str(error)[:200]}. Download it again.") from error
    return content


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def is_inside(name: str) -> bool:
    """True if this is the name of a file or folder beside the one that names it."""
    return Path(name).name == name and name not in (".", "..") and "\\" not in name and "\0" not in name


def shown(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
