"""Rotary positions for longer texts than a model was trained on: other frequencies for the same weights.

A model trained on n tokens has never seen the angles beyond n·ω_i of its slow pairs. To read s·n tokens:

    linear ω_i ← ω_i / s                        all pairs are slowed down (Chen et al. 2023)
    ntk    base ← base · s^(D/(D−2))            the fastest pair stays as it is, the slowest is slowed down by s (bloc97 2023)
    yarn   ω_i ← (1 − γ_i) ω_i / s + γ_i ω_i    pairs that turn often within n keep their frequency (γ = 1), pairs that turn less
                                                than once are slowed down by s (γ = 0), with a ramp between (Peng et al. 2023)
    llama3 as yarn, but γ_i grows with the number of turns, from 0 at one turn to 1 at four (Grattafiori et al. 2024)
    dynamic as ntk with s·N/n − (s − 1) in the place of s, for a text of N > n tokens; a shorter one keeps ω_i (emozilla 2023)

With "dynamic", every key of a longer text is turned in a way that depends on N. A cache holds keys that were turned when the text
was shorter, and what later layers computed from them, so that reading in parts would give other logits than reading at once, and
does so in `transformers`. Here it is refused: beyond n tokens, a text has to be read at once, as `transformers` does without a
cache. What generates text therefore starts anew after n tokens, whatever `model.context` is, as at the end of any context.

YaRN also multiplies q and k by m = 0.1 ln s + 1 each, so that attention over more keys stays as sharp (their eq. 22). The ramp is
linear in i between the pairs that turn β_fast = 32 times and β_slow = 1 time, rounded outwards, as in the authors' code.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from firth.layers.position.frequencies import frequencies

RotaryScaling = Literal["none", "linear", "ntk", "yarn", "llama3", "dynamic"]
FAST, SLOW = 32.0, 1.0  # turns within the trained context
LLAMA_FAST, LLAMA_SLOW = 4.0, 1.0  # likewise


class Scaling(NamedTuple):
    kind: RotaryScaling
    trained: int  # tokens of context in training
    factor: float  # how many times as many to read

    def frequencies(self, width: int, base: float, device: torch.device | None = None) -> Tensor:
        """ω_i of a head of this width, in float64."""
        match self.kind:
            case "ntk":
                return frequencies(width, base * self.factor ** (width / (width - 2)), device)
            case "linear":
                return frequencies(width, base, device) / self.factor
            case "yarn" | "llama3":
                omega = frequencies(width, base, device)
                keep = self._keep(width, base, omega) if self.kind == "yarn" else self._keep_by_turns(omega)
                return omega * keep + omega / self.factor * (1 - keep)
            case "none" | "dynamic":  # of a text within the trained context
                return frequencies(width, base, device)

    def of_text(self, length: int) -> Scaling:
        """The scaling of a text of `length` tokens that is read at once."""
        if self.kind != "dynamic" or length <= self.trained:
            return self
        return Scaling("ntk", self.trained, self.factor * length / self.trained - (self.factor - 1))

    @property
    def magnitude(self) -> float:
        """m, the factor on q and on k."""
        return 0.1 * math.log(self.factor) + 1.0 if self.kind == "yarn" else 1.0

    def _keep(self, width: int, base: float, omega: Tensor) -> Tensor:
        """γ_i."""
        low = max(math.floor(self._pair(FAST, width, base)), 0)
        high = min(math.ceil(self._pair(SLOW, width, base)), width - 1)
        pair = torch.arange(len(omega), dtype=omega.dtype, device=omega.device)
        return 1 - ((pair - low) / max(high - low, 0.001)).clamp(0, 1)

    def _keep_by_turns(self, omega: Tensor) -> Tensor:
        """γ_i of LLaMA 3."""
        turns = self.trained * omega / (2 * math.pi)
        return ((turns - LLAMA_SLOW) / (LLAMA_FAST - LLAMA_SLOW)).clamp(0, 1)

    def _pair(self, turns: float, width: int, base: float) -> float:
        """The index i, not rounded, of the pair that turns so often within the trained context: n ω_i = 2π·turns."""
        return width * math.log(self.trained / (2 * math.pi * turns)) / (2 * math.log(base))
