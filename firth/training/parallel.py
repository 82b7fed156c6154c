"""Training in several processes. "ddp": every process holds all weights and sums its gradients with those of the others
(DistributedDataParallel). "fsdp": each process keeps only its part of weights, gradients and optimiser state, and gathers a
block's weights while it computes with them (fully_shard).

Both average gradients over the processes, but a loss here is a sum of shares (see feed.py). So each share is multiplied by the
number of processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from firth.layers.block import Block
from firth.training.config import TrainingConfig
from firth.training.distributed import ranks

Loss = Callable[..., tuple[Tensor, Any]]
Mode = Literal["one", "ddp", "fsdp"]


def mode_of(config: TrainingConfig) -> Mode:
    """The mode of this process: alone, unless torchrun started several."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return "one"
    return "fsdp" if config.parallel == "fsdp" else "ddp"


class ModelWithLoss(nn.Module):
    """DDP and FSDP act when a module is called, but a loss calls parts of a model. So the loss becomes a module, too."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.loss: Loss | None = None

    def forward(self, arrays: dict[str, Tensor], state: Any) -> tuple[Tensor, Any]:
        assert self.loss is not None
        return self.loss(self.model, **arrays, state=state)


class ReplicaStep:
    """Computes the loss of some rows. `synchronised(last)`: gradients are exchanged only in the last piece of a batch."""

    def __init__(self, compute: Callable[[dict[str, Tensor], Any], tuple[Tensor, Any]], module: nn.Module | None = None) -> None:
        self._compute, self._module = compute, module

    def __call__(self, arrays: dict[str, Tensor], state: Any) -> tuple[Tensor, Any]:
        return self._compute(arrays, state)

    def synchronised(self, last: bool) -> contextlib.AbstractContextManager[None]:
        module: Any = self._module
        if isinstance(module, DistributedDataParallel) and not last:
            return module.no_sync()
        if hasattr(module, "set_requires_gradient_sync"):  # FSDP's
            module.set_requires_gradient_sync(last)
        return contextlib.nullcontext()


def shard(model: nn.Module, config: TrainingConfig, device: torch.device) -> ModelWithLoss:
    """The model with its weights distributed over all processes, block by block; everything outside the blocks is one unit."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    reduce = torch.bfloat16 if config.reduce == "bf16" else None
    policy = MixedPrecisionPolicy(reduce_dtype=reduce)
    mesh = init_device_mesh(device.type, (ranks().world,))
    for block in blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    root = ModelWithLoss(model)
    fully_shard(root, mesh=mesh, mp_policy=policy)
    return root


def gathered(tensor: Tensor) -> Tensor:
    """The whole tensor from the parts that the processes hold; all processes must call this."""
    whole: Tensor = tensor.full_tensor() if is_part(tensor) else tensor  # type: ignore[attr-defined]
    return whole


def is_part(tensor: Tensor) -> bool:
    """True if processes hold a part each: torch's DTensor, whose import would cost every other training a second."""
    return hasattr(tensor, "full_tensor")


def distributed_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as parts on the processes if `like` is distributed; each process takes its part."""
    if is_part(tensor) or not is_part(like):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def worker(model: nn.Module, sharded: ModelWithLoss | None, loss: Loss, config: TrainingConfig) -> ReplicaStep:
    """Make it ready to compute; all processes must call this."""
    if sharded is None and mode_of(config) == "one":
        compiled: Loss = torch.compile(loss, dynamic=False) if config.compile else loss
        return ReplicaStep(lambda arrays, state: compiled(model, **arrays, state=state))
    module: nn.Module = sharded or ModelWithLoss(model)
    cast(ModelWithLoss, module).loss = loss
    if sharded is None:
        module = DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)
        if config.reduce == "bf16":
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

            # not the function itself: under its name torch refuses it on a CPU, where gloo can do it
            module.register_comm_hook(None, lambda group, bucket: bf16_compress_hook(group, bucket))  # noqa: PLW0108
    return ReplicaStep(torch.compile(module, dynamic=False) if config.compile else module, module)


def blocks(model: nn.Module) -> list[Block]:
    return [module for module in model.modules() if isinstance(module, Block)]


def recompute_blocks(model: nn.Module) -> None:
    """Keep only the input of each Transformer block for the backward pass, and compute the rest of it again there (Chen et al.
    2016): less memory for a third more computation."""
    for block in blocks(model):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
