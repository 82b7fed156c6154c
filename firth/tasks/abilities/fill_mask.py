"""Filling blanks with a masked language model: "I was in a __ eating __ ." Each blank is one <mask>, filled by one token.

p(filler | the rest of the text) is computed for each blank separately, with the other blanks masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from firth.errors import DataError
from firth.models import MaskedLM
from firth.tasks.abilities.completion import BLANK
from firth.tasks.run import Run

MaskedRun = Run[MaskedLM]


@dataclass(frozen=True)
class Filling:
    filler: str
    probability: float


def fill(model: MaskedRun, text: str, candidates: Sequence[str] | None, proposals: int) -> list[list[Filling]]:
    """For each blank, best first: `proposals` tokens, or the candidates."""
    *lefts, _ = parts = text.split(BLANK)
    if not lefts:
        raise DataError(f"the text has no blank; expected {BLANK} at least once")
    token_T, place_M = masked_parts(model, parts)
    log_p_MV = _log_p(model.network, token_T, place_M)
    fillings = []
    for left, log_p_V in zip(lefts, log_p_MV, strict=True):
        if candidates is None:
            ids = [int(id) for id in log_p_V.argsort(descending=True, stable=True)[:proposals]]
        else:
            ids = [_one(model, candidate, left) for candidate in dict.fromkeys(one.strip() for one in candidates)]
            ids = [ids[place] for place in log_p_V[ids].argsort(descending=True, stable=True).tolist()]
        fillings.append([Filling(_shown(model, id), float(log_p_V[id].exp())) for id in ids])
    return fillings


def masked_parts(model: MaskedRun, parts: Sequence[str]) -> tuple[NDArray[np.int64], list[int]]:
    """The text as a separate document with <mask> for each blank, and the positions of the masks. A space before a blank belongs
    to its filler, as in completion.py."""
    start_ids, end_ids, mask = model.start_ids(), model.end_ids(), np.array([model.tokenizer.vocab])
    pieces = [start_ids]
    for part in parts[:-1]:
        pieces += [_ids(model, model.tokenizer.before_gap(part)), mask]
    token_T = np.concatenate([*pieces, _ids(model, parts[-1]), end_ids]).astype(np.int64)
    return token_T, np.flatnonzero(token_T == model.tokenizer.vocab).tolist()


def _ids(model: MaskedRun, text: str) -> NDArray[np.int64]:
    return model.ids(text) if text.strip(" ") else np.zeros(0, np.int64)


@torch.inference_mode()
def _log_p(network: MaskedLM, token_T: NDArray[np.int64], place_M: list[int]) -> torch.Tensor:
    device = next(network.parameters()).device
    logits_1MV = network(torch.from_numpy(token_T)[None].to(device), place_BM=torch.tensor([place_M], device=device))
    return torch.log_softmax(logits_1MV[0].double(), -1).cpu()


def _shown(model: MaskedRun, id: int) -> str:
    token = model.tokenizer.token(id)
    return token.strip(" ") or token


def _one(model: MaskedRun, candidate: str, left: str) -> int:
    """The id of a candidate, which must be a single token in this place."""
    tokenizer = model.tokenizer
    spaced = left.endswith(" ") and tokenizer.spaces == "in the next token"
    ids = tokenizer.encode(f" {candidate}" if spaced else candidate) if candidate else np.zeros(0, np.int64)
    if len(ids) != 1 or int(ids[0]) == tokenizer.unknown:
        shown = " ".join(tokenizer.token(int(id)).strip() for id in ids)
        raise DataError(
            f"the candidate {candidate!r} is {len(ids)} tokens ({shown}), but a mask stands for one known token. "
            "Remove it, or use a language model."
        )
    return int(ids[0])
