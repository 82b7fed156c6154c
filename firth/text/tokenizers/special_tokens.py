"""The tokens that are not text: <eos>, <unk>, and the markers of a conversation. Only word and wordpiece tokenizers encode a
literal <eos>, <unk> or marker as these.

A character tokenizer has tokens of one character, and the pre-tokenizer of byte-level BPE separates "<" from letters, so neither
can learn a token that is spelled like these; tokenizer.json needs no added tokens for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

EOS = "<eos>"
UNKNOWN = "<unk>"
START = "<start>"  # before the first character of a text, where a char tokenizer has it
END = "<end>"  # after each message of a conversation
MARKERS = ("<system>", "<user>", "<assistant>", END)  # before each message, its role

Ids = NDArray[np.integer[Any]]
DECODER = "firth_decoder"  # the key of DecoderTokens in tokenizer_config.json


class DecoderTokens(NamedTuple):
    """The tokens with which the decoder of an encoder–decoder begins, and those that it never writes."""

    start: int  # its first input
    first: int | None = None  # the token that every generated text is made to begin with
    banned: tuple[int, ...] = ()  # tokens that are never generated, such as padding
