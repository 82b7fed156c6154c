"""What runs can do. A task lists its abilities (`Task.can`). Verbs, HTTP routes, rooms of the lab, error messages and the table
in docs/concepts.md follow from these records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firth.errors import ConfigError
from firth.ideas import Ideas
from firth.models import ModelConfig, RecurrentConfig, RecurrentEncoderConfig, RecurrentSeq2SeqConfig
from firth.models.config import TransformerSettings


class WrongTask(ConfigError, AttributeError):
    """A run was asked for something that only runs of another task can do."""


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
    method: str  # of the run
    command: str = ""  # the verb with its arguments: "translate {run} TEXT"
    route: str = ""  # of the HTTP API
    room: str = ""  # of the lab
    needs: Need | None = None
    inspects: bool = False  # it shows how the model computes, beside what the model is for

    @property
    def verb(self) -> str:
        return self.command.partition(" ")[0]

    def title(self) -> str:
        return self.name.replace("_", " ")


WITH_ATTENTION, WITH_STATES = Need("attention", _attends), Need("recurrent layers", _recurs)
WITH_CHAT_FORMAT = Need("a chat template", lambda model, chats: chats)
CAUSAL = Need("a causal decoder", lambda model, chats: model.kind != "prefix")

GENERATE = Ability(
    "generate", "prompt", "text", "Continue a prompt.", "generate", "generate {run} PROMPT", "/v1/completions", "generate"
)
CHAT = Ability(
    "chat",
    "messages",
    "answer",
    "Answer a conversation.",
    "chat",
    "chat {run}",
    "/v1/chat/completions",
    "chat",
    WITH_CHAT_FORMAT,
)
SCORE = Ability("score", "texts", "log-probabilities", "Compute the log-probability of texts.", "score", "score {run} FILE")
COMPLETE = Ability(
    "complete", "text with a blank", "words", "Rank the words that fit a blank.", "complete", 'complete {run} "a text with __"'
)
FILL = Ability(
    "fill", "text with blanks", "words", "Rank the words that fit each blank.", "fill", 'complete {run} "a text with __"'
)
TRANSLATE = Ability(
    "translate",
    "texts",
    "translations",
    "Translate texts.",
    "translate",
    "translate {run} TEXT",
    "/v1/translate",
    "translate",
)
CLASSIFY = Ability(
    "classify",
    "texts",
    "classes",
    "Classify texts: the most probable class of each, and the probability of every class.",
    "classify",
    "classify {run} TEXT",
    "/v1/classify",
    "classify",
)
TAG = Ability(
    "tag",
    "sentences",
    "a tag for each word",
    "Tag the words of sentences, which are split at white space.",
    "tag",
    "tag {run} SENTENCE",
    "/v1/tag",
    "tag",
)
ANSWER = Ability(
    "answer",
    "question and text",
    "a part of the text",
    "Find the answers to questions in a text.",
    "answer",
    "answer {run} --context TEXT QUESTION",
    "/v1/answer",
    "answer",
)
CAPTION = Ability("caption", "images", "captions", "Describe images in words.", "caption", "caption {run} IMAGE", room="caption")
RESTORE = Ability("restore", "corrupted texts", "texts", "Restore corrupted texts.", "restore")
FIND_REPLACED = Ability("find_replaced", "texts", "probabilities", "Find the tokens of texts that were replaced.", "replaced")
LEARN_IN_CONTEXT = Ability(
    "learn_in_context",
    "examples in a prompt",
    "accuracy or error",
    "Learn a task from the examples in its prompt.",
    "evaluate",
    "evaluate {run}",
    room="compare",
)
EVALUATE = Ability("evaluate", "held-out data", "metrics", "Measure on held-out data.", "evaluate", "evaluate {run}")
EMBED = Ability("embed", "texts", "vectors", "Turn texts into vectors.", "embed", "embed {run} TEXT", "/v1/embeddings", "search")
PREDICT = Ability(
    "predict",
    "text",
    "probable tokens",
    "Show the most probable tokens at each position.",
    "predictions",
    "inspect {run} TEXT --what predictions",
    room="inspect",
    inspects=True,
)
ATTENTION = Ability(
    "show_attention",
    "text",
    "attention weights",
    "Attention weights over a text: weights[layer][head][query][key].",
    "attention",
    "inspect {run} TEXT",
    "/v1/attention",
    "attention",
    WITH_ATTENTION,
    True,
)
STATES = Ability(
    "show_states",
    "text",
    "hidden states and gates",
    "Show the hidden states and gates after each token.",
    "states",
    "inspect {run} TEXT --what states",
    "",
    "inspect",
    WITH_STATES,
    True,
)
WALK = Ability(
    "walk", "text", "stages", "Walk through a forward pass, down to single numbers.", "walk", "", "", "walk", CAUSAL, True
)

ABILITIES: Ideas[Ability] = Ideas(
    "ability",
    Ability,
    (
        GENERATE,
        CHAT,
        SCORE,
        COMPLETE,
        FILL,
        TRANSLATE,
        CLASSIFY,
        TAG,
        ANSWER,
        CAPTION,
        RESTORE,
        FIND_REPLACED,
        LEARN_IN_CONTEXT,
        EVALUATE,
        EMBED,
        PREDICT,
        ATTENTION,
        STATES,
        WALK,
    ),
)
ON_TEXT = (EVALUATE, EMBED, ATTENTION, STATES)  # abilities of every task that reads text
CONTINUING = (SCORE, COMPLETE, PREDICT, WALK, *ON_TEXT)  # and of every language model
