"""Losses, accuracy and F1 of ELECTRA: how well the discriminator finds the tokens that the generator replaced.

    precision = TP / (TP + FP)    recall = TP / (TP + FN)    F1 = 2 TP / (2 TP + FP + FN)

counted over the replaced tokens, each 0 if its denominator is 0. Letters: B batch, T time, M masked positions, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.errors import DataError
from firth.evaluation.classification import ratio
from firth.evaluation.inference import inference, with_progress
from firth.models.electra import Electra, corrupt, sample
from firth.progress import Progress, silent
from firth.text.batches.masking import MaskedBatch, Masking, masked_sweep
from firth.text.batches.padding import PADDING
from firth.text.tokenizers.special_tokens import Ids
from firth.training.distributed import all_added, ranks
from firth.training.loop import precision

_LOGITS = 1 << 25  # in memory at once


@dataclass(frozen=True)
class ReplacedMeasures:
    loss: float  # generator_loss + weight · discriminator_loss
    generator_loss: float  # mean nats per masked token
    discriminator_loss: float  # mean nats per token
    generator_accuracy: float  # fraction of the masked tokens that are the generator's most probable token
    accuracy: float  # fraction of all tokens that the discriminator classifies correctly
    precision: float  # these three of the replaced tokens
    recall: float
    f1: float
    tokens: int  # all of them
    masked: int
    replaced: int  # masked tokens for which the generator drew another token


@dataclass
class _Sums:
    """Over the batches so far. All are numbers that float64 holds exactly."""

    generator: float = 0.0
    discriminator: float = 0.0
    filled: float = 0  # masked tokens that the generator predicts
    right: float = 0
    hits: float = 0  # replaced tokens that the discriminator finds
    predicted: float = 0
    replaced: float = 0
    masked: float = 0
    tokens: float = 0


def evaluate(
    model: Electra,
    ids: Ids,
    masking: Masking,
    *,
    weight: float,
    batch: int,
    context: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> ReplacedMeasures:
    """Over the whole text, in windows of `context` tokens that do not overlap. The generator's samples are drawn with seed 0 on
    the model's device, so the result is the same each time; a GPU draws others than a CPU, and several processes draw others
    than one. Summed in float64."""
    batch = max(1, min(batch, _LOGITS // (masking.count(context) * model.vocab)))
    windows = with_progress(masked_sweep(ids, batch, context, masking), lambda part: part.tokens, len(ids), progress)
    sums = _Sums()
    with inference(model) as device:
        random = torch.Generator(device).manual_seed(ranks().rank)
        for part in windows:
            with precision(device, dtype):
                _add(sums, model, part, random)
    sums = _Sums(*all_added(*dataclasses.astuple(sums)))
    if not sums.masked:
        raise DataError(f"none of the {len(ids):,} tokens of the text can be masked; they are all special tokens such as <unk>")
    return _measures(sums, weight)


def _add(sums: _Sums, model: Electra, part: MaskedBatch, random: torch.Generator) -> None:
    arrays = part.token_BT, part.place_BM, part.target_BM
    token_BT, place_BM, target_BM = (torch.from_numpy(array).to(random.device) for array in arrays)
    if model.generator is None:
        raise DataError("this discriminator was imported without its generator, which would replace tokens. Use `replaced`.")
    logits_BMV = model.generator(token_BT, place_BM=place_BM)
    sums.generator += _sum(F.cross_entropy(logits_BMV.float().mT, target_BM, ignore_index=PADDING, reduction="none"))
    sums.filled += int((logits_BMV.argmax(-1) == target_BM).sum())
    read_BT, replaced_BT = corrupt(token_BT, place_BM, target_BM, sample(logits_BMV, random))
    logits_BT = model(read_BT).float()
    sums.discriminator += _sum(F.binary_cross_entropy_with_logits(logits_BT, replaced_BT.float(), reduction="none"))
    predicted_BT = logits_BT > 0
    sums.right += int((predicted_BT == replaced_BT).sum())
    sums.hits += int((predicted_BT & replaced_BT).sum())
    sums.predicted += int(predicted_BT.sum())
    sums.replaced += int(replaced_BT.sum())
    sums.masked += part.places
    sums.tokens += part.tokens


def _sum(loss: Tensor) -> float:
    return float(loss.double().sum())


def _measures(sums: _Sums, weight: float) -> ReplacedMeasures:
    generator, discriminator = sums.generator / sums.masked, sums.discriminator / sums.tokens
    return ReplacedMeasures(
        loss=generator + weight * discriminator,
        generator_loss=generator,
        discriminator_loss=discriminator,
        generator_accuracy=sums.filled / sums.masked,
        accuracy=sums.right / sums.tokens,
        precision=ratio(sums.hits, sums.predicted),
        recall=ratio(sums.hits, sums.replaced),
        f1=ratio(2 * sums.hits, sums.predicted + sums.replaced),
        tokens=int(sums.tokens),
        masked=int(sums.masked),
        replaced=int(sums.replaced),
    )
