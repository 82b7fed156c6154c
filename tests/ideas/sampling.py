"""Top-a: the surer the model is, the fewer tokens it may choose from."""

from dataclasses import dataclass

from firth.config import setting
from firth.decoding.sampling.filter import Filter


@dataclass(frozen=True, kw_only=True)
class TopA(Filter):
    about = "Drops the more of the improbable tokens, the more probable the best one is."
    label, latex = "top-a", r"p_v \ge a \max_w p_w^2"

    top_a: float = setting(0.0, "drop tokens less probable than top_a times the square of the largest probability; 0: off")

    def checks(self):
        yield "top_a", 0 <= self.top_a <= 1, "0 ≤ top_a ≤ 1"

    def acts(self):
        return self.top_a > 0

    @classmethod
    def apply(cls, candidates, rows):
        p_nV = candidates.x_nV.softmax(-1)
        return candidates.without(p_nV < rows.column("top_a", p_nV) * p_nV.amax(-1, keepdim=True) ** 2)
