"""Damaged copies of good files: bytes changed at random, numbers and strings replaced by extreme ones, structures broken.

Every change follows from a `random.Random`, so that a number names an input for good."""

from __future__ import annotations

import json
import random
import re
import struct
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w
import torch

NUMBERS = (
    "0", "-1", "1", "2", "255", "65536", "2147483648", "999999999", "4294967296", "9223372036854775807", "18446744073709551616",
    "10000000000000000000000", "-9223372036854775809", "1e308", "1e309", "-1e309", "1e-45", "1e-320", "1e-999999999", "nan",
    "inf", "0.5", "9" * 5000, "0." + "1" * 6000, "1_000", "0x10", "NaN", "Infinity",
)  # fmt: skip
BYTES = (b"\xff", b"\0", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b" ", b"\t", b'"', b"\\", b"\xc3")
BRACKETS = (b"[", b"{", b'{"a":', b"(", b"[[")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 999_999_999, 2**31, 2**63, 10**22, 10**400, 1e308, 0.5, -0.0, float("nan"), float("inf"),
    "", "\0", "\ud800", "a" * 5000, "../../x", "<eos>", [], {}, [[]], [0], [""], {"": None}, {"type": "Sequence"}, [[[[[1]]]]],
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_STRING = re.compile(rb'"[^"\n]{0,200}"')


def mutated(data: bytes, name: str, draw: random.Random) -> bytes:
    """A damaged copy of the file `name`, whose suffix tells what is inside."""
    changes = [_bytes, _numbers, _bytes]
    if name.endswith(".json"):
        changes += [_json, _json, _json]
    elif name.endswith(".jsonl"):
        changes += [_a_line, _a_line]
    elif name.endswith(".toml"):
        changes += [_toml, _toml, _toml]
    elif name.endswith((".safetensors", ".firth")):
        changes += [_header]
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        data = draw.choice(changes)(data, draw)
    return data


def _bytes(data: bytes, draw: random.Random) -> bytes:
    start, stop = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
    if draw.random() < 0.7:
        stop = min(stop, start + draw.randint(0, 16))
    match draw.randrange(10):
        case 0:  # one bit
            if not data:
                return data
            place = min(start, len(data) - 1)
            return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]
        case 1:
            return data[:start]
        case 2:
            return data[:start] + data[stop:]
        case 3:
            return data[:stop] + data[start:stop] * draw.choice((1, 2, 50)) + data[stop:]
        case 4:
            return data[:start] + draw.randbytes(draw.choice((1, 4, 100))) + data[stop:]
        case 5:
            return data[:start] + draw.choice(BYTES) * draw.choice((1, 1, 3)) + data[start:]
        case 6:
            return data[:start] + bytes(stop - start) + data[stop:]
        case 7:
            return data[:start] + draw.choice(BRACKETS) * draw.choice((1, 10, 100_000)) + data[start:]
        case 8:
            return draw.choice((b"", b"\0" * 100, draw.randbytes(50), data[start:]))
        case _:
            return data[start:stop] + data[:start] + data[stop:]


def _numbers(data: bytes, draw: random.Random) -> bytes:
    """One number, or one string, replaced by an extreme one."""
    pattern, new = (
        (_NUMBER, draw.choice(NUMBERS).encode())
        if draw.random() < 0.8
        else (_STRING, json.dumps(draw.choice([value for value in VALUES if isinstance(value, str)])).encode())
    )
    matches = list(pattern.finditer(data))
    if not matches:
        return _bytes(data, draw)
    chosen = matches[0] if draw.random() < 0.2 else draw.choice(matches)
    return data[: chosen.start()] + new + data[chosen.end() :]


def _json(data: bytes, draw: random.Random) -> bytes:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        return _bytes(data, draw)
    return json.dumps(changed_value(table, draw), ensure_ascii=draw.random() < 0.9).encode("utf-8", "surrogatepass")


def _a_line(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = _json(lines[place], draw)
    return b"\n".join(lines)


def _toml(data: bytes, draw: random.Random) -> bytes:
    try:
        table = changed_value(tomllib.loads(data.decode()), draw)
        return tomli_w.dumps(table).encode()
    except (ValueError, TypeError, RecursionError, AttributeError):
        return _numbers(data, draw)


def _header(data: bytes, draw: random.Random) -> bytes:
    """The JSON at the start of a safetensors file, whose length stays right."""
    length = int.from_bytes(data[:8], "little")
    if length > len(data):
        return _bytes(data, draw)
    header = _json(data[8 : 8 + length], draw)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def changed_value(value: Any, draw: random.Random) -> Any:
    """A copy of a nested value with one place in it changed: replaced, removed, repeated, or a key renamed."""
    places = _places(value)
    path = draw.choice(places)
    return _with_change(value, path, _a_change(draw))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))[:50]
    return [path, *(place for key, one in inner for place in _places(one, (*path, key)))]


def _a_change(draw: random.Random) -> Callable[[Any], Any]:
    new = draw.choice(VALUES)
    drop = draw.random()

    def change(old: Any) -> Any:
        if isinstance(old, dict) and old and drop < 0.5:
            key = draw.choice(list(old))
            kept = {name: one for name, one in old.items() if name != key}
            return kept if drop < 0.3 else {**kept, key + "x": old[key]}
        if isinstance(old, list) and old and drop < 0.5:
            place = draw.randrange(len(old))
            return old[:place] + old[place + 1 :] if drop < 0.3 else [*old, old[place]]
        if isinstance(old, int) and not isinstance(old, bool) and drop < 0.3:
            return old + draw.choice((-1, 1, 1000))
        return new

    return change


def _with_change(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with_change(copy[path[0]], path[1:], change)
    return copy


def resealed(path: Path, draw: random.Random) -> None:
    """A tensor file with other tensors or other metadata, but a checksum that fits: what no accident does."""
    from firth import files

    tensors, metadata = files.load_tensors(path)
    match draw.randrange(5):
        case 0:
            del tensors[draw.choice(list(tensors))]
        case 1:
            name = draw.choice(list(tensors))
            tensors[name] = tensors[name].flatten()[: draw.choice((0, 1, 3))]
        case 2:
            name = draw.choice(list(tensors))
            tensors[draw.choice(("x", name + "x", ""))] = tensors.pop(name)
        case 3:
            name = draw.choice(list(tensors))
            tensors[name] = tensors[name].to(draw.choice((torch.float64, torch.int8, torch.bfloat16, torch.bool)))
        case _:
            key = draw.choice(list(metadata))
            if draw.random() < 0.3:
                del metadata[key]
            else:
                metadata[key] = mutated(metadata[key].encode(), draw.choice(("x.json", "x")), draw).decode("utf-8", "replace")
    files.save_tensors(path, tensors, metadata)
