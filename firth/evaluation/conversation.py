"""The likelihood of the answers of conversations, and greedy answers to their questions.

Letters: B rows of a batch, T time, V vocabulary. Each answer is written after the true history, not after the model's own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import EndlessText
from firth.decoding.search.sequences import decode
from firth.evaluation.inference import inference, perplexity_of, with_progress
from firth.models import LanguageModel
from firth.progress import Progress, silent
from firth.text.batches.padding import PADDING
from firth.text.conversation import ChatFormat
from firth.text.data.conversations import Conversations
from firth.text.tokenizers.special_tokens import Ids
from firth.training.distributed import all_added, all_merged, mine
from firth.training.loop import precision

_GREEDY = DecodingConfig(temperature=0.0)


@dataclass(frozen=True)
class AnswerLikelihood:
    loss: float  # mean nats per token of an answer, its <end> included
    perplexity: float  # e^loss
    tokens: int


def likelihood(
    model: LanguageModel, conversations: Conversations, *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> AnswerLikelihood:
    """−Σ log p(token | everything before it) over the tokens of all answers, summed in float64."""
    total, encoded = 0.0, conversations.encoded
    parts = with_progress(encoded.sweep(batch), lambda rows: len(rows[0]), len(encoded), progress)
    with inference(model) as device:
        for _, part in parts:
            token_BT, target_BT = (torch.from_numpy(array).to(device) for array in (part.token_BT, part.target_BT))
            with precision(device, dtype):
                x_BTd, _ = model.hidden(token_BT)
                learned_BT = target_BT != PADDING
                logits_NV = model.readout(x_BTd[learned_BT])
            nats_N = F.cross_entropy(logits_NV.float(), target_BT[learned_BT], reduction="none")
            total += float(nats_N.cpu().double().sum())
    loss = all_added(total)[0] / encoded.tokens
    return AnswerLikelihood(loss, perplexity_of(loss), encoded.tokens)


def answers(
    model: LanguageModel,
    format: ChatFormat,
    conversations: Conversations,
    *,
    tokens: int,
    batch: int,
    progress: Progress = silent,
) -> list[str]:
    """The most probable answer, token by token, to each question, in the order of the data."""
    room = None if model.context is None else max(1, model.context - tokens)
    prompts: list[Ids] = []
    for one in conversations.texts:
        for place in one.answers:
            messages = one.messages[:place]
            prompts.append(format.prompt(messages if room is None else format.fitted(messages, room)))
    endless, answer_of, number = EndlessText(model), dict[int, str](), itertools.count()
    order = sorted(range(len(prompts)), key=lambda n: -len(prompts[n]))
    done = 0
    with inference(model) as device:
        for _, same in itertools.groupby(order, key=lambda n: len(prompts[n])):  # rows of a batch are equally long: no padding
            for rows in _pieces(list(same), batch):
                if not mine(next(number)):
                    continue
                prompt_BT = torch.from_numpy(np.stack([prompts[n] for n in rows]).astype(np.int64)).to(device)
                state = endless.start(len(rows))
                limits = [tokens] * len(rows)
                written = decode(endless, state, prompt_BT, _GREEDY, range(len(rows)), limits=limits, end=format.end)
                for n, one_answer in zip(rows, written, strict=True):
                    ids = one_answer.tokens[:-1] if one_answer.finished else one_answer.tokens
                    answer_of[n] = format.tokenizer.decode(ids).strip()
                done += len(rows)
                progress("answering", done, len(prompts))
    answer_of = all_merged(answer_of)
    return [answer_of[n] for n in range(len(prompts))]


def _pieces(rows: list[int], size: int) -> list[list[int]]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]
