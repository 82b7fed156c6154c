"""A model and a text → a reading to look at: which tokens the model sees, specials included, and what to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.api import contextual_embedding as embedding
from firth.api import fill_mask as filling
from firth.api.completion import BLANK
from firth.errors import ConfigError, DataError
from firth.inspection.contextual_vectors import longest
from firth.inspection.gradient_flow import Flow, flow
from firth.inspection.inputs import MASK, Reading
from firth.inspection.predictions import Predictions, of_pair, of_text, predictions
from firth.models import LanguageModel, MaskedLM, PrefixDecoder, Readout, Seq2Seq, SpanReader
from firth.models.tagger import Tagger
from firth.text.data.parallel import encode_source
from firth.text.data.questions import windows
from firth.text.data.tagged import encode_words
from firth.text.readers.squad import Question
from firth.text.tokenizers.special_tokens import Ids

if TYPE_CHECKING:
    from firth.api.model import Model


def reading(model: Model, text: str, target: str | None = None, context: str | None = None) -> Reading:
    """What the model sees of `text`; of a translator with what it writes, `target` or its own translation; of a run that answers
    questions with the `context` in which the answer is sought."""
    network = model.network
    if target is not None and not (isinstance(network, Seq2Seq) and _translates(model)):
        raise ConfigError(f"a target is given, and this run does not translate; leave it out: {target[:20]!r}")
    if (context is not None) != isinstance(network, SpanReader):
        raise ConfigError(
            "this run finds answers: its text is a question; give the context in which the answer stands, too"
            if context is None
            else f"a context is given, and this run finds no answers; leave it out: {context[:20]!r}"
        )
    _refuse_empty(text if isinstance(network, LanguageModel) else text.strip())  # white space is something to go on from
    match network:
        case LanguageModel():
            ids = model.ids(text)
            return _reading(model, ids, lambda token_1T, length_1: network.hidden(token_1T))
        case SpanReader():
            return _of_question(model, network, text, context or "")
        case Tagger():
            return _of_sentence(model, network, text)
        case MaskedLM():
            ids, _ = filling.masked_parts(model, text.split(BLANK))
            return _reading(model, ids, network.encoder)
        case Readout():
            return _reading(model, embedding.encode(model, [text]).ids[0], network.encoder)
        case Seq2Seq():
            return _of_pair(model, network, text, target)
    raise ConfigError(f"{type(network).__name__} reads no text to look at; use a language model, an encoder or seq2seq")


def predict(model: Model, text: str, target: str | None, top: int) -> Predictions:
    """See Model.predictions."""
    network = model.network
    if isinstance(network, Seq2Seq) and _translates(model):
        _refuse_empty(text.strip())
        pair = _pair(model, text, target)
        log_p = of_pair(network, pair.source_1S, pair.length_1, pair.input_1T)
        return predictions(log_p, pair.target_T, model.tokenizer.token, top)
    if target is not None:
        raise ConfigError(f"a target is given, and this run does not translate; leave it out: {target[:20]!r}")
    language, ids = model.language, _opened(model, text)
    return predictions(of_text(language, ids), ids[1:], model.tokenizer.token, top)


def gradient_flow(model: Model, text: str) -> Flow:
    """See Model.flow."""
    language, ids = model.language, _opened(model, text)
    _refuse_longer(model, len(ids) - 1)
    return flow(language, ids, [model.tokenizer.token(int(id)) for id in ids])


def _opened(model: Model, text: str) -> npt.NDArray[np.int64]:
    """As a text is scored: behind the end of another."""
    _refuse_empty(text)
    return np.concatenate((model.opening(), model.ids(text)))


def _reading(model: Model, ids: Ids, forward: Callable[[Tensor, Tensor], Any]) -> Reading:
    if not len(ids):  # white space, where words are all that is read
        _refuse_empty("")
    token_1T, length_1 = _one_row(model, ids)
    return Reading(model.network, partial(forward, token_1T, length_1), _tokens(model, ids), pieces=_pieces(model))


def _of_question(model: Model, network: SpanReader, question: str, context: str) -> Reading:
    if not context.strip():
        raise DataError(f"the context is {context!r}, which has nothing to read; expected a word or more")
    found = windows([Question("the question", context, question)], model.tokenizer, model.recipe.training.context)
    if len(found) > 1:
        raise DataError(
            f"question and context have more than {model.recipe.training.context:,} tokens, so that this run reads them in "
            f"{len(found)} windows; shorten the context to look at one"
        )
    batch = found.batch(np.array([0]))
    given = (torch.from_numpy(part).to(model.device) for part in (batch.token_BT, batch.length_B, batch.first_B))
    return Reading(network, partial(network, *given), _tokens(model, batch.token_BT[0]), pieces=_pieces(model))


def _of_sentence(model: Model, network: Tagger, text: str) -> Reading:
    """Words are told apart by white space, as `tag` does."""
    batch = encode_words([text.split()], model.tokenizer).batch(np.array([0]), spelled=network.spelling is not None)
    _refuse_longer(model, batch.token_BT.shape[1])
    given = (batch.token_BT, batch.length_B, batch.first_BW, batch.symbol_BWK)
    run = partial(network, *(torch.from_numpy(part).to(model.device) for part in given))
    return Reading(network, run, _tokens(model, batch.token_BT[0]), pieces=_pieces(model))


def _of_pair(model: Model, network: Seq2Seq, text: str, target: str | None) -> Reading:
    if not _translates(model):  # what it writes is no text of its own
        return _reading(model, embedding.encode(model, [text]).ids[0], lambda *source: network.start(network.encode(*source)))
    pair = _pair(model, text, target)
    written = tuple(model.tokenizer.token(int(id)) for id in pair.target_T)
    return Reading(network, partial(_teach, network, pair), pair.tokens, written, _pieces(model))


class _Pair(NamedTuple):
    tokens: tuple[str, ...]  # of the source
    source_1S: Tensor
    length_1: Tensor
    target_T: npt.NDArray[np.int64]
    input_1T: Tensor  # <eos>, then the target one step late


def _pair(model: Model, text: str, target: str | None) -> _Pair:
    source = embedding.encode(model, [text])
    tokens = tuple(source.tokenizer.token(int(id)) for id in source.ids[0])
    target_T = _written(model, source.ids[0], target).astype(np.int64)
    if isinstance(model.network, PrefixDecoder):  # both stand in one row
        _refuse_longer(model, len(source.ids[0]) + len(target_T))
    input_1T, _ = _one_row(model, np.append(target_T[-1:], target_T[:-1]))
    return _Pair(tokens, *_one_row(model, source.ids[0]), target_T, input_1T)


def _teach(network: Seq2Seq, pair: _Pair) -> Tensor:
    return network.teach(pair.input_1T, network.encode(pair.source_1S, pair.length_1))


def _written(model: Model, source_S: Ids, target: str | None) -> Ids:
    """The tokens of a translation, <eos> last: of the one given, or of the best that the run finds."""
    if target is not None:
        return encode_source(target, model.tokenizer, model.recipe.data)
    found: Ids = model.translator.best(source_S.astype(np.int64), model.recipe.decoding)
    return found


def _one_row(model: Model, ids: Ids) -> tuple[Tensor, Tensor]:
    _refuse_longer(model, len(ids))
    token_T = torch.from_numpy(np.asarray(ids, np.int64))
    return token_T.unsqueeze(0).to(model.device), torch.tensor([len(ids)], device=model.device)


def _refuse_empty(text: str) -> None:
    if not text:
        raise DataError("the text is empty; give at least one token to look at")


def _refuse_longer(model: Model, length: int) -> None:
    most = longest(model.network)
    if most is not None and length > most:
        raise DataError(f"the text has {length:,} tokens; the learned positions of this model end after {most:,}; cut it")


def _tokens(model: Model, ids: Sequence[int] | npt.NDArray[np.integer]) -> tuple[str, ...]:
    """<mask> is behind the tokenizer's own."""
    return tuple(MASK if id == model.tokenizer.vocab else model.tokenizer.token(int(id)) for id in ids)


def _pieces(model: Model) -> bool:
    return model.tokenizer.kind != "word"


def _translates(model: Model) -> bool:
    return model.recipe.objective.kind == "translation"
