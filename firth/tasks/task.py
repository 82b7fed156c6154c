"""A task: everything that one objective is. Each file beside this one holds one, and `TASKS` in __init__.py lists them all.

A `Task` is made from the tables of a recipe. Training asks it for the data, the network, the batches and the loss; loading, for
the network and the run; `evaluate`, the progress line and the reports ask it what its metrics are and how they are shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from firth.decoding.config import CONSTRAINING, SEARCHING, DecodingConfig
from firth.errors import ConfigError, did_you_mean, either
from firth.evaluation.metrics import own_metrics
from firth.layers.cross_entropy import RowLoss
from firth.layers.objective import OBJECTIVES, USUAL, LossKind
from firth.models import AverageConfig, ModelConfig, Network
from firth.models.config import TransformerSettings
from firth.progress import Progress
from firth.tasks.ability import ABILITIES, Ability, WrongTask
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data_set import Holds, named
from firth.text.holdout import SplitData
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.config import TrainingConfig
from firth.training.feed import Batches, Counts, rows_alike, targets_in
from firth.training.loop import Loss
from firth.training.metric import METRICS, Compares
from firth.training.optim import OPTIMIZERS

if TYPE_CHECKING:
    from firth.figures.page import Section
    from firth.tasks.run import Run

Tokenizers = tuple[Tokenizer, Tokenizer]  # of the source and of the target; twice the same one, unless each side has its own


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """The `[objective]` table of a recipe; each task has its own, with `kind` as a Literal."""

    kind: str  # task to train

    @property
    def row_loss(self) -> RowLoss | None:
        """The loss of each token that training minimises; None for the cross-entropy, which is computed without holding all
        logits."""
        return None

    def resolved(self) -> Self:
        """The same with what files say, so that it means the same anywhere and later."""
        return self


@dataclass(frozen=True, kw_only=True)
class TokenLossConfig(ObjectiveConfig):
    """The objective of a task that predicts tokens, the tags of words, or the ends of answers. `firth evaluate` measures the
    cross-entropy, whatever training minimises."""

    loss: LossKind = USUAL  # what training minimises for each prediction

    @property
    def row_loss(self) -> RowLoss | None:
        return None if self.loss == USUAL else OBJECTIVES[self.loss].loss


def check_smoothing(smoothing: float, loss: str = USUAL) -> None:
    if smoothing and loss != USUAL:
        raise ConfigError(f'objective.smoothing is {smoothing}, which only applies to objective.loss = "{USUAL}". Remove one.')
    if not 0 <= smoothing < 1:
        raise ConfigError(f"objective.smoothing is {smoothing}; expected 0 ≤ smoothing < 1")


C = TypeVar("C", bound=DataConfig)
O = TypeVar("O", bound=ObjectiveConfig)  # noqa: E741


@dataclass(frozen=True, kw_only=True)
class Tables(Generic[C, O]):
    """The tables of a recipe that a task is made from; api/recipe.py adds what the others say."""

    data: C  # training data, and the data to validate and test on
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)  # tokenizer, which is learned from the training data
    model: ModelConfig  # architecture of the model
    objective: O  # task, which decides the loss; if not set, the first task of the model's family
    training: TrainingConfig = field(default_factory=TrainingConfig)  # optimisation, validation and checkpoints
    decoding: DecodingConfig = field(default_factory=DecodingConfig)  # generation of text


D = TypeVar("D", bound=SplitData[Any])

# Settings in tables that all tasks share, of which a task lists the ones it understands in `uses`.
SPECIAL = (
    "tokenizer.joint",
    "tokenizer.vectors",
    "tokenizer.start",
    "model.spelling.width",
    "model.readout",
    *(f"decoding.{name}" for name in (*SEARCHING, "stop", *CONSTRAINING)),
    "training.batch_tokens",
)
SEARCHES = frozenset(f"decoding.{name}" for name in SEARCHING)
# of language models, which continue a text
CONTINUES = SEARCHES | frozenset(f"decoding.{name}" for name in ("stop", *CONSTRAINING))


class Task(ABC, Generic[C, O, D]):
    """`name` is objective.kind. The class attributes are facts about the objective; the methods work for one recipe."""

    collected_in: ClassVar[str] = "firth.tasks"
    name: ClassVar[str]
    Data: ClassVar[type[DataConfig]]  # its [data] table
    Objective: ClassVar[type[ObjectiveConfig]]  # its [objective] table
    reads: ClassVar[Holds]  # the kind of data it learns from
    families: ClassVar[tuple[str, ...]]  # model.family of the models that can learn it
    metrics: ClassVar[tuple[str, ...]]  # that `evaluate` gives and a recipe can promise in [expected]
    selecting: ClassVar[tuple[str, ...]]  # the metrics that can choose the best weights
    compares: ClassVar[Compares | None] = None  # what a metric of one's own gets to compare
    run_class: ClassVar[type[Run[Any]]]  # what `load` returns
    noun: ClassVar[str]  # "a language model": completes "this run is …"
    can: ClassVar[tuple[Ability, ...]]  # what its runs can do, the main ability first
    uses: ClassVar[frozenset[str]] = frozenset()  # of SPECIAL
    unsupported: ClassVar[Mapping[str, str]] = {}  # settings that must keep their defaults → why
    two_sides: ClassVar[bool] = False  # whether source and target may have a vocabulary each
    counted: ClassVar[str | None] = None  # array of a batch whose entries the loss is the mean over; None: all rows are alike
    files: ClassVar[str] = "files"  # what data.path may be; empty if the task only reads sets that firth makes

    def __init__(self, recipe: Tables[C, O]) -> None:
        self.recipe = recipe

    # Abilities

    def abilities(self, chat_template: bool = False) -> tuple[Ability, ...]:
        """The abilities of this recipe's runs. `chat_template`: their tokenizer has one."""
        model, chats = self.recipe.model, chat_template or self.reads == "conversations"
        return tuple(one for one in self.can if one.needs is None or one.needs.met(model, chats))

    def expect(self, kind: type[Any] | Ability, chat_template: bool = False) -> None:
        """Refuse runs of this recipe unless they are of that class, or have that ability."""
        if isinstance(kind, Ability) and kind not in self.abilities(chat_template):
            raise self.refusal(kind, chat_template)
        if isinstance(kind, type) and not issubclass(self.run_class, kind):
            lacking = (one for one in ABILITIES if hasattr(kind, one.method) and one not in self.can)
            raise self.refusal(next(lacking, kind.__name__), chat_template)

    def refusal(self, lacking: Ability | str, chat_template: bool = False) -> WrongTask:
        """The error for a run of this recipe that is asked for an ability, or for a method, that it does not have."""
        cannot = without = ""
        if isinstance(lacking, Ability):
            cannot = f"cannot {lacking.title()}"
            without = f" without {lacking.needs.name}" if lacking.needs and lacking in self.can else ""
        able = ", ".join(one.title() for one in self.abilities(chat_template) if not one.inspects)
        return WrongTask(f"this run is {self.noun}{without} and {cannot or f'has no {lacking}'}; it can: {able}.")

    @property
    def next_command(self) -> str:
        """A command to try after training, with {run} in it."""
        return f"firth {next(one.command for one in self.can if one.command)}"

    # Checks: before anything is read

    def check(self) -> None:
        """Raise a ConfigError where the tables of the recipe do not fit together. (tasks/__init__.py checks what concerns several
        tasks: the family of the model, the kind of data, and settings that belong to another task.)"""
        self._check_settings()
        training, model = self.recipe.training, self.recipe.model
        if training.init is not None and model.embedding.vectors is not None:
            raise ConfigError(
                f'model.embedding.vectors and training.init = "{training.init}" both initialise the embedding. Remove one.'
            )
        self._check_adapters()
        self._check_parametrization()
        self.check_metric("training.select", training.select, self.selecting)
        if isinstance(model, TransformerSettings) and training.carry:
            raise ConfigError("training.carry is true, but a Transformer has no state to carry between windows. Remove it.")

    def _check_adapters(self) -> None:
        """LoRA acts on the matrices of attention and feed-forward layers; every gate of a recurrent cell would need its own."""
        training, model = self.recipe.training, self.recipe.model
        if training.lora and not isinstance(model, TransformerSettings):
            raise ConfigError(
                f'training.lora is {training.lora}, which only applies to Transformers; model.kind is "{model.kind}". Remove it.'
            )

    def _check_parametrization(self) -> None:
        training, model = self.recipe.training, self.recipe.model
        if not isinstance(model, TransformerSettings) or model.parametrization.kind == "standard":
            return
        kinds = [one.kind for one in OPTIMIZERS if one.follows_widths]
        if training.optimizer not in kinds:
            raise ConfigError(
                f'training.optimizer is "{training.optimizer}", for which model.parametrization = '
                f'"{model.parametrization.kind}" has no learning rates. Choose {either(kinds)}.'
            )
        if training.lora:
            raise ConfigError(
                f'training.lora is {training.lora}, for which model.parametrization = "{model.parametrization.kind}" has no '
                "rule. Remove one of them."
            )

    def check_metric(self, setting: str, metric: str, choices: tuple[str, ...]) -> None:
        """Raise a ConfigError unless runs of this recipe are measured by `metric`."""
        known = (*choices, *(one.kind for one in own_metrics(self.compares)))
        if metric not in known:
            near = did_you_mean(metric, known, listed=False)
            if (own := METRICS[metric].compares if METRICS.origin(metric) else None) is not None:
                near = f" {metric} compares {own}, and {self.name} is not evaluated on {own}."
            raise ConfigError(f'{setting} is "{metric}"; for {self.name} choose {either(known)}.{near}')

    def _check_settings(self) -> None:
        for setting, why in self.unsupported.items():
            if (value := changed(self.recipe, setting)) is not None:
                raise ConfigError(f"{setting} is {value}, but {why}. Remove it.")

    def expect_context(self) -> None:
        """A Transformer must have room for training.context tokens."""
        self.recipe.model.expect_room(self.recipe.training.context)

    def refuse_average(self, why: str) -> None:
        """model.kind = "average" ignores the order of the tokens, and everything but the token itself."""
        if isinstance(self.recipe.model, AverageConfig):
            raise ConfigError(f'model.kind = "average" {why}. Choose "transformer", "lstm", "gru" or "rnn".')

    # Data and network

    @abstractmethod
    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> D:
        """The recipe's data, with a vocabulary that is learned now or the tokenizers of an existing run."""

    @abstractmethod
    def network(self, source_vocab: int, vocab: int) -> Network:
        """The module, its weights not yet drawn. The only place that builds it: for training, loading and counting."""

    def classes(self) -> int:
        """The number of labels of the run; 2 where the data have not been read yet."""
        labels: tuple[str, ...] | None = getattr(self.recipe.data, "labels", None)
        return 2 if labels is None else len(labels)

    # Training

    def batches(self, data: D) -> Batches:
        """By default texts of similar length."""
        batches: Batches = data.train.bucketed(self.recipe.training.batch, self.recipe.training.seed)
        return batches

    @abstractmethod
    def loss(self, data: D) -> Loss: ...

    def counts(self, data: D) -> Counts:
        """The weight of each row of a batch in the mean that `loss` is, so that the parts of a batch add up to it."""
        return rows_alike if self.counted is None else partial(targets_in, self.counted)

    @abstractmethod
    def validate(self, network: Any, data: D, progress: Progress) -> dict[str, Any]:
        """Metrics on the held-out part; "loss", in nats, is among them, and so is whatever training.select may name."""

    # What people see

    @abstractmethod
    def headline(self, metrics: Mapping[str, Any]) -> str:
        """The one or two metrics by which people compare runs of this task, from `validate` or `evaluate`."""

    @abstractmethod
    def report(self, metrics: Mapping[str, Any]) -> str:
        """The table that `firth evaluate` prints."""

    def picture(self, results: Mapping[str, Mapping[str, Any]]) -> Section | None:
        """The results of `evaluate` by the name of the run, drawn for --save; None: this task has nothing to draw."""
        return None

    classes_in: ClassVar[str | None] = None  # where the metrics have precision, recall and F1 of each class

    @classmethod
    def sources(cls) -> str:
        """Where its data may come from, as advice."""
        return f"Set {f'data.path to {cls.files}, or ' if cls.files else ''}data.name = {named(cls.reads)}."

    @classmethod
    def draws(cls) -> bool:
        """Does `picture` draw anything?"""
        return cls.picture is not Task.picture


AnyTask = Task[Any, Any, Any]


def changed(recipe: Tables[Any, Any], setting: str) -> str | None:
    """The value of `table.key` as TOML writes it; None where it is the default, a switch is off, or there is no such key."""
    table, *inner, key = setting.split(".")
    config = getattr(recipe, table)
    for name in inner:
        config = getattr(config, name, None)
    fields = getattr(type(config), "__dataclass_fields__", {})
    if key not in fields or getattr(config, key) == fields[key].default:
        return None
    value = getattr(config, key)
    if value is False and fields[key].default is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def rows(*pairs: tuple[str, str]) -> str:
    """Lines of a report: a name and what there is to say of it."""
    return "\n".join(f"{name:<20}{value}" for name, value in pairs)


def scores(heading: str, counted: str, lines: Iterable[tuple[str, int, float, float, float]]) -> str:
    """A table of precision, recall and F1."""
    top = f"{heading:<20}{counted:>10}{'precision':>11}{'recall':>9}{'F1':>9}"
    body = [f"{name:<20}{count:>10,}{p:>11.4f}{r:>9.4f}{f1:>9.4f}" for name, count, p, r, f1 in lines]
    return "\n".join([top, *body])


_METRIC_TITLES = {"bleu": "BLEU", "tag_accuracy": "tag accuracy", "exact": "exact match"}
_SKILL_COLUMNS = ("score", "first_rounds", "follow_ups", "known_phrasings", "held_out_phrasings")
_SKILL_HEADINGS = ("score", "first", "follow-ups", "known", "held-out")


def skill_table(by_skill: Sequence[Mapping[str, Any]]) -> str:
    """One line per skill: its own metric on all answers, on first rounds and follow-ups, and by phrasing."""
    top = f"{'skill':<10}{'metric':<14}{'answers':>8}" + "".join(f"{heading:>12}" for heading in _SKILL_HEADINGS)
    return "\n".join([top, *(_skill_line(one) for one in by_skill)])


def _skill_line(one: Mapping[str, Any]) -> str:
    digits = 2 if one["metric"] == "bleu" else 4
    values = (one[column] for column in _SKILL_COLUMNS)
    scores = "".join(f"{'–':>12}" if value is None else f"{value:>12.{digits}f}" for value in values)
    more = f"   chrF {one['chrf']:.2f}" if one["metric"] == "bleu" else ""
    return f"{one['skill']:<10}{_METRIC_TITLES.get(one['metric'], one['metric']):<14}{one['answers']:>8,}{scores}{more}"
