"""Every score, mask, position and shape that attend() is tested with, each beside the same said in plain Python for the oracle.

Letters: B batch, H query heads, G key/value heads, Q queries, K keys, D query width, C key width, A inner width, E value width,
N buckets, R clipped distances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from firth.layers import position
from firth.layers.attention import attend, mask, score
from firth.layers.attention.call import Call
from firth.oracles import attention as oracle
from firth.oracles import position as oracle_position

B, H, D, C, A, E = 2, 4, 4, 6, 6, 3
N, REACH, R = 6, 5, 5
K = 5
LENGTHS, PREFIX = [0, 3], [1, 4]  # the first row has nothing to see under lengths
DOCUMENTS = [[7, 7, 7, 2, 2, 2, 2, 2], [1, 4, 4, 4, 1, 1, 1, 1]]

Parameters = dict[str, Any]  # name → tensor, or array for the oracle


class Rule(NamedTuple):
    """A mask of firth's, and the same said in plain Python."""

    mask: mask.Mask
    allowed: Callable[[int, int, int, int], bool]


class OddHeadsSeeTheirOwnPosition(mask.Mask):
    """A mask that depends on the head, as a user might write it."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (h % 2 == 0) | (q == k)


def _same_document(b: int, h: int, q: int, k: int) -> bool:
    return len(set(DOCUMENTS[b][min(q, k) : max(q, k) + 1])) == 1


@lru_cache
def rules() -> dict[str, Rule]:
    padded, packed = mask.lengths(torch.tensor(LENGTHS)), mask.documents(torch.tensor(DOCUMENTS))
    return {
        "full": Rule(mask.FULL, lambda b, h, q, k: True),
        "causal": Rule(mask.CAUSAL, lambda b, h, q, k: k <= q),
        "strictly causal": Rule(mask.STRICTLY_CAUSAL, lambda b, h, q, k: k < q),
        "all but self": Rule(mask.ALL_BUT_SELF, lambda b, h, q, k: k != q),
        "window": Rule(mask.window(2), lambda b, h, q, k: q - 2 < k <= q),
        "lengths": Rule(padded, lambda b, h, q, k: k < LENGTHS[b]),
        "documents": Rule(packed, _same_document),
        "prefix": Rule(mask.prefix(torch.tensor(PREFIX)), lambda b, h, q, k: k <= q or k < PREFIX[b]),
        "causal & lengths": Rule(mask.CAUSAL & padded, lambda b, h, q, k: k <= q and k < LENGTHS[b]),
        "window | documents": Rule(
            mask.window(2) | packed & mask.ALL_BUT_SELF,
            lambda b, h, q, k: q - 2 < k <= q or (_same_document(b, h, q, k) and k != q),
        ),
        "causal, by head": Rule(
            mask.CAUSAL & OddHeadsSeeTheirOwnPosition(), lambda b, h, q, k: k <= q and (h % 2 == 0 or q == k)
        ),
    }


class ScoreCase(NamedTuple):
    """The parameters of a score as firth and as the oracle take them, and the widths of q and k."""

    shapes: Callable[[int], dict[str, tuple[int, ...]]]  # of G
    mine: Callable[[Parameters], score.Score]
    oracles: Callable[[Parameters], oracle.ScoreFunction]
    widths: tuple[int, int] = (D, D)


SCORES = {
    "scaled dot": ScoreCase(lambda G: {}, lambda p: score.SCALED_DOT, lambda p: oracle.SCALED_DOT),
    "dot": ScoreCase(lambda G: {}, lambda p: score.DOT, lambda p: oracle.DOT),
    "gaussian": ScoreCase(lambda G: {}, lambda p: score.GAUSSIAN, lambda p: oracle.GAUSSIAN),
    "bilinear": ScoreCase(
        lambda G: {"M": (H, D, C)}, lambda p: score.bilinear(p["M"]), lambda p: oracle.bilinear(p["M"]), (D, C)
    ),
    "bilinear, one for all": ScoreCase(
        lambda G: {"M": (D, C)}, lambda p: score.bilinear(p["M"]), lambda p: oracle.bilinear(p["M"]), (D, C)
    ),
    "cosine": ScoreCase(lambda G: {"tau": (H,)}, lambda p: score.cosine(p["tau"]), lambda p: oracle.cosine(p["tau"])),
    "additive": ScoreCase(lambda G: {"w": (H, D)}, lambda p: score.additive(p["w"]), lambda p: oracle.additive(p["w"])),
    "additive, W per head": ScoreCase(
        lambda G: {"w": (H, A), "W_q": (H, D, A), "W_k": (G, C, A)},
        lambda p: score.additive(p["w"], p["W_q"], p["W_k"]),
        lambda p: oracle.additive(p["w"], p["W_q"], p["W_k"]),
        (D, C),
    ),
    "additive, one for all": ScoreCase(
        lambda G: {"w": (D,), "W_k": (C, D)},
        lambda p: score.additive(p["w"], W_k_GCA=p["W_k"]),
        lambda p: oracle.additive(p["w"], W_k_GCA=p["W_k"]),
        (D, C),
    ),
}


class PositionCase(NamedTuple):
    shapes: Callable[[int], dict[str, tuple[int, ...]]]  # of the width in which queries and keys are compared
    mine: Callable[[Parameters], Any]
    oracles: Callable[[Parameters], oracle_position.Position]


POSITIONS = {
    "none": PositionCase(lambda n: {}, lambda p: None, lambda p: oracle_position.ABSENT),
    "rotary": PositionCase(lambda n: {}, lambda p: position.rotary(100.0), lambda p: oracle_position.rotary(100.0)),
    "alibi": PositionCase(
        lambda n: {"slope": (H,)}, lambda p: position.ALiBi(p["slope"]), lambda p: oracle_position.alibi(p["slope"])
    ),
    "t5, both ways": PositionCase(
        lambda n: {"table": (2 * N, H)},
        lambda p: position.buckets(p["table"], bidirectional=True, max_distance=REACH),
        lambda p: oracle_position.buckets(p["table"], True, REACH),
    ),
    "t5, one way": PositionCase(
        lambda n: {"table": (N, H)},
        lambda p: position.buckets(p["table"], bidirectional=False, max_distance=REACH),
        lambda p: oracle_position.buckets(p["table"], False, REACH),
    ),
    "shaw": PositionCase(
        lambda n: {"a_K": (R, n), "a_V": (R, E)},
        lambda p: position.shaw(p["a_K"], p["a_V"]),
        lambda p: oracle_position.shaw(p["a_K"], p["a_V"]),
    ),
    "shaw, keys": PositionCase(
        lambda n: {"a_K": (R, n)}, lambda p: position.shaw(p["a_K"]), lambda p: oracle_position.shaw(p["a_K"], None)
    ),
    "shaw, values": PositionCase(
        lambda n: {"a_V": (R, E)}, lambda p: position.shaw(None, p["a_V"]), lambda p: oracle_position.shaw(None, p["a_V"])
    ),
    "disentangled": PositionCase(
        lambda n: {"a_K": (H, 4, n), "a_Q": (H, 4, n)},
        lambda p: position.disentangled(p["a_K"], p["a_Q"]),
        lambda p: oracle_position.disentangled(p["a_K"], p["a_Q"]),
    ),
    "disentangled, buckets": PositionCase(
        lambda n: {"a_K": (H, 8, n), "a_Q": (H, 8, n)},
        lambda p: position.disentangled(p["a_K"], p["a_Q"], max_distance=4),
        lambda p: oracle_position.disentangled(p["a_K"], p["a_Q"], 4),
    ),
}
COMPARED = {"bilinear": C, "bilinear, one for all": C, "additive, W per head": A}  # else D: the width after the score's matrices

SHAPES: dict[str, tuple[int, Any]] = {  # Q, q_start
    "Q=K": (K, 0),
    "Q<K": (3, 2),
    "per row": (3, torch.tensor([3, 1])),
    "Q=1": (1, 3),
    "Q=K, later": (K, 2),  # as many queries as keys, but not the same positions
}
SHARINGS = (1, 2, H)


@dataclass(frozen=True)
class Case:
    """One attention, up to its mask."""

    score: str
    position: str
    G: int
    shape: str = "Q=K"

    @property
    def q_start(self) -> Any:
        return SHAPES[self.shape][1]

    @property
    def plain_start(self) -> Any:
        return self.q_start.tolist() if isinstance(self.q_start, Tensor) else self.q_start

    def tensors(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> Parameters:
        """q, k, v and every parameter, drawn in float64 and rounded once."""
        (query_width, key_width), Q = SCORES[self.score].widths, SHAPES[self.shape][0]
        shapes = {"q": (B, H, Q, query_width), "k": (B, self.G, K, key_width), "v": (B, self.G, K, E)}
        shapes |= SCORES[self.score].shapes(self.G)
        shapes |= POSITIONS[self.position].shapes(COMPARED.get(self.score, D))
        generator = torch.Generator().manual_seed(seed)
        return {name: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for name, shape in shapes.items()}

    def attend(self, given: Parameters, rule: mask.Mask, kernel: Any) -> Tensor:
        return attend(
            given["q"],
            given["k"],
            given["v"],
            score=SCORES[self.score].mine(given),
            mask=rule,
            position=POSITIONS[self.position].mine(given),
            q_start=self.q_start,
            kernel=kernel,
        )

    def call(self, given: Parameters, rule: mask.Mask) -> Call:
        chosen = SCORES[self.score].mine(given)
        scale = chosen.default_scale(given["q"].shape[-1])
        return Call(given["q"], given["k"], given["v"], scale, chosen, rule, POSITIONS[self.position].mine(given), self.q_start)

    def oracle_scores(self, given: Parameters) -> Any:
        arrays = {name: tensor.numpy() for name, tensor in given.items()}
        return oracle.scores(
            arrays["q"],
            arrays["k"],
            q_start=self.plain_start,
            score=SCORES[self.score].oracles(arrays),
            position=POSITIONS[self.position].oracles(arrays),
        )

    def oracle_output(self, scores: Any, given: Parameters, allowed: oracle.Allowed) -> tuple[Tensor, Tensor]:
        """p and o, from scores that are the same for every mask."""
        arrays = {name: tensor.numpy() for name, tensor in given.items()}
        p = oracle.normalized(scores, allowed, self.plain_start)
        o = oracle.averaged(p, arrays["v"], self.plain_start, POSITIONS[self.position].oracles(arrays))
        return torch.from_numpy(p), torch.from_numpy(o)


def pull(o: Tensor) -> Tensor:
    """Factors of the output that give a loss with a different gradient for every element."""
    return torch.randn(o.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64).to(o.dtype)


def with_gradients(case: Case, given: Parameters, rule: mask.Mask, kernel: Any) -> dict[str, Tensor]:
    """The output `o`, and the gradient of every tensor under its name."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in given.items()}
    o = case.attend(leaves, rule, kernel)
    some_grads = torch.autograd.grad((o * pull(o)).sum(), list(leaves.values()), allow_unused=True)
    zeros = (torch.zeros_like(tensor) for tensor in given.values())
    grads = [zero if grad is None else grad for grad, zero in zip(some_grads, zeros, strict=True)]
    return {"o": o.detach(), **dict(zip(leaves, grads, strict=True))}


@contextmanager
def saying(*what: object) -> Iterator[None]:
    """Name the case in a failure: many share one test, because what the oracle computes for them is shared."""
    try:
        yield
    except AssertionError as error:
        error.add_note(" · ".join(map(str, what)))
        raise
