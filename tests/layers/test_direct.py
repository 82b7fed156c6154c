from __future__ import annotations

import torch
from torch import Tensor, nn

from firth.layers.hook_free import Linear


def test_a_direct_module_computes_what_its_parent_does() -> None:
    direct, plain = Linear(3, 2), nn.Linear(3, 2)
    plain.load_state_dict(direct.state_dict())
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(direct(x), plain(x))


def test_hooks_on_a_direct_module_are_called() -> None:
    layer, seen = Linear(3, 2), []
    x = torch.ones(1, 3, requires_grad=True)
    hooks = [
        layer.register_forward_pre_hook(lambda module, args: seen.append("before")),
        layer.register_forward_hook(lambda module, args, output: seen.append("after")),
        layer.register_full_backward_hook(lambda module, into, out_of: seen.append("backward")),
    ]
    layer(x).sum().backward()
    assert seen == ["before", "after", "backward"]
    for hook in hooks:
        hook.remove()
    layer(x)
    assert len(seen) == 3


def test_a_hook_may_replace_the_output() -> None:
    layer = Linear(3, 2)

    def zero(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output * 0

    layer.register_forward_hook(zero)
    assert (layer(torch.ones(1, 3)) == 0).all()


def test_a_backward_hook_alone_is_called() -> None:
    layer, seen = Linear(3, 2), []
    layer.register_full_backward_hook(lambda module, into, out_of: seen.append("backward"))
    layer(torch.ones(1, 3, requires_grad=True)).sum().backward()
    assert seen == ["backward"]
