"""ELECTRA: find the tokens that a small generator replaced (Clark et al. 2020).

    x̂_m ~ p_G(x_m | the text with masks)        at the masked positions; the other tokens stay
    loss = mean −log p_G(x_m) + λ · mean over all tokens of the binary cross-entropy of "replaced"

The discriminator learns from every token, not only from the masked ones, and its encoder is what other runs start from.
Letters: B batch, T time, M masked positions, V vocabulary, e embedding width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import ConfigError
from firth.evaluation.inference import inference
from firth.evaluation.replaced_tokens import evaluate
from firth.inspection.inputs import Reading
from firth.layers.cross_entropy import cross_entropy
from firth.models import EncoderConfig
from firth.models.electra import Electra, corrupt, electra, sample, sample_by
from firth.models.parametrization import STANDARD
from firth.progress import Progress
from firth.tasks.abilities.contextual_vectors import refuse_longer
from firth.tasks.abilities.inspection_inputs import names, one_reading
from firth.tasks.ability import FIND_REPLACED, ON_TEXT
from firth.tasks.masked import MaskedTextTask
from firth.tasks.run import refuse_one_text
from firth.tasks.running_text import RunningTextRun
from firth.tasks.task import ObjectiveConfig, rows
from firth.text.batches.masking import Masking
from firth.text.batches.padding import padded
from firth.text.batches.pairs import packed
from firth.text.batches.token_files import TokenFile
from firth.text.data.running_text import Prepared
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.feed import Counts, targets_in
from firth.training.loop import Loss

_CELLS = {"cpu": 4096, "cuda": 65_536}  # tokens read together, padding included


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(ObjectiveConfig):
    kind: Literal["electra"] = "electra"
    share: float = 0.15  # share of the tokens that are masked for the generator
    # width of the generator divided by the width of the discriminator; 0: an imported discriminator without its generator
    generator: float = 0.25
    weight: float = 50.0  # λ, the weight of the discriminator's loss beside the generator's

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")
        if not 0 <= self.generator <= 1:
            raise ConfigError(f"objective.generator is {self.generator}; expected 0 < generator ≤ 1, for example 0.25")
        if not 0 < self.weight < float("inf"):
            raise ConfigError(f"objective.weight is {self.weight}; expected more than 0, for example 50")


def replaced_terms(
    model: Electra,
    token_BT: Tensor,
    place_BM: Tensor,
    target_BM: Tensor,
    uniform_BM: Tensor | None = None,
    *,
    weight: float,
    state: None = None,
) -> tuple[Tensor, None]:
    """mean −log p_G(x_m) and weight · BCE, in nats, whose sum is the loss. The first is a mean over the masked tokens, the second
    over all, so several processes add them up apart. Samples are integers: no gradient of the
    discriminator reaches the generator, except through the embedding, which both share."""
    assert model.generator is not None  # see check()
    y_BMe = model.generator.hidden(token_BT, place_BM=place_BM)
    generator_loss = cross_entropy(y_BMe, *model.generator.output_layer(), target_BM, padded=True)
    with torch.no_grad():
        z_BMV = F.linear(y_BMe, *model.generator.output_layer())
        sample_BM = sample(z_BMV) if uniform_BM is None else sample_by(z_BMV, uniform_BM)
    read_BT, replaced_BT = corrupt(token_BT, place_BM, target_BM, sample_BM)
    logits_BT = model(read_BT)
    logits_BT = logits_BT if logits_BT.dtype == torch.float64 else logits_BT.float()
    discriminator_loss = F.binary_cross_entropy_with_logits(logits_BT, replaced_BT.to(logits_BT))
    return torch.stack((generator_loss.to(discriminator_loss), weight * discriminator_loss)), None


@dataclass(frozen=True)
class ReplacedTokens:
    """For each token of one text, the probability that it was replaced: that another token is expected there."""

    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]


def _counts(batch: Any) -> NDArray[np.float64]:
    """Two counts per row: its masked tokens, for the generator's loss, and all tokens, for the discriminator's."""
    rows, tokens = batch.token_BT.shape
    return np.stack((targets_in("target_BM", batch), np.full(rows, float(tokens))), axis=1)


class ElectraRun(RunningTextRun[Electra]):
    def replaced(self, texts: Sequence[str]) -> list[ReplacedTokens]:
        """The probability of each token of each of `texts` that it was replaced. Use it to find odd words."""
        refuse_one_text("replaced", texts)
        documents = [self._document(ids) for ids in self._encoder().encode(texts).ids]
        before, behind = len(self.start_ids()), len(self.end_ids())
        length_N = np.array([len(ids) for ids in documents], np.int64)
        tokens_of: dict[int, ReplacedTokens] = {}
        with inference(self.network) as device:
            cells = _CELLS.get(device.type, _CELLS["cpu"])
            for row_B in packed(np.argsort(-length_N, kind="stable"), length_N, cells):
                token_BT, length_B = (torch.from_numpy(part).to(device) for part in padded([documents[row] for row in row_B]))
                p_BT = torch.sigmoid(self.network(token_BT, length_B).double()).cpu().numpy()
                for row, p_T in zip(row_B.tolist(), p_BT, strict=True):
                    own = slice(before, len(documents[row]) - behind)
                    tokens_of[row] = ReplacedTokens(names(self.tokenizer, documents[row][own]), tuple(p_T[own].tolist()))
        return [tokens_of[row] for row in range(len(tokens_of))]

    def _document(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """A text as a separate document, between two <eos> if the vocabulary has one. An imported tokenizer has added its own
        special tokens already."""
        around = self.start_ids()[:0] if self.tokenizer.begin or self.tokenizer.end else self.start_ids()
        document = np.concatenate([around, ids, around]).astype(np.int64)
        refuse_longer(self.network, len(document))
        return document

    def _reading(self, text: str) -> Reading:
        """The vectors of the discriminator's encoder."""
        ids = self._document(self._encoder().encode([text]).ids[0])
        reading = one_reading(self.network, self.tokenizer, ids, self._forward)
        return dataclasses.replace(reading, network=self.network.encoder)


class ReplacedTokenDetection(MaskedTextTask[ElectraConfig]):
    name = "electra"
    Objective = ElectraConfig
    metrics = (
        "loss",
        "generator_loss",
        "discriminator_loss",
        "generator_accuracy",
        "accuracy",
        "precision",
        "recall",
        "f1",
        "wic_accuracy",
    )
    selecting = ("loss", "accuracy", "f1")
    run_class = ElectraRun
    noun = "an ELECTRA run"
    can = (FIND_REPLACED, *ON_TEXT)

    def check(self) -> None:
        super().check()
        if not self.recipe.objective.generator and getattr(self.recipe, "imported", None) is None:
            raise ConfigError("objective.generator is 0.0; expected 0 < generator ≤ 1, for example 0.25")
        if getattr(self.recipe.model, "parametrization", STANDARD) != STANDARD:
            raise ConfigError(
                'model.parametrization = "mup" has no rule for the generator of objective.kind = "electra". Remove it.'
            )

    def network(self, source_vocab: int, vocab: int) -> Electra:
        assert isinstance(self.recipe.model, EncoderConfig)  # a recipe's family fits its objective
        return electra(self.recipe.model, vocab, self.recipe.objective.generator)

    def masking(self, tokenizer: Tokenizer, seed: int = 0) -> Masking:
        return Masking(tokenizer, self.recipe.objective.share, seed=seed, uniform=True)

    def loss(self, data: Prepared) -> Loss:
        return partial(replaced_terms, weight=self.recipe.objective.weight)

    def counts(self, data: Prepared) -> Counts:
        return _counts

    def measured(self, network: Electra, text: TokenFile, tokenizer: Tokenizer, dtype: str, progress: Progress) -> dict[str, Any]:
        config = self.recipe.training
        measures = evaluate(
            network,
            text.ids,
            self.masking(tokenizer),
            weight=self.recipe.objective.weight,
            batch=config.batch,
            context=config.context,
            dtype=dtype,
            progress=progress,
        )
        return dataclasses.asdict(measures)

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"F1 {metrics['f1']:.4f}, accuracy {metrics['accuracy']:.4f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        tokens, masked, replaced = (f"{metrics[name]:,}" for name in ("tokens", "masked", "replaced"))
        shown = {name: f"{value:.4f}" for name, value in metrics.items() if isinstance(value, float)}
        return rows(
            ("text", metrics["split"]),
            ("tokens", f"{tokens}, {masked} masked, {replaced} replaced"),
            ("loss", shown["loss"]),
            ("generator", f"loss {shown['generator_loss']} nats per masked token, accuracy {shown['generator_accuracy']}"),
            ("discriminator", f"loss {shown['discriminator_loss']} nats per token, accuracy {shown['accuracy']}"),
            ("F1 of replaced", f"{shown['f1']} (precision {shown['precision']}, recall {shown['recall']})"),
        )
