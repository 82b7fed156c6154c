"""The two tokens that are not text. Only word and wordpiece tokenizers encode a literal <eos> or <unk> as these.

A character tokenizer has tokens of one character, and the pre-tokenizer of byte-level BPE separates "<" from letters, so neither
can learn a token that is spelled like these; tokenizer.json needs no added tokens for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

EOS = "<eos>"
UNKNOWN = "<unk>"

Ids = NDArray[np.integer[Any]]
