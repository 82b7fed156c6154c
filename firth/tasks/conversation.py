"""Conversation: one language model answers many kinds of question, with the history before them.

    loss = −mean log p(x_t | x_<t) over the tokens t of the assistant's answers, <end> included
    or, with objective.per = "answer", the mean over the answers of the mean over their tokens

Letters: B batch, T time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.errors import ConfigError
from firth.evaluation.conversation import answers, likelihood
from firth.evaluation.metrics import own_values
from firth.evaluation.skills import by_skill, exact_match
from firth.inspection.inputs import Reading
from firth.layers.cross_entropy import RowLoss, at_least_float32, cross_entropy
from firth.layers.objective import CrossEntropy
from firth.layers.position import SCHEMES
from firth.models import LanguageConfig, LanguageModel, TransformerConfig, TransformerLM, language_model
from firth.progress import Progress
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities.chat import as_messages, conversation_ids
from firth.tasks.abilities.continuation import Continuation
from firth.tasks.abilities.inspection_inputs import one_reading
from firth.tasks.ability import CHAT, CONTINUING, GENERATE
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, check_split, chosen
from firth.tasks.task import CONTINUES, Task, Tokenizers, TokenLossConfig, rows, skill_table
from firth.text.batches.buckets import Bucketed
from firth.text.batches.conversations import ConversationBatch, PackedConversations
from firth.text.batches.padding import PADDING
from firth.text.chat_template import ChatTemplate, read_template, template_of
from firth.text.config import ConversationsConfig, TokenizerConfig
from firth.text.conversation import ChatFormat, QuestionFacts
from firth.text.data.conversations import ChatData, Conversations, encode_conversations, prepare_conversations
from firth.text.template_format import TemplateFormat, special_tokens
from firth.text.tokenizers.special_tokens import EOS
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.feed import Counts
from firth.training.loop import Loss

AT_ONCE = {"cpu": 32, "cuda": 256}  # answers written together


@dataclass(frozen=True, kw_only=True)
class ConversationConfig(TokenLossConfig):
    kind: Literal["conversation"] = "conversation"
    # what counts equally in the loss: every token of an answer, or every answer, so that "No" counts as much as a sentence
    per: Literal["token", "answer"] = "token"
    # pack several conversations into each window of training.context tokens, instead of one with padding; they do not see each
    # other
    pack: bool = False
    # chat template (Jinja) that writes the conversations, or the file that has it: a .jinja file or a tokenizer_config.json;
    # if not set, that of the public model in training.init, or the markers <system>, <user>, <assistant> and <end>
    template: str | None = None
    bos_token: str = ""  # bos_token of the template
    eos_token: str = ""  # eos_token of the template; if not set, <eos> if the tokenizer has it
    special_tokens: tuple[str, ...] = ()  # strings of the template that are one token each, besides those of the tokenizer

    def resolved(self) -> Self:
        if self.template is None or "{" in self.template:
            return self
        template = read_template(Path(self.template))
        bos, eos = self.bos_token or template.bos_token, self.eos_token or template.eos_token
        return dataclasses.replace(self, template=template.source, bos_token=bos, eos_token=eos)

    def format(self, tokenizer: Tokenizer) -> ChatFormat:
        """The chat format, which turns messages into tokens."""
        if self.template is None and tokenizer.kind == "imported":
            return self._imported_format(tokenizer)
        if self.template is None:
            return ChatFormat(tokenizer)
        own = self.resolved()
        eos = own.eos_token or (EOS if tokenizer.eos is not None else "")
        special = special_tokens(tokenizer, self.special_tokens)
        return TemplateFormat(tokenizer, ChatTemplate(str(own.template), own.bos_token, eos), special)

    def _imported_format(self, tokenizer: Tokenizer) -> ChatFormat:
        """By the chat template of the public model that the tokenizer belongs to."""
        if not tokenizer.settings.get("chat_template"):
            raise ConfigError("the model in training.init has no chat template of its own. Set objective.template.")
        template = template_of(tokenizer.settings, "tokenizer_config.json")
        return TemplateFormat(tokenizer, template, special_tokens(tokenizer, self.special_tokens))


def conversation(
    model: LanguageModel,
    token_BT: Tensor,
    target_BT: Tensor,
    state: None = None,
    document_BT: Tensor | None = None,
    row_loss: RowLoss | None = None,
) -> tuple[Tensor, None]:
    """−mean log p(token of an answer | everything before it in its conversation), in nats; targets of −1 are not learned."""
    x_BTd = _hidden(model, token_BT, document_BT)
    weights = model.output_layer()
    return cross_entropy(x_BTd, *weights, target_BT, padded=True, cap=model.logit_cap, row_loss=row_loss), None


def _hidden(model: LanguageModel, token_BT: Tensor, document_BT: Tensor | None) -> Tensor:
    if document_BT is None:
        x_BTd: Tensor = model.hidden(token_BT)[0]
        return x_BTd
    assert isinstance(model, TransformerLM)  # the task's check
    return model.packed(token_BT, document_BT)


def conversation_by_answer(
    model: LanguageModel,
    token_BT: Tensor,
    target_BT: Tensor,
    state: None = None,
    document_BT: Tensor | None = None,
    row_loss: RowLoss | None = None,
) -> tuple[Tensor, None]:
    """The same with a weight of 1 for each answer, spread over its tokens: the mean over all answers of their mean per token."""
    x_BTd = _hidden(model, token_BT, document_BT)
    learned_BT, weight_BT = target_BT != PADDING, answer_weights(target_BT)
    logits_NV = at_least_float32(model.readout(x_BTd[learned_BT]))
    loss_N = (row_loss or CrossEntropy.loss)(logits_NV, target_BT[learned_BT])
    return (loss_N * weight_BT[learned_BT]).sum() / weight_BT.sum(), None


def _answers_in(batch: Any) -> NDArray[np.float64]:
    """The number of answers in each row."""
    learned_BT = batch.target_BT != PADDING
    begins_BT = learned_BT & ~np.pad(learned_BT[:, :-1], ((0, 0), (1, 0)))
    count_B: NDArray[np.float64] = begins_BT.sum(1).astype(np.float64)
    return count_B


def answer_weights(target_BT: Tensor) -> Tensor:
    """1 over the length of its answer for each target, 0 for those of −1. An answer is a run of targets: between two answers
    there is at least a marker."""
    learned_BT = target_BT != PADDING
    before_BT = F.pad(learned_BT[:, :-1], (1, 0))
    number_BT = (learned_BT & ~before_BT).cumsum(1) * learned_BT  # 1 for the tokens of the first answer of a row, …; 0: none
    ones_BT = torch.ones_like(number_BT, dtype=torch.get_default_dtype())
    length_BA = F.pad(torch.zeros_like(ones_BT), (0, 1)).scatter_add_(1, number_BT, ones_BT)
    return learned_BT / length_BA.gather(1, number_BT)


class ConversationRun(LanguageModelRun):
    after_prompt = "\n"

    @cached_property
    def format(self) -> ChatFormat:
        """The chat format, which turns messages into tokens."""
        format: ChatFormat = self.recipe.objective.format(self.tokenizer)
        return format

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        return self.format.end

    def prompt_ids(self, prompt: str) -> NDArray[np.int64]:
        """A prompt is a user's first message."""
        return conversation_ids(self, self.format, as_messages(prompt), self.recipe.decoding.tokens)

    def continuations(self, prompt: str, config: DecodingConfig | None = None) -> list[Continuation]:
        """The config.beam best answers that beam search finds, best first, with log p and score."""
        return self._answers(self.prompt_ids(prompt), config or self.recipe.decoding)

    def spelled_before(self, ids: NDArray[np.int64]) -> list[int]:
        return []  # an answer begins a text of its own

    @shows_progress
    def evaluate(  # type: ignore[override]  # conversations are read whole: no streams, no random batches
        self, path: str | Path | None = None, progress: Progress | bool = True, *, split: Split | None = None
    ) -> dict[str, object]:
        """Loss of the true answers, and exact match and each skill's own metric of greedy ones; see Run.evaluate."""
        progress = followed(progress)
        check_split(self.recipe.data, path, split)
        name, conversations = self._conversations(path, split, progress)
        measures = measured(self.network, self.tokenizer, conversations, self.recipe, "float32", progress, write=True)
        return {**measures, "split": name}

    def _conversations(self, path: str | Path | None, split: Split | None, progress: Progress) -> tuple[str, Conversations]:
        if path is not None:
            return str(path), encode_conversations(path, self.tokenizer, self.recipe.data, progress, self._format_of)
        return chosen(prepare_conversations(self.recipe.data, self.tokenizer, None, progress, self._format_of), split)

    def _format_of(self, tokenizer: Tokenizer) -> ChatFormat:
        return self.format

    def _reading(self, text: str) -> Reading:
        return one_reading(self.network, self.tokenizer, self.prompt_ids(text), self._forward)


def measured(
    network: LanguageModel,
    tokenizer: Tokenizer,
    conversations: Conversations,
    recipe: Any,
    dtype: str,
    progress: Progress,
    *,
    write: bool,
) -> dict[str, Any]:
    """The loss; with `write` also the measures of written answers."""
    measures = likelihood(network, conversations, batch=recipe.training.batch, dtype=dtype, progress=progress)
    result = {**dataclasses.asdict(measures), "conversations": len(conversations)}
    if not write:
        return result
    batch = AT_ONCE.get(next(network.parameters()).device.type, AT_ONCE["cpu"])
    tokens = recipe.decoding.tokens
    written = answers(network, recipe.objective.format(tokenizer), conversations, tokens=tokens, batch=batch, progress=progress)
    references = [one.messages[place].content for one in conversations.texts for place in one.answers]
    asked = [asked for one in conversations.texts for asked in QuestionFacts.of(one)]
    skills = [dataclasses.asdict(one) for one in by_skill(asked, written, references)]
    own = own_values("texts", written, references)
    return {**result, "answers": len(written), "exact": exact_match(written, references), **own, "by_skill": skills}


class ConversationTask(Task[ConversationsConfig, ConversationConfig, ChatData]):
    name = "conversation"
    compares = "texts"
    Data = ConversationsConfig
    Objective = ConversationConfig
    reads = "conversations"
    files = "a .jsonl file of conversations"
    families = ("language",)
    metrics = ("loss", "perplexity", "exact")
    selecting = ("loss", "exact")
    counted = "target_BT"
    run_class = ConversationRun
    noun = "a model that holds conversations"
    can = (CHAT, GENERATE, *CONTINUING)
    uses = CONTINUES
    unsupported = {  # noqa: RUF012 (a ClassVar in Task)
        "training.carry": "conversations carry no state from one to the next",
        "training.compile": "it compiles for one shape of batch, and conversations have many lengths",
    }

    def check(self) -> None:
        super().check()
        self.expect_context()
        if self.recipe.objective.pack:
            self._expect_packable()

    def _expect_packable(self) -> None:
        model = self.recipe.model
        if not isinstance(model, TransformerConfig) or model.attention.kind != "softmax":
            raise ConfigError(
                "objective.pack needs softmax attention, which keeps the conversations in a row apart. Remove it, or set "
                'model.kind = "transformer".'
            )
        if SCHEMES[model.position.kind].acts_on_embedding():
            raise ConfigError(
                f'objective.pack needs relative positions, but model.position is "{model.position.kind}". Remove it, or set '
                'model.position = "rotary".'
            )

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> ChatData:
        data, training, objective = self.recipe.data, self.recipe.training, self.recipe.objective
        tokenizer, special = target_of(tokenizers), objective.special_tokens
        return prepare_conversations(data, tokenizer, training.context, progress, objective.format, special)

    def network(self, source_vocab: int, vocab: int) -> LanguageModel:
        assert isinstance(self.recipe.model, LanguageConfig)  # a recipe's family fits its objective
        return language_model(self.recipe.model, vocab)

    def batches(self, data: ChatData) -> Bucketed[ConversationBatch] | PackedConversations:
        training = self.recipe.training
        if self.recipe.objective.pack:
            return PackedConversations(data.train.encoded, training.batch, training.context, training.seed)
        return data.train.encoded.bucketed(training.batch, training.seed)

    def loss(self, data: ChatData) -> Loss:
        of = conversation if self.recipe.objective.per == "token" else conversation_by_answer
        return partial(of, row_loss=self.recipe.objective.row_loss)

    def counts(self, data: ChatData) -> Counts:
        return super().counts(data) if self.recipe.objective.per == "token" else _answers_in

    def validate(self, network: LanguageModel, data: ChatData, progress: Progress) -> dict[str, Any]:
        """The loss; where exact match selects the weights, also the measures of written answers."""
        training = self.recipe.training
        assert data.valid is not None
        write = training.select != "loss"
        return measured(network, data.tokenizer, data.valid, self.recipe, training.dtype, progress, write=write)

    def headline(self, metrics: Mapping[str, Any]) -> str:
        if "exact" in metrics:
            return f"exact match {metrics['exact']:.1%}"
        return f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        top = rows(
            ("text", metrics["split"]),
            ("conversations", f"{metrics['conversations']:,}, {metrics['answers']:,} answers"),
            ("loss", f"{metrics['loss']:.4f} nats per token of an answer, perplexity {metrics['perplexity']:.4f}"),
            ("exact match", f"{metrics['exact']:.2%}"),
        )
        return f"{top}\n\n{skill_table(metrics['by_skill'])}"
