"""Training an LSTM of 2 × 1500 on one GPU: tokens per second, beside a plain loop around torch.nn.LSTM in the same run.

    firth data get ptb        # or FIRTH_DATA
    python benchmarks/train_lstm.py [--steps 200] [--rounds 5] [--dropout 0 0.65] [--profile]

The Penn Treebank's 10,000 words, 64 rows of 35 tokens in a step, states carried on; tied embedding; products in half precision,
weights and moments in float32; AdamW, clipping. The peer is the usual loop: nn.Embedding, one nn.LSTM of two layers (time first,
as cuDNN has it), nn.Linear, F.cross_entropy; autocast, fused AdamW. The two take turns, `--steps` at a time; the figures are
medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from gpu_clock import profile
from torch import Tensor, nn

from firth.models import RecurrentConfig, language_model
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token
from firth.text.batches.windows import Streams
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.text.tokenizers.special_tokens import Ids
from firth.training import loop
from firth.training.config import TrainingConfig

WIDTH, DEPTH, CONTEXT, BATCH = 1500, 2, 35, 64
RATE, CLIP, GOAL = 2e-3, 1.0, 1.1
ENDLESS = 1_000_000  # steps
State = tuple[Tensor, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of each side in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dropout", nargs="+", type=float, default=[0.0, 0.65])
    parser.add_argument("--profile", action="store_true", help="where the time of a step goes")
    options = parser.parse_args()
    text = prepare(DataConfig(name="ptb"), TokenizerConfig(kind="word"))
    vocab, ids = text.tokenizer.vocab, text.train.ids
    print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {len(ids):,} tokens of text, {vocab:,} words\n")
    for dropout in options.dropout:
        sides = {"firth": firth_steps(ids, vocab, dropout), "plain loop": plain_steps(ids, vocab, dropout)}
        compare(sides, dropout, options.steps, options.rounds)
        if options.profile:
            for name, steps in sides.items():
                print(f"\n{name}")
                profile(steps)


def compare(sides: dict[str, Iterator[Tensor]], dropout: float, steps: int, rounds: int) -> None:
    rates: dict[str, list[float]] = {name: [] for name in sides}
    losses: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            rate, losses[name] = tokens_per_second(side, steps)
            if turn:  # the first one warms up
                rates[name].append(rate)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(*rates.values(), strict=True))
    for name, found in rates.items():
        print(f"dropout {dropout:<5g} {name:<12}{statistics.median(found):>10,.0f} tokens/s, loss {losses[name]:.3f}")
    print(f"dropout {dropout:<5g} {'ratio':<12}{ratio:>10.3f} (goal {GOAL})\n", flush=True)


def tokens_per_second(steps: Iterator[Tensor], count: int) -> tuple[float, float]:
    torch.cuda.synchronize()
    began = time.perf_counter()
    losses = [next(steps) for _ in range(count)]
    torch.cuda.synchronize()
    return count * BATCH * CONTEXT / (time.perf_counter() - began), float(losses[-1])


def firth_steps(ids: Ids, vocab: int, dropout: float) -> Iterator[Tensor]:
    model = language_model(RecurrentConfig(kind="lstm", width=WIDTH, depth=DEPTH, dropout=dropout, tied=True), vocab)
    initialise(model, torch.Generator().manual_seed(0))
    config = TrainingConfig(
        steps=ENDLESS, dtype="bf16", batch=BATCH, context=CONTEXT, carry=True, device="cuda", rate=RATE, clip=CLIP,
        schedule="constant", warmup=0,
    )  # fmt: skip
    for step in loop.fit(loop.start(model, Streams(ids, BATCH, CONTEXT, seed=0), config), next_token, config):
        yield step.loss_on_device


# ------------------------------------------------------------------------------------------------ the peer


class PlainLSTM(nn.Module):
    def __init__(self, vocab: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.drop = nn.Embedding(vocab, WIDTH), nn.Dropout(dropout)
        self.lstm = nn.LSTM(WIDTH, WIDTH, DEPTH, dropout=dropout)
        self.output = nn.Linear(WIDTH, vocab)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        self.output.weight = self.embedding.weight

    def forward(self, token_TB: Tensor, target_TB: Tensor, state: State) -> tuple[Tensor, State]:
        y_TBd, state = self.lstm(self.drop(self.embedding(token_TB)), state)
        logits_TBV = self.output(self.drop(y_TBd))
        return F.cross_entropy(logits_TBV.flatten(0, 1), target_TB.flatten()), state


def plain_steps(ids: Ids, vocab: int, dropout: float) -> Iterator[Tensor]:
    torch.manual_seed(0)
    model, batches = PlainLSTM(vocab, dropout).cuda(), Streams(ids, BATCH, CONTEXT, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    state: State = tuple(torch.zeros(DEPTH, BATCH, WIDTH, device="cuda") for _ in range(2))
    while True:
        batch = batches.next()
        arrays = (torch.from_numpy(a.T.copy()) for a in (batch.input_BT, batch.target_BT))
        token_TB, target_TB = (a.pin_memory().cuda(non_blocking=True) for a in arrays)
        with torch.autocast("cuda", torch.bfloat16):
            loss, state = model(token_TB, target_TB, state)
        state = tuple(part.detach() for part in state)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.detach()


if __name__ == "__main__":
    main()
