"""Focal loss (Lin et al. 2017): a prediction counts less, the surer and the more correct it is."""

from firth.layers.objective import Objective

GAMMA = 2.0


class Focal(Objective):
    kind, label = "focal", "focal loss"
    about = "The cross-entropy, small for what is predicted well already."
    latex = r"-(1 - p_y)^2 \log p_y"

    @classmethod
    def loss(cls, logits_NV, target_N):
        log_p_N = logits_NV.log_softmax(-1).gather(1, target_N[:, None]).squeeze(1)
        return -((1 - log_p_N.exp()) ** GAMMA) * log_p_N
