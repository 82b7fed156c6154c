"""Squared ReLU (So et al. 2021)."""

from firth.layers.activation import Activation


class SquaredReLU(Activation):
    kind, label, latex = "relu2", "ReLU²", r"\max(0, x)^2"
    about = "The square of a ReLU (So et al. 2021)."

    @staticmethod
    def apply(up_nh):
        return up_nh.relu().square()
