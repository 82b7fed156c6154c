"""An encoder that classifies, on this machine's CPU, beside the same one from `transformers`: sentences per second in fine-tuning
and in inference on SST-2.

    firth data get sst2              # or FIRTH_DATA
    python benchmarks/encoders.py [--only train|infer] [--rounds 5] [--threads 2] [--cpu]

Both sides are BERT's architecture (Devlin et al. 2019): learned positions, post-norm, GELU, biases; here 4 blocks, width 256, 4
heads, dropout 0.1 (none on attention weights, which firth does not have), pooled at the first token. They have the same weights
and read the same WordPiece tokens; that their logits, losses and gradients agree is printed first. The peer is BertModel with its
standard path: a DataLoader that shuffles, DataCollatorWithPadding (batches padded to their longest sentence), torch's AdamW, the
gradient clipped to norm 1. Firth's side is what `firth train` and `firth evaluate` run: batches of similar length, so that little
is padding. Both float32, batches of 32 in training and of --batch in inference, and the same number of threads; tokenising is not
timed on either side.

The two take turns, and the ratio is the median of those of neighbours. On a machine that others use, too, `--cpu` gives a ratio
that can be trusted more: one thread, in seconds of the processor; the targets are by the clock, so nothing is said of them then.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.evaluation.classification import log_probabilities
from firth.models import Classifier, TransformerEncoderConfig, classifier
from firth.models.initialise import initialise
from firth.tasks.classification import classification
from firth.text.batches.examples import Examples
from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.labelled import Labelled, prepare_labelled
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training import loop
from firth.training.config import TrainingConfig

Clock = Callable[[], float]
WIDTH, DEPTH, HEADS, CONTEXT, DROPOUT, VOCAB = 256, 4, 4, 128, 0.1, 8000
BATCH, RATE, WARM = 32, 1e-4, 3
MUST, TARGET = 1.3, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("train", "infer"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help=f"timed steps of a round of training; {WARM} come first")
    parser.add_argument("--batch", type=int, default=32, help="sentences of a batch in inference")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="one thread, and the processor's seconds instead of the clock's")
    options = parser.parse_args()
    threads, clock = (1, time.process_time) if options.cpu else (options.threads, time.perf_counter)
    torch.set_num_threads(threads)
    data = prepare_labelled(LabelledConfig(name="sst2"), TokenizerConfig(kind="wordpiece", vocab=VOCAB))
    assert data.test is not None
    print(f"torch {torch.__version__}, {threads} of {os.cpu_count()} cores, float32; load {os.getloadavg()[0]:.1f}")
    print("seconds of the processor" if options.cpu else "seconds by the clock")
    print(f"{len(data.train):,} sentences to train on, {data.train.tokens / len(data.train):.1f} tokens each\n")
    compare(data)
    must = None if options.cpu else MUST
    if options.only != "infer":
        ours, theirs = [], []
        for seed in range(options.rounds):
            theirs.append(peer_trained(data, options.steps, seed, clock))
            ours.append(firth_trained(data, options.steps, seed, clock))
        report("train", ours, theirs, must)
    if options.only != "train":
        pair = made(data), bert(made(data))
        rounds = [
            (firth_inferred(pair[0], data.test, options.batch, clock), peer_inferred(pair[1], data, options.batch, clock))
            for _ in range(options.rounds)
        ]
        report("infer", [one for one, _ in rounds], [one for _, one in rounds], must)


# ---------------------------------------------------------------------------------------------- firth


def made(data: Labelled, dropout: float = DROPOUT) -> Classifier:
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
        pool="first",
    )
    model = classifier(config, data.tokenizer.vocab, len(data.labels))
    initialise(model, torch.Generator().manual_seed(0))
    return model


def firth_trained(data: Labelled, steps: int, seed: int, clock: Clock) -> tuple[float, float]:
    """Sentences per second, and which share of the cells was padding."""
    config = TrainingConfig(steps=WARM + steps, batch=BATCH, device="cpu", rate=RATE, schedule="linear")
    training = loop.start(made(data), data.train.bucketed(BATCH, seed), config)
    cells: list[int] = []

    def loss(model: Classifier, **batch: Any) -> Any:
        cells.append(batch["token_BT"].numel())
        return classification(model, **batch)

    updates = loop.fit(training, loss, config)
    for _ in islice(updates, WARM):
        pass
    began = clock()
    tokens = sum(step.tokens for step in updates)
    return steps * BATCH / (clock() - began), 1 - tokens / sum(cells[WARM:])


def firth_inferred(model: Classifier, examples: Examples, batch: int, clock: Clock) -> tuple[float, float]:
    began, cells = clock(), 0
    for _, part in examples.sweep(batch):
        log_probabilities(model, part.token_BT, part.length_B)
        cells += part.token_BT.size
    return len(examples) / (clock() - began), 1 - examples.tokens / cells


# ---------------------------------------------------------------------------------------------- the peer


class Bert(nn.Module):
    """transformers' BertModel with a linear layer on the first token; without what firth's encoder has not: a norm of the
    embeddings, a layer with tanh on the first token."""

    def __init__(self, ours: Classifier) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        config = BertConfig(
            vocab_size=ours.vocab,
            hidden_size=WIDTH,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=CONTEXT,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            hidden_dropout_prob=ours.dropout,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        self.bert.embeddings.LayerNorm = nn.Identity()
        self.dropout = nn.Dropout(ours.dropout)
        self.classifier = nn.Linear(WIDTH, ours.classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        first_Bd = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state[:, 0]
        logits_BC: Tensor = self.classifier(self.dropout(first_Bd))
        return logits_BC


def bert(ours: Classifier) -> Bert:
    """The peer with the same weights."""
    theirs, own = Bert(ours), ours.state_dict()
    prefix = "encoder.stack."
    weights = {
        "bert.embeddings.word_embeddings.weight": own["encoder.embedding.weight"],
        "bert.embeddings.position_embeddings.weight": next(own[key] for key in own if key.startswith(f"{prefix}position.")),
        "bert.embeddings.token_type_embeddings.weight": torch.zeros(1, WIDTH),
        "classifier.weight": own["output.weight"],
        "classifier.bias": own["output.bias"],
    }
    for n in range(DEPTH):
        for part in ("weight", "bias"):
            at, to = f"{prefix}blocks.{n}", f"bert.encoder.layer.{n}"
            names = ("attention.self.query", "attention.self.key", "attention.self.value")
            for name, piece in zip(names, own[f"{at}.attention.qkv.{part}"].chunk(3), strict=True):
                weights[f"{to}.{name}.{part}"] = piece
            weights |= {
                f"{to}.attention.output.dense.{part}": own[f"{at}.attention.out.{part}"],
                f"{to}.attention.output.LayerNorm.{part}": own[f"{at}.attention_norm.{part}"],
                f"{to}.intermediate.dense.{part}": own[f"{at}.feedforward.up.{part}"],
                f"{to}.output.dense.{part}": own[f"{at}.feedforward.down.{part}"],
                f"{to}.output.LayerNorm.{part}": own[f"{at}.feedforward_norm.{part}"],
            }
    theirs.load_state_dict(weights)
    return theirs


def loader(examples: Examples, tokenizer: Tokenizer, batch: int, seed: int | None = None) -> Any:
    """Batches as `transformers` makes them: shuffled where a seed is given, padded to the longest of each."""
    import tokenizers
    from torch.utils.data import DataLoader
    from transformers import DataCollatorWithPadding, PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(tokenizer.to_json()), pad_token="<eos>")
    rows = [
        {"input_ids": examples.ids[start:end].tolist(), "label": int(label)}
        for start, end, label in zip(examples.starts[:-1], examples.starts[1:], examples.label_N, strict=True)
    ]
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    collate = DataCollatorWithPadding(theirs)
    return DataLoader(rows, batch, shuffle=seed is not None, generator=generator, collate_fn=collate)  # type: ignore[arg-type]


def peer_trained(data: Labelled, steps: int, seed: int, clock: Clock) -> tuple[float, float]:
    model = bert(made(data)).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    batches = endless(loader(data.train, data.tokenizer, BATCH, seed))
    real = cells = 0

    def step() -> None:
        nonlocal real, cells
        batch = next(batches)
        loss = F.cross_entropy(model(batch["input_ids"], batch["attention_mask"]), batch["labels"])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        real, cells = real + int(batch["attention_mask"].sum()), cells + batch["input_ids"].numel()

    for _ in range(WARM):
        step()
    began = clock()
    for _ in range(steps):
        step()
    return steps * BATCH / (clock() - began), 1 - real / cells


def endless(batches: Any) -> Iterator[Any]:
    while True:
        yield from batches


def peer_inferred(model: Bert, data: Labelled, batch: int, clock: Clock) -> tuple[float, float]:
    assert data.test is not None
    model.eval()
    batches, cells, began = loader(data.test, data.tokenizer, batch), 0, clock()
    with torch.inference_mode():
        for part in batches:
            torch.log_softmax(model(part["input_ids"], part["attention_mask"]), -1)
            cells += part["input_ids"].numel()
    return len(data.test) / (clock() - began), 1 - data.test.tokens / cells


# ---------------------------------------------------------------------------------------------- both


def compare(data: Labelled) -> None:
    """That it is the same model: logits, loss and the gradient of a batch, without dropout."""
    ours = made(data, dropout=0.0)
    theirs, batch = bert(ours), next(iter(loader(data.train, data.tokenizer, BATCH)))
    length_B = batch["attention_mask"].sum(1)
    logits_BC, other_BC = ours(batch["input_ids"], length_B), theirs(batch["input_ids"], batch["attention_mask"])
    losses = [F.cross_entropy(logits, batch["labels"]) for logits in (logits_BC, other_BC)]
    for loss in losses:
        loss.backward()  # type: ignore[no-untyped-call]
    gradient, other = ours.embedding.weight.grad, theirs.bert.embeddings.word_embeddings.weight.grad
    assert gradient is not None
    assert other is not None
    logits_BC, other_BC, losses = logits_BC.detach(), other_BC.detach(), [loss.detach() for loss in losses]
    apart = {
        "logits": float((logits_BC - other_BC).abs().max()),
        "loss": float((losses[0] - losses[1]).abs()),
        "gradient of the embedding": float((gradient - other).abs().max() / other.abs().max()),
    }
    print(f"one batch, the same weights: loss {float(losses[0]):.6f} and {float(losses[1]):.6f}")
    print("largest difference: " + ", ".join(f"{name} {value:.1e}" for name, value in apart.items()))
    if max(apart.values()) > 1e-4:
        raise SystemExit("the two are not the same model")
    count = sum(parameter.numel() for parameter in ours.parameters())
    print(f"{count:,} parameters\n")


def report(what: str, ours: list[tuple[float, float]], theirs: list[tuple[float, float]], must: float | None) -> None:
    ratio = statistics.median(one[0] / other[0] for one, other in zip(ours, theirs, strict=True))
    best = max(rate for rate, _ in ours), max(rate for rate, _ in theirs)
    line = f"{what:8}firth {best[0]:>8,.1f} sentences/s   transformers {best[1]:>8,.1f}   ratio {ratio:.2f}"
    line += f" (of the best {best[0] / best[1]:.2f})"
    if must is not None:
        line += (
            f"  must {must}: {'met' if ratio >= must else 'MISSED'}, target {TARGET}: {'met' if ratio >= TARGET else 'missed'}"
        )
    print(line)
    padding = (statistics.mean(share for _, share in side) for side in (ours, theirs))
    print(
        f"{'':8}padding: firth {next(padding):.0%}, transformers {next(padding):.0%}; load {os.getloadavg()[0]:.1f}\n", flush=True
    )


if __name__ == "__main__":
    main()
