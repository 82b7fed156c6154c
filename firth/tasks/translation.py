"""Sequence to sequence: p(y | x) = Π p(y_t | y_<t, x). Letters: B batch, S source, T target."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.keywords import DecodingKeywords
from firth.errors import ConfigError, DataError, option
from firth.evaluation.by_text import JudgedTexts, hash_of, perplexity_from
from firth.evaluation.metrics import flat
from firth.evaluation.pairs import likelihood, loss_by_text
from firth.evaluation.translation import Written
from firth.inspection.alignment import Alignment
from firth.inspection.beam_tree import BeamTree
from firth.inspection.inputs import Reading
from firth.inspection.predictions import Predictions, of_pair, predictions
from firth.layers.cross_entropy import RowLoss, cross_entropy
from firth.models import ConditionalDecoder, PrefixDecoder, Seq2SeqConfig, seq2seq
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities.contextual_vectors import TextEncoder, refuse_longer
from firth.tasks.abilities.inspection_inputs import PairInputs, names, one_row
from firth.tasks.abilities.translator import Translation, Translator
from firth.tasks.ability import ON_TEXT, PREDICT, TRANSLATE, WALK
from firth.tasks.run import Run, refuse_one_text
from firth.tasks.splits import Split, check_split, chosen
from firth.tasks.task import SEARCHES, Task, Tokenizers, TokenLossConfig, check_smoothing, rows, skill_table
from firth.text.batches.pairs import BucketedPairs, Pairs
from firth.text.config import PairsConfig, TokenizerConfig
from firth.text.data.pairs import PairData, encode_pairs, encode_target, prepare_pairs
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.figures.page import Section


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(TokenLossConfig):
    kind: Literal["translation"] = "translation"
    smoothing: float = 0.0  # label smoothing: share of the target probability that is spread over the vocabulary
    rouge: bool = False  # evaluate with ROUGE, too, because the targets are summaries

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing, self.loss)


def translation(
    model: ConditionalDecoder,
    source_BS: Tensor,
    source_length_B: Tensor,
    input_BT: Tensor,
    target_BT: Tensor,
    target_length_B: Tensor,
    state: None = None,
    smoothing: float = 0.0,
    row_loss: RowLoss | None = None,
) -> tuple[Tensor, None]:
    """−mean log p(y_t | y_<t, x), in nats per target token, without the padding. The softmax is in float32."""
    x_BTd = model.teacher_forced(input_BT, model.encode(source_BS, source_length_B))
    weights = model.output_layer()
    return cross_entropy(x_BTd, *weights, target_BT, padded=True, smoothing=smoothing, row_loss=row_loss), None


class TranslatorRun(Run[ConditionalDecoder]):
    @property
    def translator(self) -> Translator:
        """The network with both its tokenizers."""
        return Translator(self.network, (self.source_tokenizer, self.tokenizer), self.recipe)

    def in_languages(self, source: str | None = None, target: str | None = None) -> TranslatorRun:
        """The same run for these languages of a multilingual model, such as "eng_Latn" and "deu_Latn" of NLLB; None leaves one
        as it is. The weights are shared."""
        if source is None and target is None:
            return self
        run = copy.copy(self)
        run.tokenizer = self.tokenizer.in_languages(source, target)
        joint = self.source_tokenizer is self.tokenizer
        run.source_tokenizer = run.tokenizer if joint else self.source_tokenizer.in_languages(source, target)
        return run

    def translate(
        self,
        texts: Sequence[str],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        sample: bool = False,
        progress: Progress | bool = True,
        **settings: Unpack[DecodingKeywords],
    ) -> list[str]:
        """The translation of each of `texts`: the best of a beam, or with `sample` a random one. `translations` returns the whole
        beam with probabilities. `source_language` and `target_language` are those of a multilingual model."""
        run, config = self.in_languages(source_language, target_language), self.decoding(settings)
        return [candidates[0].text for candidates in run.translations(texts, config, sample=sample, progress=progress)]

    @shows_progress
    def translations(
        self,
        texts: Sequence[str],
        config: DecodingConfig | None = None,
        *,
        sample: bool = False,
        first: int = 0,
        progress: Progress | bool = True,
    ) -> list[list[Translation]]:
        """The beam of each of `texts`, best first, with log p and score; with `sample`, random translations instead.

        `first` is the number of the first text, on which random draws depend."""
        refuse_one_text("translate", texts)
        return self.translator.translate(
            texts, config or self.recipe.decoding, sample=sample, first=first, progress=followed(progress)
        )

    def align(self, source: str, target: str | None = None, *, beam: int | None = None) -> Alignment:
        """The words of `source` behind each word of `target`, by default of the run's own translation; `.figure()`, `.text()`."""
        return self.translator.align(source, target, self.decoding({"beam": beam}))

    def beam_tree(
        self, text: str, *, beam: int | None = None, penalty: float | None = None, tokens: int | None = None
    ) -> BeamTree:
        """The beam search that translates `text`: every hypothesis that it considered, with its outcome, and the translations
        that it found; `.figure()`, `.text()`."""
        return self.translator.beam_tree(text, self.decoding({"beam": beam, "penalty": penalty, "tokens": tokens}))

    def predictions(self, text: str, *, target: str | None = None, top: int = 5) -> Predictions:
        """The most probable tokens at each position of the translation of `text`; `.figure()`, `.text()`.

        `target`: the translation; by default the run's own. `top`: the number of tokens at each position."""
        pair = self._pair(text, target)
        log_p = of_pair(self.network, pair.source_1S, pair.length_1, pair.input_1T)
        return predictions(log_p, pair.target_T, self.tokenizer.token, top)

    @shows_progress
    def evaluate(
        self,
        path: str | Path | None = None,
        progress: Progress | bool = True,
        *,
        split: Split | None = None,
        target: str | Path | None = None,
        beam: int | None = None,
    ) -> dict[str, object]:
        """Loss of the reference translations, and BLEU, chrF and exact match of the run's own; see Run.evaluate.

        `path`: a file of sentence pairs, or of the sources alone. `target`: then the file of the translations, line by line."""
        progress = followed(progress)
        check_split(self.recipe.data, path, split)
        translator, config = self.translator, self.decoding({"beam": beam})
        if path is None and target is not None:
            raise ConfigError(
                f"{option('target')} is {target}, but the sources are missing. Give {option('path', '--data')}, too."
            )
        name, pairs = self._pairs(path, target, split, progress)
        batch_tokens = self.recipe.training.batch_tokens
        measured = likelihood(translator.network, pairs, batch_tokens=batch_tokens, progress=progress)
        written = translator.written(pairs, config, progress).measures()
        return {**dataclasses.asdict(measured), **flat(written), "split": name, "beam": config.beam}

    def _by_text(self, path: str | Path | None, split: Split | None, progress: Progress) -> JudgedTexts:
        name, pairs = self._pairs(path, None, split, progress)
        loss = loss_by_text(self.network, pairs, batch_tokens=self.recipe.training.batch_tokens, progress=progress)
        written = self.translator.written(pairs, self.recipe.decoding, progress)
        texts = (text.strip().lower() for text in (*written.sources, *written.references))
        return JudgedTexts(name, hash_of(texts), {**written.by_text(), "loss": loss, "perplexity": perplexity_from(loss)})

    def written(self, path: str | Path | None = None, *, split: Split | None = None, progress: Progress = silent) -> Written:
        """The run's own translations of a test set beside the references; parts of it can be measured, too."""
        check_split(self.recipe.data, path, split)
        _, pairs = self._pairs(path, None, split, progress)
        return self.translator.written(pairs, self.recipe.decoding, progress)

    def _pairs(
        self, path: str | Path | None, target: str | Path | None, split: Split | None, progress: Progress
    ) -> tuple[str, Pairs]:
        tokenizers, data = self.translator.tokenizers, self.recipe.data
        if path is not None:
            return str(path), encode_pairs(path, target, tokenizers, data, progress)
        return chosen(prepare_pairs(data, tokenizers, progress=progress, all_texts=True), split)

    def _encoder(self) -> TextEncoder:
        return TextEncoder(self.network, self.source_tokenizer, self.recipe.data)

    def reading(self, text: str, target: str | None = None, context: str | None = None) -> Reading:
        self._refuse("context", context)
        pair = self._pair(text, target)
        written = names(self.tokenizer, pair.target_T)
        return Reading(self.network, partial(pair.run, self.network), pair.tokens, written, not self.tokenizer.whole_words)

    def _pair(self, text: str, target: str | None) -> PairInputs:
        if not text.strip():
            raise DataError("the text is empty; give at least one token")
        source_S = self._encoder().encode([text]).ids[0]
        if target is None:
            target_T = self.translator.best(source_S.astype(np.int64), self.recipe.decoding)
        else:
            target_T = encode_target(target, self.tokenizer, self.recipe.data).astype(np.int64)
        if isinstance(self.network, PrefixDecoder):  # both are in one row
            refuse_longer(self.network, len(source_S) + len(target_T))
        input_1T, _ = one_row(self.network, np.append(self.tokenizer.decoder.start, target_T[:-1]))
        return PairInputs(names(self.source_tokenizer, source_S), *one_row(self.network, source_S), target_T, input_1T)


class TranslationTask(Task[PairsConfig, TranslationConfig, PairData]):
    name = "translation"
    compares = "texts"
    Data = PairsConfig
    Objective = TranslationConfig
    reads = "sentence pairs"
    files = "a table with both sides, or a file of each"
    families = ("seq2seq",)
    two_sides = True
    metrics = ("loss", "perplexity", "bleu", "bleu_tokenised", "chrf", "exact", "rouge1", "rouge2", "rougeL")
    selecting = ("loss", "bleu", "exact", "rougeL")
    counted = "target_BT"
    run_class = TranslatorRun
    noun = "a translator"
    can = (TRANSLATE, PREDICT, WALK, *ON_TEXT)
    uses = SEARCHES | {"tokenizer.joint", "training.batch_tokens"}
    unsupported = {  # noqa: RUF012 (a ClassVar in Task)
        "training.batch": "batches of sentence pairs are counted in tokens: set training.batch_tokens instead",
        "training.accumulate": "batches of sentence pairs are counted in tokens: to save memory lower training.batch_tokens",
        "training.carry": "sentence pairs carry no state from one to the next",
        "training.compile": "it compiles for one shape of batch, and sentence pairs have many lengths",
    }

    def check(self) -> None:
        super().check()
        if (why := self.recipe.model.one_vocabulary) and not self.recipe.tokenizer.joint:
            raise ConfigError(f"{why} needs one vocabulary for both sides. Set tokenizer.joint = true, or change it.")
        self.expect_context()

    def check_metric(self, setting: str, metric: str, choices: tuple[str, ...]) -> None:
        super().check_metric(setting, metric, choices)
        if metric.startswith("rouge") and not self.recipe.objective.rouge:
            raise ConfigError(f'{setting} is "{metric}", which is only measured for summaries. Set objective.rouge = true.')

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> PairData:
        data = prepare_pairs(self.recipe.data, tokenizers, self.recipe.training.context, progress)
        model = self.recipe.model
        limit = model.longest
        if limit is not None and data.valid is not None:
            longest = int(max(data.valid.source_length_N.max(), data.valid.target_length_N.max()))
            needed = model.positions(longest - 1) or 0
            if needed > limit:
                raise DataError(
                    f"the longest held-out sentence needs {needed} positions, <eos> included; model.context = {limit}. "
                    f"Set model.context = {needed}, or choose another model.position."
                )
        return data

    def network(self, source_vocab: int, vocab: int) -> ConditionalDecoder:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a recipe's family fits its objective
        return seq2seq(self.recipe.model, source_vocab, vocab)

    def batches(self, data: PairData) -> BucketedPairs:
        return BucketedPairs(data.train, self.recipe.training.batch_tokens, self.recipe.training.seed)

    def loss(self, data: PairData) -> Loss:
        objective = self.recipe.objective
        return partial(translation, smoothing=objective.smoothing, row_loss=objective.row_loss)

    def validate(self, network: ConditionalDecoder, data: PairData, progress: Progress) -> dict[str, Any]:
        """The loss; where another metric selects the weights, also those of greedy translations."""
        pairs, training = data.valid, self.recipe.training
        assert pairs is not None
        measured = likelihood(network, pairs, batch_tokens=training.batch_tokens, dtype=training.dtype, progress=progress)
        result = dataclasses.asdict(measured)
        if training.select == "loss":
            return result
        translator = Translator(network, (data.source_tokenizer, data.tokenizer), self.recipe)
        measures = translator.written(pairs, dataclasses.replace(self.recipe.decoding, beam=1), progress).measures()
        summaries = {} if measures.rougeL is None else {"rougeL": measures.rougeL}
        return {
            **result,
            "bleu": measures.bleu,
            "exact": measures.exact,
            **summaries,
            **measures.own,
            "sentences": measures.sentences,
        }

    def headline(self, metrics: Mapping[str, Any]) -> str:
        if metrics.get("rougeL") is not None:
            return f"ROUGE-L {metrics['rougeL']:.2f}"
        if "bleu" in metrics:
            return f"BLEU {metrics['bleu']:.2f}, exact match {metrics['exact']:.1%}"
        return f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        lines = [
            ("text", metrics["split"]),
            ("sentences", f"{metrics['sentences']:,}, translated with beam size {metrics['beam']}"),
            ("loss", f"{metrics['loss']:.4f} nats per token, perplexity {metrics['perplexity']:.4f}"),
            ("BLEU", f"{metrics['bleu']:.2f} ({metrics['bleu_signature']})"),
        ]
        if metrics["bleu_tokenised"] is not None:
            lines.append(("BLEU, tokenised", f"{metrics['bleu_tokenised']:.2f} (Moses tokenizer, lower case)"))
        lines.append(("chrF", f"{metrics['chrf']:.2f} ({metrics['chrf_signature']})"))
        lines.append(("exact match", f"{metrics['exact']:.2%}"))
        if metrics["rougeL"] is not None:
            rouge = ", ".join(f"{metrics[name]:.2f}" for name in ("rouge1", "rouge2", "rougeL"))
            lines.append(("ROUGE-1, -2, -L", f"{rouge} (F1, no stemming)"))
        return "\n".join([rows(*lines), *_by_task(metrics), *_by_length(metrics), *_by_skill(metrics)])

    def picture(self, results: Mapping[str, Mapping[str, Any]]) -> Section:
        from firth.figures.figure import Table
        from firth.figures.lengths import LengthBucket, score_by_length
        from firth.figures.page import Section

        ((name, metrics),) = results.items()
        buckets = {name: [LengthBucket(**bucket) for bucket in metrics["buckets"]]}
        figures = [score_by_length(buckets, "bleu"), score_by_length(buckets, "exact")]
        lead = f"{metrics['sentences']:,} sentences of {metrics['split']}, translated with beam size {metrics['beam']}."
        return Section("By source length", lead, Table((), []), figures)


def _by_task(metrics: Mapping[str, Any]) -> list[str]:
    if not metrics["tasks"]:
        return []
    lines = ["by task (the first word of the source):"]
    for task in metrics["tasks"]:
        bleu = "" if task["bleu"] is None else f"BLEU {task['bleu']:.2f}, "
        lines.append(f"{'  ' + task['task']:<20}{bleu}exact match {task['exact']:.2%} of {task['sentences']:,}")
    return lines


def _by_skill(metrics: Mapping[str, Any]) -> list[str]:
    return ["", skill_table(metrics["by_skill"])] if metrics["by_skill"] else []


def _by_length(metrics: Mapping[str, Any]) -> list[str]:
    lines = ["by source length in tokens, without <eos>:"]
    for bucket in metrics["buckets"]:
        bleu = "BLEU undefined" if bucket["bleu"] is None else f"BLEU {bucket['bleu']:.2f}"
        name = f"  {bucket['shortest']}–{bucket['longest']}"
        lines.append(f"{name:<20}{bleu}, exact match {bucket['exact']:.2%} of {bucket['sentences']:,}")
    return lines
