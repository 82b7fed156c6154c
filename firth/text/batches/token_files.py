"""Token ids on disk, mapped into memory, so that a corpus may be larger than memory.

`tokens-<key>.bin` holds raw little-endian uint16, or uint32 for larger vocabularies; `tokens-<key>.json` beside it describes
them and is written last. The key is a hash of the text, the part of it and the tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firth.errors import DataError
from firth.progress import Progress, silent
from firth.text import cache
from firth.text.readers.corpus import Corpus, Scan, part
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

_FORMAT = 1


@dataclass(frozen=True)
class TokenFile:
    ids: Ids  # read-only and memory-mapped
    characters: int  # of the encoded text
    path: Path

    @property
    def count(self) -> int:
        return len(self.ids)


def token_file(corpus: Corpus, scan: Scan, start: int, stop: int, tokenizer: Tokenizer, progress: Progress = silent) -> TokenFile:
    """The characters from `start` to `stop` of `corpus` as token ids, from the cache if possible."""
    facts = {
        "format": _FORMAT,
        "text_sha256": scan.sha256,
        "characters_from": start,
        "characters": stop - start,
        "tokenizer_sha256": tokenizer.sha256,
        "dtype": np.dtype(tokenizer.dtype).name,
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    path = cache.cache_folder() / f"tokens-{key[:32]}.bin"
    if (known := _opened(path, facts)) is not None:
        return known
    cache.sweep_abandoned(path.parent)
    try:
        count = _written(path, corpus, start, stop, tokenizer, progress)
        cache.write_text(path.with_suffix(".json"), json.dumps({**facts, "count": count}, indent=2) + "\n")
    except DataError:
        # Windows cannot replace a file that another process has mapped; but then that process wrote the same file
        if (known := _opened(path, facts)) is not None:
            return known
        raise
    made = _opened(path, facts)
    if made is None:
        raise DataError(
            f"{path} vanished while it was written. Is something emptying the cache folder? Try again, or set FIRTH_CACHE."
        )
    return made


def _written(path: Path, corpus: Corpus, start: int, stop: int, tokenizer: Tokenizer, progress: Progress) -> int:
    """Concurrent processes each write their own file; the last rename wins, and all files are equal."""
    count = 0
    with cache.replacing(path) as temporary, temporary.open("wb") as file:
        for ids in _encoded(corpus, start, stop, tokenizer, progress):
            file.write(ids.astype(ids.dtype.newbyteorder("<"), copy=False).data)
            count += len(ids)
    return count


def _encoded(corpus: Corpus, start: int, stop: int, tokenizer: Tokenizer, progress: Progress) -> Iterator[Ids]:
    done, total = 0, stop - start
    for ids, characters in tokenizer.encode_pieces(part(corpus.pieces(), start, stop)):
        yield ids
        done += characters
        progress("encoding", done, total)
    if done != total:
        raise DataError(f"{corpus.name} changed while it was read: {total:,} characters became {done:,}. Start again.")


def _opened(path: Path, facts: dict[str, Any]) -> TokenFile | None:
    """None if the file is absent or incomplete."""
    try:
        header = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        count = header.pop("count")
        dtype = np.dtype(facts["dtype"]).newbyteorder("<")
        if header != facts or path.stat().st_size != count * dtype.itemsize:
            return None
        ids = np.memmap(path, dtype, mode="r") if count else np.zeros(0, dtype)  # an empty file cannot be mapped
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return TokenFile(ids, facts["characters"], path)
