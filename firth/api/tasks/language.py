"""Next token: running text, windows or streams of it, perplexity."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked
from firth.api.tasks.task import OfData
from firth.api.tasks.texts import text_of
from firth.errors import ConfigError, DataError
from firth.evaluation.perplexity import perplexity, random_loss, stream_shape
from firth.models import LanguageConfig, LanguageModel, Network, language_model
from firth.objectives.next_token import next_token
from firth.text import Prepared, Progress, Tokenizer, TokenizerConfig, prepare
from firth.text.batches.windows import Streams, Windows
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model


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


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """A recurrent model reads the text as one stream, or as several side by side; a Transformer reads windows."""
    network, config = model.language, model.recipe.training
    _check_protocol(asked, network.carries)
    name, text = text_of(model, asked, progress)
    shape = stream_shape(text, asked.streams, config.context) if network.carries else (config.batch, config.context)
    measured = perplexity(
        network,
        text,
        lossless=model.tokenizer.lossless,
        batch=shape[0],
        context=shape[1],
        progress=progress,
    )
    result = {**dataclasses.asdict(measured), "split": name, "streams": shape[0] if network.carries else None}
    if asked.random_batches is None:
        return result
    estimate = random_loss(
        network,
        text,
        asked.random_batches,
        batch=config.batch,
        context=config.context,
        seed=asked.seed,
        progress=progress,
    )
    return {**result, **dataclasses.asdict(estimate), "seed": asked.seed}


def _check_protocol(asked: Asked, carries: bool) -> None:
    if asked.streams is not None and not carries:
        raise ConfigError(
            f"streams is {asked.streams}, but a Transformer carries no state along a stream: it reads windows of "
            "training.context; leave --streams out"
        )
    for name, least in (("streams", 1), ("random_batches", 1), ("seed", 0)):
        value = getattr(asked, name)
        if value is not None and value < least:
            raise ConfigError(f"{name} is {value}; expected {least} or more")
