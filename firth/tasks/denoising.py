"""Denoising (Lewis et al. 2020, BART): x is a corrupted text and y the original; −log p(y_t | y_<t, x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firth.decoding.beam import Hypothesis
from firth.errors import ConfigError, DataError
from firth.evaluation.pairs import likelihood_of
from firth.models import Seq2Seq, Seq2SeqConfig, seq2seq
from firth.progress import Progress, silent
from firth.tasks.abilities.completion import BLANK
from firth.tasks.abilities.contextual_vectors import refuse_longer
from firth.tasks.abilities.translator import Translation, Translator
from firth.tasks.run import Run, refuse_one_text
from firth.tasks.running_text import RunningTextTask, text_of
from firth.tasks.span_corruption import reported
from firth.tasks.splits import Split
from firth.tasks.task import ObjectiveConfig, rows
from firth.tasks.translation import translation
from firth.text import Prepared, TokenFile, Tokenizer
from firth.text.batches.denoising import SHORTEST, Denoising, DenoisingWindows, Noise, denoising_sweep
from firth.training.loop import Loss


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(ObjectiveConfig):
    """Noises that combine; see firth/text/batches/denoising.py. The default is the paper's best."""

    kind: Literal["denoising"] = "denoising"
    mask: float = 0.0  # share of the tokens, each replaced by <mask>
    delete: float = 0.0  # share of the tokens, deleted
    infill: float = 0.3  # share of the tokens, covered by spans that become one <mask> each
    length: float = 3.0  # mean length of an infilling span (Poisson)
    permute: bool = True  # shuffle the sentences of a window
    rotate: bool = False  # let a window begin at a random token

    def __post_init__(self) -> None:
        shares = {"infill": self.infill, "mask": self.mask, "delete": self.delete}
        for name, share in shares.items():
            if not 0 <= share < 1:
                raise ConfigError(f"objective.{name} is {share}; expected 0 ≤ {name} < 1, for example 0.3")
        if sum(shares.values()) >= 1:
            given = " + ".join(f"{name} {share}" for name, share in shares.items() if share)
            raise ConfigError(f"the shares of the noises, {given}, leave no token. Lower them to a sum below 1.")
        if not self.length >= 1:
            raise ConfigError(f"objective.length is {self.length}; expected 1 or more, for example 3")
        if not any((*shares.values(), self.permute, self.rotate)):
            raise ConfigError("all noises are off, so there is nothing to restore. Set objective.infill, for example to 0.3.")


class Restorer(Translator):
    """A translator from corrupted to original text; no original has a <mask>."""

    def _told(self, hypothesis: Hypothesis) -> Translation:
        text = tuple(token for token in hypothesis.tokens if token < self.tokenizers[1].vocab)
        return super()._told(dataclasses.replace(hypothesis, tokens=text))


class DenoisingRun(Run[Seq2Seq]):
    wanted = "a denoising model"

    def restore(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        penalty: float | None = None,
        tokens: int | None = None,
        progress: Progress = silent,
    ) -> list[str]:
        """The original of each corrupted text, as the model writes it. Each blank `__` becomes a <mask>, which stands for any
        number of tokens. Settings that are not given come from the recipe's [decoding]."""
        refuse_one_text("restore", texts)
        config = self.decoding({"beam": beam, "penalty": penalty, "tokens": tokens})
        encoded = [self._with_masks(text, f"text {number}") for number, text in enumerate(texts, 1)]
        restorer = Restorer(self.network, (self.tokenizer, self.tokenizer), self.recipe)
        found = restorer.write(encoded, config, progress=lambda _, done, total: progress("restoring", done, total))
        return [hypotheses[0].text for hypotheses in found]

    def _with_masks(self, text: str, name: str) -> NDArray[np.int64]:
        """The ids of a text with <mask> for each blank, and <eos>. A space before a blank belongs to what is missing."""
        *lefts, last = text.split(BLANK)
        pieces: list[NDArray[np.int64]] = []
        for left in lefts:
            pieces += [self._ids(left if self.tokenizer.kind == "char" else left.rstrip(" ")), np.array([self.tokenizer.vocab])]
        end = np.array([self.tokenizer.eos], dtype=np.int64)
        token_S = np.concatenate([*pieces, self._ids(last), end])
        if (token_S[:-1] == end).any():
            raise DataError(f"{name} has a line break, which this vocabulary reads as <eos>. Give each line as its own text.")
        refuse_longer(self.network, len(token_S), name)
        return token_S

    def _ids(self, text: str) -> NDArray[np.int64]:
        return self.ids(text) if text.strip(" ") else np.zeros(0, np.int64)

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        name, text = text_of(self, path, split, progress)
        task = self.task
        assert isinstance(task, DenoisingTask)
        return {**task.measured(self.network, text, self.tokenizer, "float32", progress), "split": name}

    def _forward(self, *tokens: Any) -> Any:
        return self.network.start(self.network.encode(*tokens))


class DenoisingTask(RunningTextTask[DenoisingConfig]):
    name = "denoising"
    Objective = DenoisingConfig
    families = ("seq2seq",)
    metrics = ("loss", "perplexity")
    selecting = ("loss",)
    run_class = DenoisingRun
    is_a = "a denoising model"
    use = "restore or evaluate, or start another run from it with training.init"
    next_command = "firth evaluate {run}"
    uses = frozenset({"decoding.beam", "decoding.penalty"})
    unsupported = {"training.carry": "corrupted windows carry no state"}  # noqa: RUF012 (a ClassVar in Task)
    shortest = SHORTEST
    needs_eos = True

    def check(self) -> None:
        super().check()
        self.expect_pair_context()
        if self.recipe.training.context < SHORTEST:
            raise ConfigError(
                f"training.context is {self.recipe.training.context}; expected {SHORTEST} or more: one token to corrupt, and one "
                "to keep"
            )

    def network(self, source_vocab: int, vocab: int) -> Seq2Seq:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a recipe's family fits its objective
        return seq2seq(self.recipe.model, vocab + 1, vocab + 1)  # <mask>

    def denoising(self, tokenizer: Tokenizer, seed: int = 0) -> Denoising:
        """Evaluation corrupts with seed 0, so that runs with other seeds are asked the same."""
        objective = self.recipe.objective
        noise = Noise(**{field.name: getattr(objective, field.name) for field in dataclasses.fields(Noise)})
        return Denoising(tokenizer, self.recipe.training.context, noise, seed)

    def batches(self, data: Prepared) -> DenoisingWindows:
        config = self.recipe.training
        return DenoisingWindows(data.train.ids, config.batch, self.denoising(data.tokenizer, config.seed))

    def loss(self, data: Prepared) -> Loss:
        return translation

    def validate(self, network: Seq2Seq, data: Prepared, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        return self.measured(network, data.valid, data.tokenizer, self.recipe.training.dtype, progress)

    def measured(self, network: Seq2Seq, text: TokenFile, tokenizer: Tokenizer, dtype: str, progress: Progress) -> dict[str, Any]:
        training = self.recipe.training
        batches = denoising_sweep(text.ids, training.batch, self.denoising(tokenizer))
        return dataclasses.asdict(likelihood_of(network, reported(batches, training.context, text.count, progress), dtype))

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        return rows(
            ("text", metrics["split"]),
            ("tokens", f"{metrics['tokens']:,} to write: the original windows, each with <eos>"),
            ("loss", f"{metrics['loss']:.4f} nats per token"),
            ("perplexity", f"{metrics['perplexity']:.4f}"),
        )
