"""Masked tokens: running text, windows of it with some tokens hidden, how many of them are found again."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked
from firth.api.tasks.task import OfData
from firth.api.tasks.texts import text_of
from firth.errors import ConfigError
from firth.evaluation.masked import Found, found_again
from firth.models import EncoderConfig, MaskedLM, Network, masked_lm
from firth.objectives.masked import MaskedConfig, masked
from firth.text import Prepared, Progress, TokenFile, Tokenizer, TokenizerConfig, prepare
from firth.text.batches.masking import MaskedWindows, Masking
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer, progress: Progress) -> Prepared:
    return prepare(recipe.data, tokenizer, progress)


@dataclass(frozen=True)
class MaskedTask(OfData[Prepared]):
    loss: Loss = masked

    def network(self) -> MaskedLM:
        assert isinstance(self.recipe.model, EncoderConfig)  # a Recipe's family fits its objective
        return masked_lm(self.recipe.model, self.tokenizer.vocab)

    def batches(self) -> MaskedWindows:
        config = self.recipe.training
        return MaskedWindows(
            self.data.train.ids, config.batch, config.context, masking(self.recipe, self.tokenizer, seed=config.seed)
        )

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, MaskedLM)
        dtype = self.recipe.training.dtype
        return dataclasses.asdict(_measured(network, self.data.valid, self.recipe, self.tokenizer, dtype, progress))


def masking(recipe: Recipe, tokenizer: Tokenizer, seed: int = 0) -> Masking:
    """As the recipe says. What is evaluated is masked with seed 0, so that runs with other seeds are asked the same."""
    assert isinstance(recipe.objective, MaskedConfig)
    return Masking(tokenizer, recipe.objective.share, whole_words=recipe.objective.whole_words, seed=seed)


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    if not isinstance(model.network, MaskedLM):
        raise ConfigError("this run has no <mask>; expected a run of masked tokens")
    name, text = text_of(model, asked, progress)
    measured = _measured(model.network, text, model.recipe, model.tokenizer, "float32", progress)
    return {**dataclasses.asdict(measured), "split": name}


def _measured(network: MaskedLM, text: TokenFile, recipe: Recipe, tokenizer: Tokenizer, dtype: str, progress: Progress) -> Found:
    config = recipe.training
    return found_again(
        network,
        text.ids,
        masking(recipe, tokenizer),
        batch=config.batch,
        context=config.context,
        dtype=dtype,
        progress=progress,
    )
