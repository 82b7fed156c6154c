"""Translation: sentence pairs, batches of similar length, BLEU and exact match."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked, chosen
from firth.api.tasks.task import OfData
from firth.api.translator import Translator
from firth.errors import ConfigError, DataError
from firth.evaluation.pairs import likelihood
from firth.models import Network, PrefixConfig, Seq2Seq, Seq2SeqConfig, TransformerSeq2SeqConfig, seq2seq
from firth.objectives.translation import TranslationConfig, translation
from firth.text import Progress, TokenizerConfig
from firth.text.batches.pairs import BucketedPairs, Pairs
from firth.text.data.parallel import Parallel, Tokenizers, encode_parallel, prepare_parallel
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizers, progress: Progress) -> Parallel:
    data = prepare_parallel(recipe.data, tokenizer, recipe.training.context, progress)
    model = recipe.model
    if isinstance(model, TransformerSeq2SeqConfig | PrefixConfig) and model.position == "learned" and data.valid is not None:
        longest = int(max(data.valid.source_length_N.max(), data.valid.target_length_N.max()))
        longest *= 2 if isinstance(model, PrefixConfig) else 1  # it has room for both sides
        if model.context is not None and longest > model.context:
            raise DataError(
                f"the longest sentence held out has {longest} tokens, <eos> included, and learned positions end at "
                f"model.context = {model.context}; set model.context = {longest}, or choose another model.position"
            )
    return data


@dataclass(frozen=True)
class TranslationTask(OfData[Parallel]):
    @property
    def loss(self) -> Loss:
        assert isinstance(self.recipe.objective, TranslationConfig)  # a Recipe's family fits its objective
        return partial(translation, smoothing=self.recipe.objective.smoothing)

    def network(self) -> Seq2Seq:
        assert isinstance(self.recipe.model, Seq2SeqConfig)
        return seq2seq(self.recipe.model, self.data.source_tokenizer.vocab, self.tokenizer.vocab)

    def batches(self) -> BucketedPairs:
        return BucketedPairs(self.data.train, self.recipe.training.batch_tokens, self.recipe.training.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        """The loss; where BLEU or exact match selects, those of what is written word by word, the most probable each time."""
        pairs, training = self.data.valid, self.recipe.training
        assert pairs is not None
        assert isinstance(network, Seq2Seq)
        measured = likelihood(network, pairs, batch_tokens=training.batch_tokens, dtype=training.dtype, progress=progress)
        result = dataclasses.asdict(measured)
        if training.select == "loss":
            return result
        found = Translator(network, (self.data.source_tokenizer, self.tokenizer), self.recipe).measure(
            pairs, dataclasses.replace(self.recipe.decoding, beam=1), progress
        )
        summaries = {} if found.rougeL is None else {"rougeL": found.rougeL}
        return {**result, "bleu": found.bleu, "exact": found.exact, **summaries, "sentences": found.sentences}


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Likelihood of the translations there are, and BLEU, chrF and exact match of those that are written."""
    translator, config = model.translator, model.decoding({"beam": asked.beam})
    if asked.path is None and asked.target is not None:
        raise ConfigError(f"a file of translations was given, {asked.target}, without the texts they are of; give --data, too")
    name, pairs = _pairs(model, asked, progress)
    batch_tokens = model.recipe.training.batch_tokens
    measured = likelihood(translator.network, pairs, batch_tokens=batch_tokens, progress=progress)
    written = translator.measure(pairs, config, progress)
    return {**dataclasses.asdict(measured), **dataclasses.asdict(written), "split": name, "beam": config.beam}


def _pairs(model: Model, asked: Asked, progress: Progress) -> tuple[str, Pairs]:
    tokenizers, data = model.translator.tokenizers, model.recipe.data
    if asked.path is not None:
        return str(asked.path), encode_parallel(asked.path, asked.target, tokenizers, data, progress)
    return chosen(prepare_parallel(data, tokenizers, progress=progress, all_texts=True), asked.split)
