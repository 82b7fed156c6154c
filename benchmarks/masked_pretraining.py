"""Masked pretraining on one GPU at the shape of BERT-base: tokens per second, beside `transformers` in the same run.

    firth data get wikitext-2        # or FIRTH_DATA
    python benchmarks/masked_pretraining.py [--steps 40] [--batch 128] [--dropout 0.1 0.0] [--no-peer] [--no-check] [--profile]

BERT-base (Devlin et al. 2019): 12 layers of width 768, 12 heads, learned positions, post-norm, GELU, biases, a vocabulary of
30,522, 512 tokens of WikiText-2 in a row, 15 % of them masked; products in bfloat16, weights and moments in float32; AdamW,
clipping, torch.compile. With dropout 0.1 as published (none on attention weights, which firth does not have), and without.

Operations of a token: 6 for each weight of the blocks, 12 · layers · width · 512 for attention, and 0.15 times 6 for each weight
of the output layer and of the layer before it, since only masked tokens pass those. The peer is BertForMaskedLM with the same
settings, torch's fused attention, autocast, torch.compile and fused AdamW; all its tokens pass the output layer, and its rate is
counted in the same operations, so that the last columns compare.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import torch
from gpu_clock import Work, heading, matrix_peak, profile, timed
from torch import Tensor, nn

from firth.models import MaskedLM, TransformerEncoderConfig, masked_lm
from firth.models.initialise import initialise
from firth.tasks.masked import masked
from firth.text.batches.masking import MaskedWindows, Masking
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data.running_text import prepare
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training import loop
from firth.training.config import TrainingConfig

VOCAB, DEPTH, WIDTH, HEADS, CONTEXT, SHARE, DROPOUT = 30_522, 12, 768, 12, 512, 0.15, 0.1
MUST, TARGET = 0.45, 0.55  # of the peak
CHECKED = 20  # steps after which the loss is compared with that of float32
SETTINGS: dict[str, Any] = {
    "context": CONTEXT,
    "device": "cuda",
    "rate": 1e-4,
    "weight_decay": 0.01,
    "warmup": 10,
    "schedule": "constant",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="timed steps; ten more come first")
    parser.add_argument("--batch", type=int, default=128, help="rows of a step")
    parser.add_argument("--dropout", type=float, nargs="+", default=[DROPOUT, 0.0])
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-check", action="store_true", help="without the float32 run")
    parser.add_argument("--profile", action="store_true", help="where the time of a step goes")
    options = parser.parse_args()
    text = prepare(DataConfig(name="wikitext-2"), TokenizerConfig(kind="wordpiece", vocab=VOCAB))
    peak, work = matrix_peak(), Work(options.batch * CONTEXT, operations_per_token())
    print(
        f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {len(text.train.ids):,} tokens, {options.batch} × {CONTEXT}"
    )
    print(f"bfloat16 product of 8192 × 8192 matrices: {peak / 1e12:.0f} TFLOP/s; must {MUST:.0%} of it, target {TARGET:.0%}\n")
    print(heading())

    def batches() -> MaskedWindows:
        return MaskedWindows(text.train.ids, options.batch, CONTEXT, Masking(text.tokenizer, SHARE, whole_words=False, seed=0))

    for dropout in options.dropout:
        steps = firth_steps(batches(), 10 + options.steps, options.batch, dropout, text.tokenizer)
        timed(f"firth, dropout {dropout}", steps, options.steps, work, peak)
    if options.profile:
        profile(firth_steps(batches(), 20, options.batch, DROPOUT, text.tokenizer))
    if not options.no_peer:
        for dropout in options.dropout:
            timed(f"transformers, {dropout}", peer_steps(batches(), dropout, text.tokenizer), options.steps, work, peak)
    if not options.no_check:
        *_, last = firth_steps(batches(), CHECKED, options.batch, 0.0, text.tokenizer)
        found, true = float(last), float32_loss(batches(), options.batch, text.tokenizer)
        print(
            f"\nloss at step {CHECKED}, no dropout: {found:.4f}, in float32 {true:.4f}: {abs(found / true - 1):.2%} apart "
            "(must be within 1 %)"
        )


def operations_per_token() -> float:
    weights = DEPTH * 12 * WIDTH**2 + SHARE * (WIDTH**2 + VOCAB * WIDTH)
    return 6 * weights + 12 * DEPTH * WIDTH * CONTEXT


# ------------------------------------------------------------------------------------------------ firth


def bert(dropout: float, tokenizer: Tokenizer) -> MaskedLM:
    config = TransformerEncoderConfig(
        kind="transformer",
        width=WIDTH,
        depth=DEPTH,
        heads=HEADS,
        context=CONTEXT,
        position="learned",
        norm="layer",
        norm_placement="post",
        activation="gelu",
        bias=True,
        dropout=dropout,
    )
    model = masked_lm(config, tokenizer.vocab)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def firth_steps(batches: MaskedWindows, steps: int, batch: int, dropout: float, tokenizer: Tokenizer) -> Iterator[Tensor]:
    config = TrainingConfig(steps=steps, batch=batch, dtype="bf16", compile=True, **SETTINGS)
    for step in loop.fit(loop.start(bert(dropout, tokenizer), batches, config), masked, config):
        yield step.loss_on_device


def float32_loss(batches: MaskedWindows, batch: int, tokenizer: Tokenizer) -> float:
    config = TrainingConfig(steps=CHECKED, batch=batch, accumulate=max(1, batch // 16), **SETTINGS)
    return [step.loss for step in loop.fit(loop.start(bert(0.0, tokenizer), batches, config), masked, config)][-1]


# ------------------------------------------------------------------------------------------------ the peer


def peer_steps(batches: MaskedWindows, dropout: float, tokenizer: Tokenizer) -> Iterator[Tensor]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=tokenizer.vocab + 1,
        max_position_embeddings=CONTEXT,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    model = BertForMaskedLM(config).cuda().train()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    while True:
        batch = batches.next()
        token_BT, place_BM, target_BM = (
            torch.from_numpy(array).cuda() for array in (batch.token_BT, batch.place_BM, batch.target_BM)
        )
        labels_BT = torch.full_like(token_BT, -100)
        chosen_BM = target_BM >= 0
        row_BM = torch.arange(len(token_BT), device="cuda").unsqueeze(1).expand_as(place_BM)
        labels_BT[row_BM[chosen_BM], place_BM[chosen_BM]] = target_BM[chosen_BM]
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=token_BT, labels=labels_BT).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.detach()


if __name__ == "__main__":
    main()
