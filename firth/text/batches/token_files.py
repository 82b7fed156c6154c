"""Token ids on disk, mapped into memory, so that a corpus may be larger than memory and many processes may read it.

`tokens-<key>.bin` holds raw little-endian uint16, or uint32 for larger vocabularies; token i is at the same place for every
process. The manifest `tokens-<key>.json` beside it is written last. The key is a hash of the text, the part of it and the
tokenizer.

The file is written in shards of about 16 million characters, in order, by several threads. The manifest lists the characters,
tokens and hash of each. A build that was killed continues after its last complete shard; a shard whose hash does not match is
encoded again. Only one process builds a file; the others wait for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from firth.errors import DataError
from firth.files import TEMPORARY
from firth.progress import Progress, silent
from firth.text import cache, sealed
from firth.text.readers.corpus import Corpus, Scan, part
from firth.text.readers.pieces import Piece, batches
from firth.text.sealed import digest, digests
from firth.text.threads import in_order, workers
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

_FORMAT = 2
_SHARD = 1 << 24  # characters of a shard, or a little more
_MUCH = 1 << 22  # characters from which on it pays to prepare `piece_encoders`


@dataclass(frozen=True)
class TokenFile:
    ids: Ids  # read-only and memory-mapped
    characters: int  # of the encoded text
    path: Path

    @property
    def shards(self) -> list[Shard]:
        """The shards that the manifest lists."""
        listed = json.loads(self.path.with_suffix(".json").read_text(encoding="utf-8"))["shards"]
        return [Shard(**shard) for shard in listed]

    @property
    def count(self) -> int:
        return len(self.ids)


class Shard(NamedTuple):
    """A stretch of the text, and its tokens in the file."""

    characters: int
    tokens: int
    blake2b: str  # of the bytes of its tokens


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
    build = _Build(cache.cache_folder() / f"tokens-{key[:32]}.bin", facts, corpus, start, stop, tokenizer, progress)
    if (known := build.opened()) is not None:
        return known
    cache.sweep_abandoned(build.path.parent)
    with cache.locked(build.path.with_suffix(".lock"), lambda: progress("waiting for another process", 0, stop - start)):
        if (known := build.opened()) is not None:
            return known
        if build.manifest() is not None:
            sealed.tell_damaged(build.path)
        if build.manifest() is None or not build.repair():
            build.write()
        made = build.opened()
    if made is None:
        raise DataError(
            f"{build.path} vanished while it was written. Is something emptying the cache folder? Try again, or set FIRTH_CACHE."
        )
    return made


@dataclass(frozen=True)
class _Build:
    """All inputs of a token file."""

    path: Path
    facts: dict[str, Any]
    corpus: Corpus
    start: int
    stop: int
    tokenizer: Tokenizer
    progress: Progress

    def opened(self) -> TokenFile | None:
        """None if the file is absent, incomplete or damaged."""
        shards = self.manifest()
        if shards is None or not sealed.matches(self.path, _together(shards), lambda: not self._damaged(self.path, shards)):
            return None
        count = sum(shard.tokens for shard in shards)
        try:
            ids = np.memmap(self.path, self._stored, mode="r") if count else np.zeros(0, self._stored)  # no mapping is empty
        except (OSError, ValueError):
            return None
        return TokenFile(ids, self.facts["characters"], self.path)

    def manifest(self) -> list[Shard] | None:
        """The shards of a file of the right size."""
        try:
            header = json.loads(self.path.with_suffix(".json").read_text(encoding="utf-8"))
            count, shards = header.pop("count"), [Shard(**shard) for shard in header.pop("shards")]
            if not all(isinstance(shard.blake2b, str) for shard in shards):
                return None
            size = sum(shard.tokens for shard in shards) * self._stored.itemsize
            known = header == self.facts and size == count * self._stored.itemsize == self.path.stat().st_size
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return shards if known else None

    def write(self) -> None:
        """Write the whole file, or the missing rest after a kill."""
        partial, journal = (self.path.with_name(f"{TEMPORARY}{self.path.stem}{suffix}") for suffix in (".bin", ".jsonl"))
        try:
            with cache.storing(self.path.parent):
                shards = self._resumed(partial, journal)
                with partial.open("ab") as file, journal.open("a", encoding="utf-8") as lines:
                    for shard, ids in self._encoded(sum(shard.characters for shard in shards), self.stop - self.start):
                        file.write(ids.data)
                        file.flush()
                        lines.write(json.dumps(shard._asdict()) + "\n")
                        lines.flush()
                        shards.append(shard)
                cache.commit(partial, self.path)
                count = sum(shard.tokens for shard in shards)
                listed = {**self.facts, "count": count, "shards": [shard._asdict() for shard in shards]}
                cache.write_text(self.path.with_suffix(".json"), json.dumps(listed, indent=2) + "\n")
                journal.unlink()
        except Exception:  # a kill, or Ctrl-C, leaves what is complete
            for path in (partial, journal):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            raise

    def repair(self) -> bool:
        """Encode damaged shards of a complete file again; False if that does not give the tokens of the manifest."""
        shards = self.manifest() or []
        ends = list(accumulate(shard.characters for shard in shards))
        places = list(accumulate(shard.tokens * self._stored.itemsize for shard in shards))
        with cache.storing(self.path.parent), self.path.open("r+b") as file:
            for number in self._damaged(self.path, shards):
                shard = shards[number]
                made = list(self._encoded(ends[number] - shard.characters, ends[number]))
                if [again for again, _ in made] != [shard]:
                    return False
                file.seek(places[number] - shard.tokens * self._stored.itemsize)
                file.write(made[0][1].data)
        return True

    @property
    def _stored(self) -> np.dtype[Any]:
        return np.dtype(self.tokenizer.dtype).newbyteorder("<")

    def _damaged(self, path: Path, shards: list[Shard]) -> list[int]:
        """The shards that `path` does not hold as they were written."""
        try:
            blake2b = digests(path, accumulate(shard.tokens * self._stored.itemsize for shard in shards))
        except OSError:
            return list(range(len(shards)))
        return [number for number, shard in enumerate(shards) if blake2b[number] != shard.blake2b]

    def _resumed(self, partial: Path, journal: Path) -> list[Shard]:
        """The complete shards of a build that was killed; `partial` and `journal` then hold exactly these."""
        shards: list[Shard] = []
        with contextlib.suppress(OSError, ValueError, TypeError):
            for line in journal.read_text(encoding="utf-8").splitlines():
                shards.append(Shard(**json.loads(line)))
        damaged = self._damaged(partial, shards)
        del shards[damaged[0] if damaged else len(shards) :]
        with partial.open("ab") as file:
            file.truncate(sum(shard.tokens for shard in shards) * self._stored.itemsize)
        journal.write_text("".join(json.dumps(shard._asdict()) + "\n" for shard in shards), encoding="utf-8")
        return shards

    def _encoded(self, first: int, last: int) -> Iterator[tuple[Shard, Ids]]:
        """The characters from `first` to `last`, counted from `start`, in shards. Both are ends of shards, so that the text is
        cut into the same pieces whichever shard is encoded first. Hashes are computed in a thread of their own."""
        return in_order(_hashed, self._shards(first, last), 1)

    def _shards(self, first: int, last: int) -> Iterator[tuple[int, Ids]]:
        """The characters of each shard, and its tokens."""
        done, held, characters = first, [], 0
        text = batches(part(self.corpus.pieces(), self.start + first, self.start + last))
        for ids, length in in_order(_Encoders(self.tokenizer, self.stop - self.start), text, workers()):
            held.append(ids.astype(self._stored, copy=False))
            done, characters = done + length, characters + length
            self.progress("encoding", done, self.stop - self.start)
            if characters >= _SHARD or done == last:
                yield characters, np.concatenate(held)
                held, characters = [], 0
        if done != last:
            raise DataError(f"{self.corpus.name} changed while it was read: {last:,} characters became {done:,}. Start again.")


def _together(shards: list[Shard]) -> str:
    """One hash that combines the hashes of all shards."""
    return digest("".join(shard.blake2b for shard in shards).encode())


def _hashed(given: tuple[int, Ids]) -> tuple[Shard, Ids]:
    characters, tokens = given
    return Shard(characters, len(tokens), digest(tokens.data)), tokens


class _Encoders:
    """Encodes batches in several threads, with an encoder for each that is at work."""

    def __init__(self, tokenizer: Tokenizer, characters: int) -> None:
        self._new = tokenizer.piece_encoders() if characters >= _MUCH else lambda: tokenizer.encode_pieces
        self._free: SimpleQueue[Any] = SimpleQueue()

    def __call__(self, batch: list[Piece]) -> tuple[Ids, int]:
        try:
            encode = self._free.get_nowait()
        except Empty:
            encode = self._new()
        ids = encode(batch)
        self._free.put(encode)
        return ids, sum(len(piece.text) for piece in batch)
