"""A model that reads numbers: which token is what, that nothing is seen too early, and that scale goes in and out."""

from __future__ import annotations

import pytest
import torch

from firth.errors import ConfigError
from firth.models import RecurrentConfig, TransformerConfig
from firth.models.config import LanguageConfig
from firth.models.counting import count
from firth.models.initialise import initialise
from firth.models.language import language_model
from firth.models.point_regressor import PointRegressor, point_regressor

CONFIGS: dict[str, LanguageConfig] = {
    "transformer": TransformerConfig(kind="transformer", width=8, depth=2, heads=2, context=16),
    "learned": TransformerConfig(kind="transformer", width=8, depth=2, heads=2, context=16, position="learned"),
    "lstm": RecurrentConfig(kind="lstm", width=6, depth=2),
    "gru": RecurrentConfig(kind="gru", width=6, embedding=4, tied=True),
}
D = 3


def made(kind: str) -> PointRegressor:
    model = point_regressor(CONFIGS[kind], D)
    initialise(model, torch.Generator().manual_seed(0))
    return model.double()


def points(rows: int = 2, count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x_BED = torch.randn(rows, count, D, generator=generator, dtype=torch.float64)
    return x_BED, torch.randn(rows, count, generator=generator, dtype=torch.float64)


def test_an_x_and_its_y_are_two_tokens_each_in_places_of_its_own() -> None:
    x_BED, y_BE = torch.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]), torch.tensor([[7.0, 8.0]])
    expected = [[1.0, 2.0, 3.0, 0.0], [0.0, 0.0, 0.0, 7.0 / 3**0.5], [4.0, 5.0, 6.0, 0.0]]
    assert torch.allclose(made("lstm").tokens(x_BED, y_BE), torch.tensor([expected], dtype=torch.float64))


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_answer_sees_its_own_x_and_the_points_before_it_alone(kind: str) -> None:
    model, (x_BED, y_BE) = made(kind), points()
    before = model(x_BED, y_BE)
    for k in range(5):
        later_y = y_BE.clone()
        later_y[:, k:] += 1
        later_x = x_BED.clone()
        later_x[:, k + 1 :] += 1
        after = model(later_x, later_y)
        assert torch.equal(after[:, : k + 1], before[:, : k + 1]), k
        if k < 4:
            assert not torch.isclose(after[:, k + 1 :], before[:, k + 1 :]).any()
    another = x_BED.clone()
    another[:, 2] += 1
    assert not torch.isclose(model(another, y_BE)[:, 2], before[:, 2]).any()


@pytest.mark.parametrize("kind", CONFIGS)
def test_it_is_the_language_model_with_numbers_in_place_of_tokens(kind: str) -> None:
    """The same weights with an embedding of the two tokens [1, 0, 0, 0] and [0, 0, 0, 1] give the same states."""
    model, plain = made(kind), language_model(CONFIGS[kind], 2).double()
    names = set(dict(plain.named_parameters())) - {"embedding.weight", "output.weight", "output.bias", "output_bias"}
    plain.load_state_dict({name: dict(model.decoder.named_parameters())[name] for name in names}, strict=False)
    read_in = model.decoder.embedding
    with torch.no_grad():
        plain.embedding.weight[0] = read_in.weight[:, 0] + read_in.bias
        plain.embedding.weight[1] = read_in.weight[:, D] + read_in.bias
    x_BED = torch.zeros(1, 4, D, dtype=torch.float64)
    x_BED[..., 0] = 1
    expected, _ = plain.hidden(torch.tensor([[0, 1, 0, 1, 0, 1, 0]]))
    states, _ = model.decoder.hidden(model.tokens(x_BED, torch.full((1, 4), D**0.5, dtype=torch.float64)))
    assert torch.allclose(states, expected, atol=1e-12)
    said = (expected[:, ::2] @ model.output.weight[0] + model.output.bias) * D**0.5
    assert torch.allclose(model(x_BED, torch.full((1, 4), D**0.5, dtype=torch.float64)), said)


@pytest.mark.parametrize("kind", CONFIGS)
def test_it_has_no_weights_of_a_vocabulary(kind: str) -> None:
    model = point_regressor(CONFIGS[kind], D)
    assert isinstance(model, PointRegressor)
    assert model.dimensions == D
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    outer = {name: shape for name, shape in shapes.items() if "embedding" in name or "output" in name}
    width = CONFIGS[kind].width
    inputs, read = (4, 4) if kind == "gru" else (width, width)
    assert outer == {
        "decoder.embedding.weight": (inputs, D + 1),
        "decoder.embedding.bias": (inputs,),
        "output.weight": (1, read),
        "output.bias": (1,),
    }
    assert count(model).parameters == sum(parameter.numel() for parameter in model.parameters())
    assert model.context == (16 if kind in ("transformer", "learned") else None)


def test_numbers_have_no_word_vectors() -> None:
    with pytest.raises(ConfigError, match=r"this model reads numbers, which have no embedding\. Remove"):
        _ = made("lstm").embedding
