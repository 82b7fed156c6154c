"""Choose the next token: temperature, top-k, nucleus and min-p sampling, and a penalty on repetition.

Letters: B batch, N tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from firth.config import expect_numbers
from firth.errors import ConfigError
from firth.layers.argmax import argmax

BeamRules = Literal["wu", "transformers"]
# Float32 cannot tell smaller ones from 0, and logits divided by them overflow.
_COLDEST, _NARROWEST = 1e-6, 1e-9  # temperature and top_p
_WIDEST = 4096  # beams


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How a trained model generates text. `firth generate` and `firth translate` have options of the same names. Translation
    searches for the most probable text; it samples only with `--sample`."""

    tokens: int = 200  # maximum number of tokens to generate
    # sampling temperature: the logits are divided by it; 0, and anything below a millionth: always the most probable token
    temperature: float = 1.0
    top_k: int = 0  # sample from this many of the most probable tokens; 0: all
    top_p: float = 1.0  # sample from the smallest set of tokens with at least this total probability; 1: all tokens
    min_p: float = 0.0  # sample from the tokens with at least this fraction of the highest probability; 0: all tokens
    # θ of the repetition penalty: the logits of tokens that have already occurred are divided by it, or multiplied if they are
    # negative; 1: none
    repetition_penalty: float = 1.0
    seed: int = 0  # random seed for sampling
    beam: int = 1  # beam size of beam search; 1: none, so language models sample and translation is greedy
    penalty: float = 0.6  # α of the length penalty of beam search; 0 ranks by log p alone, which favours short texts
    # rules by which beam search ranks texts of n tokens and ends: "wu", log p / ((5 + n) / 6)^α; "transformers", log p / n^α, as
    # in that library, which imported encoder–decoders get
    beam_rules: BeamRules = "wu"
    early_stopping: bool = False  # end the search when `beam` texts have ended; only for `beam_rules = "transformers"`
    beam_groups: int = 1  # number of groups that the beam is divided into, which avoid one another's tokens; 1: plain beam search
    diversity: float = 0.5  # λ of diverse beam search: penalty for a token of an earlier group, each time; only for `beam_groups`
    stop: tuple[str, ...] = ()  # strings that end the text where the first of them occurs; they are not part of it

    def __post_init__(self) -> None:
        expect_numbers("decoding", self)
        for name, holds, expected in (
            ("tokens", self.tokens >= 1, "at least 1"),
            ("tokens", self.tokens < 1 << 31, "less than 2³¹"),
            ("temperature", self.temperature >= 0, "0 or more"),
            ("temperature", self.temperature <= 1e6, "at most 1,000,000"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "0 < top_p ≤ 1"),
            ("min_p", 0 <= self.min_p <= 1, "0 ≤ min_p ≤ 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "more than 0; 1 is no penalty"),
            ("repetition_penalty", 1e-3 <= self.repetition_penalty <= 1e3, "0.001 to 1000; 1 is no penalty"),
            ("seed", self.seed >= 0, "0 or more"),
            ("beam", self.beam >= 1, "at least 1"),
            ("beam", self.beam <= _WIDEST, f"at most {_WIDEST:,}"),
            ("penalty", self.penalty >= 0, "0 or more"),
            ("penalty", self.penalty <= 30, "at most 30"),
            ("beam_groups", self.beam_groups >= 1, "at least 1"),
            ("beam_groups", self.beam % max(1, self.beam_groups) == 0, f"a divisor of decoding.beam, which is {self.beam}"),
            ("diversity", self.diversity >= 0, "0 or more"),
            ("diversity", self.diversity <= 1e6, "at most 1,000,000"),
            ("stop", "" not in self.stop, "strings of at least one character"),
        ):
            if not holds:
                raise ConfigError(f"decoding.{name} is {getattr(self, name)}; expected {expected}")
        if self.early_stopping and self.beam_rules != "transformers":
            raise ConfigError(f'decoding.early_stopping needs decoding.beam_rules = "transformers"; it is "{self.beam_rules}".')
        if self.temperature < _COLDEST:
            object.__setattr__(self, "temperature", 0.0)
        object.__setattr__(self, "top_p", max(self.top_p, _NARROWEST))


def pick(logits_BV: Tensor, config: DecodingConfig, u_B: Tensor) -> Tensor:
    """token_B: the most probable at temperature 0, otherwise drawn from softmax(logits / temperature) within top_k, top_p
    and min_p; the numbers u_B, 0 ≤ u < 1, decide which."""
    if config.temperature == 0:
        return argmax(logits_BV)
    return at_quantile(torch.softmax(restricted(logits_BV.float() / config.temperature, config), -1), u_B)


def at_quantile(p_BV: Tensor, u_B: Tensor) -> Tensor:
    """token_B: the first whose cumulated probability exceeds u."""
    if p_BV.device.type == "mps":  # has no float64
        return at_quantile(p_BV.cpu(), u_B.cpu()).to(p_BV.device)
    below_BV = p_BV.double().cumsum(-1)
    token_B = torch.searchsorted(below_BV, u_B.unsqueeze(1) * below_BV[:, -1:], right=True).squeeze(1)
    return token_B.clamp(max=p_BV.shape[-1] - 1)


def random_numbers(seed: int, number: int) -> np.random.Generator:
    """What decides the tokens of a text: its seed, and its number among those of the same seed. Drawn on the CPU, so that a seed
    gives the same text on every device and in every batch."""
    # Not torch's generator: it uses only 32 bits of its seed, too few for two numbers.
    return np.random.default_rng((seed, number))


def forced(logits_BV: Tensor, token: int) -> Tensor:
    """Logits that leave one token."""
    only_BV = torch.full_like(logits_BV, -torch.inf)
    only_BV[:, token] = 0
    return only_BV


def without(logits_BV: Tensor, banned: Sequence[int]) -> Tensor:
    """−∞ for the tokens `banned`."""
    if not banned:
        return logits_BV
    return logits_BV.index_fill(-1, torch.tensor(banned, device=logits_BV.device), -torch.inf)


def restricted(logits_BV: Tensor, config: DecodingConfig) -> Tensor:
    """−∞ for every token that top_k, top_p or min_p excludes."""
    return at_least(restrict(logits_BV, config.top_k, config.top_p), config.min_p)


def at_least(logits_BV: Tensor, min_p: float) -> Tensor:
    """−∞ for every token with less than min_p times the highest probability (Nguyen et al. 2024)."""
    if min_p == 0:
        return logits_BV
    probability_BV = torch.softmax(logits_BV, -1)
    return logits_BV.masked_fill(probability_BV < min_p * probability_BV.amax(-1, keepdim=True), -torch.inf)


def penalise(logits_BV: Tensor, token_BN: Tensor, penalty: float) -> Tensor:
    """x / θ, or x·θ where x < 0, for the logits x of the tokens in token_BN (Keskar et al. 2019, §4.1). The paper always divides,
    which would make a token with a negative logit more probable."""
    if penalty == 1:
        return logits_BV
    x_BN = logits_BV.gather(1, token_BN)
    return logits_BV.scatter(1, token_BN, torch.where(x_BN < 0, x_BN * penalty, x_BN / penalty))


def restrict(logits_BV: Tensor, top_k: int, top_p: float) -> Tensor:
    """−∞ for every token outside the top k or outside the nucleus (Holtzman et al. 2020), the smallest set of most probable
    tokens whose total probability reaches top_p. Ties go to the smaller id; at least one token always stays."""
    if (top_k == 0 or top_k >= logits_BV.shape[-1]) and top_p == 1:
        return logits_BV
    sorted_BV, order_BV = torch.sort(logits_BV, dim=-1, descending=True, stable=True)
    out_BV = torch.zeros_like(sorted_BV, dtype=torch.bool)
    if top_k:
        out_BV[..., top_k:] = True
    if top_p < 1:
        # The nucleus of the distribution after top_k.
        probability_BV = torch.softmax(sorted_BV.masked_fill(out_BV, -torch.inf), -1)
        before_BV = probability_BV.cumsum(-1) - probability_BV
        out_BV |= before_BV >= top_p
    return logits_BV.masked_fill(torch.zeros_like(out_BV).scatter(-1, order_BV, out_BV), -torch.inf)
