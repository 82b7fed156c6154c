"""Recorded steps replay in memory that is still theirs, whatever else the process did with the GPU meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.adapters import Lora, adapt, merged_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),  # torch.compile's own
]

V, WIDTH, TOKENS = 50_257, 768, 24
Event = Callable[[LanguageModel], LanguageModel]


def new_model(seed: int = 0, depth: int = 12) -> LanguageModel:
    """GPT-2 in bfloat16: products with a bias, for which cuBLAS needs its workspace when a prompt of 32 tokens is read."""
    config = TransformerConfig(
        kind="transformer",
        width=WIDTH,
        depth=depth,
        heads=12,
        position="learned",
        norm="layer",
        activation="gelu_tanh",
        bias=True,
        context=1024,
    )
    with torch.device("cuda"):
        model = language_model(config, V)
        torch.manual_seed(seed)
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model.to(torch.bfloat16).eval()


def prompts(batch: int) -> Tensor:
    return torch.randint(V, (batch, 32), generator=torch.Generator().manual_seed(batch)).cuda()


def recorded(model: LanguageModel, batch: int) -> Tensor:
    config = DecodingConfig(tokens=TOKENS, temperature=0)
    return torch.stack(list(generate(model, prompts(batch), config)), dim=1)


def unrecorded(model: LanguageModel, batch: int) -> Tensor:
    """The same text from a model that has the same weights, and of which nothing has been recorded."""
    twin = new_model(9).to(next(model.parameters()).dtype)
    twin.load_state_dict(model.state_dict())
    return recorded(twin, batch)


def warm(model: LanguageModel) -> None:
    for batch in (1, 8):
        for _ in range(4):  # the first times, prompts are read without a graph
            recorded(model, batch)


def free_memory_held() -> list[Tensor]:
    """Allocate the memory that was given back, so that a write to it is noticed."""
    gc.collect()
    torch.cuda.empty_cache()
    return [torch.full((1 << 22,), 7.0, device="cuda") for _ in range(256)]


def compiled_graphs(model: LanguageModel) -> LanguageModel:
    """torch.compile records graphs of its own, and clears the workspaces of cuBLAS before and after."""
    x = torch.randn(64, WIDTH, device="cuda", dtype=torch.bfloat16)
    other = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)).to(x)
    fast = torch.compile(other, mode="reduce-overhead")
    with torch.inference_mode():
        for _ in range(4):
            fast(x)
    return model


def plain_graphs(model: LanguageModel) -> LanguageModel:
    """Graphs on torch's own stream for recording, which are then deleted."""
    x, W = torch.randn(2, WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x @ W
        graph.replay()
        torch.cuda.synchronize()
        del graph, y
    return model


def cleared_workspaces(model: LanguageModel) -> LanguageModel:
    torch._C._cuda_clearCublasWorkspaces()
    return model


def empty_cache(model: LanguageModel) -> LanguageModel:
    torch.cuda.empty_cache()
    return model


def second_model(model: LanguageModel) -> LanguageModel:
    warm(new_model(1))
    return model


def other_type(model: LanguageModel) -> LanguageModel:
    return model.to(torch.float16)


def moved(model: LanguageModel) -> LanguageModel:
    return model.cpu().cuda()


def new_values(model: LanguageModel) -> LanguageModel:
    model.load_state_dict(new_model(2).state_dict())
    return model


def new_tensors(model: LanguageModel) -> LanguageModel:
    model.load_state_dict(new_model(2).state_dict(), assign=True)
    return model


def lora_merged(model: LanguageModel) -> LanguageModel:
    """Weights from a copy with adapters; text with the adapters in place was recorded before."""
    other = new_model()
    adapt(other, Lora(rank=4, alpha=8.0, dropout=0.0, targets=("query", "value")), torch.Generator().manual_seed(0))
    for name, parameter in other.named_parameters():
        if name.endswith(".b"):
            nn.init.normal_(parameter, std=0.05)
    other.cuda()
    warm(other)
    model.load_state_dict(merged_weights(other))
    return model


EVENTS: tuple[Event, ...] = (
    compiled_graphs,
    plain_graphs,
    cleared_workspaces,
    empty_cache,
    second_model,
    other_type,
    moved,
    new_values,
    new_tensors,
    lora_merged,
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_the_text_is_right_after(event: Event) -> None:
    recorded(new_model(3, depth=2).float(), 2)  # a model that is gone: its graphs were the first to multiply on their stream
    gc.collect()
    model = new_model()
    warm(model)
    model = event(model)
    held = free_memory_held()
    texts = [recorded(model, batch) for batch in (1, 8, 1, 8)]
    assert all(bool((tensor == 7).all()) for tensor in held)
    for batch, text in zip((1, 8, 1, 8), texts, strict=True):
        assert torch.equal(text, unrecorded(model, batch))


def test_rooms_are_used_again() -> None:
    from firth.layers.kernels import recorded as rooms

    def rest() -> int:
        gc.collect()
        return len(rooms._free[torch.device("cuda", 0)])

    warm(new_model())
    before = rest()
    assert before
    for seed in range(3):
        warm(new_model(seed))
    assert rest() == before
