"""The two tokens that are not text. No text is ever encoded as either by accident, except by word and wordpiece.

A character is one character long, and the pre-tokenizer of byte-level BPE separates "<" from letters, so neither can
learn a token that is spelled like these; they need no added-token machinery in tokenizer.json.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

EOS = "<eos>"
UNKNOWN = "<unk>"

Ids = NDArray[np.integer[Any]]
