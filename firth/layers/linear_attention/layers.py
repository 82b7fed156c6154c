"""Layers of linear attention, with projections; each can stand where SelfAttention stands.

    LinearAttention        o_t = φ(q_t)ᵀS_t / φ(q_t)ᵀz_t with φ = elu + 1                      Katharopoulos et al. 2020
    TaylorAttention        the same with φ(q)·φ(k) = 1 + s + s²/2, q and k of few dimensions   Arora et al. 2024 (Based)
    GatedLinearAttention   S_t = diag(g_t) S_{t−1} + k_t v_tᵀ, o_t = q_tᵀS_t                   Yang et al. 2023 (GLA)

Letters: B batch, T time, d model width, H heads, D width of q and k, E width of v.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.attention.config import CausalConfig
from firth.layers.attention.score import Score
from firth.layers.block_config import BlockConfig
from firth.layers.hook_free import Linear
from firth.layers.linear_attention import LEAST_LOG_GATE, run
from firth.layers.linear_attention.call import LinearCall, LinearState
from firth.layers.linear_attention.features import ELU_PLUS_ONE, IDENTITY, TAYLOR, FeatureMap
from firth.layers.norm import norm
from firth.layers.self_attention import Tapped
from firth.layers.token_mixer import TokenMixer
from firth.layers.weight_group import WeightGroup

TAYLOR_WIDTH = 16  # of q and k, as published: φ then has 273 numbers
GATE_RANK, GATE_ROOT = 16, 16  # Yang et al. 2023, §4.4


@dataclass(frozen=True)
class LogProduct(Score):
    """The weights of a normalized linear attention as a score for attend(): p = softmax(a), a(q, k) = ln φ(q)·φ(k), for
    feature maps whose products are positive."""

    features: FeatureMap

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        return self.features.between(q_BGJQD, k_BGJKD).log()


class LinearAttend(Tapped):
    """linear_attend() as a module, so that a hook on it sees q, k and v."""

    def __init__(self, features: FeatureMap, normalized: bool) -> None:
        super().__init__()
        self.features, self.normalized = features, normalized

    def forward(
        self, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTE: Tensor, log_gate_BHTD: Tensor | None, past: LinearState | None
    ) -> tuple[Tensor, LinearState | None]:
        o_BHTE, state = run(LinearCall(q_BHTD, k_BHTD, v_BHTE, self.features, log_gate_BHTD, self.normalized, past))
        return o_BHTE, None if past is None else state

    def call(
        self, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTE: Tensor, log_gate_BHTD: Tensor | None, past: LinearState | None
    ) -> Call:
        if not self.normalized:
            raise ConfigError(
                "gated linear attention has no attention weights: its coefficients have either sign and any sum. "
                "Look at a model with another model.attention.kind"
            )
        return Call(q_BHTD, k_BHTD, v_BHTE, 1.0, LogProduct(self.features), mask.CAUSAL)


class _Linear(TokenMixer):
    """The common part of the three layers."""

    features: FeatureMap

    def start(self) -> LinearState:
        return LinearState()

    def state_numbers(self) -> int:
        """The size of S and z, for one text."""
        return self.heads * self.features.width(self.key_width) * (self.head_width + self.attend.normalized)

    def __init__(self, config: BlockConfig, key_width: int, normalized: bool = True) -> None:
        super().__init__(config)
        self.heads, self.key_width, self.head_width = config.attention.heads, key_width, config.head_width
        self.attend = LinearAttend(self.features, normalized)

    def parts_of(self, weight: Tensor, *values: str) -> list[WeightGroup]:
        """The parts of a matrix whose rows are W^Q, W^K and further matrices as wide as the values."""
        keys = [WeightGroup(name, (self.key_width, weight.shape[1]), self.heads) for name in ("query", "key")]
        return keys + [WeightGroup(name, (self.head_width, weight.shape[1]), self.heads) for name in values]

    def _by_head(self, x_BTn: Tensor) -> Tensor:
        B, T, n = x_BTn.shape
        return x_BTn.view(B, T, self.heads, n // self.heads).transpose(1, 2)


class LinearAttention(_Linear):
    kind = "linear"
    label = "linear attention"
    about = "A softmax replaced by a product of features, so that the past is one matrix (Katharopoulos et al. 2020)."
    latex = r"\varphi(q_t)^\top S_t / \varphi(q_t)^\top z_t, \quad S_t = S_{t-1} + \varphi(k_t) v_t^\top"
    features: FeatureMap = ELU_PLUS_ONE

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config, self.width_of_keys(config))
        self.qkv = Linear(config.width, 2 * self.heads * self.key_width + config.width, bias=config.biased)
        self.out = Linear(config.width, config.width, bias=config.biased)

    def parts(self) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
        yield self.qkv.weight, self.parts_of(self.qkv.weight, "value")
        yield from super().parts()

    @staticmethod
    def width_of_keys(config: BlockConfig) -> int:
        return config.head_width

    def forward(self, x_BTd: Tensor, allowed: Any, position: Any, past: LinearState | None) -> tuple[Tensor, LinearState | None]:
        keys = self.heads * self.key_width
        q_BTn, k_BTn, v_BTd = self.qkv(x_BTd).split_with_sizes((keys, keys, self.heads * self.head_width), dim=-1)
        o_BHTE, past = self.attend(self._by_head(q_BTn), self._by_head(k_BTn), self._by_head(v_BTd), None, past)
        return self.out(o_BHTE.transpose(1, 2).flatten(2)), past


class TaylorAttention(LinearAttention):
    kind = "taylor"
    label = "Taylor attention"
    about = "Linear attention with the Taylor features of exp, the global layers of Based (Arora et al. 2024)."
    latex = r"\varphi(q) \cdot \varphi(k) = 1 + s + s^2 / 2"
    uses = ("heads", "feature_width", "span")
    features: FeatureMap = TAYLOR

    @staticmethod
    def width_of_keys(config: BlockConfig) -> int:
        assert isinstance(config.attention, CausalConfig)
        return config.attention.feature_width or TAYLOR_WIDTH


class GatedLinearAttention(_Linear):
    """q = x W^Q, k = x W^K of half the width, v = x W^V, g = σ(x W¹ W² + b)^{1/16}, and out of the recurrence's o

        y = (swish(x W^R) ⊙ N(o)) W^O      N: RMSNorm of each head

    W¹ and W² have rank 16, so the layer has about as many parameters as softmax attention (Yang et al. 2023, §4.4)."""

    kind = "gated_linear"
    label = "gated linear attention"
    about = "Linear attention that forgets, by a gate for each key dimension (Yang et al. 2023)."
    latex = r"q_t^\top S_t, \quad S_t = \mathrm{diag}(g_t) S_{t-1} + k_t v_t^\top"
    forgets = True
    features: FeatureMap = IDENTITY

    @classmethod
    def check(cls, model: Any) -> None:
        if model.width % (2 * model.attention.heads):
            raise ConfigError(
                f'with model.attention.kind = "{cls.kind}", keys have half the width of values: model.width = {model.width} '
                f"must be a multiple of 2 · model.attention.heads = {2 * model.attention.heads}"
            )

    def __init__(self, config: BlockConfig) -> None:
        width, bias = config.width, config.biased
        super().__init__(config, config.head_width // 2, normalized=False)
        self.qkvr = Linear(width, 3 * width, bias=bias)  # the rows of the weight are W^Q and W^K (d/2 each), W^V, W^R (d each)
        self.add_gates(width)
        self.norm = norm("rms", self.head_width, bias=False)
        self.out = Linear(width, width, bias=bias)

    def add_gates(self, width: int) -> None:
        """Create the parameters of `log_gate`."""
        self.gate_down = Linear(width, GATE_RANK, bias=False)
        self.gate_up = Linear(GATE_RANK, self.heads * self.key_width, bias=True)

    def forward(self, x_BTd: Tensor, allowed: Any, position: Any, past: LinearState | None) -> tuple[Tensor, LinearState | None]:
        keys, values = self.heads * self.key_width, self.heads * self.head_width
        q_BTn, k_BTn, v_BTd, r_BTd = self.qkvr(x_BTd).split_with_sizes((keys, keys, values, values), dim=-1)
        log_gate_BTn = self.log_gate(x_BTd)
        o_BHTE, past = self.attend(*(self._by_head(y) for y in (q_BTn, k_BTn, v_BTd, log_gate_BTn)), past)
        o_BTd = self.norm(o_BHTE.transpose(1, 2)).flatten(2)
        return self.out(F.silu(r_BTd) * o_BTd.to(r_BTd.dtype)), past

    def parts(self) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
        yield self.qkvr.weight, self.parts_of(self.qkvr.weight, "value", "output gate")
        yield from super().parts()
        for gate in (layer for name, layer in self.named_children() if name.startswith("gate_")):
            yield gate.get_parameter("weight"), [WeightGroup("forget gate", tuple(gate.get_parameter("weight").shape), 1)]

    def kept(self) -> int:
        return super().kept() + self.heads * self.key_width + 2 * self.out.weight.shape[1]  # ln g, o and N(o), too

    def log_gate(self, x_BTd: Tensor) -> Tensor:
        """ln g of every key dimension, in float32 at least: sums over a chunk need the digits."""
        raw_BTn: Tensor = self.gate_up(self.gate_down(x_BTd))
        raw_BTn = raw_BTn.to(torch.promote_types(raw_BTn.dtype, torch.float32))
        return (F.logsigmoid(raw_BTn) / GATE_ROOT).clamp(min=LEAST_LOG_GATE)
