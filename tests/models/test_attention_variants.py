"""A Transformer of every score, position, mask and sharing of heads: read in steps it is what it is read at once, it looks back
only, it learns, and it starts from weights of the right size.

Letters: B batch, T time, V vocabulary, H heads, Q queries, K keys, D head width.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shares import half, some, third
from shell import Firth
from small_models import randomise
from tiny_runs import (
    TEXT,
    assert_stopping_changes_nothing,
    tiny,
    watching,
)
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.api import compose, load, train_recipe
from firth.api.recipe import Recipe
from firth.config import build
from firth.layers.attention import attend, mask, position, reference, score
from firth.layers.attention.config import AttentionConfig
from firth.layers.block_config import BlockConfig
from firth.layers.position import RotaryTurn, angles
from firth.layers.position.rotary import turns
from firth.layers.self_attention import SelfAttention
from firth.layers.tap import attention_calls
from firth.models import TransformerConfig, TransformerLM, parameters
from firth.models.initialise import initialise
from firth.training.loop import Training
from firth.training.trainer import StepReport

VOCAB, T, B, HEADS, DEPTH, SPAN = 7, 9, 3, 4, 2, 3
SCORES = score.SCORES.kinds
POSITIONS = position.SCHEMES.kinds
RELATIVE = ("none", "rotary", "shaw", "t5", "alibi", "disentangled")  # those that know no absolute position
MASKS: tuple[dict[str, Any], ...] = ({"mask": "causal"}, {"mask": "strictly_causal"}, {"mask": "window", "span": SPAN})
# Short: distances beyond them occur.
OWN: dict[str, dict[str, Any]] = {
    "shaw": {"max_distance": 3},
    "t5": {"distance_buckets": 6, "max_distance": 5},
    "learned_t5": {"distance_buckets": 6, "max_distance": 5},
    "disentangled": {"max_distance": 3},
}
# Of t5 with these settings: three buckets hold one distance each, three those up to 5 (Raffel et al. 2020).
BUCKET = [n if n < 3 else min(5, 3 + math.floor(3 * math.log(n / 3) / math.log(5 / 3) + 1e-9)) for n in range(T)]
PAIRS = [  # without those that are refused
    (s, p)
    for s in SCORES
    for p in POSITIONS
    if (s, p) != ("additive", "rotary") and (p != "disentangled" or s in ("dot", "scaled_dot"))
]
SHARINGS = (1, 2, HEADS)  # heads of keys and values
# `make test` takes a third of the pairs, and a third of the masks × sharings with each; `make test-all` takes all.
every_pair = pytest.mark.parametrize(("score", "position"), third(itertools.starmap(pytest.param, PAIRS)))
every_pair_and_square = pytest.mark.parametrize(
    ("score", "position", "square"),
    [
        pytest.param(*pair, square, marks=[] if n % 9 == 3 * square else [pytest.mark.long])
        for n, pair in enumerate(PAIRS)
        for square in range(3)
    ],
)


def config(score: str, position: str, **options: Any) -> TransformerConfig:
    small: dict[str, Any] = {"kind": "transformer", "width": 8, "depth": DEPTH, "heads": HEADS, "hidden": 12, "context": T}
    return TransformerConfig(**(small | {"score": score, "position": position} | OWN.get(position, {}) | options))


def latin(square: int) -> list[tuple[dict[str, Any], int]]:
    """One of three parts of all masks × sharings of heads; each part has every mask and every sharing once."""
    return [(seen, SHARINGS[(square + n) % 3]) for n, seen in enumerate(MASKS)]


def variants(score: str, position: str, square: int) -> Iterator[TransformerConfig]:
    """Every mask and every sharing of heads, each with a draw of the rest of the block."""
    draw = random.Random(f"{score} {position} {square}")
    for seen, kv_heads in latin(square):
        block = {
            "norm": draw.choice(("rms", "layer")),
            "norm_placement": draw.choice(("pre", "post")),
            "activation": draw.choice(("relu", "gelu", "swiglu")),
            "bias": draw.choice((False, True)),
            "tied": draw.choice((False, True)),
        }
        yield config(score, position, kv_heads=kv_heads, **seen, **block)


def made(config: TransformerConfig, dtype: torch.dtype = torch.float64) -> TransformerLM:
    """With random weights, none of them special."""
    model = TransformerLM(config, VOCAB)
    return randomise(model).to(dtype).eval()


def first(config: TransformerConfig, seed: int = 0, vocab: int = VOCAB) -> TransformerLM:
    """With the weights from which training starts."""
    model = TransformerLM(config, vocab)
    initialise(model, torch.Generator().manual_seed(seed))
    return model


def tokens(batch: int = B, time: int = T, seed: int = 1, vocab: int = VOCAB) -> Tensor:
    return torch.randint(vocab, (batch, time), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def at_once(model: TransformerLM, token_BT: Tensor) -> Tensor:
    logits_BTV: Tensor = model(token_BT)[0]
    return logits_BTV


@torch.inference_mode()
def stepped(model: TransformerLM, token_BT: Tensor, chunks: list[int]) -> tuple[Tensor, Any]:
    state, logits = model.start(len(token_BT)), []
    for chunk_BT in token_BT.split(chunks, dim=1):
        logits_BTV, state = model.step(chunk_BT, state)
        logits.append(logits_BTV)
    return torch.cat(logits, 1), state


# Reading in steps


@every_pair_and_square
def test_a_prompt_then_steps_then_several_tokens_equal_one_reading(score: str, position: str, square: int) -> None:
    for variant in variants(score, position, square):
        model = made(variant)
        whole = at_once(model, tokens())
        for chunks in ([4, 1, 1, 3], [1, 1, 5, 1, 1]):  # a prompt may be one token, which under a strict mask sees nothing
            assert_equal(stepped(model, tokens(), chunks)[0], whole)


@every_pair_and_square
def test_selected_rows_and_branches_go_on_as_what_they_have_read(score: str, position: str, square: int) -> None:
    rows = torch.tensor([2, 0, 0, 1])
    more, other = tokens(4, 3, seed=2), tokens(4, 2, seed=3)
    for variant in variants(score, position, square):
        model = made(variant)
        with torch.inference_mode():
            _, state = stepped(model, tokens()[:, :5], [4, 1])
            chosen = state.select(rows)
            logits, after = model.step(more, chosen)
            branch, _ = model.step(other, chosen)
            last, _ = model.step(other[:3, :1], after.select(torch.tensor([3, 1, 1])))
            _, old = model.step(tokens()[:, 5:6], state)
            model.step(more[:3], state)  # of the same state, and must not disturb it
            unharmed, _ = model.step(tokens()[:, 6:], old)
        read = tokens()[rows, :5]
        assert_equal(logits, at_once(model, torch.cat((read, more), 1))[:, 5:])
        assert_equal(branch, at_once(model, torch.cat((read, other), 1))[:, 5:])
        assert_equal(last, at_once(model, torch.cat((torch.cat((read, more), 1)[[3, 1, 1]], other[:3, :1]), 1))[:, 8:])
        assert_equal(unharmed, at_once(model, tokens())[:, 6:])


@every_pair
def test_in_float32_steps_are_as_accurate_as_one_reading(score: str, position: str) -> None:
    for seen in MASKS:
        variant = config(score, position, kv_heads=2, **seen)
        exact, single = at_once(made(variant), tokens()), made(variant, torch.float32)
        assert_as_accurate(stepped(single, tokens(), [4, 1, 1, 3])[0], at_once(single, tokens()), exact)


@pytest.mark.parametrize("position", ["none", "sinusoidal", "rotary", "shaw", "t5", "alibi", "disentangled"])
def test_only_learned_positions_end_with_the_context(position: str) -> None:
    truth = at_once(made(config("scaled_dot", position, context=64)), tokens())
    short = made(config("scaled_dot", position, context=4))
    assert_equal(at_once(short, tokens()), truth)
    assert_equal(stepped(short, tokens(), [3, 1, 4, 1])[0], truth)


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize(
    "where", [None, position.alibi(4), position.buckets(torch.arange(24.0).view(6, 4), bidirectional=False, max_distance=5)]
)
@pytest.mark.parametrize("seen", [mask.FULL, mask.CAUSAL, mask.STRICTLY_CAUSAL, mask.window(3)])
def test_one_query_among_more_keys_sees_those_that_its_mask_allows(seen: mask.Mask, where: Any, start: int) -> None:
    """The step of a decoder without a mask of its own; here later keys are there already."""
    generator = torch.Generator().manual_seed(start)
    q, k, v = (torch.randn(B, h, t, 4, dtype=torch.float64, generator=generator) for h, t in ((4, 1), (2, 6), (2, 6)))
    o = attend(q, k, v, mask=seen, position=where, q_start=start, kernel="sdpa")
    assert_equal(o, attend(q, k, v, mask=seen, position=where, q_start=start, kernel="reference"))


# Looking back only


@every_pair_and_square
def test_a_token_changes_nothing_before_it_and_all_that_can_see_it(score: str, position: str, square: int) -> None:
    at = 2
    for variant in variants(score, position, square):
        model, token_BT = made(variant), tokens()
        before = at_once(model, token_BT)
        token_BT[1, at] = (token_BT[1, at] + 1) % VOCAB
        change_BT = (at_once(model, token_BT) - before).abs().amax(-1)
        # Each layer of a window carries a token at most span − 1 places further.
        end = min(T, at + 1 + DEPTH * (SPAN - 1)) if variant.attention.mask == "window" else T
        seen_BT = torch.zeros(B, T, dtype=torch.bool)
        seen_BT[1, at:end] = True
        assert torch.equal(change_BT > 1e-9, seen_BT), f"{variant}\n{change_BT}"
        assert change_BT[~seen_BT].max() < 1e-12


@pytest.mark.parametrize("position", RELATIVE)
@pytest.mark.parametrize("score", SCORES)
def test_with_relative_positions_a_window_reads_the_same_wherever_the_text_begins(score: str, position: str) -> None:
    """The last token sees DEPTH·(SPAN − 1) + 1 tokens, and only how far they are from each other."""
    if (score, position) not in PAIRS:
        position = "alibi"
    model = made(config(score, position, mask="window", span=SPAN, kv_heads=2))
    if position == "rotary":
        model.scheme.turn_2TD = turns(angles(torch.arange(T), 2, 10_000.0))  # the model's own are rounded to float32
    sees = DEPTH * (SPAN - 1) + 1
    assert_equal(at_once(model, tokens()[:, -sees:])[:, -1], at_once(model, tokens())[:, -1])


@pytest.mark.parametrize("position", POSITIONS)
def test_every_scheme_but_none_hears_the_order(position: str) -> None:
    """Two tokens of the past change places. With one layer, a bag of the past is all that "none" has."""
    model, swapped = made(config("scaled_dot", position, depth=1)), tokens()
    swapped[:, [5, 7]] = tokens()[:, [7, 5]]
    assert not torch.equal(swapped, tokens())
    change = (at_once(model, swapped) - at_once(model, tokens()))[:, -1].abs().max()
    assert (change > 1e-6) == (position != "none"), change


# Against a plain re-implementation


def plain_attention(q: Tensor, k: Tensor, v: Tensor, heads: int, bias: Any, key: Any, value: Any) -> Tensor:
    """One query, one head, one row at a time; k and v have a head for every query head."""
    B, T, width = q.shape
    D = width // heads
    out = torch.zeros_like(q)
    for b, h, t in itertools.product(range(B), range(heads), range(T)):
        part = slice(h * D, h * D + D)
        scores = torch.stack([q[b, t, part] @ (k[b, s, part] + key(s - t)) / math.sqrt(D) + bias(h, t - s) for s in range(t + 1)])
        share = scores.softmax(0)
        out[b, t, part] = sum(share[s] * (v[b, s, part] + value(s - t)) for s in range(t + 1))  # type: ignore[assignment]
    return out


def plain_model(model: TransformerLM, token_BT: Tensor, tables: Any) -> Tensor:
    """Pre-norm, RMSNorm, GELU, no biases, a key head for each query head; `tables` gives a layer's functions of the distance."""
    w = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def normed(x: Tensor, gain: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain

    x = w["embedding.weight"][token_BT]
    for n in range(model.config.depth):
        a, f = f"blocks.{n}.attention", f"blocks.{n}.feedforward"
        q, k, v = (normed(x, w[f"{a}_norm.weight"]) @ w[f"{a}.qkv.weight"].T).chunk(3, -1)
        x = x + plain_attention(q, k, v, model.config.attention.heads, *tables(n, w)) @ w[f"{a}.out.weight"].T
        inner = normed(x, w[f"{f}_norm.weight"]) @ w[f"{f}.up.weight"].T
        x = x + (inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))) @ w[f"{f}.down.weight"].T
    return normed(x, w["norm.weight"]) @ w["embedding.weight"].T


def nothing(*_: int) -> float:
    return 0.0


def test_with_alibi_the_model_is_its_plain_re_implementation() -> None:
    """The slopes of four heads are 2^−2, 2^−4, 2^−6, 2^−8."""
    model = made(config("scaled_dot", "alibi", activation="gelu"))
    truth = plain_model(model, tokens(), lambda n, w: (lambda h, back: -(2.0 ** (-2 * (h + 1))) * back, nothing, nothing))
    assert_equal(at_once(model, tokens()), truth)


def test_with_shaw_the_model_is_its_plain_re_implementation() -> None:
    model = made(config("scaled_dot", "shaw", activation="gelu", max_distance=3))

    def tables(n: int, w: dict[str, Tensor]) -> Any:
        key, value = (w[f"blocks.{n}.attention.attend.{name}"] for name in ("key_RD", "value_RE"))
        return nothing, lambda away: key[max(away, -3) + 3], lambda away: value[max(away, -3) + 3]

    assert_equal(at_once(model, tokens()), plain_model(model, tokens(), tables))


def test_with_t5_the_model_is_its_plain_re_implementation() -> None:
    model = made(config("scaled_dot", "t5", activation="gelu"))
    truth = plain_model(model, tokens(), lambda n, w: (lambda h, back: w["relative.table_NH"][BUCKET[back], h], nothing, nothing))
    assert_equal(at_once(model, tokens()), truth)


@pytest.mark.parametrize("kind", ["dot", "scaled_dot", "gaussian", "bilinear", "cosine"])
def test_a_layer_turns_q_and_k_as_attend_does(kind: Any) -> None:
    """Above all: M meets q before it is turned, or the score would not depend on the distance alone."""
    generator = torch.Generator().manual_seed(3)
    layer = SelfAttention(BlockConfig(width=16, attention=AttentionConfig(heads=4, kv_heads=2, score=kind), bias=True)).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=generator)
    x_BTd = torch.randn(B, T, 16, dtype=torch.float64, generator=generator)
    y_BTd, _ = layer(x_BTd, mask.CAUSAL, RotaryTurn(*turns(angles(torch.arange(T), 4, 100.0))), None)
    q, k, v = (part.view(B, T, -1, 4).transpose(1, 2) for part in layer.qkv(x_BTd).split((16, 8, 8), -1))
    chosen = {
        "dot": score.DOT,
        "scaled_dot": score.SCALED_DOT,
        "gaussian": score.GAUSSIAN,
        "cosine": score.cosine(layer.attend.get_parameter("log_tau_H")) if kind == "cosine" else None,
        "bilinear": score.bilinear(layer.get_parameter("M_HDD")) if kind == "bilinear" else None,
    }[kind]
    assert chosen is not None
    o = attend(q, k, v, score=chosen, mask=mask.CAUSAL, position=position.rotary(100.0), kernel="reference")
    assert_equal(y_BTd.detach(), layer.out(o.transpose(1, 2).flatten(2)).detach())


# Learning


def next_token_loss(model: TransformerLM, token_BT: Tensor) -> Tensor:
    logits_BTV, _ = model(token_BT[:, :-1])
    return F.cross_entropy(logits_BTV.flatten(0, 1), token_BT[:, 1:].flatten())


def unheard(name: str, parameter: Tensor, config: TransformerConfig) -> Tensor:
    """Places where a parameter rightly has no gradient, because a causal model of T − 1 tokens never uses them."""
    none = torch.zeros_like(parameter, dtype=torch.bool)
    length = T - 1
    nearest, farthest = int(config.attention.mask == "strictly_causal"), min(length, config.attention.span or length) - 1
    if name == "position.table_Td":
        none[length:] = True
    if name.endswith(("key_RD", "value_RE")):
        clip = len(parameter) - 1
        met = {max(-clip, -away) + clip for away in range(nearest, farthest + 1)}
        none[[row for row in range(len(parameter)) if row not in met]] = True
    if name.endswith("table_NH"):
        met = set(BUCKET[nearest : farthest + 1])
        none[[row for row in range(len(parameter)) if row not in met]] = True
    if name == "relative.table_Rd":
        span = len(parameter) // 2
        met = {min(away, span - 1) + span for away in range(nearest, farthest + 1)}
        none[[row for row in range(len(parameter)) if row not in met]] = True
    # q·(k + b) adds the same q·b to the scores of all keys, which the softmax takes out again; a rotation gives each its own, and
    # so does the comparison of k + b with a distance.
    turned = config.position.kind in ("rotary", "disentangled")
    if name.endswith("qkv.bias") and config.attention.score in ("dot", "scaled_dot", "bilinear") and not turned:
        keys = config.width // config.attention.heads * config.attention.groups
        none[config.width : config.width + keys] = True
    return none


@every_pair_and_square
def test_every_weight_hears_the_loss_except_those_that_nothing_meets(score: str, position: str, square: int) -> None:
    token_BT = torch.cat((torch.arange(VOCAB).repeat(B, 1), tokens(B, T - VOCAB)), 1)  # every token is read
    for seen, kv_heads in latin(square):
        for depth, options in ((1, {"bias": False}), (2, {"bias": True, "tied": False, "norm": "layer", "activation": "gelu"})):
            variant = config(score, position, kv_heads=kv_heads, depth=depth, **seen, **options)
            model = made(variant)
            next_token_loss(model, token_BT).backward()  # type: ignore[no-untyped-call]
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None, name
                silent = parameter.grad.abs() <= 1e-13
                assert torch.equal(silent, unheard(name, parameter, variant)), f"{name} of {variant}: {parameter.grad}"


@pytest.mark.parametrize(
    ("score", "position"),
    some(itertools.starmap(pytest.param, PAIRS), *(pytest.param("scaled_dot", p) for p in ("none", "rotary", "shaw", "t5"))),
)
def test_a_text_that_only_attention_can_predict_is_learned(score: str, position: str) -> None:
    """In 0 0 1 2 0 0 1 2 … what follows a 0 depends on what stood before it, so that who knows only the last token loses ln 2
    on each of the zeros, which are half of the text. "none" is given a window: what is in it tells the two zeros apart."""
    seen = MASKS[2] if position == "none" else MASKS[PAIRS.index((score, position)) % 3]
    model = first(config(score, position, width=16, context=8, depth=1, kv_heads=2, **seen), vocab=3)
    token_BT = torch.stack([torch.tensor([0, 0, 1, 2]).roll(n).repeat(2) for n in range(4)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.99))
    losses = []
    for _ in range(80):
        loss = next_token_loss(model, token_BT)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * math.log(2) / 2 < losses[0], losses[::10]


@every_pair
def test_low_precision_stays_finite(score: str, position: str) -> None:
    model = first(config(score, position, kv_heads=2, width=16), seed=1)
    with torch.autocast("cpu", torch.bfloat16):  # as training.dtype = "bf16" does
        loss = next_token_loss(model, tokens())
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.dtype == torch.float32 for p in model.parameters())
    assert at_once(model, tokens()).isfinite().all()
    half = model.to(torch.bfloat16)
    logits, _ = stepped(half, tokens(), [4, 1, 1, 3])
    assert logits.dtype == torch.bfloat16
    assert logits.isfinite().all()


# First weights


def first_scores(kind: str, seed: int, width: int = 64, heads: int = 4) -> Tensor:
    """The scores of the first layer, before masking, of a model as it is drawn."""
    model = first(config(kind, "none", width=width, heads=heads, depth=1, context=32), seed, vocab=100)
    with attention_calls(model, [0]) as calls, torch.no_grad():
        model(tokens(1, 32, seed, vocab=100))
        return reference.scores(calls[0].reduced()).double()


def tanh_square() -> float:
    """E[tanh² x] for x of variance 2, by a sum over a fine grid."""
    x = torch.linspace(-12, 12, 10_001, dtype=torch.float64)
    return float((torch.tanh(x) ** 2 * torch.exp(-(x**2) / 4)).sum() / torch.exp(-(x**2) / 4).sum())


@pytest.mark.parametrize(
    ("kind", "mean", "variance"),
    [
        ("scaled_dot", 0.0, 1.0),
        ("dot", 0.0, 16.0),  # D products of order 1: this is why one scales
        ("gaussian", -16.0, 32.0),  # −½ Σ (q − k)², each difference of variance 2
        ("bilinear", 0.0, 1.0),
        ("additive", 0.0, tanh_square()),
        ("cosine", 0.0, 1.0),  # of unit vectors q̂·k̂ has variance 1/D, and τ = √D
    ],
)
def test_the_first_scores_are_as_large_as_theory_says(kind: str, mean: float, variance: float) -> None:
    """q and k have elements of variance 1, D = 16. The mean over 30 models is known to five of its standard errors."""
    scores = [first_scores(kind, seed) for seed in range(30)]
    for given, expected in (
        (torch.stack([s.mean() for s in scores]), mean),
        (torch.stack([(s - mean).square().mean() for s in scores]), variance),
    ):
        error = float(given.std()) / math.sqrt(len(scores))
        assert error < 0.05 * variance, "a test that knows the figure only roughly tests little"
        assert abs(float(given.mean()) - expected) < 5 * error


@every_pair_and_square
def test_a_seed_is_a_model_and_counting_allocates_the_same_shapes(score: str, position: str, square: int) -> None:
    for variant in variants(score, position, square):
        one, again, other = (dict(first(variant, seed).named_parameters()) for seed in (0, 0, 1))
        assert parameters(variant, VOCAB) == sum(p.numel() for p in one.values())
        for name, parameter in one.items():
            assert torch.equal(parameter, again[name]), name
            # Norms begin as the identity, biases and T5's table as nothing, temperatures as √D.
            fixed = "norm" in name or name.endswith(("bias", "log_tau_H", "table_NH"))
            assert torch.equal(parameter, other[name]) == fixed, name


def test_what_each_setting_adds_to_the_number_of_weights() -> None:
    plain, D = parameters(config("scaled_dot", "none"), VOCAB), 2
    assert parameters(config("dot", "rotary"), VOCAB) == plain
    assert parameters(config("gaussian", "alibi", mask="window", span=2), VOCAB) == plain
    assert parameters(config("scaled_dot", "learned"), VOCAB) == plain + T * 8
    assert parameters(config("scaled_dot", "t5", distance_buckets=6), VOCAB) == plain + 6 * HEADS  # one table for all layers
    assert (
        parameters(config("scaled_dot", "shaw", max_distance=3), VOCAB) == plain + DEPTH * 2 * 4 * D
    )  # keys and values, all heads
    assert parameters(config("bilinear", "none"), VOCAB) == plain + DEPTH * HEADS * D * D
    assert parameters(config("cosine", "none"), VOCAB) == plain + DEPTH * HEADS
    assert parameters(config("additive", "none"), VOCAB) == plain + DEPTH * HEADS * D
    assert parameters(config("scaled_dot", "none", kv_heads=1), VOCAB) == plain - DEPTH * 2 * 3 * D * 8


def test_t5_per_layer_has_a_table_in_every_layer_and_writes_the_same_token_by_token() -> None:
    own = {"kind": "t5", "per_layer": True, "buckets": 6, "max_distance": 5}
    settings: dict[str, Any] = {"kind": "transformer", "width": 8, "depth": DEPTH, "context": T}
    settings |= {"attention": {"heads": HEADS, "head_width": 16}}  # wide enough for the compiled kernels, which compute float32
    table = build(TransformerConfig, settings | {"position": own}, "model")
    one = build(TransformerConfig, settings | {"position": own | {"per_layer": False}}, "model")
    assert parameters(table, VOCAB) == parameters(one, VOCAB) + (DEPTH - 1) * 6 * HEADS
    model = made(table)
    names = [f"blocks.{n}.attention.attend.table_NH" for n in range(DEPTH)]
    assert [name for name, _ in model.named_parameters() if "table" in name] == names
    for dtype in (torch.float64, torch.float32):
        model = made(table, dtype)
        with torch.inference_mode():
            torch.testing.assert_close(stepped(model, tokens(1), [1] * T)[0], at_once(model, tokens(1)), rtol=1e-5, atol=1e-5)


def test_before_training_t5_is_no_position_at_all() -> None:
    one, other = (first(config("scaled_dot", position)).double() for position in ("t5", "none"))
    assert_equal(at_once(one, tokens()), at_once(other, tokens()))


# Recipes and runs


def recipe(steps: int = 6, **model: Any) -> Recipe:
    small = TransformerConfig(**({"kind": "transformer", "width": 8, "depth": 1, "heads": 2, "hidden": 16} | model))
    return dataclasses.replace(tiny("transformer", steps=steps), model=small)


def test_the_settings_of_attention_are_read_from_a_recipe_and_written_back(tmp_path: Path) -> None:
    settings = ["score=additive", "position=t5", "distance_buckets=8", "max_distance=20", "mask=window", "span=5", "kv_heads=1"]
    settings += ["norm=layer", "norm_placement=post", "activation=relu"]
    given = compose({"data": {"text": TEXT}, "model": {"kind": "transformer"}}, [f"--model.{setting}" for setting in settings])
    expected = TransformerConfig(
        kind="transformer",
        score="additive",
        position="t5",
        distance_buckets=8,
        max_distance=20,
        mask="window",
        span=5,
        kv_heads=1,
        norm="layer",
        norm_placement="post",
        activation="relu",
    )
    assert given.model == expected
    (tmp_path / "recipe.toml").write_text(given.toml(), encoding="utf-8")
    from firth.api.recipe import read_recipe

    assert read_recipe(tmp_path / "recipe.toml") == given


VERBS = {
    "t5, additive": ("position.kind=t5", "attention.score=additive", "position.buckets=8", "position.max_distance=6"),
    "shaw, window, one key head": (
        "position.kind=shaw",
        "position.max_distance=4",
        "attention.mask=window",
        "attention.span=5",
        "attention.kv_heads=1",
        "norm.placement=post",
    ),
    "alibi, gaussian": ("position.kind=alibi", "attention.score=gaussian", "norm.kind=layer"),
    "rotary, bilinear, strictly causal": (
        "attention.score=bilinear",
        "attention.mask=strictly_causal",
        "feedforward.activation=relu",
    ),
}


@pytest.mark.parametrize("name", half(VERBS))
def test_a_shipped_recipe_is_trained_evaluated_and_written_with_any_attention(name: str, firth: Firth, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = ("--model.width=12", "--model.depth=1", "--model.feedforward.hidden=16", "--training.context=8", "--training.batch=4")
    few = ("--training.steps=3", "--training.warmup=0", "--training.device=cpu", f"--data.text={TEXT}", "--data.valid=0.2")
    chosen = ["--tokenizer.start=false", *(f"--model.{setting}" for setting in VERBS[name])]
    answer = firth("train", "docs-char-transformer", "--out", run, *small, *few, *chosen, "--json")
    assert answer.code == 0, answer.err
    evaluated = firth("evaluate", run, "--json")
    assert json.loads(evaluated.out)["loss"] == json.loads(answer.out)["loss"]
    written = firth("generate", run, "3 times", "--tokens", 30, "--seed", 1)  # past the context of 8
    assert (written.code, len(written.out)) == (0, len("3 times") + 30 + 1), written.err
    model = load(run).recipe.model
    for setting in VERBS[name]:
        key, value = setting.split("=")
        assert str(attrgetter(key)(model)) == value


@pytest.mark.parametrize(
    "model",
    half(
        [
            {"position": "t5", "score": "additive"},
            {"score": "cosine"},
            {"position": "shaw", "max_distance": 2, "mask": "window", "span": 4},
        ],
        1,
    ),
)
def test_a_stopped_and_resumed_run_is_the_undisturbed_run_to_the_bit(model: dict[str, Any], tmp_path: Path) -> None:
    given = recipe(steps=8, dropout=0.2, **model)
    assert_stopping_changes_nothing(given, tmp_path, at=4)


@pytest.mark.parametrize(
    ("score", "position"),
    half(
        itertools.starmap(
            pytest.param,
            [*(("scaled_dot", p) for p in POSITIONS), ("bilinear", "t5"), ("additive", "shaw"), ("cosine", "rotary")],
        )
    ),
)
def test_a_run_is_loaded_as_the_model_that_was_trained(score: str, position: str, tmp_path: Path) -> None:
    trained: list[torch.nn.Module] = []

    def note(training: Training, seen: StepReport) -> None:
        trained[:] = [training.model]

    train_recipe(recipe(steps=2, score=score, position=position), tmp_path / "run", watcher=watching(note))
    loaded = load(tmp_path / "run").network
    token_BT = tokens(2, 6)
    with torch.inference_mode():
        assert torch.equal(loaded(token_BT)[0], trained[0].eval()(token_BT)[0])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, while it imports its compiler
@pytest.mark.parametrize(
    "settings",
    [
        {"mask": "window", "span": 4},
        {"mask": "strictly_causal", "score": "gaussian", "position": "alibi"},
        {"position": "t5"},
        {"position": "shaw", "max_distance": 3},
        {"position": "disentangled", "max_distance": 3},
        {"score": "bilinear"},
        {"score": "cosine"},
        {"score": "additive", "position": "t5"},
    ],
)
def test_a_compiler_gets_the_model_as_one_graph(settings: dict[str, Any]) -> None:
    """A break in it would make `training.compile` slow; the graph is run as it is, without a code generator."""
    torch._dynamo.reset()
    model = TransformerLM(TransformerConfig(kind="transformer", width=16, depth=1, heads=2, context=12, **settings), 9)
    initialise(model, torch.Generator().manual_seed(0))
    token_BT = torch.randint(9, (2, 12), generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(model.forward, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(token_BT)[0], model(token_BT)[0])
