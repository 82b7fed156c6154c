"""Choose the next token: temperature, top-k and nucleus sampling. Letters: B batch, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from firth.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How a trained model generates text. `firth generate` and `firth translate` have options of the same names. Translation
    searches for the most probable text; it samples only with `--sample`."""

    tokens: int = 200  # maximum number of tokens to generate
    temperature: float = 1.0  # sampling temperature: the logits are divided by it; 0: always the most probable token
    top_k: int = 0  # sample from this many of the most probable tokens; 0: all
    top_p: float = 1.0  # sample from the smallest set of tokens with at least this total probability; 1: all tokens
    seed: int = 0  # random seed for sampling
    beam: int = 1  # beam size of beam search; 1: greedy decoding
    penalty: float = 0.6  # α of the length penalty of beam search; 0 ranks by log p alone, which favours short texts

    def __post_init__(self) -> None:
        for name, holds, expected in (
            ("tokens", self.tokens >= 1, "at least 1"),
            ("temperature", self.temperature >= 0, "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "0 < top_p ≤ 1"),
            ("seed", self.seed >= 0, "0 or more"),
            ("beam", self.beam >= 1, "at least 1"),
            ("penalty", self.penalty >= 0, "0 or more"),
        ):
            if not holds:
                raise ConfigError(f"decoding.{name} is {getattr(self, name)}; expected {expected}")


def pick(logits_BV: Tensor, config: DecodingConfig, generator: torch.Generator) -> Tensor:
    """token_B: the most probable at temperature 0, otherwise drawn from softmax(logits / temperature) within top_k and top_p."""
    if config.temperature == 0:
        return logits_BV.argmax(-1)
    probability_BV = torch.softmax(restrict(logits_BV.float() / config.temperature, config.top_k, config.top_p), -1)
    # Sampled on the CPU, so that a seed gives the same text on every device.
    return torch.multinomial(probability_BV.cpu(), 1, generator=generator).squeeze(-1).to(logits_BV.device)


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
