"""Span corruption (Raffel et al. 2020): x is a text with spans cut out, y is what was cut out; −log p(y_t | y_<t, x)."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from firth.errors import ConfigError
from firth.evaluation.pairs import likelihood_of
from firth.models import ConditionalDecoder, Seq2SeqConfig, seq2seq
from firth.progress import Progress
from firth.tasks.ability import ON_TEXT
from firth.tasks.running_text import RunningTextRun, RunningTextTask
from firth.tasks.task import O, TokenLossConfig, rows
from firth.tasks.translation import translation
from firth.text.batches.pairs import PairBatch
from firth.text.batches.span_corruption import CorruptedWindows, Corrupting, Corruption, corrupted_sweep
from firth.text.batches.token_files import TokenFile
from firth.text.data.running_text import Prepared
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.distributed import mine
from firth.training.loop import Loss


class CorruptedTextRun(RunningTextRun[ConditionalDecoder]):
    """A run that restores corrupted texts."""

    def _forward(self, *tokens: Any) -> Any:
        return self.network.start(self.network.encode(*tokens))


class CorruptedTextTask(RunningTextTask[O]):
    """The common part of the tasks that restore a corrupted text, span corruption and denoising."""

    counted = "target_BT"
    families = ("seq2seq",)
    metrics = ("loss", "perplexity")
    selecting = ("loss",)
    unsupported = {"training.carry": "corrupted windows carry no state"}  # noqa: RUF012 (a ClassVar in Task)
    shortest = 2  # one token to corrupt, one to keep
    targets: ClassVar[str]  # what the model generates, for the report

    def check(self) -> None:
        super().check()
        self.expect_context()
        context = self.recipe.training.context
        if context < self.shortest:
            raise ConfigError(
                f"training.context is {context}; expected {self.shortest} or more: one token to corrupt, and one to keep"
            )

    def loss(self, data: Prepared) -> Loss:
        return partial(translation, row_loss=self.recipe.objective.row_loss)

    @abstractmethod
    def corruption(self, tokenizer: Tokenizer, seed: int = 0) -> Corrupting:
        """Evaluation corrupts with seed 0, so that runs with other seeds are asked the same."""

    def batches(self, data: Prepared) -> CorruptedWindows:
        config = self.recipe.training
        return CorruptedWindows(data.train.ids, config.batch, self.corruption(data.tokenizer, config.seed))

    def measured(
        self, network: ConditionalDecoder, text: TokenFile, tokenizer: Tokenizer, dtype: str, progress: Progress
    ) -> dict[str, Any]:
        config = self.recipe.training
        batches = corrupted_sweep(text.ids, config.batch, self.corruption(tokenizer))
        batches = _reported(batches, config.context, text.count, progress)
        return dataclasses.asdict(likelihood_of(network, batches, dtype))

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        return rows(
            ("text", metrics["split"]),
            ("tokens", f"{metrics['tokens']:,} to generate: {self.targets}"),
            ("loss", f"{metrics['loss']:.4f} nats per token"),
            ("perplexity", f"{metrics['perplexity']:.4f}"),
        )


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionConfig(TokenLossConfig):
    kind: Literal["span-corruption"] = "span-corruption"
    share: float = 0.15  # share of the tokens to cut out
    length: float = 3.0  # mean length of a span, in tokens

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")
        if not self.length >= 1:
            raise ConfigError(f"objective.length is {self.length}; expected 1 or more, for example 3")


class SpanCorruption(CorruptedTextTask[SpanCorruptionConfig]):
    name = "span-corruption"
    Objective = SpanCorruptionConfig
    run_class = CorruptedTextRun
    noun = "a model trained by span corruption"
    can = ON_TEXT
    targets = "the spans and their sentinels"

    def network(self, source_vocab: int, vocab: int) -> ConditionalDecoder:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a recipe's family fits its objective
        vocab += self._corruption(0, 0).sentinels
        return seq2seq(self.recipe.model, vocab, vocab)

    def corruption(self, tokenizer: Tokenizer, seed: int = 0) -> Corruption:
        return self._corruption(tokenizer.vocab, seed)

    def _corruption(self, vocab: int, seed: int) -> Corruption:
        objective = self.recipe.objective
        return Corruption(vocab, self.recipe.training.context, objective.share, objective.length, seed)


def _reported(batches: Iterator[PairBatch], context: int, total: int, progress: Progress) -> Iterator[PairBatch]:
    """The batches of this process, with progress in tokens of the text."""
    done = 0
    for number, batch in enumerate(batches):
        if mine(number):
            yield batch
        done += len(batch.source_BS) * context
        progress("evaluating", min(done, total), total)
