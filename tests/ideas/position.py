"""Kerple's logarithmic kernel (Chi et al. 2022): s ← s − r₁ ln(1 + r₂ |k − q|), here with fixed r₁ = r₂ = 1."""

from firth.layers.position import Bias, PositionScheme


class LogDistance(Bias):
    def bias_BHQK(self, distance_BHQK):
        return -distance_BHQK.abs().double().log1p()


class Kerple(PositionScheme):
    kind, acts_on_scores = "kerple", True
    about = "A score falls with the logarithm of the distance (Chi et al. 2022)."
    latex = r"s_{ts} - \ln(1 + |t - s|)"

    def relative(self):
        return LogDistance()
