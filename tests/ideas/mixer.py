"""Retention (Sun et al. 2023): gated linear attention whose gates are constants, a slower one for each next head."""

import torch

from firth.layers.linear_attention.layers import GatedLinearAttention


class Retention(GatedLinearAttention):
    """S_t = γ_h S_{t−1} + k_t v_tᵀ with γ_h = 1 − 2^(−5 − h)."""

    kind = "retention"
    about = "Linear attention that forgets at a fixed rate for each head (Sun et al. 2023)."
    latex = r"S_t = \gamma_h S_{t-1} + k_t v_t^\top, \quad \gamma_h = 1 - 2^{-5-h}"

    def add_gates(self, width):
        gamma_H = 1 - 2.0 ** (-5 - torch.arange(self.heads, dtype=torch.float64))
        self.register_buffer("log_gamma_n", gamma_H.log().float().repeat_interleave(self.key_width), persistent=False)

    def log_gate(self, x_BTd):
        dtype = torch.promote_types(x_BTd.dtype, torch.float32)
        return self.log_gamma_n.to(dtype).expand(*x_BTd.shape[:2], -1)
