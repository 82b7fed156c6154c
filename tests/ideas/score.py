"""Manhattan: the nearer a key is to a query, the higher its score."""

from firth.layers.attention.score import Score, ScoreLayer


class Manhattan(Score):
    def between(self, q_BGJQD, k_BGJKD):
        keys = k_BGJKD if k_BGJKD.ndim == 6 else k_BGJKD.unsqueeze(-3)  # a position may give every query keys of its own
        return -(q_BGJQD.unsqueeze(-2) - keys).abs().sum(-1)


class ManhattanLayer(ScoreLayer):
    kind = "manhattan"
    about = "Minus the sum of absolute differences."
    latex = r"-\lVert q - k \rVert_1"

    def score(self, attend):
        return Manhattan()
