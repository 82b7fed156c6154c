"""Sequence to sequence on this machine's CPU, beside JoeyNMT 2.3: target tokens per second in training, sentences per second in
beam search, a Transformer and RNNsearch on Multi30k, English to German.

    firth data get multi30k          # or FIRTH_DATA
    python3.11 -m venv PEER && PEER/bin/pip install joeynmt==2.3 torch==2.13.0 importlib_metadata
    python benchmarks/seq2seq.py --peer PEER/bin/python [--only train|beam] [--kind transformer|rnnsearch] [--cache FOLDER]

Both sides read the same tokens of one BPE vocabulary of 10,000 for both languages, in lower case; float32, the same number of
threads, AdamW, batches of at most 4096 tokens on the longer side, padding included, each side's own batching. The Transformer has
4 + 4 pre-norm layers, width 128, 4 heads, inner width 256, dropout 0.3, label smoothing 0.1, one embedding for both sides and the
output layer. RNNsearch has GRUs of width 512, a bidirectional encoder, additive attention, one embedding of width 512, again the
output layer's, too: JoeyNMT ties only where embedding and state are equally wide, and an output layer that is not tied costs the
two sides differently. The peer's decoder looks after the GRU's step, as Luong's, and firth's before it, as published.

For the search both are first trained for `--trained` steps (kept in --cache), since a model that has learned nothing does not end
its sentences. With --trained 0 they are not, and both write as many tokens as a reference has on average. Test 2016, beam 5,
length penalty 1, at most 1.5 × the longest source of a batch; sentences in order of length on both sides, and for each side the
best of some sizes of batch. BLEU is there to show whether they translate.

Peer and firth take turns, and the ratio is the median of those of neighbours. On a machine that others use, too, threads wait for
each other, and figures by the clock mean little: the load is printed with them. There `--cpu` gives a ratio that can be trusted
more, on one thread and in seconds of the processor; the targets are about another one, so that nothing is said of them then.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from firth.decoding.search.beam import beam
from firth.models import ConditionalDecoder, seq2seq
from firth.models.initialise import initialise
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig
from firth.tasks.translation import translation
from firth.text.batches.pairs import BucketedPairs, Pairs
from firth.text.config import PairsConfig, TokenizerConfig
from firth.text.data.pairs import PairData, prepare_pairs
from firth.training import loop
from firth.training.config import TrainingConfig

Kind = Literal["transformer", "rnnsearch"]
Clock = Callable[[], float]
PEER = Path(__file__).with_name("joeynmt_peer.py")
BATCH, VOCAB, BEAM, PENALTY, WARM = 4096, 10_000, 5, 1.0, 5
MUST_TRAIN = 1.5
MUST_BEAM = {"transformer": 4.0, "rnnsearch": 1.5}
DECODING_BATCHES = (512, 2048, 8192)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="the Python of an environment with JoeyNMT; without it only firth is measured")
    parser.add_argument("--only", choices=("train", "beam"))
    parser.add_argument("--kind", choices=("transformer", "rnnsearch"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40, help=f"timed steps of a round of training; {WARM} come first")
    parser.add_argument("--trained", type=int, default=600, help="steps of training before the search")
    parser.add_argument("--sentences", type=int, default=1000, help="how many of the test's are translated, spread over it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="one thread, and the processor's seconds instead of the clock's")
    parser.add_argument("--cache", type=Path, help="a folder that keeps the trained weights")
    options = parser.parse_args()
    if 0 < options.trained <= WARM:
        parser.error(f"--trained is {options.trained}; expected 0, or more than {WARM}: that many steps are not timed")
    if options.cpu:
        options.threads = 1
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.cpu else time.perf_counter
    data = prepare_pairs(
        PairsConfig(name="multi30k", source="en", target="de", lower=True), TokenizerConfig(kind="bpe", vocab=VOCAB, joint=True)
    )
    assert data.test is not None
    data = replace(data, test=some(data.test, options.sentences))
    print(f"torch {torch.__version__}, {options.threads} of {os.cpu_count()} cores, float32; load {os.getloadavg()[0]:.1f}")
    print("seconds of the processor" if options.cpu else "seconds by the clock")
    print(f"{len(data.train):,} pairs, {data.train.tokens:,} target tokens; {options.sentences:,} sentences to translate\n")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.cache or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        peer = Peer(options.peer, folder, options.threads, options.cpu) if options.peer else None
        if peer is not None:
            peer.write(data)
        for kind in (options.kind,) if options.kind else ("transformer", "rnnsearch"):
            if options.only != "beam":
                compare_training(kind, data, peer, options.rounds, options.steps, clock)
            if options.only != "train":
                compare_search(kind, data, peer, options.rounds, options.trained, folder, clock)


# ---------------------------------------------------------------------------------------------- training


def compare_training(kind: Kind, data: PairData, peer: Peer | None, rounds: int, steps: int, clock: Clock) -> None:
    ours, theirs = [], []
    for _ in range(rounds):
        if peer is not None:
            theirs.append(peer.run("train", kind, "--steps", str(steps)))
        ours.append(trained(started(kind, data, WARM + steps), kind, WARM + steps, clock)[1])
    report(f"train {kind}", "tokens/s", [tokens for tokens, _ in ours], _of(theirs, "tokens_per_second"), must(MUST_TRAIN, clock))
    note = f"padding of the target side: firth {statistics.mean(share for _, share in ours):.0%}"
    if theirs:
        note += f", peer {statistics.mean(_of(theirs, 'padding')):.0%}; "
        note += f"parameters {parameters(model_of(kind, data)):,} / {theirs[0]['parameters']:,}"
    print(f"{'':20}{note}\n", flush=True)


def started(kind: Kind, data: PairData, steps: int) -> tuple[loop.Training, TrainingConfig]:
    config = TrainingConfig(
        steps=steps,
        batch_tokens=BATCH,
        device="cpu",
        rate=1e-3,
        betas=(0.9, 0.98),
        schedule="inverse-sqrt",
        warmup=min(100, steps // 2),
    )
    return loop.start(drawn(kind, data), BucketedPairs(data.train, BATCH, seed=0), config), config


def trained(
    run: tuple[loop.Training, TrainingConfig], kind: Kind, steps: int, clock: Clock
) -> tuple[ConditionalDecoder, tuple[float, float]]:
    """The model; target tokens per second after the first WARM steps, and which share of the target's cells was padding."""
    training, config = run
    smoothing = 0.1 if kind == "transformer" else 0.0
    cells: list[int] = []

    def loss(model: ConditionalDecoder, **batch: Any) -> Any:
        cells.append(batch["target_BT"].numel())
        return translation(model, **batch, smoothing=smoothing)

    updates = loop.fit(training, loss, config)
    for _ in islice(updates, WARM):
        pass
    began = clock()
    tokens = sum(step.tokens for step in islice(updates, steps - WARM))
    seconds = clock() - began
    assert isinstance(training.model, ConditionalDecoder)
    return training.model, (tokens / seconds, 1 - tokens / sum(cells[WARM:]))


# ---------------------------------------------------------------------------------------------- search


def compare_search(kind: Kind, data: PairData, peer: Peer | None, rounds: int, steps: int, folder: Path, clock: Clock) -> None:
    assert data.test is not None
    length = None if steps else round(float(data.test.target_length_N.mean()))
    model = searched_model(kind, data, steps, folder, clock).eval()
    turn = partial(search, model, data.test, data.tokenizer.eos, length, clock)
    size = max(DECODING_BATCHES, key=lambda batch: turn(batch)[0])
    ours, theirs, peer_size = [], [], 0
    if peer is not None:
        given = peer.searched(kind, steps, folder) + ([] if length is None else ["--length", str(length)])
        peer_size = max(DECODING_BATCHES, key=lambda n: peer.run("beam", kind, *given, "--batch", str(n))["sentences_per_second"])
    for _ in range(rounds):
        if peer is not None:
            theirs.append(peer.run("beam", kind, *given, "--batch", str(peer_size)))
        ours.append(turn(size))
    report(
        f"beam {kind}",
        "sentences/s",
        [rate for rate, _ in ours],
        _of(theirs, "sentences_per_second"),
        must(MUST_BEAM[kind], clock),
    )
    note = f"firth: {described(data, ours[0][1])}, batches of {size}"
    if peer is not None:
        found = [[int(token) for token in line.split() if token.isdigit()] for line in theirs[0]["hypotheses"]]
        note += f"; peer: {described(data, in_order(data.test, found))}, batches of {peer_size}"
    print(f"{'':20}{note}\n", flush=True)


def searched_model(kind: Kind, data: PairData, steps: int, folder: Path, clock: Clock) -> ConditionalDecoder:
    weights = folder / f"firth-{kind}-{steps}.pt"
    if weights.exists():
        model = model_of(kind, data)
        model.load_state_dict(torch.load(weights))
        return model
    if not steps:
        return drawn(kind, data)
    model, _ = trained(started(kind, data, steps), kind, steps, clock)
    torch.save(model.state_dict(), weights)
    return model


def search(
    model: ConditionalDecoder, pairs: Pairs, end: int | None, length: int | None, clock: Clock, tokens: int
) -> tuple[float, list[list[int]]]:
    """Sentences per second, and the best translation of each."""
    assert end is not None
    found: list[list[int]] = [[] for _ in range(len(pairs))]
    began = clock()
    for row_B in by_length(pairs, tokens):
        batch = pairs.batch(row_B)
        length_B = torch.from_numpy(batch.source_length_B)
        with torch.inference_mode():
            state = model.start(model.encode(torch.from_numpy(batch.source_BS), length_B))
        limits = [length or int(1.5 * int(length_B.max()))] * len(row_B)
        prompt_B1 = torch.full((len(row_B), 1), end)
        ends = (
            model.vocab if length else end
        )  # no token at all where the length is given: an untrained model may say <eos> at once
        best = beam(model, state, prompt_B1, size=BEAM, limits=limits, end=ends, penalty=PENALTY, unfinished=True)
        for row, hypotheses in zip(row_B, best, strict=True):
            found[row] = [token for token in hypotheses[0].tokens if token != end]
    return len(pairs) / (clock() - began), found


def some(pairs: Pairs, count: int) -> Pairs:
    """`count` of the pairs, at equal distances."""
    assert pairs.texts is not None
    rows = [n * len(pairs) // count for n in range(count)]
    sides = ((pairs.source_ids, pairs.source_starts), (pairs.target_ids, pairs.target_starts))
    source, target = ([ids[starts[n] : starts[n + 1]] for n in rows] for ids, starts in sides)
    return Pairs.of(source, target, [pairs.texts[n] for n in rows])


def by_length(pairs: Pairs, tokens: int) -> list[np.ndarray]:
    """Which sentences are searched together: in order of length, at most `tokens` source tokens with padding."""
    order, batches = longest_first(pairs), []
    while len(order):
        count = max(1, tokens // int(pairs.source_length_N[order[0]]))
        batches.append(order[:count])
        order = order[count:]
    return batches


def longest_first(pairs: Pairs) -> np.ndarray:
    return np.argsort(-pairs.source_length_N, kind="stable")


def in_order(pairs: Pairs, found: list[list[int]]) -> list[list[int]]:
    """What was found longest first, in the order of the file."""
    return [found[place] for place in np.argsort(longest_first(pairs), kind="stable")]


def described(data: PairData, found: list[list[int]]) -> str:
    return f"BLEU {bleu(data, found):.1f}, {statistics.mean(map(len, found)):.1f} tokens a sentence"


def bleu(data: PairData, found: list[list[int]]) -> float:
    import sacrebleu

    assert data.test is not None
    assert data.test.texts is not None
    written = [data.tokenizer.decode(tokens) for tokens in found]
    return float(sacrebleu.corpus_bleu(written, [[target for _, target in data.test.texts]], lowercase=True).score)


# ---------------------------------------------------------------------------------------------- the peer


class Peer:
    """JoeyNMT in its own environment, a process for each turn."""

    def __init__(self, python: str, folder: Path, threads: int, cpu: bool) -> None:
        self.python, self.data, self.given = python, folder / "text", ["--threads", str(threads), *["--cpu"] * cpu]

    def write(self, data: PairData) -> None:
        """The sentence pairs, one word for each token's id; those to translate longest first."""
        assert data.valid is not None
        assert data.test is not None
        self.data.mkdir(exist_ok=True)
        eos = data.tokenizer.eos
        words = [str(n) for n in range(data.tokenizer.vocab) if n != eos]
        (self.data / "vocabulary.txt").write_text("\n".join(words) + "\n")
        for part, pairs in (("train", data.train), ("dev", data.valid), ("test", data.test)):
            order = longest_first(pairs) if part == "test" else np.arange(len(pairs))
            sides = ("source", pairs.source_ids, pairs.source_starts), ("target", pairs.target_ids, pairs.target_starts)
            for side, ids, starts in sides:
                lines = (" ".join(map(str, ids[starts[n] : starts[n + 1] - 1])) for n in order)  # without <eos>
                (self.data / f"{part}.{side}").write_text("\n".join(lines) + "\n")

    def searched(self, kind: Kind, steps: int, folder: Path) -> list[str]:
        """What it searches with; trained now, where it was not before."""
        settings = ["--beam", str(BEAM), "--penalty", str(PENALTY)]
        weights = folder / f"peer-{kind}-{steps}.pt"
        if steps and not weights.exists():
            self.run("train", kind, "--steps", str(steps), "--weights", str(weights))
        return [*settings, "--weights", str(weights)] if steps else settings

    def run(self, task: str, kind: Kind, *arguments: str) -> dict[str, Any]:
        command = [self.python, str(PEER), task, str(self.data), "--kind", kind, *self.given, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the peer failed:\n{done.stderr[-3000:]}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


# ---------------------------------------------------------------------------------------------- helpers


def config_of(kind: Kind) -> Seq2SeqConfig:
    if kind == "rnnsearch":
        return RecurrentSeq2SeqConfig(kind="gru", width=512, embedding=512, dropout=0.3, tied=True, shared=True)
    return TransformerSeq2SeqConfig(
        kind="transformer",
        width=128,
        depth=4,
        heads=4,
        hidden=256,
        context=512,
        position="sinusoidal",
        norm="layer",
        activation="relu",
        bias=True,
        dropout=0.3,
        shared=True,
    )


def model_of(kind: Kind, data: PairData) -> ConditionalDecoder:
    return seq2seq(config_of(kind), data.source_tokenizer.vocab, data.tokenizer.vocab)


def drawn(kind: Kind, data: PairData) -> ConditionalDecoder:
    model = model_of(kind, data)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def must(ratio: float, clock: Clock) -> float | None:
    """The targets are by the clock."""
    return ratio if clock is time.perf_counter else None


def report(what: str, unit: str, ours: list[float], theirs: list[float], must: float | None) -> None:
    line = f"{what:20}firth {statistics.median(ours):>9,.1f} {unit}"
    if theirs:
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        line += f"   peer {statistics.median(theirs):>9,.1f}   ratio {ratio:.2f}"
        if must is not None:
            line += f"  (must {must}: {'ok' if ratio >= must else 'MISS'})"
    print(f"{line}   load {os.getloadavg()[0]:.1f}")


def _of(answers: list[dict[str, Any]], name: str) -> list[float]:
    return [answer[name] for answer in answers]


if __name__ == "__main__":
    main()
