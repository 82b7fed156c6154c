"""Read a prompt in chunks, so that the memory of one call grows with the chunk and not with the square of the prompt.

    logits(x_1 … x_T) = readout(hidden(x_{cC+1} … x_T, state after cC tokens)),   C tokens per chunk

Every layer continues from a state with T > 1 new tokens, so the chunks compute what one call would. Scores, masks and
activations then have at most C rows, of at most T columns each. Letters: B batch, T time, d width.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from firth.layers.state import AttentionState
from firth.models import LanguageModel

CHUNK = 512  # tokens per call: enough rows to keep a device busy


def prefill(model: LanguageModel, token_BT: Tensor, state: Any, chunk: int = CHUNK) -> tuple[Tensor, Any]:
    """x_B1d, the input of the output layer after the last token, and the state after it."""
    length = token_BT.shape[1]
    if length <= chunk:
        x_BTd, state = model.hidden(token_BT, state)
        return x_BTd[:, -1:], state
    if isinstance(state, AttentionState) and state.length_B is None:  # one that grows
        state = state.reserve(_capacity(state.length + length, model.context))
    for start in range(0, length, chunk):
        x_BTd, state = model.hidden(token_BT[:, start : start + chunk], state)
    return x_BTd[:, -1:], state


def _capacity(tokens: int, context: int | None) -> int:
    """Room for as many tokens again, but not for more than a bounded context can hold."""
    return 2 * tokens if context is None else max(tokens, min(2 * tokens, context))
