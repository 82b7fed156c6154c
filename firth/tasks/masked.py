"""Masked language modelling (Devlin et al. 2019). Letters: B batch, T time, M masked positions, e embedding width."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import Tensor

from firth.errors import ConfigError
from firth.evaluation.masked import evaluate
from firth.inspection.inputs import Reading
from firth.layers.cross_entropy import RowLoss, cross_entropy
from firth.models import EncoderConfig, MaskedLM, masked_lm
from firth.progress import Progress
from firth.tasks.abilities.completion import BLANK
from firth.tasks.abilities.fill_mask import Filling, fill, masked_parts
from firth.tasks.abilities.inspection_inputs import one_reading
from firth.tasks.ability import FILL, ON_TEXT
from firth.tasks.running_text import RunningTextRun, RunningTextTask
from firth.tasks.task import O, TokenLossConfig, rows
from firth.text.batches.masking import MaskedWindows, Masking
from firth.text.batches.token_files import TokenFile
from firth.text.data.running_text import Prepared
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.loop import Loss


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(TokenLossConfig):
    kind: Literal["masked"] = "masked"
    share: float = 0.15  # share of the tokens to predict
    whole_words: bool = False  # mask all pieces of a word, or none of them

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")


def masked(
    model: MaskedLM, token_BT: Tensor, place_BM: Tensor, target_BM: Tensor, state: None = None, row_loss: RowLoss | None = None
) -> tuple[Tensor, None]:
    """−mean log p(x_m | the text with masks), in nats. Only the masked positions pass the output layer; float32 softmax."""
    x_BMe = model.hidden(token_BT, place_BM=place_BM)
    return cross_entropy(x_BMe, *model.output_layer(), target_BM, padded=True, row_loss=row_loss), None


class MaskedRun(RunningTextRun[MaskedLM]):
    def fill(self, text: str, candidates: Sequence[str] | None = None, *, proposals: int = 8) -> list[list[Filling]]:
        """The most probable tokens for each blank `__` of `text`: `proposals` of them, or the `candidates`, ranked."""
        return fill(self, text, candidates, proposals)

    def _reading(self, text: str) -> Reading:
        ids, _ = masked_parts(self, text.split(BLANK))
        return one_reading(self.network, self.tokenizer, ids, self._forward)


class MaskedTextTask(RunningTextTask[O]):
    """The common part of the tasks that mask tokens of running text."""

    families = ("encoder",)
    unsupported = {"training.carry": "masked windows carry no state"}  # noqa: RUF012 (a ClassVar in Task)

    def check(self) -> None:
        super().check()
        self.refuse_average("reads each token by itself and cannot predict a masked one")
        self.expect_context()

    @abstractmethod
    def masking(self, tokenizer: Tokenizer, seed: int = 0) -> Masking:
        """Evaluation masks with seed 0, so that runs with other seeds are asked the same."""

    def batches(self, data: Prepared) -> MaskedWindows:
        config = self.recipe.training
        return MaskedWindows(data.train.ids, config.batch, config.context, self.masking(data.tokenizer, config.seed))


class Masked(MaskedTextTask[MaskedConfig]):
    name = "masked"
    Objective = MaskedConfig
    metrics = ("loss", "perplexity", "accuracy", "wic_accuracy")
    selecting = ("loss", "accuracy")
    counted = "target_BM"
    run_class = MaskedRun
    noun = "a masked language model"
    can = (FILL, *ON_TEXT)

    def network(self, source_vocab: int, vocab: int) -> MaskedLM:
        assert isinstance(self.recipe.model, EncoderConfig)  # a recipe's family fits its objective
        return masked_lm(self.recipe.model, vocab)

    def masking(self, tokenizer: Tokenizer, seed: int = 0) -> Masking:
        objective = self.recipe.objective
        return Masking(tokenizer, objective.share, whole_words=objective.whole_words, seed=seed)

    def loss(self, data: Prepared) -> Loss:
        return partial(masked, row_loss=self.recipe.objective.row_loss)

    def measured(
        self, network: MaskedLM, text: TokenFile, tokenizer: Tokenizer, dtype: str, progress: Progress
    ) -> dict[str, Any]:
        config = self.recipe.training
        measures = evaluate(
            network, text.ids, self.masking(tokenizer), batch=config.batch, context=config.context, dtype=dtype, progress=progress
        )
        return dataclasses.asdict(measures)

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"accuracy {metrics['accuracy']:.4f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        return rows(
            ("text", metrics["split"]),
            ("tokens", f"{metrics['tokens']:,} masked"),
            ("loss", f"{metrics['loss']:.4f} nats per token"),
            ("perplexity", f"{metrics['perplexity']:.4f}"),
            ("accuracy", f"{metrics['accuracy']:.4f}"),
        )
