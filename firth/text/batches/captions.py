"""Images with encoded captions, and batches of them whose position in the data is one integer.

Letters: N captions, M images, B rows of a batch, H, W, C height, width and channels, T tokens of the longest caption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.buckets import Sweepable
from firth.text.batches.padding import Ints, concatenated
from firth.text.batches.pairs import decoder_rows
from firth.text.tokenizers.special_tokens import Ids

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class CaptionBatch:
    image_BHWC: Bytes
    input_BT: Ints  # begins with <eos>; padded with 0
    target_BT: Ints  # ends with <eos>; padded with −1
    target_length_B: Ints
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Predicted tokens: <eos> included, padding not."""
        return int(self.target_length_B.sum())

    @property
    def inputs(self) -> tuple[Bytes, Ints]:
        """The arrays that the network reads."""
        return self.image_BHWC, self.input_BT


@dataclass(frozen=True)
class Captions(Sweepable[CaptionBatch]):
    """Captions, concatenated, each with <eos> at its end, and the image that each belongs to; an image may have several."""

    noun = "captions"
    load: Callable[[], Bytes]  # image_MHWC, called when the pixels are first needed
    image_N: Ints  # the image of each caption
    ids: Ids
    starts: Ints  # where each caption begins, and where the last one ends: N + 1 numbers
    texts: tuple[str, ...]
    kinds: tuple[str, ...] | None = None  # of each image, to be measured separately

    @classmethod
    def of(
        cls,
        load: Callable[[], Bytes],
        image_N: Sequence[int] | Ints,
        encoded: Sequence[Ids],
        texts: Sequence[str],
        kinds: Sequence[str] | None = None,
    ) -> Captions:
        """From the ids of each caption, <eos> included."""
        return cls(
            load, np.asarray(image_N, np.int64), *concatenated(encoded), tuple(texts), None if kinds is None else tuple(kinds)
        )

    @cached_property
    def image_MHWC(self) -> Bytes:
        return self.load()

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def references(self) -> dict[int, list[str]]:
        """The captions of each image."""
        texts_of: dict[int, list[str]] = {}
        for image, text in zip(self.image_N.tolist(), self.texts, strict=True):
            texts_of.setdefault(image, []).append(text)
        return texts_of

    def batch(self, row_B: Ints) -> CaptionBatch:
        return CaptionBatch(np.asarray(self.image_MHWC[self.image_N[row_B]]), *decoder_rows(self.ids, self.starts, row_B))

    def within(self, limit: int) -> Captions:
        """The captions of at most `limit` tokens, <eos> not counted."""
        kept = np.flatnonzero(self.length_N <= limit + 1)
        if len(kept) == len(self):
            return self
        encoded = [self.ids[self.starts[row] : self.starts[row + 1]] for row in kept]
        return Captions.of(lambda: self.image_MHWC, self.image_N[kept], encoded, [self.texts[row] for row in kept], self.kinds)
