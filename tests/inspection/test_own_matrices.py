"""Your own matrices in the playground, against torch's own attention and by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from firth.errors import ConfigError, DataError
from firth.inspection.own_matrices import LARGEST, own_matrices, read_matrices
from firth.inspection.playground import Settings, of_sentence

EYE = [[1, 0], [0, 1]]


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def test_own_projections_are_torchs_multi_head_attention() -> None:
    d, heads, words = 6, 2, 4
    layer = torch.nn.MultiheadAttention(d, heads, bias=False, batch_first=True, dtype=torch.float64)
    X, W_o, (W_q, W_k, W_v) = drawn(words, d), drawn(d, d), drawn(3 * d, d).split(d)
    layer.in_proj_weight.data, layer.out_proj.weight.data = torch.cat((W_q, W_k, W_v)), W_o
    mask = torch.ones(words, words, dtype=torch.bool).triu(1)
    with torch.no_grad():
        y, p = layer(X[None], X[None], X[None], attn_mask=mask, average_attn_weights=False)
    own = {"X": X.numpy(), "W_q": W_q.numpy(), "W_k": W_k.tolist(), "W_v": W_v.numpy(), "W_o": W_o.numpy()}
    ours = of_sentence("a b c d", Settings(heads=heads, mask="causal"), matrices=own)
    np.testing.assert_allclose(ours.weights, p[0].numpy(), rtol=1e-10)
    for head in range(heads):
        np.testing.assert_allclose(ours.step("output")[head], y[0].numpy(), rtol=1e-10)


def test_q_and_p_are_those_of_the_lectures() -> None:
    """α_ij ∝ exp(v_j · Q v_i), and the update is P Σ_j α_ij v_j."""
    X, Q, P = (drawn(*shape).numpy() for shape in ((3, 4), (4, 4), (4, 4)))
    attention = of_sentence("a b c", Settings(score="dot"), matrices={"X": X, "Q": Q, "P": P})
    for i in range(3):
        weight = np.exp([X[j] @ Q @ X[i] for j in range(3)])
        alpha = weight / weight.sum()
        np.testing.assert_allclose(attention.weights[0, i], alpha, rtol=1e-10)
        np.testing.assert_allclose(attention.sums[0, i], P @ (alpha @ X), rtol=1e-10)


def test_matrices_may_change_the_dimensions() -> None:
    """d = 3, D = 2, E = 1, m = 4; random word vectors take their dimension from the matrices."""
    shapes = {"W_q": (2, 3), "W_k": (2, 3), "W_v": (1, 3), "W_o": (4, 1)}
    attention = of_sentence("a b", matrices={name: drawn(*shape).numpy() for name, shape in shapes.items()})
    assert (attention.q_HQD.shape, attention.v_HKE.shape, attention.step("output").shape) == ((1, 2, 2), (1, 2, 1), (1, 2, 4))
    panels = {panel.name: np.shape(panel.values) for panel in attention.vector_panels()}
    assert panels == {"x": (2, 3), **shapes, "q": (2, 2), "k": (2, 2), "v": (2, 1)}
    rest = of_sentence("a b", Settings(projected=True), matrices={"W_q": drawn(2, 3).numpy()}).matrices
    assert {name: W.shape for name, W in rest.items()} == {"W_q": (2, 3), "W_k": (2, 3), "W_v": (3, 3), "W_o": (3, 3)}


def test_a_matrix_is_read_as_json_as_rows_and_as_csv() -> None:
    given = [[1.0, -0.5], [2e-3, 0.0]]
    for text in (json.dumps(given), "1 -0.5; 2e-3 0", "1,-0.5\n0.002,0\n", " 1 , -0.5 ;\n 0.002 , 0"):
        np.testing.assert_array_equal(own_matrices({"W_q": text})["W_q"], given)
    several = read_matrices("W^Q = 1 0; 0 1\n\nwk = [[0, 1], [1, 0]]\n")
    assert {name: W.tolist() for name, W in several.items()} == {"W_q": EYE, "W_k": [[0, 1], [1, 0]]}
    assert read_matrices(json.dumps({"P": EYE}))["P"].tolist() == EYE
    assert read_matrices(" ") == {}


def test_text_figure_and_facts_show_q_k_v_and_every_matrix() -> None:
    own = {"X": EYE, "W_q": "2 0; 0 2", "W_k": EYE, "W_v": EYE, "W_o": "1 1; 0 1"}
    attention = of_sentence("a b", matrices=own)
    named = ["x", "W_q", "W_k", "W_v", "q", "k", "v", "W_o", "scores", "scaled", "masked", "weights", "sums", "output"]
    assert [part.split()[0] for part in attention.text().split("\n\n")] == named
    assert list(dict.fromkeys(row[0] for row in attention.figure().table.rows)) == named
    facts = json.loads(json.dumps(attention.facts(), allow_nan=False))
    assert (facts["parameters"]["W_o"], facts["steps"][-1]["name"]) == ([[1, 1], [0, 1]], "output")
    plain = of_sentence("a b")
    assert "queries" not in plain.text()
    assert "queries" in plain.text(inputs=True)


@pytest.mark.parametrize(
    ("play", "message"),
    [
        (lambda: of_sentence("a b", matrices={"W_z": EYE}), r'unknown matrix "W_z"\. Did you mean "W_[kqvo]"'),
        (lambda: of_sentence("a b", matrices={"W_q": EYE, "WQ": EYE}), "W_q is defined twice"),
        (lambda: of_sentence("a b", matrices={"W_q": EYE, "Q": EYE}), "Q cannot be combined with W_q. Remove one of them"),
        (lambda: of_sentence("a b c", matrices={"X": EYE}), "X is 2 × 2; expected 3 rows, one for each word"),
        (lambda: of_sentence("a b", matrices={"X": EYE, "W_v": [[1, 2, 3]]}), "W_v is 1 × 3; expected 2 columns"),
        (lambda: of_sentence("a b", matrices={"X": EYE, "Q": [[1, 2]]}), "Q is 1 × 2; expected 2 × 2"),
        (lambda: of_sentence("a b", matrices={"W_q": EYE, "W_k": [[1, 2]]}), r"dimension 2 \(W_q\) and keys 1 \(W_k\)"),
        (lambda: of_sentence("a b", matrices={"X": EYE, "W_o": [[1]]}), "W_o is 1 × 1; expected 2 columns"),
        (lambda: of_sentence("a b", Settings(width=3), matrices={"W_q": EYE}), "width is 3, but W_q has 2 columns"),
        (lambda: of_sentence("a b", Settings(heads=2), matrices={"W_v": [[1, 2]]}), "cannot be split into 2 heads"),
        (lambda: own_matrices({"P": [[1, 2], [3]]}), "P is not a matrix; expected rows of equally many numbers"),
        (lambda: own_matrices({"P": [1, 2]}), "P has the shape 2; expected rows"),
        (lambda: own_matrices({"P": []}), "P has the shape 0; expected rows"),
        (lambda: own_matrices({"P": {}}), "P is not a matrix"),
        (lambda: own_matrices({"P": [["a"]]}), "P is not a matrix"),
        (lambda: own_matrices({"P": "1 x"}), 'P has "x" among its numbers'),
        (lambda: own_matrices({"P": "1 2; 3 nan"}), "P has nan or infinity among its numbers"),
        (lambda: own_matrices({"P": "[[1e999]]"}), "P has nan or infinity among its numbers"),
        (lambda: own_matrices({"P": np.zeros((1, LARGEST + 1))}), "P is 1 × 1025; expected at most 1,024"),
        (lambda: own_matrices({"P": "[" * 100_000}), "not valid JSON"),
        (lambda: read_matrices("1 0; 0 1"), 'matrix 1 is "1 0; 0 1"; expected its name and its rows'),
        (lambda: read_matrices("P = 1\nP = 2"), "P is defined twice"),
        (lambda: read_matrices("P = 1" + " 0" * 2_000_000), "expected at most 4,000,000"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_shape_that_was_expected(play: Callable[[], object], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        play()
