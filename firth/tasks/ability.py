"""The abilities of runs. A task lists its abilities (`Task.can`). Verbs, HTTP routes, rooms of the lab, error messages and the
table in docs/concepts.md follow from these records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firth.errors import ConfigError
from firth.ideas import Ideas
from firth.models import ModelConfig, RecurrentConfig, RecurrentEncoderConfig, RecurrentSeq2SeqConfig
from firth.models.config import TransformerSettings


class WrongTask(ConfigError, AttributeError):
    """The ability belongs to runs of another task."""


@dataclass(frozen=True)
class Need:
    """Something that an ability needs, and that only some models of a task have."""

    name: str  # completes "with …" and "without …"
    met: Callable[[ModelConfig, bool], bool]  # by the config of the model; the other argument: is there a chat format?


def _attends(model: ModelConfig, chats: bool) -> bool:
    recurrent = isinstance(model, RecurrentSeq2SeqConfig) and model.attention != "none"
    return recurrent or isinstance(model, TransformerSettings)


def _recurs(model: ModelConfig, chats: bool) -> bool:
    return isinstance(model, RecurrentConfig | RecurrentEncoderConfig | RecurrentSeq2SeqConfig)


@dataclass(frozen=True)
class Ability:
    """Something that the runs of some tasks can do. `route` and `room` are empty where neither has it."""

    name: str  # a verb: completes "this run cannot …"
    input: str
    output: str
    about: str  # one line
    command: str = ""  # the verb with its arguments: "translate {run} TEXT"
    route: str = ""  # of the HTTP API
    room: str = ""  # of the lab
    method: str = ""  # of the run; by default the name
    needs: Need | None = None
    inspects: bool = False  # it shows how the model computes, beside what the model is for

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", self.method or self.name)

    @property
    def verb(self) -> str:
        return self.command.partition(" ")[0]

    def title(self) -> str:
        return self.name.replace("_", " ")


WEIGHTS, STEPS = Need("attention", _attends), Need("recurrent layers", _recurs)
CHAT_TEMPLATE = Need("a chat template", lambda model, chats: chats)
CAUSAL = Need("a causal decoder", lambda model, chats: model.kind != "prefix")

GENERATE = Ability("generate", "prompt", "text", "Continue a prompt.", "generate {run} PROMPT", "/v1/completions", "generate")
CHAT = Ability(
    "chat", "messages", "answer", "Answer a conversation.", "chat {run}", "/v1/chat/completions", "chat", needs=CHAT_TEMPLATE
)
SCORE = Ability("score", "texts", "log-probabilities", "Compute the log-probability of texts.", "score {run} FILE")
_BLANK = 'complete {run} "a text with __"'
COMPLETE = Ability("complete", "text with a blank", "words", "Rank the words that fit a blank.", _BLANK)
FILL = Ability("fill", "text with blanks", "words", "Rank the words that fit each blank.", _BLANK)
TRANSLATE = Ability(
    "translate", "texts", "translations", "Translate texts.", "translate {run} TEXT", "/v1/translate", "translate"
)
_CLASSIFY = "Classify texts: the most probable class of each, and the probability of every class."
CLASSIFY = Ability("classify", "texts", "classes", _CLASSIFY, "classify {run} TEXT", "/v1/classify", "classify")
_TAG = "Tag the words of sentences, which are split at white space."
TAG = Ability("tag", "sentences", "a tag for each word", _TAG, "tag {run} SENTENCE", "/v1/tag", "tag")
_ANSWER = "Find the answers to questions in a text."
ANSWER = Ability(
    "answer", "question and text", "a part of the text", _ANSWER, "answer {run} --context TEXT QUESTION", "/v1/answer", "answer"
)
CAPTION = Ability("caption", "images", "captions", "Describe images in words.", "caption {run} IMAGE", room="caption")
RESTORE = Ability("restore", "corrupted texts", "texts", "Restore corrupted texts.")
FIND_REPLACED = Ability(
    "find_replaced", "texts", "probabilities", "Find the tokens of texts that were replaced.", method="replaced"
)
_IN_CONTEXT = "Learn a task from the examples in its prompt."
LEARN_IN_CONTEXT = Ability(
    "learn_in_context", "examples", "accuracy or error", _IN_CONTEXT, "evaluate {run}", room="compare", method="evaluate"
)
EVALUATE = Ability("evaluate", "held-out data", "metrics", "Measure on held-out data.", "evaluate {run}")
EMBED = Ability("embed", "texts", "vectors", "Turn texts into vectors.", "embed {run} TEXT", "/v1/embeddings", "search")
_PREDICT = "Show the most probable tokens at each position."
PREDICT = Ability(
    "predict", "text", "tokens", _PREDICT, "inspect {run} TEXT", room="inspect", method="predictions", inspects=True
)
_ATTENTION = "Attention weights over a text: weights[layer][head][query][key]."
ATTENTION = Ability(
    name="show_attention",
    input="text",
    output="weights",
    about=_ATTENTION,
    command="inspect {run} TEXT",
    route="/v1/attention",
    room="attention",
    method="attention",
    needs=WEIGHTS,
    inspects=True,
)
_STATES = "Show the hidden states and gates after each token."
STATES = Ability(
    "show_states", "text", "states", _STATES, "inspect {run} TEXT", room="inspect", method="states", needs=STEPS, inspects=True
)
_WALK = "Walk through a forward pass, down to single numbers."
WALK = Ability("walk", "text", "stages", _WALK, room="walk", needs=CAUSAL, inspects=True)

# Those above, in their order, and those from outside.
ABILITIES: Ideas[Ability] = Ideas("ability", Ability, [one for one in list(globals().values()) if isinstance(one, Ability)])
ON_TEXT = (EVALUATE, EMBED, ATTENTION, STATES)  # abilities of every task that reads text
CONTINUING = (SCORE, COMPLETE, PREDICT, WALK, *ON_TEXT)  # and of every language model
