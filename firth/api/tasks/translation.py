"""Translation: sentence pairs, batches of similar length, BLEU and exact match."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

from firth.api.recipe import Recipe
from firth.api.tasks.task import OfData
from firth.api.translator import Translator
from firth.errors import DataError
from firth.evaluation.pairs import likelihood
from firth.models import Network, Seq2Seq, Seq2SeqConfig, TransformerSeq2SeqConfig, seq2seq
from firth.objectives.translation import TranslationConfig, translation
from firth.text import Progress, TokenizerConfig
from firth.text.pairs import BucketedPairs
from firth.text.parallel import Parallel, Tokenizers, prepare_parallel
from firth.training.loop import Loss


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizers, progress: Progress) -> Parallel:
    data = prepare_parallel(recipe.data, tokenizer, recipe.training.context, progress)
    model = recipe.model
    if isinstance(model, TransformerSeq2SeqConfig) and model.position == "learned" and data.valid is not None:
        longest = int(max(data.valid.source_length_N.max(), data.valid.target_length_N.max()))
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
        return {**result, "bleu": found.bleu, "exact": found.exact, "sentences": found.sentences}
