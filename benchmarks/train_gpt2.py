"""Training GPT-2 124M on one GPU: tokens per second, beside a plain trainer in the same run.

    firth data get wikitext-2        # or FIRTH_DATA
    python benchmarks/train_gpt2.py [--steps 40] [--no-peer] [--no-check] [--profile]

Vocabulary 50,304, 12 layers of width 768, context 1024, no biases, no dropout; 64 × 1024 tokens of WikiText-2 in a step; products
in bfloat16, weights and moments in float32; AdamW, clipping, torch.compile. The operations of a token are counted as is usual:
6 for each weight and 12 · layers · width · context for attention (the causal mask not taken off). The peer is the same model
written plainly with torch's modules: F.scaled_dot_product_attention, all logits, F.cross_entropy; autocast, torch.compile, fused
AdamW.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from gpu_clock import Work, heading, matrix_peak, profile, timed
from torch import Tensor, nn

from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token
from firth.text.batches.windows import TokenBatch, Windows
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.training import loop
from firth.training.config import TrainingConfig

VOCAB, DEPTH, WIDTH, CONTEXT, BATCH = 50_304, 12, 768, 1024, 64
MUST, TARGET = 545_000, 650_000
CHECKED = 20  # steps after which the loss is compared with that of float32
SETTINGS: dict[str, Any] = {
    "batch": BATCH,
    "context": CONTEXT,
    "device": "cuda",
    "rate": 6e-4,
    "weight_decay": 0.1,
    "warmup": 10,
    "schedule": "constant",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="timed steps; ten more come first")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-check", action="store_true", help="without the float32 run")
    parser.add_argument("--profile", action="store_true", help="where the time of a step goes")
    options = parser.parse_args()
    ids = prepare(DataConfig(name="wikitext-2"), TokenizerConfig(kind="bpe", vocab=50_257)).train.ids
    peak = matrix_peak()
    print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {len(ids):,} tokens of text")
    print(f"bfloat16 product of 8192 × 8192 matrices: {peak / 1e12:.0f} TFLOP/s\n")
    print(heading())
    work = Work(BATCH * CONTEXT, operations_per_token())
    batches = Windows(ids, BATCH, CONTEXT, 0)
    losses = timed("firth", firth_steps(batches, 10 + options.steps), options.steps, work, peak)
    timed("firth, a fixed batch", firth_steps(Fixed(batches), 10 + options.steps), options.steps, work, peak)
    if options.profile:
        profile(firth_steps(batches, 20))
    if not options.no_peer:
        timed("plain trainer", plain_steps(Windows(ids, BATCH, CONTEXT, 0)), options.steps, work, peak)
    print(f"\nmust {MUST:,}, target {TARGET:,} tokens/s")
    if not options.no_check:
        exact = [step.loss for step in float32_steps(Windows(ids, BATCH, CONTEXT, 0))]
        found, true = float(losses[CHECKED - 1]), exact[-1]
        print(
            f"loss at step {CHECKED}: {found:.4f}, in float32 {true:.4f}: {abs(found / true - 1):.2%} apart (must be within 1 %)"
        )


# ------------------------------------------------------------------------------------------------ firth


def gpt2() -> LanguageModel:
    config = TransformerConfig(
        kind="transformer",
        width=WIDTH,
        depth=DEPTH,
        heads=12,
        context=CONTEXT,
        position="learned",
        norm="layer",
        activation="gelu",
    )
    model = language_model(config, VOCAB)
    initialise(model, torch.Generator().manual_seed(0))
    return model


class Fixed:
    """The same batch for ever: what training costs without reading text."""

    def __init__(self, batches: Windows) -> None:
        self.batch, self.position = batches.next(), 0

    def next(self) -> TokenBatch:
        self.position += 1
        return self.batch

    def seek(self, position: int) -> None:
        self.position = position


def firth_steps(batches: Windows | Fixed, steps: int) -> Iterator[Tensor]:
    batches.seek(0)
    config = TrainingConfig(steps=steps, dtype="bf16", compile=True, **SETTINGS)
    for step in loop.fit(loop.start(gpt2(), batches, config), next_token, config):
        yield step.loss_on_device


def float32_steps(batches: Windows) -> Iterator[loop.Step]:
    config = TrainingConfig(steps=CHECKED, accumulate=8, **SETTINGS)
    return loop.fit(loop.start(gpt2(), batches, config), next_token, config)


# ------------------------------------------------------------------------------------------------ the peer


class PlainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (y.view(B, T, 12, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(o.transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class PlainGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(PlainBlock() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, bias=False)

    def forward(self, token: Tensor, target: Tensor) -> Tensor:
        x = self.embedding(token) + self.position.weight[: token.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def plain_steps(batches: Windows) -> Iterator[Tensor]:
    model = PlainGPT().cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    while True:
        batch = batches.next()
        token, target = (torch.from_numpy(a).pin_memory().cuda(non_blocking=True) for a in (batch.input_BT, batch.target_BT))
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(token, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.detach()


def operations_per_token() -> float:
    weights = VOCAB * WIDTH + DEPTH * 12 * WIDTH**2
    return 6 * weights + 12 * DEPTH * WIDTH * CONTEXT


if __name__ == "__main__":
    main()
