"""Span corruption (Raffel et al. 2020): x is a text with spans cut out, y is what was cut out; −log p(y_t | y_<t, x)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.models import ConditionalDecoder, Seq2SeqConfig, seq2seq
from firth.tasks.ability import ON_TEXT
from firth.tasks.corrupted_text import CorruptedTextRun, CorruptedTextTask
from firth.tasks.task import ObjectiveConfig
from firth.text import Prepared, Tokenizer
from firth.text.batches.pairs import PairBatch
from firth.text.batches.span_corruption import CorruptedWindows, Corruption, corrupted_sweep
from firth.text.tokenizers.special_tokens import Ids


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionConfig(ObjectiveConfig):
    kind: Literal["span-corruption"] = "span-corruption"
    share: float = 0.15  # share of the tokens to cut out
    length: float = 3.0  # mean length of a span, in tokens

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")
        if not self.length >= 1:
            raise ConfigError(f"objective.length is {self.length}; expected 1 or more, for example 3")


class SpanCorruptionRun(CorruptedTextRun):
    """Runs of this task have no method of their own."""


class SpanCorruption(CorruptedTextTask[SpanCorruptionConfig]):
    name = "span-corruption"
    Objective = SpanCorruptionConfig
    run_class = SpanCorruptionRun
    noun = "a model trained by span corruption"
    can = ON_TEXT
    targets = "the spans and their sentinels"

    def network(self, source_vocab: int, vocab: int) -> ConditionalDecoder:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a recipe's family fits its objective
        vocab += self.corruption(0).sentinels
        return seq2seq(self.recipe.model, vocab, vocab)

    def corruption(self, vocab: int, seed: int = 0) -> Corruption:
        objective = self.recipe.objective
        return Corruption(vocab, self.recipe.training.context, objective.share, objective.length, seed)

    def batches(self, data: Prepared) -> CorruptedWindows:
        config = self.recipe.training
        return CorruptedWindows(data.train.ids, config.batch, self.corruption(data.tokenizer.vocab, config.seed))

    def sweep(self, ids: Ids, tokenizer: Tokenizer) -> Iterator[PairBatch]:
        return corrupted_sweep(ids, self.recipe.training.batch, self.corruption(tokenizer.vocab))
