"""LoRA against float64 loops: what an adapter computes, what merging gives, how many numbers train."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.hook_free import Linear
from firth.layers.lora import LoraLinear, LowRank, ProjectionRows
from firth.models import (
    Network,
    TransformerConfig,
    TransformerEncoderConfig,
    TransformerSeq2SeqConfig,
    language_model,
    masked_lm,
    seq2seq,
)
from firth.models.adapters import (
    TARGETS,
    Lora,
    adapt,
    adaptable,
    adapted,
    freeze,
    merged_weights,
    trained_parameters,
)
from firth.models.initialise import initialise

V, W, H = 11, 8, 16


def lora(rank: int = 2, alpha: float = 3.0, dropout: float = 0.0, targets: tuple[str, ...] = TARGETS) -> Lora:
    return Lora(rank, alpha, dropout, targets)  # type: ignore[arg-type]


def language(**settings: object) -> Network:
    config = {"width": W, "depth": 2, "heads": 4, "kv_heads": 2, "hidden": H, "context": 16} | settings
    return drawn(language_model(TransformerConfig(kind="transformer", **config), V))  # type: ignore[arg-type]


def drawn(network: Network) -> Network:
    initialise(network, torch.Generator().manual_seed(0))
    return network.double()


def shaken(network: Network) -> Network:
    """With adapters that do something: B is no longer zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in adapted(network).values():
            for _, part in one.parts():
                part.b.copy_(torch.randn(part.b.shape, generator=generator, dtype=torch.float64))
    return network


@torch.no_grad()
def test_an_adapter_adds_b_a_x_to_its_own_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    frozen = Linear(3, 5).double()
    parts = {
        "query": LowRank(3, 2, ProjectionRows(0, 2, 0.5), frozen.weight),
        "value": LowRank(3, 1, ProjectionRows(4, 5, 2.0), frozen.weight),
    }
    adapter = LoraLinear(frozen, parts)  # type: ignore[arg-type]
    for part in parts.values():
        nn.init.normal_(part.a, generator=generator)
        nn.init.normal_(part.b, generator=generator)
    x_d = torch.randn(3, generator=generator, dtype=torch.float64)
    expected = [float(frozen.bias[n]) + sum(float(frozen.weight[n, d] * x_d[d]) for d in range(3)) for n in range(5)]
    for part in parts.values():
        for m in range(len(part.b)):
            for r in range(len(part.a)):
                seen = sum(float(part.a[r, d] * x_d[d]) for d in range(3))
                expected[part.rows.first + m] += part.rows.scale * float(part.b[m, r]) * seen
    torch.testing.assert_close(adapter(x_d[None, None])[0, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(x_d @ adapter.matrix.T + frozen.bias, adapter(x_d[None, None])[0, 0], rtol=0, atol=1e-12)


def test_an_adapted_network_starts_as_it_was() -> None:
    network, token_BT = language(), torch.arange(10).view(2, 5)
    before = network(token_BT)[0]
    adapt(network, lora(), torch.Generator().manual_seed(0))
    assert torch.equal(network(token_BT)[0], before)


NETWORKS = {
    "swiglu, grouped queries": language,
    "gelu, biases": lambda: language(activation="gelu", bias=True, norm="layer", position="learned"),
    "linear attention": lambda: language(attention="linear", kv_heads=4, position="none"),
    "gated linear attention": lambda: language(attention="gated_linear", kv_heads=4, position="none"),
    "based": lambda: language(attention="based", kv_heads=4),
    "disentangled": lambda: drawn(
        masked_lm(
            TransformerEncoderConfig(
                kind="transformer", width=W, depth=2, heads=2, hidden=H, context=16, position="disentangled"
            ),
            V,
        )
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_merged_weights_give_the_same_logits(name: str) -> None:
    network = NETWORKS[name]()
    plain, token_BT = NETWORKS[name](), torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(2))
    roles = {role for spans in adaptable(network).values() for role in spans}
    adapt(network, lora(targets=tuple(role for role in TARGETS if role in roles)), torch.Generator().manual_seed(0))
    shaken(network).eval()
    before = logits(plain, token_BT)
    plain.load_state_dict(merged_weights(network))
    torch.testing.assert_close(logits(plain, token_BT), logits(network, token_BT), rtol=0, atol=1e-12)
    assert (before - logits(network, token_BT)).abs().max() > 0.01


def logits(network: Network, token_BT: Tensor) -> Tensor:
    output = network.eval()(token_BT)
    return output[0] if isinstance(output, tuple) else output


def test_an_encoder_decoder_has_adapters_in_attention_to_the_source() -> None:
    def made() -> Network:
        config = TransformerSeq2SeqConfig(kind="transformer", width=W, depth=1, heads=2, hidden=H, context=16)
        return drawn(seq2seq(config, V, V))

    network, plain = made(), made()
    adapt(network, lora(targets=("key",)), torch.Generator().manual_seed(0))
    paths = sorted(adapted(network))
    assert [path.split(".")[-2] for path in paths] == ["attention", "cross", "attention"]
    shaken(network).eval()
    plain.load_state_dict(merged_weights(network))
    source_BS, target_BT = torch.arange(8).view(2, 4), torch.arange(10).view(2, 5)
    length_B = torch.tensor([4, 2])

    given = (source_BS, length_B, target_BT)
    torch.testing.assert_close(plain.eval()(*given), network(*given), rtol=0, atol=1e-12)


def test_only_the_adapters_train_and_their_number_is_that_by_hand() -> None:
    network = language()
    adapt(network, lora(rank=3, targets=("query", "value", "output", "gate", "down")), torch.Generator().manual_seed(0))
    freeze(network)
    # A and B of: query 8→8, value 8→4 (two of four heads), output 8→8, gate 8→16, down 16→8; two layers
    by_hand = 2 * 3 * ((8 + 8) + (8 + 4) + (8 + 8) + (8 + 16) + (16 + 8))
    assert trained_parameters(network) == by_hand
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    optimizer = torch.optim.SGD([one for one in network.parameters() if one.requires_grad], 0.1)
    for _ in range(2):  # in the first step A has no gradient, for B is zero
        logits_BTV, _ = network(torch.arange(10).view(2, 5))
        logits_BTV.square().sum().backward()
        optimizer.step()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name]) == (".lora." not in name), name


def test_a_frozen_weight_has_no_gradient() -> None:
    network = language()
    adapt(network, lora(), torch.Generator().manual_seed(0))
    freeze(network, ["norm.weight"])
    network(torch.arange(10).view(2, 5))[0].sum().backward()
    with_gradient = {name for name, one in network.named_parameters() if one.grad is not None}
    assert with_gradient == {name for name, _ in network.named_parameters() if ".lora." in name} | {"norm.weight"}


def test_an_adapter_of_full_rank_can_become_any_update() -> None:
    """B = ΔW A⁻¹ / scale is the update ΔW exactly; of rank 1 it is not."""
    frozen = Linear(4, 4, bias=False).double()
    update = torch.randn(4, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    errors = []
    for rank in (4, 1):
        part = LowRank(4, rank, ProjectionRows(0, 4, 0.5), frozen.weight)
        part.draw(torch.Generator().manual_seed(4))
        with torch.no_grad():
            part.b.copy_(update @ torch.linalg.pinv(part.a) / 0.5)
        adapter = LoraLinear(frozen, {"output": part})
        errors.append(float((adapter.matrix - frozen.weight - update).detach().abs().max()))
    assert errors[0] < 1e-12
    assert errors[1] > 0.1


def test_dropout_acts_on_the_adapter_alone() -> None:
    network = language()
    adapt(network, lora(dropout=0.5), torch.Generator().manual_seed(0))
    token_BT = torch.arange(10).view(2, 5)
    assert torch.equal(network.train()(token_BT)[0], network.eval()(token_BT)[0]), "B is zero"
    shaken(network)
    assert not torch.equal(network.train()(token_BT)[0], network.eval()(token_BT)[0])


def test_a_role_that_the_model_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(ConfigError, match=r'has "gate".* Choose among query, key, value, output, up, down'):
        adapt(language(activation="gelu"), lora(), torch.Generator())
