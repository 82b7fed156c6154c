"""The loss of masked tokens: −log p of what stood at the masked places, and nothing of the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import randomise
from torch import Tensor

from firth.errors import ConfigError
from firth.layers import cross_entropy as layer
from firth.models import MaskedLM, TransformerEncoderConfig, masked_lm
from firth.tasks import masked as objective
from firth.tasks.masked import MaskedConfig, masked

VOCAB = 13


def made() -> MaskedLM:
    model = masked_lm(TransformerEncoderConfig(kind="transformer", width=8, depth=2, heads=2, context=16), VOCAB)
    return randomise(model).double()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """The second row has one place fewer than the others."""
    token_BT = torch.randint(VOCAB + 1, (3, 10), generator=torch.Generator().manual_seed(1))
    place_BM = torch.tensor([[0, 4, 9], [2, 3, 0], [1, 5, 6]])
    target_BM = torch.tensor([[5, 0, 12], [7, 7, -1], [1, 2, 3]])
    return token_BT, place_BM, target_BM


@pytest.mark.parametrize("small", [True, False], ids=["held", "in pieces"])
def test_it_is_the_mean_of_minus_log_p_at_the_masked_places(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small:
        monkeypatch.setattr(layer, "SMALL", 0)
    model, (token_BT, place_BM, target_BM) = made(), batch()
    loss, state = masked(model, token_BT, place_BM, target_BM)
    logits_BTV = model(token_BT).detach().numpy()  # of the whole window
    nats = []
    for row in range(3):
        for place, target in zip(place_BM[row].tolist(), target_BM[row].tolist(), strict=True):
            if target >= 0:
                powers = np.exp(logits_BTV[row, place])
                nats.append(-np.log(powers[target] / powers.sum()))
    assert len(nats) == 8
    assert float(loss.detach()) == pytest.approx(sum(nats) / 8, rel=1e-10)
    assert state is None


@pytest.mark.parametrize("small", [True, False], ids=["held", "in pieces"])
def test_its_gradient_is_that_of_the_whole_windows_logits(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small:
        monkeypatch.setattr(layer, "SMALL", 0)
    token_BT, place_BM, target_BM = batch()
    ours, plain = made(), made()
    masked(ours, token_BT, place_BM, target_BM)[0].backward()
    label_BT = torch.full_like(token_BT, -1)
    for row, places in enumerate(place_BM.tolist()):
        for place, target in zip(places, target_BM[row].tolist(), strict=True):
            if target >= 0:
                label_BT[row, place] = target
    torch.nn.functional.cross_entropy(plain(token_BT).flatten(0, 1), label_BT.flatten(), ignore_index=-1).backward()
    for (name, one), (_, other) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
        assert one.grad is not None, name
        assert other.grad is not None, name
        assert torch.allclose(one.grad, other.grad, rtol=1e-8, atol=1e-12), name


def test_only_masked_places_reach_the_output_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []

    def noted(x_nd: Tensor, *rest: Tensor, **options: bool) -> Tensor:
        shapes.append((tuple(x_nd.shape), tuple(rest[0].shape)))
        return layer.cross_entropy(x_nd, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(objective, "cross_entropy", noted)
    masked(made(), *batch())
    assert shapes == [((3, 3, 8), (VOCAB, 8))], "3 places of 10, and no row for <mask>"


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"objective\.share is .*; expected 0 < share < 1"):
        MaskedConfig(share=share)
