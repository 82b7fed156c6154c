"""Read a tokenizer.json that may be damaged.

The package `tokenizers` trusts the ids in it: one id of 999,999,999 makes it reserve gigabytes, and a gap is only noticed when a
text is spelled. They are therefore checked first. Its own errors are bare Exceptions, and panics of Rust are not even that.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from firth.errors import DataError

_PANIC = "PanicException"  # a panic in Rust, which derives from BaseException
_SAMPLE = "A text, naïve 日本 😀 12\n\tand  its end."
_SHOWN = 40  # characters of a token in a message


def read_utf8(path: Path, advice: str = "Restore that file.") -> str:
    """The text of a JSON file beside a model."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is damaged: byte 0x{error.object[error.start]:02x} is not UTF-8. {advice}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def parsed(text: str, where: str = "tokenizer.json", rows: int | None = None) -> tokenizers.Tokenizer:
    """The tokenizer that a tokenizer.json describes. Its ids are 0, 1, … without a gap; with `rows`, they may have gaps, and are
    rows of an embedding of that size."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not a tokenizer.json: {error}") from error
    check_ids(_ids(table), where, rows)
    with refusing(f"{where} is not a tokenizer.json"), panics_held():
        tokenizer = tokenizers.Tokenizer.from_str(text)
        assert isinstance(tokenizer, tokenizers.Tokenizer)
        return tokenizer


_HELD = threading.Lock()  # descriptor 2 belongs to the whole process


@contextlib.contextmanager
def panics_held() -> Iterator[None]:
    """Rust prints a panic to stderr before raising an exception, which suffices: what was written to stderr
    meanwhile is passed on only if there is none."""
    with _HELD, tempfile.TemporaryFile() as held:
        try:
            before = os.dup(2)
        except OSError:  # closed: nobody would see it
            yield
            return
        try:
            os.dup2(held.fileno(), 2)
            yield
        except BaseException as error:
            if type(error).__name__ == _PANIC:
                held.truncate(0)
            raise
        finally:
            os.dup2(before, 2)
            held.seek(0)
            os.write(before, held.read())
            os.close(before)


def try_out(tokenizer: tokenizers.Tokenizer) -> None:
    """Encode and decode a text, so that a panic comes now, where it is held, and not with the first text of a user. An error is
    none yet: a vocabulary may lack these characters."""
    with contextlib.suppress(Exception):
        tokenizer.decode(tokenizer.encode(_SAMPLE, add_special_tokens=False).ids)


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """An error of the package `tokenizers` becomes a DataError that says `what`."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{what}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise DataError(f"{what}: {error}") from error


def required(vocabulary: Mapping[str, int], name: str) -> int:
    """The id of a token that this kind of tokenizer cannot do without."""
    if name not in vocabulary:
        raise DataError(f"tokenizer.json is damaged: it has no token {name}. Restore it.")
    return vocabulary[name]


def _ids(table: Any) -> list[tuple[Any, Any]]:
    """Every token with its id; added tokens may be part of the vocabulary, too."""
    table = table if isinstance(table, dict) else {}
    model, added = table.get("model"), table.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    entries: list[tuple[Any, Any]] = []
    if isinstance(vocabulary, list):  # a unigram model has scores, and ids are places
        entries += [(entry[0] if isinstance(entry, list) and entry else None, place) for place, entry in enumerate(vocabulary)]
    elif isinstance(vocabulary, dict):
        entries += vocabulary.items()
    if isinstance(added, list):
        entries += [(one.get("content"), one.get("id")) for one in added if isinstance(one, dict)]
    return entries


def check_ids(given: list[tuple[Any, Any]], where: str, rows: int | None) -> None:
    """Refuse ids that are no rows of an embedding, before a table of that size is made."""
    for name, id in given:
        if not isinstance(name, str) or type(id) is not int or id < 0:
            raise DataError(f"{where} is damaged: the id of the token {str(name)[:_SHOWN]!r} is {str(id)[:_SHOWN]}. Restore it.")
    size = 1 + max((id for _, id in given), default=-1)
    if rows is not None and size > rows:
        raise DataError(
            f"the tokenizer has {size:,} tokens, but the embedding has {rows:,} rows. They belong to different models."
        )
    different = set(given)
    counts = {len(different), len({id for _, id in different}), len({name for name, _ in different}), size}
    if rows is None and len(counts) > 1:
        raise DataError(
            f"{where} is damaged: the ids of its {len(different):,} tokens, up to {size - 1:,}, have gaps or repetitions."
        )
