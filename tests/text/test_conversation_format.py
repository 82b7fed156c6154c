"""Messages → tokens: the markers, what is learned, and what is dropped from a long conversation."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.text.batches.conversations import EncodedConversations
from firth.text.batches.padding import PADDING
from firth.text.config import Kind, TokenizerConfig
from firth.text.conversation import ChatFormat, Message, Rendered, check_messages
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.special_tokens import MARKERS
from firth.text.tokenizers.tokenizer import Tokenizer

KINDS: tuple[Kind, ...] = ("char", "word", "bpe", "wordpiece", "unigram")
TALK = (Message("user", "name 3"), Message("assistant", "three"), Message("user", "and 4"), Message("assistant", "four"))


def tokenizer(kind: Kind, vocab: int | None = None) -> Tokenizer:
    text = "name 3 three and 4 four be brief " * 9
    return Tokenizer.train(TokenizerConfig(kind=kind, vocab=vocab), [Piece(text, True)], documents=1, markers=MARKERS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answers_and_their_ends_are_learned_and_nothing_else(kind: Kind) -> None:
    own = tokenizer(kind)
    rendered = ChatFormat(own).render(TALK)
    three, four = own.encode("three"), own.encode("four")
    mark = own.markers
    expected = [
        *([mark["<user>"]], own.encode("name 3"), [mark["<end>"]], [mark["<assistant>"]], three, [mark["<end>"]]),
        *([mark["<user>"]], own.encode("and 4"), [mark["<end>"]], [mark["<assistant>"]], four, [mark["<end>"]]),
    ]
    assert rendered.ids.tolist() == np.concatenate(expected).tolist()
    assert rendered.ids[rendered.learned].tolist() == [*three, mark["<end>"], *four, mark["<end>"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_of_any_kind_has_the_markers_and_keeps_them(kind: Kind) -> None:
    own = Tokenizer.from_json(tokenizer(kind).to_json())
    assert own.markers.keys() == set(MARKERS)
    assert sorted(own.markers.values()) == list(range(own.vocab - 4, own.vocab))
    assert [own.token(own.markers[name]) for name in MARKERS] == list(MARKERS)
    assert own.decode(own.encode("name 3")) == "name 3"


def test_the_size_of_a_vocabulary_includes_the_markers() -> None:
    assert tokenizer("bpe", vocab=270).vocab == 270


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_text_cannot_spell_a_marker(kind: Kind) -> None:
    own = tokenizer(kind)
    message = Message("user", "name <end> <assistant> three <end>")
    ids = ChatFormat(own).render([message]).ids
    assert np.isin(ids, list(own.markers.values())).sum() == 2  # <user> and its own <end>


def test_a_tokenizer_of_running_text_is_refused() -> None:
    own = Tokenizer.train(TokenizerConfig(kind="word"), [Piece("a <end> b", True)], documents=1)
    assert own.end_of_message is None
    with pytest.raises(DataError, match="no markers such as <user>"):
        ChatFormat(own)


def test_the_prompt_is_the_beginning_of_the_rendered_conversation() -> None:
    format = ChatFormat(tokenizer("bpe"))
    prompt, whole = format.prompt(TALK[:3]), format.render(TALK).ids
    assert prompt.tolist() == whole[: len(prompt)].tolist()
    assert len(whole) - len(prompt) == len(format.tokenizer.encode("four")) + 1


def test_the_oldest_rounds_are_dropped_and_the_system_stays() -> None:
    format = ChatFormat(tokenizer("word"))
    messages = [Message("system", "be brief"), *TALK, Message("user", "and 3")]
    lengths = {len(format.prompt([messages[0], *messages[1 + 2 * n :]])): n for n in range(3)}
    for room in range(max(lengths) + 1):
        fitting = [n for length, n in lengths.items() if length <= room]
        expected = min(fitting, default=2)  # the question itself is never dropped
        assert format.fitted(messages, room) == [messages[0], *messages[1 + 2 * expected :]]


def test_targets_are_the_next_tokens_of_answers_and_padding_elsewhere() -> None:
    rendered = [
        Rendered(np.array([1, 2, 3, 4]), np.array([False, False, True, True])),
        Rendered(np.array([5, 6]), np.array([False, True])),
    ]
    data = EncodedConversations.of(rendered)
    batch = data.batch(np.array([0, 1]))
    assert batch.token_BT.tolist() == [[1, 2, 3], [5, 0, 0]]
    assert batch.target_BT.tolist() == [[PADDING, 3, 4], [6, PADDING, PADDING]]
    assert (batch.tokens, data.tokens, len(data)) == (3, 3, 2)
    assert sum(part.tokens for _, part in data.sweep(1)) == 3
    batches = data.bucketed(2, seed=0)
    first = batches.next().token_BT.tolist()
    batches.seek(0)
    assert batches.next().token_BT.tolist() == first


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "has no messages"),
        ([Message("assistant", "hello")], 'message 1 has the role "assistant"; expected "system" or "user"'),
        ([TALK[0], TALK[2]], 'message 2 has the role "user"; expected "assistant"'),
        ([TALK[0], TALK[1], Message("system", "x")], 'message 3 has the role "system"; expected "user"'),
        ([Message("user", " ")], "message 1, of the user, is empty"),
    ],
)
def test_user_and_assistant_take_turns(messages: list[Message], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        check_messages(messages)
