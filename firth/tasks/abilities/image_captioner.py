"""A trained captioner with its tokenizer: images in; captions, attention over the image, and metrics out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import Hypothesis
from firth.errors import DataError
from firth.evaluation.captions import CaptionMeasures, measures
from firth.inspection.image_attention import ImageAttention, image_attention
from firth.models import ConditionalDecoder
from firth.progress import Progress, silent
from firth.tasks.abilities.conditional_search import SearchedText, search
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.tasks.task import Tables
from firth.text.batches.captions import Captions
from firth.text.batches.padding import Ints
from firth.text.config import CaptionsConfig
from firth.text.data.pairs import ended
from firth.text.readers.images import Bytes
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.distributed import all_merged, mine

_AT_ONCE = {"cpu": 64, "cuda": 512}  # images captioned together


class Caption(SearchedText):
    """A caption of an image."""


@dataclass(frozen=True)
class ImageCaptioner:
    """A network that captions images, with its tokenizer. Images are bytes of the run's size, image_NHWC."""

    network: ConditionalDecoder
    tokenizer: Tokenizer
    recipe: Tables[CaptionsConfig, Any]

    def captions(
        self, image_NHWC: Bytes, config: DecodingConfig, *, sample: bool = False, first: int = 0, progress: Progress = silent
    ) -> list[list[Caption]]:
        """The captions of each image, best first: config.beam of them, or one. `first` is the number of the first image, on which
        sampling depends."""
        was_training = self.network.training
        self.network.eval()
        most = _AT_ONCE.get(next(self.network.parameters()).device.type, _AT_ONCE["cpu"])
        captions_of: dict[int, list[Caption]] = {}
        for number, start in enumerate(range(0, len(image_NHWC), most)):
            some = image_NHWC[start : start + most]
            if mine(number):
                rows = self._search(some, config, range(first + start, first + start + len(some)), sample)
                for n, hypotheses in enumerate(rows, start):
                    captions_of[n] = [Caption.of(one, self.tokenizer) for one in hypotheses]
            progress("captioning", start + len(some), len(image_NHWC))
        self.network.train(was_training)
        captions_of = all_merged(captions_of)
        return [captions_of[n] for n in range(len(image_NHWC))]

    def measure(self, captions: Captions, config: DecodingConfig, progress: Progress = silent) -> CaptionMeasures:
        """Metrics of the best caption of each image against its references."""
        references = captions.references()
        images = np.array(sorted(references), np.int64)
        written = [candidates[0].text for candidates in self.captions(_Chosen(captions, images), config, progress=progress)]  # type: ignore[arg-type]
        kinds = None if captions.kinds is None else [captions.kinds[image] for image in images]
        return measures(written, [references[image] for image in images.tolist()], lower=self.recipe.tokenizer.lower, kinds=kinds)

    def overlay(self, image_HWC: Bytes, caption: str | None, config: DecodingConfig) -> ImageAttention:
        """The cells of the image behind each word of `caption`, by default of the best caption."""
        target_T = self.target(image_HWC, caption, config)
        pieces = [self.tokenizer.token(int(id)) for id in target_T]
        return image_attention(self.network, image_HWC, target_T, pieces, merged=self.tokenizer.joins_pieces)

    def target(self, image_HWC: Bytes, caption: str | None, config: DecodingConfig) -> Ints:
        """The ids of a caption, <eos> last; by default the run's own."""
        if caption is not None:
            if not caption.strip():
                raise DataError(f"the caption is {caption!r}, which has no tokens; expected at least one word")
            if self.tokenizer.unknown is not None:  # without <unk>, encoding refuses what it cannot spell
                warn_unseen(self.tokenizer.unseen(caption))
            return ended(caption, self.tokenizer).astype(np.int64)
        hypothesis = self._search(image_HWC[None], config, range(1), sample=False)[0][0]
        end = () if hypothesis.finished else (self.tokenizer.eos,)
        return np.array((*hypothesis.tokens, *end), dtype=np.int64)

    def _search(self, image_BHWC: Bytes, config: DecodingConfig, numbers: Sequence[int], sample: bool) -> list[list[Hypothesis]]:
        device, end = next(self.network.parameters()).device, self.tokenizer.eos
        assert end is not None
        image = torch.from_numpy(np.array(image_BHWC)).to(device)
        longest = self.recipe.model.longest  # positions of the model; None: no limit
        return search(self.network, lambda: self.network.encode(image), config, numbers, end, sample=sample, longest=longest)


@dataclass(frozen=True)
class _Chosen:
    """Some images of a set, read when they are needed: a set may be larger than the memory."""

    captions: Captions
    images: Ints

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: slice) -> Bytes:
        return np.asarray(self.captions.image_MHWC[self.images[rows]])
