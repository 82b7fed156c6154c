"""Conversations: read or generated, split, tokenised; long ones are left out of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.errors import ConfigError, DataError
from firth.progress import Progress, reported, silent
from firth.text.batches.conversations import EncodedConversations
from firth.text.config import ConversationsConfig, TokenizerConfig
from firth.text.conversation import ChatFormat, Conversation
from firth.text.data.lengths import left_out
from firth.text.data.running_text import open_corpus
from firth.text.data_set import DATA_SETS, Part, named
from firth.text.datasets import download
from firth.text.fingerprint import sha256_of_texts
from firth.text.holdout import SplitData, held_out
from firth.text.readers.chat_files import read_conversations
from firth.text.readers.corpus import find
from firth.text.readers.pieces import pieces_of_texts
from firth.text.tokenizers.special_tokens import MARKERS
from firth.text.tokenizers.tokenizer import Tokenizer

FormatOf = Callable[[Tokenizer], ChatFormat]
_CONVERSATION_END = b"\xfe"  # hashed after each conversation; no UTF-8 text contains it


@dataclass(frozen=True)
class Conversations:
    """Conversations as text, for evaluation, and as tokens."""

    texts: tuple[Conversation, ...]
    encoded: EncodedConversations

    def __len__(self) -> int:
        return len(self.texts)


ChatData = SplitData[Conversations]


def prepare_conversations(
    data: ConversationsConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    limit: int | None = None,
    progress: Progress = silent,
    format: FormatOf = ChatFormat,
    special: Sequence[str] = (),
) -> ChatData:
    """Read, split, tokenise.

    Without validation data, `data.valid` of the conversations are held out: the end of a shuffle that depends on their number
    alone. The vocabulary is learned from the training part alone (characters also from the held-out part, as for running text);
    it has the markers of roles and ends, and the tokens `special` of a chat template, of which `format` is then made.
    Conversations of more than `limit` tokens are left out of training, but not of validation and test.
    """
    whole, valid, test = (_part(data, part, progress) for part in ("train", "valid", "test"))
    assert whole is not None
    train = whole
    if valid is None and data.valid:
        train, valid = held_out(whole, data.valid, "conversations")
    if isinstance(tokenizer, TokenizerConfig):
        known = tokenizer.learns_from(train, valid)
        known = tokenizer.learns_from(known, test if data.name is not None else None)  # generated: known in advance
        texts = pieces_of_texts(message.content for one in known for message in one.messages)
        tokenizer = Tokenizer.train(tokenizer, texts, documents=1, markers=(*MARKERS, *special))
    encoded = encode(train, tokenizer, progress, format)
    kept = [one for one, length in zip(train, encoded.encoded.length_N, strict=True) if limit is None or length <= limit]
    notice = left_out(len(train), len(kept), "training conversations", f"{limit} tokens")
    return SplitData(
        tokenizer,
        encoded if len(kept) == len(train) else encode(kept, tokenizer, progress, format),
        None if valid is None else encode(valid, tokenizer, progress, format),
        None if test is None else encode(test, tokenizer, progress, format),
        sha256_of_texts(((text for message in one.messages for text in message) for one in whole), _CONVERSATION_END),
        notice,
    )


def encode_conversations(
    path: str | Path, tokenizer: Tokenizer, data: ConversationsConfig, progress: Progress = silent, format: FormatOf = ChatFormat
) -> Conversations:
    """The conversations at `path`."""
    with open_corpus(ConversationsConfig(path=str(path), format=data.format, empty=data.empty), progress) as corpus:
        return encode(read_conversations(corpus, progress), tokenizer, progress, format)


def encode(
    conversations: Sequence[Conversation], tokenizer: Tokenizer, progress: Progress = silent, format: FormatOf = ChatFormat
) -> Conversations:
    chosen, rendered = format(tokenizer), []
    for one in reported(conversations, "encoding", progress):
        try:
            rendered.append(chosen.render(one.messages))
        except DataError as error:
            raise DataError(f"{one.where}: {error.marked}") from error
    return Conversations(tuple(conversations), EncodedConversations.of(rendered))


def _part(data: ConversationsConfig, part: Part, progress: Progress) -> list[Conversation] | None:
    path = {"train": data.path, "valid": data.valid_path, "test": data.test_path}[part]
    if part != "train" and path is not None:
        return read_conversations(find(path, data.format, empty=data.empty), progress)
    if data.text is not None:
        names = named("conversations")
        raise ConfigError(f"data.text has no roles. Set data.path to a .jsonl file of conversations, or data.name = {names}.")
    if data.name is not None and (generate := DATA_SETS[data.name].generate) is not None:
        made: list[Conversation] = generate(data, part, progress)
        return made
    if part != "train" and data.name is None:
        return None
    if data.name is not None:
        data = dataclasses.replace(data, name=None, path=str(download.parts(DATA_SETS[data.name])[part]))
    with open_corpus(data, progress) as corpus:
        return read_conversations(corpus, progress)
