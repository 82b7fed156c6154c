"""From the scores of each word and tag to a loss, probabilities and tags. Letters: B batch, W words, C tags."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.cross_entropy import RowLoss, at_least_float32
from firth.models.crf import CRF

TagReadoutKind = Literal["softmax", "crf"]


class TagReadout(nn.Module, ABC):
    """The last layer of a tagger, which turns scores into tags. Row b has count_B[b] words; scores after them have no effect."""

    kind: ClassVar[TagReadoutKind]

    @abstractmethod
    def loss(self, logits_BWC: Tensor, label_BW: Tensor, row_loss: RowLoss | None = None) -> Tensor:
        """Mean negative log-likelihood in nats per word, or mean `row_loss`; labels are −1 after the last word of a row."""

    @abstractmethod
    def log_probabilities(self, logits_BWC: Tensor, count_B: Tensor) -> Tensor:
        """log p(tag of word w = c | sentence)."""

    @abstractmethod
    def best(self, logits_BWC: Tensor, count_B: Tensor) -> Tensor:
        """tag_BW: the predicted tags."""


class Softmax(TagReadout):
    """p(tag of w | sentence) = softmax(logits_w): each word by itself."""

    kind = "softmax"

    def __init__(self, tags: int) -> None:
        super().__init__()

    def loss(self, logits_BWC: Tensor, label_BW: Tensor, row_loss: RowLoss | None = None) -> Tensor:
        if row_loss is not None:
            return row_loss(at_least_float32(logits_BWC[label_BW >= 0]), label_BW[label_BW >= 0]).mean()
        return F.cross_entropy(at_least_float32(logits_BWC).flatten(0, 1), label_BW.flatten(), ignore_index=-1)

    def log_probabilities(self, logits_BWC: Tensor, count_B: Tensor) -> Tensor:
        return torch.log_softmax(logits_BWC, -1)

    def best(self, logits_BWC: Tensor, count_B: Tensor) -> Tensor:
        return logits_BWC.argmax(-1)


class ConditionalRandomField(TagReadout):
    """p(all tags | sentence) of a linear-chain CRF with the logits as emissions (see crf.py), which also learns which tags
    follow each other. The predicted tags are the most probable sequence; log_probabilities are the marginals of each word."""

    kind = "crf"

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.crf = CRF(tags)

    def loss(self, logits_BWC: Tensor, label_BW: Tensor, row_loss: RowLoss | None = None) -> Tensor:
        assert row_loss is None, "refused by the task: sentences are scored as a whole"
        count_B = (label_BW >= 0).sum(1)
        return self.crf.negative_log_likelihood(at_least_float32(logits_BWC), label_BW, count_B).sum() / count_B.sum()

    def log_probabilities(self, logits_BWC: Tensor, count_B: Tensor) -> Tensor:
        return self.crf.marginals(logits_BWC, count_B).clamp(min=torch.finfo(logits_BWC.dtype).tiny).log()

    def best(self, logits_BWC: Tensor, count_B: Tensor) -> Tensor:
        return self.crf.decode(logits_BWC, count_B)


READOUTS: tuple[type[Softmax | ConditionalRandomField], ...] = (Softmax, ConditionalRandomField)


def tag_readout(kind: TagReadoutKind, tags: int) -> TagReadout:
    return next(readout for readout in READOUTS if readout.kind == kind)(tags)
