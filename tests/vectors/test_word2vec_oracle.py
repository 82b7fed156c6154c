"""The oracle of word2vec: known answers of the spec, and its steps against torch's autograd on its own losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from firth.oracles import word2vec

SENTENCE = ["there", "is", "a", "cat", "on", "the", "mat"]
PAIRS = """(there,is)(there,a)(is,there)(is,a)(is,cat)(a,there)(a,is)(a,cat)(a,on)(cat,is)(cat,a)(cat,on)(cat,the)
(on,a)(on,cat)(on,the)(on,mat)(the,cat)(the,on)(the,mat)(mat,on)(mat,the)"""


def test_a_cat_on_the_mat_has_22_known_pairs():
    pairs = word2vec.pairs(SENTENCE, window=2)
    assert len(pairs) == 22
    assert "".join(f"({word},{context})" for word, context in pairs) == PAIRS.replace("\n", "")


def test_a_wampimuk_has_two_words_on_either_side():
    sentence = ["Marco", "saw", "a", "furry", "little", "wampimuk", "hiding", "in", "the", "tree"]
    assert word2vec.neighbors(sentence, sentence.index("wampimuk"), window=2) == ["furry", "little", "hiding", "in"]


def test_an_untrained_model_loses_log_V_and_log_2_a_term():
    v_d, zeros_Vd = np.ones(3), np.zeros((7, 3))
    assert word2vec.softmax_loss(v_d, zeros_Vd, 2) == pytest.approx(np.log(7))
    assert word2vec.sigmoid_loss(v_d, zeros_Vd, [1.0] + 6 * [-1.0]) == pytest.approx(7 * np.log(2))


@pytest.mark.parametrize(("cbow", "divided"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("loss", ["sigmoid", "softmax"])
@pytest.mark.parametrize("window", [[1, 2, 4], [1, 2, 1, 4]], ids=["distinct", "repeated"])
def test_a_step_goes_down_the_gradient_that_autograd_finds(loss, cbow, divided, window):
    """One repeated negative; a word twice in the window. If not divided, CBOW's inputs take the gradient as often as the window
    has words."""
    rng = np.random.default_rng(0)
    input_Vd, output_Vd = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    targets, sign_T, rate = [3, 0, 5, 0], [1.0, -1.0, -1.0, -1.0], 0.1
    v_Vd, u_Vd = (torch.tensor(matrix, requires_grad=True) for matrix in (input_Vd, output_Vd))
    inputs_Rd = v_Vd[window].mean(0, keepdim=True) if cbow else v_Vd[window]
    objective = _sigmoid_loss(inputs_Rd, u_Vd[targets], sign_T) if loss == "sigmoid" else _softmax_loss(inputs_Rd, u_Vd, 3)
    objective.backward()

    after_in, after_out = input_Vd.copy(), output_Vd.copy()
    if loss == "sigmoid":
        taken = word2vec.step(after_in, after_out, window, targets, sign_T, rate, cbow, divided)
    else:
        taken = word2vec.softmax_step(after_in, after_out, window, 3, rate, cbow, divided)
    assert taken.loss == pytest.approx(objective.item())
    assert taken.terms == (1 if cbow else len(window))
    times = len(window) if cbow and not divided else 1
    np.testing.assert_allclose(after_in, input_Vd - rate * times * v_Vd.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(after_out, output_Vd - rate * u_Vd.grad.numpy(), atol=1e-12)


def _sigmoid_loss(inputs_Rd: Tensor, targets_Td: Tensor, sign_T: list[float]) -> Tensor:
    return -torch.nn.functional.logsigmoid(torch.tensor(sign_T) * (inputs_Rd @ targets_Td.T)).sum()


def _softmax_loss(inputs_Rd: Tensor, output_Vd: Tensor, target: int) -> Tensor:
    return -torch.log_softmax(inputs_Rd @ output_Vd.T, 1)[:, target].sum()
