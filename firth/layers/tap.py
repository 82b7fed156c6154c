"""Taps: record the q and k of chosen attention layers, or the outputs of chosen modules, while a model runs on its fastest
kernel. Attention weights are computed from q and k afterwards, for chosen heads and rows. Nothing stays on the modules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention.call import Call
from firth.layers.self_attention import Tapped


def attention_layers(model: nn.Module) -> list[Tapped]:
    """The module of each attention layer; layers that share their weights have the same."""
    return [module for module in model.modules() if isinstance(module, Tapped) for _ in range(module.layers)]


@contextmanager
def calls_noticed(
    modules: Sequence[Tapped], layers: Collection[int], note: Callable[[int, Tapped, tuple[Any, ...]], None]
) -> Iterator[None]:
    """note(layer, module, arguments) after each call of one of these layers; `modules` are those of all layers. A module of
    several layers is called for each in turn."""
    numbers = {module: [layer for layer, one in enumerate(modules) if one is module] for module in modules}
    turns: dict[nn.Module, Any] = {module: cycle(own) for module, own in numbers.items() if set(own) & set(layers)}

    def note_one(call: ModuleCall) -> None:
        if (layer := next(turns[call.module])) in layers:
            note(layer, cast(Tapped, call.module), call.given)

    with noticed(list(turns), note_one):
        yield


@contextmanager
def attention_calls(model: nn.Module, layers: Sequence[int] | None = None) -> Iterator[dict[int, Call]]:
    """The latest call of each attention layer of `model`, by the number of the layer:

    with attention_calls(model, [3]) as calls:
        model(token_BT)
    weights(calls[3], heads=[0, 2], rows=slice(10))"""
    modules = attention_layers(model)
    chosen = range(len(modules)) if layers is None else layers
    for layer in chosen:
        if not 0 <= layer < len(modules):
            there = f"{len(modules)} attention layers, 0 … {len(modules) - 1}" if modules else "no attention layers"
            raise ConfigError(f"there is no attention layer {layer}; the model has {there}")
    calls: dict[int, Call] = {}

    def note(layer: int, module: Tapped, args: tuple[Any, ...]) -> None:
        calls[layer] = module.call(*args)

    with calls_noticed(modules, chosen, note):
        yield calls


class ModuleCall(NamedTuple):
    """A call of a module with its arguments, and its output."""

    module: nn.Module
    given: tuple[Any, ...]
    named: dict[str, Any]
    output: Any


@contextmanager
def noticed(modules: Sequence[nn.Module], note: Callable[[ModuleCall], None]) -> Iterator[None]:
    """Call `note` after each call of one of the modules."""
    handles = [module.register_forward_hook(lambda *call: note(ModuleCall(*call)), with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def module_calls(modules: Sequence[nn.Module]) -> Iterator[list[ModuleCall]]:
    """The calls of the modules, in order."""
    calls: list[ModuleCall] = []
    with noticed(modules, calls.append):
        yield calls


@contextmanager
def outputs(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """The outputs of the modules, in the order they ran; of a tuple, its first element:

    with outputs(model.blocks) as x:
        model(token_BT)
    x[2]"""
    noted: list[Tensor] = []
    with noticed(modules, lambda call: noted.append(call.output[0] if isinstance(call.output, tuple) else call.output)):
        yield noted
