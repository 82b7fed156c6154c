"""Span corruption (Raffel et al. 2020): x is a text with spans cut out, y is what was cut out; −log p(y_t | y_<t, x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from firth.errors import ConfigError
from firth.evaluation.pairs import likelihood_of
from firth.models import Seq2Seq, Seq2SeqConfig, seq2seq
from firth.progress import Progress
from firth.tasks.run import Run
from firth.tasks.running_text import RunningTextTask, text_of
from firth.tasks.splits import Split
from firth.tasks.task import ObjectiveConfig, rows
from firth.tasks.translation import translation
from firth.text import Prepared, TokenFile
from firth.text.batches.pairs import PairBatch
from firth.text.batches.span_corruption import SHORTEST, CorruptedWindows, Corruption, corrupted_sweep
from firth.training.loop import Loss


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionConfig(ObjectiveConfig):
    kind: Literal["span-corruption"] = "span-corruption"
    share: float = 0.15  # of the tokens, cut out
    length: float = 3.0  # mean length of a span

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")
        if not self.length >= 1:
            raise ConfigError(f"objective.length is {self.length}; expected 1 or more, for example 3")


class SpanCorruptionRun(Run[Seq2Seq]):
    wanted = "a model trained by span corruption"

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        name, text = text_of(self, path, split, progress)
        task = self.task
        assert isinstance(task, SpanCorruption)
        return {**task.measured(self.network, text, self.tokenizer.vocab, "float32", progress), "split": name}

    def _forward(self, *tokens: Any) -> Any:
        return self.network.start(self.network.encode(*tokens))


class SpanCorruption(RunningTextTask[SpanCorruptionConfig]):
    name = "span-corruption"
    Objective = SpanCorruptionConfig
    families = ("seq2seq",)
    metrics = ("loss", "perplexity")
    selecting = ("loss",)
    run_class = SpanCorruptionRun
    is_a = "a model trained by span corruption"
    use = "evaluate, or start another run from it with training.init"
    next_command = "firth evaluate {run}"
    unsupported = {"training.carry": "corrupted windows carry no state"}  # noqa: RUF012 (a ClassVar in Task)
    shortest = SHORTEST

    def check(self) -> None:
        super().check()
        self.expect_pair_context()
        if self.recipe.training.context < 2:
            raise ConfigError(
                f"training.context is {self.recipe.training.context}; expected 2 or more: one token to cut out, and one to keep"
            )

    def network(self, source_vocab: int, vocab: int) -> Seq2Seq:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a recipe's family fits its objective
        vocab += self.corruption(0).sentinels
        return seq2seq(self.recipe.model, vocab, vocab)

    def corruption(self, vocab: int, seed: int = 0) -> Corruption:
        """Evaluation cuts with seed 0, so that runs with other seeds are asked the same."""
        objective = self.recipe.objective
        return Corruption(vocab, self.recipe.training.context, objective.share, objective.length, seed)

    def batches(self, data: Prepared) -> CorruptedWindows:
        config = self.recipe.training
        return CorruptedWindows(data.train.ids, config.batch, self.corruption(data.tokenizer.vocab, config.seed))

    def loss(self, data: Prepared) -> Loss:
        return translation

    def validate(self, network: Seq2Seq, data: Prepared, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        return self.measured(network, data.valid, data.tokenizer.vocab, self.recipe.training.dtype, progress)

    def measured(self, network: Seq2Seq, text: TokenFile, vocab: int, dtype: str, progress: Progress) -> dict[str, Any]:
        training = self.recipe.training
        batches = corrupted_sweep(text.ids, training.batch, self.corruption(vocab))
        return dataclasses.asdict(likelihood_of(network, reported(batches, training.context, text.count, progress), dtype))

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        return rows(
            ("text", metrics["split"]),
            ("tokens", f"{metrics['tokens']:,} to write: the spans and their sentinels"),
            ("loss", f"{metrics['loss']:.4f} nats per token"),
            ("perplexity", f"{metrics['perplexity']:.4f}"),
        )


def reported(batches: Iterator[PairBatch], context: int, total: int, progress: Progress) -> Iterator[PairBatch]:
    """The batches, with progress in tokens of the text."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch.source_BS) * context
        progress("evaluating", min(done, total), total)
