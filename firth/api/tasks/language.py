"""Next token: running text, windows or streams of it, perplexity."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from firth.api.recipe import Recipe
from firth.api.tasks.task import OfData
from firth.errors import DataError
from firth.evaluation.perplexity import perplexity
from firth.models import LanguageConfig, LanguageModel, Network, language_model
from firth.objectives.next_token import next_token
from firth.text import Prepared, Progress, Tokenizer, TokenizerConfig, prepare
from firth.text.batches import Streams, Windows
from firth.training.loop import Loss


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer, progress: Progress) -> Prepared:
    data = prepare(recipe.data, tokenizer, progress)
    if data.valid is not None and data.valid.count < 2:
        raise DataError(
            f"the held-out text has {data.valid.count} tokens, too few to predict one from another; "
            "give more text, a larger data.valid, or data.valid=0 to hold out nothing"
        )
    return data


@dataclass(frozen=True)
class LanguageTask(OfData[Prepared]):
    loss: Loss = next_token

    def network(self) -> LanguageModel:
        assert isinstance(self.recipe.model, LanguageConfig)  # a Recipe's family fits its objective
        return language_model(self.recipe.model, self.tokenizer.vocab)

    def batches(self) -> Streams | Windows:
        config = self.recipe.training
        kind = Streams if config.carry else Windows
        return kind(self.data.train.ids, config.batch, config.context, config.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, LanguageModel)
        config = self.recipe.training
        measured = perplexity(
            network,
            self.data.valid,
            lossless=self.tokenizer.lossless,
            batch=config.batch,
            context=config.context,
            dtype=config.dtype,
            progress=progress,
        )
        return dataclasses.asdict(measured)
