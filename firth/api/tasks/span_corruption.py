"""Span corruption: running text, windows of it with spans cut out, how probable those are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked
from firth.api.tasks.task import OfData
from firth.api.tasks.texts import text_of
from firth.errors import ConfigError, DataError
from firth.evaluation.pairs import Likelihood, likelihood_of
from firth.models import Network, Seq2Seq, Seq2SeqConfig, seq2seq
from firth.objectives.span_corruption import SpanCorruptionConfig, span_corruption
from firth.text import Prepared, Progress, TokenFile, Tokenizer, TokenizerConfig, prepare
from firth.text.batches.pairs import PairBatch
from firth.text.batches.span_corruption import SHORTEST, CorruptedWindows, Corruption, corrupted_sweep
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer, progress: Progress) -> Prepared:
    data = prepare(recipe.data, tokenizer, progress)
    if data.valid is not None and data.valid.count < SHORTEST:
        raise DataError(
            f"the held-out text has {data.valid.count} tokens, too few to cut some out; "
            "give more text, a larger data.valid, or data.valid=0 to hold out nothing"
        )
    return data


@dataclass(frozen=True)
class SpanCorruptionTask(OfData[Prepared]):
    loss: Loss = span_corruption

    def network(self) -> Seq2Seq:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a Recipe's family fits its objective
        vocab = self.tokenizer.vocab + sentinels(self.recipe)
        return seq2seq(self.recipe.model, vocab, vocab)

    def batches(self) -> CorruptedWindows:
        config = self.recipe.training
        return CorruptedWindows(self.data.train.ids, config.batch, corruption(self.recipe, self.tokenizer.vocab, config.seed))

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, Seq2Seq)
        dtype = self.recipe.training.dtype
        return dataclasses.asdict(_measured(network, self.data.valid, self.recipe, self.tokenizer, dtype, progress))


def corruption(recipe: Recipe, vocab: int, seed: int = 0) -> Corruption:
    """As the recipe says. What is evaluated is cut with seed 0, so that runs with other seeds are asked the same."""
    assert isinstance(recipe.objective, SpanCorruptionConfig)
    return Corruption(vocab, recipe.training.context, recipe.objective.share, recipe.objective.length, seed)


def sentinels(recipe: Recipe) -> int:
    """The tokens that a run has beside its tokenizer's: none, where it cuts out nothing."""
    return corruption(recipe, 0).sentinels if isinstance(recipe.objective, SpanCorruptionConfig) else 0


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    if not isinstance(model.network, Seq2Seq):
        raise ConfigError("this run has no sentinels; expected a run of span corruption")
    name, text = text_of(model, asked, progress)
    measured = _measured(model.network, text, model.recipe, model.tokenizer, "float32", progress)
    return {**dataclasses.asdict(measured), "split": name}


def _measured(
    network: Seq2Seq, text: TokenFile, recipe: Recipe, tokenizer: Tokenizer, dtype: str, progress: Progress
) -> Likelihood:
    batches = corrupted_sweep(text.ids, recipe.training.batch, corruption(recipe, tokenizer.vocab))
    return likelihood_of(network, _told(batches, recipe, text.count, progress), dtype)


def _told(batches: Iterator[PairBatch], recipe: Recipe, total: int, progress: Progress) -> Iterator[PairBatch]:
    done = 0
    for batch in batches:
        yield batch
        done += len(batch.source_BS) * recipe.training.context
        progress("evaluating", min(done, total), total)
