"""The first and last stages of a forward pass: the embedding, the final norm, the output layer.

Letters: T tokens, e embedding width, d width, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from firth.decoding.sampling.choice import Chain
from firth.inspection.walk.matrix import Line, LinearProduct, Spell, WalkMatrix, added, number, source_line
from firth.inspection.walk.recorded_layers import spelled_norm
from firth.inspection.walk.stage import Stage
from firth.layers.cap import capped
from firth.models.decoder import Decoder
from firth.models.language import RecurrentLM, TransformerLM
from firth.models.stack import Stack

SHOWN = 24  # tokens of the vocabulary in the matrices of the output


def plain_embedding_stage(id_T: Tensor, x_Te: Tensor, tokens: tuple[str, ...], side: str) -> Stage:
    line = source_line(RecurrentLM.states, "self.embedding(token_BT)")
    equation, rows, name = "x_t = E[token_t]", _looked_up(x_Te, id_T, "x = "), _named(side, "embedding")
    matrix = WalkMatrix("x", "the row of E for each token", equation, "Te", x_Te, tokens, line, rows)
    return Stage(name, "embedding", side, tokens, equation, "Te", line, x_Te, lambda head: [matrix])


def embedding_stage(stack: Stack, id_T: Tensor, e_1Te: Tensor, x_1Td: Tensor, tokens: tuple[str, ...], side: str) -> Stage:
    """The embedding with what `embed_positions` does to it."""
    inside = _embedding(stack, id_T, e_1Te, tokens)
    equation = " → ".join(one.equation for one in inside)
    line = source_line(Stack.embed_positions, "self.scheme.embed(")
    return Stage(_named(side, "embedding"), "embedding", side, tokens, equation, "Td", line, x_1Td[0], lambda head: inside)


@torch.no_grad()
def _embedding(stack: Stack, id_T: Tensor, e_1Te: Tensor, tokens: tuple[str, ...]) -> list[WalkMatrix]:
    line, x_Td, name = source_line(TransformerLM.hidden, "self.embedding(token_BT)"), e_1Te[0], "e"
    rows, scale = _looked_up(x_Td, id_T), stack.embedding_scale
    matrices = [WalkMatrix("e", "the row of E for each token", "e_t = E[token_t]", "Te", x_Td, tokens, line, rows)]

    def add(name: str, title: str, equation: str, axes: str, value_Tn: Tensor, part: str, spell: Spell | None = None) -> None:
        line = source_line(Stack.embed_positions, part)
        matrices.append(WalkMatrix(name, title, equation, axes, value_Tn, tokens, line, spell))

    if scale is not None:
        add("e′", "scaled", "e′ = e · √d", "Te", x_Td * scale, "self.embedding_scale", _scaled(x_Td, scale))
        x_Td, name = x_Td * scale, "e′"
    with_Td = stack.scheme.embed(x_Td.unsqueeze(0), 0)[0]
    if not torch.equal(with_Td, x_Td):
        p_Td = stack.scheme(0, len(x_Td))
        p_Td = p_Td if isinstance(p_Td, Tensor) else with_Td - x_Td  # a difference of sums is rounded
        add("p", f"the vector of each position ({stack.scheme.kind})", "p_t", "Td", p_Td, "self.scheme.embed(")
        spell = added([(name, x_Td), ("p", p_Td)], "x")
        add("x", "token and position together", f"x = {name} + p", "Td", with_Td, "self.scheme.embed(", spell)
        x_Td, name = with_Td, "x"
    if stack.embedding_norm is not None:
        normed = spelled_norm(stack.embedding_norm, x_Td, name, "n")
        x_Td, name = normed.value_Tn, "n"
        add("n", "normalised", normed.equation, "Td", x_Td, "self.embedding_norm(x_BTd)", normed.spell)
    if stack.embedding_projection is not None:
        projection = stack.embedding_projection
        spell = LinearProduct(x_Td, projection.weight, projection.bias, (name, "W")).spell("y")
        title, part = "projected to the width of the layers", "self.embedding_projection(x_BTd)"
        add("y", title, f"y = {name} W", "Td", projection(x_Td), part, spell)
    return matrices


def _looked_up(e_Te: Tensor, id_T: Tensor, before: str = "") -> Spell:
    def lines(t: int, j: int) -> list[Line]:
        return [Line(f"{before}row {int(id_T[t])} of E, column {j}", number(e_Te[t, j]))]

    return lines


def _scaled(e_Te: Tensor, scale: float) -> Spell:
    def lines(t: int, j: int) -> list[Line]:
        e = number(e_Te[t, j])
        return [Line("e", e), Line("√d", scale), Line("e′", e * scale)]

    return lines


@torch.no_grad()
def norm_stage(norm: nn.Module, x_Td: Tensor, tokens: tuple[str, ...], side: str) -> Stage:
    y_Td, title, equation, code, spell = spelled_norm(norm, x_Td, "x", "y")
    line = source_line(Stack.run_blocks, "return self.norm(x_BTd)")
    matrices = [
        WalkMatrix("x", "what leaves the last layer", "x", "Td", x_Td, tokens, line),
        WalkMatrix("y", title, equation, "Td", y_Td, tokens, code, spell),
    ]
    name = "memory" if side == "encoder" else _named(side, "norm")
    return Stage(name, "norm", side, tokens, equation, "Td", line, y_Td, lambda head: matrices)


def output_stage(
    network: Decoder, before: Sequence[Stage], x_Td: Tensor, logits_TV: Tensor, side: str, token: Callable[[int], str]
) -> Stage:
    """logits = x Wᵀ + b and their softmax, for the most probable tokens after the last one."""
    tokens = before[-1].tokens
    _, id_v = logits_TV[-1].topk(min(SHOWN, logits_TV.shape[1]))
    names = tuple(token(int(id)) for id in id_v)
    line = source_line(Decoder.readout, "self.output_layer()")
    inside = lambda head: _output(network, x_Td, logits_TV, id_v, tokens, names)  # noqa: E731
    equation, p_Tv = "p = softmax(x Wᵀ + b)", logits_TV[:, id_v].softmax(-1)
    return Stage("probabilities", "output", side, tokens, equation, "TV", line, p_Tv, inside)


@torch.no_grad()
def _output(
    network: Decoder, x_Td: Tensor, logits_TV: Tensor, id_v: Tensor, tokens: tuple[str, ...], names: tuple[str, ...]
) -> list[WalkMatrix]:
    W_Vd, b_V = network.output_layer()
    linear = LinearProduct(x_Td, W_Vd[id_v], None if b_V is None else b_V[id_v], ("x", "W"))
    log_Z_T, cap = logits_TV.double().logsumexp(-1), network.logit_cap

    def logits(t: int, j: int) -> list[Line]:
        lines = linear.spell("logit")(t, j)
        if cap is not None:
            value = number(capped(torch.tensor(lines[-1].value, dtype=torch.float64), cap))
            lines.append(Line(f"bounded by ±{cap:g}", value))
        return lines

    def probability(t: int, j: int) -> list[Line]:
        logit, log_Z = number(logits_TV[t, id_v[j]]), float(log_Z_T[t])
        value = float(torch.tensor(logit - log_Z, dtype=torch.float64).exp())
        return [
            Line("logit", logit),
            Line(f"log of Σ exp(logit), over {logits_TV.shape[1]:,} tokens", log_Z),
            Line("p = exp(logit − log Σ)", value),
        ]

    p_Tv = (logits_TV.double() - log_Z_T[:, None]).exp()[:, id_v].to(logits_TV.dtype)
    line, drawn = source_line(Decoder.readout, "self.output_layer()"), source_line(Chain.probabilities, "torch.softmax(")
    title = f"one number for each token of the vocabulary; {len(names)} of {logits_TV.shape[1]:,} are shown"
    equation, chances = "logits = x Wᵀ" + ("" if b_V is None else " + b"), "probabilities of the next token"
    return [
        WalkMatrix("x", "what enters the output layer", "x", "Td", x_Td, tokens, line),
        WalkMatrix("logits", title, equation, "TV", logits_TV[:, id_v], tokens, line, logits, names),
        WalkMatrix("p", chances, "p = softmax(logits)", "TV", p_Tv, tokens, drawn, probability, names, unit=True),
    ]


def _named(side: str, name: str) -> str:
    return f"{side} {name}" if side else name
