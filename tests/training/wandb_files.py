"""Reads what W&B keeps of an offline run, with W&B's own messages. The file is a log of LevelDB: blocks of 32 KiB, in them
records of checksum, length, type, and part of a message."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK, _HEADER, _BEGIN = 32768, struct.Struct("<IHB"), 7
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(file: Path) -> list[Any]:
    from wandb.proto import wandb_internal_pb2

    return [wandb_internal_pb2.Record.FromString(message) for message in _messages(file.read_bytes())]


def _messages(data: bytes) -> Iterator[bytes]:
    assert data[:4] == b":W&B"
    place, parts = _BEGIN, b""
    while place + _HEADER.size <= len(data):
        if _BLOCK - place % _BLOCK < _HEADER.size:  # no room for another record in this block
            place += _BLOCK - place % _BLOCK
            continue
        _, length, kind = _HEADER.unpack_from(data, place)
        place += _HEADER.size
        part, place = data[place : place + length], place + length
        parts = parts + part if kind in (_MIDDLE, _LAST) else part
        if kind in (_WHOLE, _LAST):
            yield parts


def history(entries: list[Any]) -> list[dict[str, Any]]:
    """The logged lines."""
    lines = [one.history.item for one in entries if one.WhichOneof("record_type") == "history"]
    return [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items} for items in lines]
