"""Text classification: p(class | text). Letters: B batch, T time, C classes, N texts."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import ConfigError, DataError, RunError, option
from firth.evaluation.by_text import JudgedTexts, hash_of, macro_f1_of, mean_of
from firth.evaluation.classification import class_log_probabilities, log_probabilities, measures
from firth.evaluation.classification import evaluate as measure
from firth.evaluation.contrast import NEGATIVE, POSITIVE, ContrastMeasures, measure_contrast
from firth.evaluation.metrics import flat
from firth.evaluation.threshold import Aim, FittedThreshold, Threshold, Wish, fit
from firth.files import write_text
from firth.inspection.word_effects import WordEffects, word_effects
from firth.layers.cross_entropy import at_least_float32
from firth.layers.objective import OBJECTIVES, USUAL, LossKind
from firth.models import CaptionModelConfig, Classifier, Seq2SeqConfig, classifier
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.tasks.ability import CLASSIFY, ON_TEXT
from firth.tasks.run import Run, refuse_one_text
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, check_split, chosen
from firth.tasks.task import ObjectiveConfig, Task, Tokenizers, rows, scores
from firth.text.batches.buckets import by_length
from firth.text.batches.examples import Examples
from firth.text.batches.padding import padded
from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.labelled import Labelled, encode_labelled, listed, prepare_labelled
from firth.text.data.lengths import refuse_longer
from firth.text.data.running_text import with_local_paths
from firth.text.tokenizers.special_tokens import Ids
from firth.training.feed import Counts, rows_alike
from firth.training.folder import RunFolder
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.figures.page import Section

AT_ONCE = 256  # texts per batch of inference
_SCALARS = ("loss", "accuracy", "macro_f1", "examples")  # the metrics in a log line
_SHOWN = 12  # classes whose confusion matrix fits into a terminal


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(ObjectiveConfig):
    kind: Literal["classification"] = "classification"
    # weight of each class in the loss, in the order of `data.labels`, or "balanced": equal total weights; if not set, equal
    # weights
    weights: Literal["balanced"] | tuple[float, ...] | None = None
    # what training minimises for each text. "cross-entropy": −log p(label). "squared-error": the squared distance between the
    # probabilities and the one-hot label (the Brier score)
    loss: LossKind = USUAL

    def __post_init__(self) -> None:
        if isinstance(self.weights, tuple) and not all(math.isfinite(weight) and weight > 0 for weight in self.weights):
            raise ConfigError(f"objective.weights is {list(self.weights)}; expected a number above 0 for each class")


def classification(
    model: Classifier,
    token_BT: Tensor,
    length_B: Tensor,
    label_B: Tensor,
    state: None = None,
    weight_C: Tensor | None = None,
    loss: LossKind = USUAL,
) -> tuple[Tensor, None]:
    """Σ_b w_b ℓ_b / Σ_b w_b, where w_b is the weight of text b's class, 1 without weights, and ℓ_b the loss of one of
    `OBJECTIVES`. The softmax is in float32; no state is carried to another text."""
    logits_BC = at_least_float32(model(token_BT, length_B))
    weight_C = None if weight_C is None else weight_C.to(logits_BC)
    return OBJECTIVES[loss].mean(logits_BC, label_B, weight_C), None


def class_weights(config: ClassificationConfig, label_N: NDArray[np.int64], labels: Sequence[str]) -> NDArray[np.float64] | None:
    """The weight of each class; None where all count the same."""
    if config.weights is None:
        return None
    if config.weights == "balanced":
        return balanced(label_N, len(labels))
    if len(config.weights) != len(labels):
        raise ConfigError(
            f"objective.weights has {len(config.weights)} numbers for {len(labels)} classes: {', '.join(labels)}. "
            'Give one per class, in this order, or "balanced".'
        )
    return np.array(config.weights)


def balanced(label_N: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """w_c = N / (C n_c): every class has the same total weight, and the N texts weigh N together. n_c is at least 1, so that a
    class without texts has a weight, too."""
    return len(label_N) / (classes * np.bincount(label_N, minlength=classes).clip(min=1))


@dataclass(frozen=True)
class Classification:
    label: str
    probability: float
    probabilities: dict[str, float]  # of every class


class ClassifierRun(Run[Classifier]):
    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the probabilities."""
        labels: tuple[str, ...] = self.recipe.data.labels
        return labels

    @property
    def threshold(self) -> Threshold | None:
        """The threshold that `fit_threshold` or `firth threshold` stored with the run."""
        return None if self.path is None else stored_threshold(RunFolder(self.path).threshold, self.labels)

    @shows_progress
    def fit_threshold(
        self,
        aim: Aim = "f1",
        *,
        label: str | None = None,
        precision: float | None = None,
        false_positive: float | None = None,
        false_negative: float | None = None,
        path: str | Path | None = None,
        save: bool = True,
        progress: Progress | bool = True,
    ) -> FittedThreshold:
        """Choose, on validation data or that at `path`, the threshold on the probability of `label`. The `aim` is "f1", the
        highest F1; "precision", the highest recall at the minimum `precision`; or "cost", the lowest cost of errors, of which
        `false_positive` and `false_negative` are the costs of one (1 by default). `label` is the last of two classes by default;
        with more classes, give one. With `save`, the threshold is stored with the run and used by later calls of
        `classify` and `evaluate`."""
        wish, own = Wish(aim, precision, false_positive, false_negative), self._label(label)
        self._refuse_test_data(path)
        if save and self.path is None:
            raise ConfigError(
                "a threshold can only be stored with a run, but this model is not one. Import it first, with firth import."
            )
        check_split(self.recipe.data, path, None if path is not None else "valid")
        name, examples = self._examples(path, None if path is not None else "valid", followed(progress))
        log_p_NC = class_log_probabilities(self.network, examples, batch=AT_ONCE, progress=followed(progress))
        number = self.labels.index(own)
        fitted = fit(np.exp(log_p_NC[:, number]), examples.label_N == number, own, wish, name)
        if save:
            assert self.path is not None
            write_text(RunFolder(self.path).threshold, json.dumps(dataclasses.asdict(fitted), indent=2) + "\n")
        return fitted

    def remove_threshold(self) -> None:
        """Delete the stored threshold: later calls choose the most probable class."""
        if self.path is not None:
            RunFolder(self.path).threshold.unlink(missing_ok=True)

    def _label(self, label: str | None) -> str:
        """The class that a threshold is for."""
        if label is None and len(self.labels) == 2:
            return self.labels[1]
        if label is None:
            raise ConfigError(
                f"a threshold needs a label, because there are more than two classes: {listed(self.labels[0], self.labels)}"
            )
        if label not in self.labels:
            raise ConfigError(f'there is no class "{label}"; the classes are {listed(label, self.labels)}')
        return label

    def _refuse_test_data(self, path: str | Path | None) -> None:
        test = with_local_paths(self.recipe.data, silent).test_path if path is not None and self.recipe.data.given else None
        if test is not None and Path(str(path)).resolve() == Path(test).resolve():
            raise ConfigError(f"{path} is the test data of this run. Choose a threshold on other data.")

    def decision(self, threshold: float | None, label: str | None) -> Threshold | None:
        """The given threshold, or the stored one."""
        if threshold is not None:
            return Threshold(self._label(label), threshold)
        if label is not None:
            raise ConfigError(f'the label "{label}" needs a threshold. Give both, or neither.')
        return self.threshold

    def classify(self, texts: Sequence[str], *, threshold: float | None = None, label: str | None = None) -> list[Classification]:
        """The class of each of `texts`, and the probability of every class.

        The most probable class; or, with a `threshold`, `label` if its probability reaches that, and otherwise the most probable
        other class. `label` is the last of two classes by default; with more classes, give one. The default threshold is the one
        stored with the run."""
        refuse_one_text("classify", texts)
        decision = self.decision(threshold, label)
        encoded = self._encoded(texts)
        length_N = np.array([len(ids) for ids in encoded], np.int64)
        refuse_longer(length_N, self.network.context, "texts to classify")
        log_p_NC = np.empty((len(encoded), len(self.labels)))
        for row_B in by_length(length_N, AT_ONCE):
            log_p_NC[row_B] = log_probabilities(self.network, *padded([encoded[row] for row in row_B]))
        best_N = log_p_NC.argmax(1) if decision is None else decision.decide(log_p_NC, self.labels)
        return [self._classification(log_p_C, self.labels[best]) for log_p_C, best in zip(log_p_NC, best_N.tolist(), strict=True)]

    def word_effects(self, text: str, *, label: str | None = None) -> WordEffects:
        """How much each word of `text` raises the probability of `label`, by default of its most probable class: the probability
        of the text minus that of the text without the word; `.figure()`, `.text()`."""
        if label is not None and label not in self.labels:
            raise ConfigError(f'there is no class "{label}"; the classes are {listed(label, self.labels)}')
        chosen = label or self.classify([text])[0].label
        return word_effects(lambda texts: [one.probabilities for one in self.classify(texts)], text, chosen)

    def _classification(self, log_p_C: NDArray[np.float64], best: str) -> Classification:
        chances = {label: math.exp(log_p) for label, log_p in zip(self.labels, log_p_C.tolist(), strict=True)}
        return Classification(best, chances[best], chances)

    def _encoded(self, texts: Sequence[str]) -> list[Ids]:
        """Warn once about all words never seen in training."""
        unseen: dict[str, None] = {}
        encoded, tokenizer = [], self.tokenizer
        for text in texts:
            ids = tokenizer.encode(text)
            if not len(ids):
                raise DataError(f"a text to classify is {text!r}, which has no tokens; expected at least one word")
            if tokenizer.unknown is not None and (ids == tokenizer.unknown).any():
                unseen |= dict.fromkeys(tokenizer.unseen(text))
            encoded.append(tokenizer.surrounded(ids))
        warn_unseen(unseen)
        return encoded

    @shows_progress
    def evaluate(
        self,
        path: str | Path | None = None,
        progress: Progress | bool = True,
        *,
        split: Split | None = None,
        contrast: bool = False,
        threshold: float | None = None,
        label: str | None = None,
    ) -> dict[str, object]:
        """Accuracy, and precision, recall and F1 of each class; see Run.evaluate. With `contrast`, also the share of contrast
        pairs that a sentiment classifier gets right. `threshold` and `label`: see `classify`."""
        decision = self.decision(threshold, label)
        pairs = {"contrast": dataclasses.asdict(self.contrast())} if contrast else {}  # first, because it may raise
        check_split(self.recipe.data, path, split)
        return self._measured(path, split, followed(progress), decision) | pairs

    def contrast(self) -> ContrastMeasures:
        """Pairs such as "I like this product" and "I do not like this product"; see firth/evaluation/contrast.py."""
        if set(self.labels) != {POSITIVE, NEGATIVE}:
            raise ConfigError(
                f'the contrast pairs are labelled "{POSITIVE}" and "{NEGATIVE}", but the classes of this run are '
                f"{', '.join(self.labels)}. Remove {option('contrast')}."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a word that the run has never seen is part of the test
            return measure_contrast(lambda texts: [classification.label for classification in self.classify(texts)])

    def _measured(
        self, path: str | Path | None, split: Split | None, progress: Progress, decision: Threshold | None
    ) -> dict[str, object]:
        name, label_N, log_p_NC = self._probabilities(path, split, progress)
        best_N = None if decision is None else decision.decide(log_p_NC, self.labels)
        measured = measures(log_p_NC, label_N, self.labels, best_N, self.recipe.objective.loss)
        told = {} if decision is None else {"threshold": {"label": decision.label, "threshold": decision.threshold}}
        return {**flat(measured), "split": name, **told}

    def _by_text(self, path: str | Path | None, split: Split | None, progress: Progress) -> JudgedTexts:
        name, label_N, log_p_NC = self._probabilities(path, split, progress)
        decision = self.threshold
        best_N = log_p_NC.argmax(1) if decision is None else decision.decide(log_p_NC, self.labels)
        loss = OBJECTIVES[self.recipe.objective.loss].loss(torch.from_numpy(log_p_NC), torch.from_numpy(label_N))
        metrics = {
            "accuracy": mean_of(best_N == label_N),
            "macro_f1": macro_f1_of(label_N, best_N, len(self.labels)),
            "loss": mean_of(loss.numpy()),
        }
        return JudgedTexts(name, hash_of(self.labels[n] for n in label_N), metrics)

    def _probabilities(
        self, path: str | Path | None, split: Split | None, progress: Progress
    ) -> tuple[str, NDArray[np.int64], NDArray[np.float64]]:
        """The name of the data, their labels, and log p_NC(class | text)."""
        name, examples = self._examples(path, split, progress)
        refuse_longer(examples.length_N, self.recipe.model.longest, f"texts of {name}")
        return name, examples.label_N, class_log_probabilities(self.network, examples, batch=AT_ONCE, progress=progress)

    def _examples(self, path: str | Path | None, split: Split | None, progress: Progress) -> tuple[str, Examples]:
        if path is not None:
            return str(path), encode_labelled(path, self.tokenizer, self.recipe.data, progress)
        return chosen(prepare_labelled(self.recipe.data, self.tokenizer, progress), split)


class TextClassification(Task[LabelledConfig, ClassificationConfig, Labelled]):
    compares = "labels"
    name = "classification"
    Data = LabelledConfig
    Objective = ClassificationConfig
    reads = "labelled texts"
    files = "a jsonl, csv, tsv or parquet file with labels"
    families = ("encoder", "language")
    metrics = ("loss", "accuracy", "macro_f1")
    selecting = ("loss", "accuracy", "macro_f1")
    run_class = ClassifierRun
    noun = "a classifier"
    can = (CLASSIFY, *ON_TEXT)
    uses = frozenset({"tokenizer.vectors"})
    unsupported = {"training.carry": "a classifier has no state to carry between texts"}  # noqa: RUF012 (a ClassVar in Task)
    classes_in = "classes"

    def check(self) -> None:
        super().check()
        model = self.recipe.model
        if self.recipe.tokenizer.vectors and model.embedding.vectors is None:
            raise ConfigError(
                "tokenizer.vectors needs model.embedding.vectors, which is missing. Set it, or remove tokenizer.vectors."
            )

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> Labelled:
        tokenizer = target_of(tokenizers)
        limit = self.recipe.model.longest
        more = self._vector_words() if isinstance(tokenizer, TokenizerConfig) and tokenizer.vectors else ()
        data = prepare_labelled(self.recipe.data, tokenizer, progress, limit=limit, also=more)
        if data.valid is not None:
            refuse_longer(data.valid.length_N, limit, "held-out texts")
        class_weights(self.recipe.objective, data.train.label_N, data.labels)  # a misfit is an error before anything is written
        return data

    def _vector_words(self) -> Sequence[str]:
        """The words of model.embedding.vectors, which tokenizer.vectors adds to the vocabulary."""
        from firth.vectors import load

        file = self.recipe.model.embedding.vectors
        assert file is not None  # see check()
        return load(Path(file)).words

    def network(self, source_vocab: int, vocab: int) -> Classifier:
        assert not isinstance(self.recipe.model, Seq2SeqConfig | CaptionModelConfig)  # a recipe's family fits its objective
        return classifier(self.recipe.model, vocab, self.classes())

    def loss(self, data: Labelled) -> Loss:
        objective = self.recipe.objective
        weights = class_weights(objective, data.train.label_N, data.labels)
        weight_C = None if weights is None else torch.from_numpy(weights)
        return partial(classification, weight_C=weight_C, loss=objective.loss)

    def counts(self, data: Labelled) -> Counts:
        weights = class_weights(self.recipe.objective, data.train.label_N, data.labels)
        return rows_alike if weights is None else lambda batch: weights[batch.label_B]  # type: ignore[attr-defined]

    def validate(self, network: Classifier, data: Labelled, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        dtype, loss = self.recipe.training.dtype, self.recipe.objective.loss
        measured = measure(network, data.valid, data.labels, batch=AT_ONCE, dtype=dtype, loss=loss, progress=progress)
        return {name: getattr(measured, name) for name in _SCALARS} | measured.own

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"accuracy {metrics['accuracy']:.4f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        objective = OBJECTIVES[self.recipe.objective.loss]
        unit = objective.unit or objective.title()
        top = rows(
            ("text", metrics["split"]),
            ("examples", f"{metrics['examples']:,}"),
            ("loss", f"{metrics['loss']:.4f} {unit} per text"),
            ("accuracy", f"{metrics['accuracy']:.4f}"),
            ("macro F1", f"{metrics['macro_f1']:.4f}"),
            *_threshold(metrics.get("threshold")),
        )
        parts = [top, scores("class", "examples", _lines(metrics)), _confusion(metrics)]
        return "\n\n".join(parts + ([_contrast(metrics["contrast"])] if "contrast" in metrics else []))

    def picture(self, results: Mapping[str, Mapping[str, Any]]) -> Section:
        from firth.figures.confusion import confusion_map
        from firth.figures.figure import Number, Table
        from firth.figures.page import Section

        (metrics,) = results.values()
        lead = f"{metrics['accuracy']:.2%} of {metrics['examples']:,} texts of {metrics['split']} are classified correctly."
        lines = [
            (name, Number(count, ","), *(Number(number, ".4f") for number in numbers))
            for name, count, *numbers in _lines(metrics)
        ]
        table = Table(("class", "examples", "precision", "recall", "F1"), lines)
        figure = confusion_map([one["label"] for one in metrics["classes"]], metrics["confusion"])
        return Section("Confusion matrix", lead, table, [figure])


def _lines(metrics: Mapping[str, Any]) -> list[tuple[str, int, float, float, float]]:
    return [(one["label"], one["examples"], one["precision"], one["recall"], one["f1"]) for one in metrics["classes"]]


def stored_threshold(path: Path, labels: tuple[str, ...]) -> Threshold | None:
    """Read a file of `fit_threshold`; None if there is none."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        threshold = Threshold(str(told["label"]), float(told["threshold"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
        raise RunError(f"{path} cannot be read as a threshold. Remove it, or run firth threshold again.") from error
    if threshold.label not in labels:
        raise RunError(f'{path} names the class "{threshold.label}", which this run does not have. Remove it.')
    return threshold


def _threshold(fitted: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [] if fitted is None else [("threshold", f"{fitted['label']} from a probability of {fitted['threshold']:.4f} on")]


def _contrast(measures: Mapping[str, Any]) -> str:
    kinds = [(f"  {kind}", f"{share:.0%}") for kind, share in measures["by_kind"].items()]
    wrong = [f"  {label:<10}{text}" for text, label in measures["wrong"]]
    top = rows(
        ("contrast pairs", f"{measures['pairs']}"),
        ("both right", f"{measures['pair_accuracy']:.0%}"),
        ("sentences right", f"{measures['sentence_accuracy']:.0%}"),
    )
    return "\n".join([top, *(f"{name:<26}{share:>5}" for name, share in kinds), "", "classified wrongly as", *wrong])


def _confusion(metrics: Mapping[str, Any]) -> str:
    labels = [one["label"] for one in metrics["classes"]]
    if len(labels) > _SHOWN:
        return f"{len(labels)} classes: --save page.html draws the confusion matrix"
    wide = max(9, *(len(label) + 2 for label in labels))
    top = f"{'true ↓, predicted →':<20}" + "".join(f"{label:>{wide}}" for label in labels)
    body = [
        f"{label:<20}" + "".join(f"{count:>{wide},}" for count in row)
        for label, row in zip(labels, metrics["confusion"], strict=True)
    ]
    return "\n".join([top, *body])
