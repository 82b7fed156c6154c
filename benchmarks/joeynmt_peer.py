"""JoeyNMT's side of benchmarks/seq2seq.py, which runs this file with the Python of JoeyNMT's own environment.

    python benchmarks/joeynmt_peer.py train DATA --kind transformer --steps 60 --weights FILE
    python benchmarks/joeynmt_peer.py beam  DATA --kind transformer --weights FILE

DATA holds the sentence pairs as firth's tokenizer cut them, one word for each id, so that both sides read the same tokens and the
peer's own tokenizer has nothing to do but to split at spaces. The model is trained by its TrainManager, with its batches by
tokens, and searched by its `predict`, the sentences in order of length. The answer is one line of JSON, the last one printed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from joeynmt.config import parse_global_args
from joeynmt.prediction import predict, prepare
from joeynmt.training import TrainManager

WARM = 5  # steps before the clock starts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "beam"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--kind", choices=("transformer", "rnnsearch"), required=True)
    parser.add_argument("--weights", type=Path, help="written by train, read by beam (and by train, to go on)")
    parser.add_argument("--steps", type=int, default=60, help=f"timed ones; {WARM} come first")
    parser.add_argument("--batch", type=int, default=4096, help="tokens on the longer side, padding included")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--length", type=int, default=-1, help="the most tokens of a translation; 1.5 × the source's otherwise")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="the processor's seconds instead of the clock's")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.cpu else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        args = parse_global_args(settings(options, folder), mode="train")
        model, train_data, dev_data, test_data = prepare(args, rank=0, mode="train")
        if options.weights is not None and options.weights.exists():
            model.load_state_dict(torch.load(options.weights))
        if options.task == "train":
            answer = train(args, model, train_data, dev_data, clock)
            if options.weights is not None:
                torch.save(model.state_dict(), options.weights)
        else:
            answer = beam(args, model, test_data, clock)
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), **answer}))


class Timed(TrainManager):
    """Looks at the clock before each step: from there to the next one's, batch, update and all are in between."""

    def _train_step(self, batch: Any) -> tuple[float, int]:
        self.seen.append((self.clock(), batch.ntokens, batch.trg.numel()))
        return super()._train_step(batch)


def train(args: Any, model: Any, train_data: Any, dev_data: Any, clock: Callable[[], float]) -> dict[str, float]:
    manager = Timed(
        0, model, args.model_dir, args.device, autocast=args.autocast, seed=args.seed, train_args=args.train, dev_args=args.test
    )
    manager.clock, manager.seen = clock, []
    manager.train_and_validate(train_data, dev_data)
    (began, *_), (ended, *_) = manager.seen[WARM], manager.seen[-1]
    tokens, cells = (sum(step[n] for step in manager.seen[WARM:-1]) for n in (1, 2))
    return {"tokens_per_second": tokens / (ended - began), "padding": 1 - tokens / cells}


def beam(args: Any, model: Any, data: Any, clock: Callable[[], float]) -> dict[str, Any]:
    began = clock()
    _, _, hypotheses, *_ = predict(model, data, args.device, n_gpu=0, args=args.test, autocast=args.autocast)
    seconds = clock() - began
    return {"sentences_per_second": len(hypotheses) / seconds, "hypotheses": hypotheses}


def settings(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    side = {"level": "word", "tokenizer_type": "none", "voc_file": str(options.data / "vocabulary.txt")}
    return {
        "name": "peer",
        "model_dir": folder,
        "use_cuda": False,
        "data": {
            **{part: str(options.data / part) for part in ("train", "dev", "test")},
            "dataset_type": "plain",
            "src": side | {"lang": "source"},
            "trg": side | {"lang": "target"},
        },
        "training": {
            "optimizer": "adamw",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 1e-3,
            "learning_rate_min": 1e-9,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 100,
            "label_smoothing": 0.1 if options.kind == "transformer" else 0.0,
            "normalization": "tokens",
            "clip_grad_norm": 1.0,
            "batch_size": options.batch,
            "batch_type": "token",
            "epochs": 1000,
            "updates": WARM + options.steps + 1,
            "logging_freq": 1_000_000,
            "validation_freq": 1_000_000,
        },
        "testing": {
            "beam_size": options.beam,
            "beam_alpha": options.penalty,
            "max_output_length": options.length,
            "batch_size": options.batch,
            "batch_type": "token",
        },
        "model": transformer() if options.kind == "transformer" else rnnsearch(),
    }


def transformer() -> dict[str, Any]:
    half = {
        "type": "transformer",
        "num_layers": 4,
        "num_heads": 4,
        "hidden_size": 128,
        "ff_size": 256,
        "dropout": 0.3,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": 128, "scale": True, "dropout": 0.3},
    }
    start = {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "tied_embeddings": True,
        "tied_softmax": True,
    }
    return start | {"encoder": half, "decoder": half}


def rnnsearch() -> dict[str, Any]:
    half = {
        "type": "recurrent",
        "rnn_type": "gru",
        "num_layers": 1,
        "hidden_size": 512,
        "dropout": 0.3,
        "embeddings": {"embedding_dim": 512, "scale": False, "dropout": 0.3},
    }
    decoder = half | {"attention": "bahdanau", "init_hidden": "bridge", "input_feeding": True, "hidden_dropout": 0.3}
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": half | {"bidirectional": True}, "decoder": decoder}


if __name__ == "__main__":
    main()
