"""MGU, the minimal gated unit (Zhou et al. 2016): one gate, which forgets and updates."""

import torch
import torch.nn.functional as F

from firth.layers.recurrent import Cell


class MGU(Cell):
    """f = σ(W_f x + U_f h), n = tanh(W_n x + U_n (f ⊙ h)), h' = (1 − f) ⊙ h + f ⊙ n."""

    kind = "mgu"
    label = "MGU"
    about = "A GRU with one gate (Zhou et al. 2016)."
    latex = r"h_t = (1 - f) \odot h_{t-1} + f \odot n"
    gates = ("forget", "candidate")

    def step(self, x_Bg, state, w):
        (h_Bd,) = state
        (x_f, x_n), (U_f, U_n), (b_f, b_n) = x_Bg.chunk(2, -1), w.hidden_gd.chunk(2), w.hidden_bias_g.chunk(2)
        f = torch.sigmoid(x_f + F.linear(h_Bd, U_f, b_f))
        n = torch.tanh(x_n + F.linear(f * h_Bd, U_n, b_n))
        return {"h": (1 - f) * h_Bd + f * n, "forget": f, "candidate": n}
