"""The matrices of a Transformer block, for one head. Letters: T tokens, S source tokens, d width, D head width, h inner width of
the feed-forward network, N heads of the fused projection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from firth.inspection.walk.attention import Names, matrices
from firth.inspection.walk.matrix import Line, LinearProduct, SourceLine, Spell, WalkMatrix, added, number, source_line
from firth.inspection.walk.mixer import MixerCall, linear_attend_of, mixer_matrices
from firth.inspection.walk.recorded_layers import spelled_activation, spelled_norm
from firth.layers.attention import mask, reference
from firth.layers.attention.call import Call
from firth.layers.block import Block
from firth.layers.cross_attention import CrossAttention, Source
from firth.layers.feedforward import FeedForward
from firth.layers.position import RotaryTurn, Unprojected
from firth.layers.self_attention import SelfAttention
from firth.layers.self_attention import normalized as head_normalized


class BlockCall(NamedTuple):
    """The input of a block: x_1Td and the rest of its arguments."""

    block: Block
    x_1Td: Tensor
    allowed: Any
    position: Any
    past: Any
    source: Source | None
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...] = ()
    memory_1Sd: Tensor | None = None

    @property
    def heads(self) -> int:
        layer = self.block.attention
        return layer.heads if isinstance(layer, SelfAttention) or linear_attend_of(layer) is not None else 0

    def mixer_call(self, n_1Td: Tensor, name: str = "n") -> MixerCall:
        return MixerCall(self.block.attention, n_1Td, name, self.allowed, self.position, self.tokens)


def self_call(given: BlockCall, n_1Td: Tensor) -> Call:
    """The call of the block's self-attention, whose input is n."""
    layer = given.block.attention
    assert isinstance(layer, SelfAttention)
    position = layer.projected(given.position) if isinstance(given.position, Unprojected) else given.position
    turn, relative = (position, None) if isinstance(position, RotaryTurn) else (None, position)
    q_1HTD, k_1GTD, v_1GTD = layer.split(layer.project(n_1Td), turn)
    return layer.attend.call(q_1HTD, k_1GTD, v_1GTD, layer.narrowed(given.allowed), relative, 0)


def cross_call(given: BlockCall, n_1Td: Tensor) -> Call:
    layer, source = given.block.cross, given.source
    assert layer is not None
    assert source is not None
    q_1HTD = head_normalized(_heads(layer.query(n_1Td), layer.head_width), layer.query_norm)
    if layer.score_layer.reduces:
        q_1HTD = layer.score_layer.reduce_query(q_1HTD, layer)
    return layer.attend.call(q_1HTD, source.k_BGSD, source.v_BGSD, mask.lengths(source.length_B), None, 0)


def normed(given: BlockCall) -> Tensor:
    """The input of the block's self-attention."""
    n_1Td: Tensor = given.x_1Td if given.block.placement == "post" else given.block.attention_norm(given.x_1Td)
    return n_1Td


@torch.no_grad()
def block_matrices(given: BlockCall, head: int) -> list[WalkMatrix]:
    """Every matrix between the input and the output of the block; the last one is its output."""
    return _Trail(given, head).walk()


@torch.no_grad()
def cross_input(given: BlockCall) -> Tensor:
    """The input of the block's cross-attention."""
    trail = _Trail(given, 0)
    x_1Td = trail.sublayer(given.x_1Td, "a", trail.mix, given.block.attention_norm, given.block.attention_post_norm)
    n_1Td: Tensor = x_1Td if given.block.placement == "post" else given.block.cross_norm(x_1Td)
    return n_1Td


class _Trail:
    """The matrices so far, in order."""

    def __init__(self, given: BlockCall, head: int) -> None:
        self.given, self.block, self.head = given, given.block, head
        self.matrices: list[WalkMatrix] = []
        self.x_name = "x"

    def walk(self) -> list[WalkMatrix]:
        block, x_1Td = self.block, self.given.x_1Td
        self.add("x", "what enters the layer", "x", "Td", x_1Td, source_line(Block.forward, "x_BTd: Tensor"), None)
        if block.parallel_residual:
            self._parallel_residual(x_1Td)
            return self.matrices
        x_1Td = self.sublayer(x_1Td, "a", self.mix, block.attention_norm, block.attention_post_norm)
        if block.cross is not None:
            x_1Td = self.sublayer(x_1Td, "c", self.cross, block.cross_norm, block.cross_post_norm)
        self.sublayer(x_1Td, "f", self.feed, block.feedforward_norm, block.feedforward_post_norm)
        return self.matrices

    def add(
        self,
        name: str,
        title: str,
        equation: str,
        axes: str,
        value_1Tn: Tensor,
        source: Any,
        spell: Spell | None,
        rows: tuple[str, ...] | None = None,
    ) -> None:
        self.matrices.append(WalkMatrix(name, title, equation, axes, value_1Tn[0], rows or self.given.tokens, source, spell))

    def sublayer(
        self, x_1Td: Tensor, name: str, run: Callable[[Tensor, str], Tensor], norm: nn.Module, post_norm: nn.Module | None
    ) -> Tensor:
        """The residual equation around one layer: x ← x + A(N(x)), x ← N(x + A(x)), x ← x + N'(A(N(x))), or x ← x + N'(A(x))."""
        x, pre = self.x_name, self.block.placement != "post"
        normed = pre and not isinstance(norm, nn.Identity)
        y_1Td = run(self.norm(norm, x_1Td, x, _N[name]), _N[name]) if normed else run(x_1Td, x)
        added_name = name
        if post_norm is not None:
            added_name = f"{name}′"
            y_1Td = self.norm(post_norm, y_1Td, name, added_name)
        s_1Td = x_1Td + y_1Td
        self.x_name = f"{x}′" if pre else "r" + "′" * x.count("′")
        self.add(
            self.x_name,
            "residual connection: the layer's output is added to its input",
            f"{self.x_name} = {x} + {added_name}",
            "Td",
            s_1Td,
            source_line(Block.forward, _RESIDUAL[name, pre]),
            added([(x, x_1Td[0]), (added_name, y_1Td[0])], self.x_name),
        )
        if pre:
            return s_1Td
        r, self.x_name = self.x_name, f"{x}′"
        return self.norm(norm, s_1Td, r, self.x_name)

    def _parallel_residual(self, x_1Td: Tensor) -> None:
        block = self.block
        n_1Td = self.norm(block.attention_norm, x_1Td, "x", "n")
        a_1Td = self.mix(n_1Td, "n")
        m_1Td, m = n_1Td, "n"
        if block.parallel_residual == "two_norms":
            m_1Td, m = self.norm(block.feedforward_norm, x_1Td, "x", "n′"), "n′"
        f_1Td = self.feed(m_1Td, m)
        parts = [("x", x_1Td[0]), ("a", a_1Td[0]), ("f", f_1Td[0])]
        line = source_line(Block.forward, "self._drop(a_BTd) + self._drop(self.feedforward")
        self.add("x′", "both layers are added to x", "x′ = x + a + f", "Td", x_1Td + a_1Td + f_1Td, line, added(parts, "x′"))

    def norm(self, norm: nn.Module, x_1Td: Tensor, x: str, name: str) -> Tensor:
        if isinstance(norm, nn.Identity):
            return x_1Td
        normed = spelled_norm(norm, x_1Td[0], x, name)
        y_1Td = normed.value_Tn.unsqueeze(0)
        self.add(name, f"{normed.title} of each token", normed.equation, "Td", y_1Td, normed.source, normed.spell)
        return y_1Td

    # Self-attention

    def mix(self, n_1Td: Tensor, n: str) -> Tensor:
        layer = self.block.attention
        if not isinstance(layer, SelfAttention):
            self.matrices += mixer_matrices(self.given.mixer_call(n_1Td, n), self.head)
            return self.matrices[-1].value.unsqueeze(0)
        self._projections(layer, n_1Td, n)
        call = self_call(self.given, n_1Td)
        turned = self._turned(call, layer)
        letters = Names("q′", "k′") if turned else Names()
        self.matrices += matrices(call, self.head, self.given.tokens, self.given.tokens, letters)
        return self._output(layer, call, "a", SelfAttention.forward)

    def _projections(self, layer: SelfAttention, n_1Td: Tensor, n: str) -> None:
        D, H, G = layer.head_width, layer.heads, layer.kv_heads
        group, line = self.head // (H // G), source_line(SelfAttention.project, "self.qkv(x_BTd)")
        for letter, title, place in (("q", "queries", self.head), ("k", "keys", H + group), ("v", "values", H + G + group)):
            rows = slice(place * D, (place + 1) * D)
            self._projection(letter, title, layer.qkv, layer.qkv_bias(), rows, (n, n_1Td), line)

    def _projection(
        self,
        letter: str,
        title: str,
        projection: Any,
        bias_n: Tensor | None,
        rows: slice,
        x: tuple[str, Tensor],
        source: SourceLine,
        tokens: tuple[str, ...] | None = None,
    ) -> None:
        """Add what the rows of this head in a projection make of x; `tokens` are those of the source, if x is."""
        (name, x_1Ti), W_oi, b_o = x, projection.matrix[rows], None if bias_n is None else bias_n[rows]
        value_1nD = nn.functional.linear(x_1Ti, W_oi, b_o)
        linear = LinearProduct(x_1Ti[0], W_oi, b_o, (name, f"W^{letter.upper()}"))
        self._product(letter, f"{title} of the head", "TD" if tokens is None else "SD", value_1nD, linear, source, tokens)

    def _product(
        self,
        name: str,
        title: str,
        axes: str,
        value_1Tn: Tensor,
        linear: LinearProduct,
        source: SourceLine,
        rows: tuple[str, ...] | None = None,
    ) -> None:
        """Add y = x W + b."""
        equation = f"{name} = {' '.join(linear.names)}" + ("" if linear.b_o is None else " + b")
        self.add(name, title, equation, axes, value_1Tn, source, linear.spell(name), rows)

    def _turned(self, call: Call, layer: SelfAttention) -> bool:
        """Add q and k after norm, score reduction and rotation; False if none of them applies."""
        turn = isinstance(self.given.position, RotaryTurn)
        words = [
            word
            for word, holds in (
                ("normalised", layer.query_norm is not None),
                ("reduced by the score", layer.score_layer.reduces),
                ("turned by the position", turn),
            )
            if holds
        ]
        if not words:
            return False
        group = self.head // (layer.heads // layer.kv_heads)
        line = source_line(
            SelfAttention.split,
            "rotate(q_BHTD, turn)" if turn else "reduce_query" if layer.score_layer.reduces else "normalized(q_BHTD",
        )
        for letter, value_TD in (("q", call.q_BHQD[0, self.head]), ("k", call.k_BGKC[0, group])):
            equation = (
                f"{letter}′_t = R_t {letter}_t"
                if words == ["turned by the position"]
                else f"{letter}′ = {letter}, {', '.join(words)}"
            )
            raw = next(one for one in reversed(self.matrices) if one.name == letter)
            spell = _turn_lines(raw.value, self.given.position, f"{letter}′") if words == ["turned by the position"] else None
            self.add(f"{letter}′", f"{letter}, {' and '.join(words)}", equation, "TD", value_TD.unsqueeze(0), line, spell)
        return True

    def _output(self, layer: SelfAttention | CrossAttention, call: Call, name: str, function: Any) -> Tensor:
        o_1HTE = reference.run(call.reduced())
        o_1Tn = o_1HTE.transpose(1, 2).flatten(2)
        y_1Td: Tensor = layer.out(o_1Tn)
        linear = LinearProduct(o_1Tn[0], layer.out.matrix, layer.out.bias, ("o of all heads", "W^O"))
        equation = f"{name} = Concat(o of all heads) W^O" + ("" if layer.out.bias is None else " + b")
        line = source_line(function, "self.out(o_BHTD.transpose(1, 2).flatten(2))")
        self.add(name, "output: all heads side by side, times a matrix", equation, "Td", y_1Td, line, linear.spell(name))
        return y_1Td

    # Cross-attention

    def cross(self, n_1Td: Tensor, n: str) -> Tensor:
        layer, source, memory_1Sd = self.block.cross, self.given.source, self.given.memory_1Sd
        assert layer is not None
        assert source is not None
        D, H = layer.head_width, layer.query.out_features // layer.head_width
        G = layer.kv.out_features // (2 * D)
        group, rows = self.head // (H // G), self.given.source_tokens
        line = source_line(CrossAttention.forward, "self.query(x_BTd)")
        own = slice(self.head * D, (self.head + 1) * D)
        self._projection("q", "queries", layer.query, layer.query.bias, own, (n, n_1Td), line)
        if memory_1Sd is not None:
            line = source_line(CrossAttention.project_source, "self.kv(y_BSd)")
            for letter, title, place in (("k", "keys, from the memory", group), ("v", "values, from the memory", G + group)):
                own = slice(place * D, (place + 1) * D)
                self._projection(letter, title, layer.kv, layer.kv_bias(), own, ("m", memory_1Sd), line, rows)
        call = cross_call(self.given, n_1Td)
        self.matrices += matrices(call, self.head, self.given.tokens, rows, Names(axes="TS"))
        return self._output(layer, call, "c", CrossAttention.forward)

    # Feed-forward

    def feed(self, n_1Td: Tensor, n: str) -> Tensor:
        layer = self.block.feedforward
        up_1Th, forward = layer.up(n_1Td), FeedForward.forward
        W_hd, b_h, up = layer.up.matrix, layer.up.bias, source_line(forward, "self.up(x_BTd)")
        wider = [("u", "wider: a feature for each column", "W_1")]
        if layer.phi.gated:
            wider = [("g", "the gate", "W_g"), ("u", "what it lets through", "W_1")]
        parts, h = {}, layer.down.in_features
        for start, (letter, title, W) in zip(range(0, len(W_hd), h), wider, strict=True):
            rows = slice(start, start + h)
            part = LinearProduct(n_1Td[0], W_hd[rows], None if b_h is None else b_h[rows], (n, W))
            self._product(letter, title, "Th", up_1Th[..., rows], part, up)
            parts[letter] = up_1Th[0, :, rows]
        activated = spelled_activation(layer.phi, parts, "z")
        inner_1Th = activated.value_Tn.unsqueeze(0)
        self.add("z", activated.title, activated.equation, "Th", inner_1Th, activated.source, activated.spell)
        f_1Td: Tensor = layer.down(inner_1Th)
        down = LinearProduct(inner_1Th[0], layer.down.matrix, layer.down.bias, ("z", "W_2"))
        line = source_line(forward, "self.down(self.phi.apply")
        self._product("f", "back to the width of the model", "Td", f_1Td, down, line)
        return f_1Td


_N = {"a": "n", "c": "n′", "f": "n″"}  # the names of the normalised inputs
_RESIDUAL = {
    ("a", True): "_after(self.attention_post_norm",
    ("c", True): "_after(self.cross_post_norm",
    ("f", True): "_after(self.feedforward_post_norm",
    ("a", False): "self.attention_norm(x_BTd + ",
    ("c", False): "self.cross_norm(x_BTd + ",
    ("f", False): "self.feedforward_norm(x_BTd + ",
}


def _heads(x_1Tn: Tensor, width: int) -> Tensor:
    return x_1Tn.view(*x_1Tn.shape[:2], -1, width).transpose(1, 2)


def _turn_lines(x_TD: Tensor, turn: RotaryTurn, name: str) -> Spell:
    """x cos θ ∓ x_pair sin θ; the pairs are the two halves."""

    def lines(t: int, j: int) -> list[Line]:
        half = x_TD.shape[1] // 2
        pair = (j + half) % (2 * half)
        cos, sin = number(turn.cos_TD[t, j]), number(turn.sin_TD[t, j])
        x, other = number(x_TD[t, j]), number(x_TD[t, pair])
        return [
            Line("x", x),
            Line(f"its partner, column {pair}", other),
            Line("cos θ", cos),
            Line("± sin θ", sin),
            Line(f"{name} = x cos θ ± partner · sin θ", x * cos + other * sin),
        ]

    return lines
