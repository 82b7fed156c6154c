"""The results of a recipe as plain data: initial weights, first losses, logits and texts.

Weights are drawn here rather than by firth: from the name of the parameter, with integer arithmetic, so that every processor has
the same ones whatever order a network makes them in. The networks compute in float64.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from firth.api import compose
from firth.api.training import initial_network, source_tokenizer, with_facts
from firth.progress import silent
from firth.tasks.run import Run
from firth.training.loop import Training, fit, start

Numbers = dict[str, Any]
SPREAD = 0.7  # of the weights


def draw(network: nn.Module, seed: int, noise: float = 0.0) -> None:
    """All weights of a network."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(drawn(name, parameter.shape, seed, noise))


def drawn(name: str, shape: Sequence[int], seed: int, noise: float = 0.0) -> Tensor:
    """The weight of that name: uniform in ±SPREAD, gains of norms around 1. `noise`: the share by which each number is off, to
    see what hangs on a rounding."""
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    w = SPREAD * (2 * generator.random(tuple(shape)) - 1)
    if name.endswith("weight") and len(shape) == 1:
        w = 1 + w
    return torch.from_numpy(np.asarray(w * (1 + noise * (2 * generator.random(tuple(shape)) - 1))))


class Case:
    """A recipe with its data, and its network as training finds it."""

    def __init__(self, table: dict[str, Any], seed: int, noise: float = 0.0) -> None:
        recipe = compose(table).resolved()
        self.data = recipe.task.read(recipe.tokenizer, silent)
        self.recipe = with_facts(recipe, self.data)
        task, network = self.recipe.task, initial_network(self.recipe, self.data)
        self.training: Training = start(network, task.batches(self.data), self.recipe.training, task.counts(self.data))
        self.initial = fingerprint(self.training.model)
        self.training.model.double()
        draw(self.training.model, seed, noise)
        tokenizers = self.data.tokenizer, source_tokenizer(self.data)
        self.run: Run[Any] = self.recipe.task.run_class(self.recipe.task, self.training.model, *tokenizers)

    def numbers(self, evaluated: bool) -> Numbers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of words that a run has not seen
            told = says(self.run)
            if evaluated:
                told["measures"] = measures(self.run)
        with patch.object(torch.nn.functional, "dropout", _Dropout()):
            steps = list(fit(self.training, self.recipe.task.loss(self.data), self.recipe.training))
        trained = {"losses": [step.loss for step in steps], "gradients": [step.gradient_norm for step in steps]}
        return {"initial": self.initial, **told, **trained}


class _Dropout:
    """torch's dropout with other random numbers: its own differ between processors. What is dropped depends on the order of the
    calls, as there."""

    def __init__(self) -> None:
        self.generator = np.random.Generator(np.random.PCG64(0))

    def __call__(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or not p:
            return x
        kept = torch.from_numpy(self.generator.random(tuple(x.shape)) >= p)
        return x * kept / (1 - p)


def measures(run: Run[Any]) -> Numbers:
    return {key: value for key, value in run.evaluate(progress=False).items() if isinstance(value, int | float)}


def fingerprint(network: nn.Module) -> list[float]:
    """Σ ±w of all weights, the sign from their places: another order of drawing gives another sum. And Σ |w|."""
    total, size = [], []
    for name, parameter in network.named_parameters():
        w = parameter.detach().double().flatten()
        sign = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode()))).integers(0, 2, len(w)) * 2 - 1
        total.append(float(w @ torch.from_numpy(sign).double()))
        size.append(float(w.abs().sum()))
    return [math.fsum(total), math.fsum(size)]


def says(run: Run[Any]) -> Numbers:
    """The outputs of a run of this task, before it is trained further."""
    match run.task.name:
        case "next-token" | "conversation" | "in-context":
            return _language(run)
        case "in-context-regression":
            return {}  # `evaluate` says all that such a run can
        case "span-corruption" | "embedding":
            return {"vectors": summary(torch.from_numpy(run.embed(["the list", "a name is"], progress=False)))}
        case "denoising":
            return {
                "restored": run.restore(["the __ is", "a n__"], tokens=8),
                "beam": run.restore(["the __ is"], beam=3, tokens=6),
            }
        case "translation":
            return _translation(run)
        case "classification":
            answers = run.classify(["a great film", "what an awful dull story", "film"])
            return {"probabilities": [[*one.probabilities.values()] for one in answers]}
        case "tagging":
            answers = run.tag(["Ada saw London", "he saw Ada Lovelace"])
            return {"tags": [[*one.tags] for one in answers], "probabilities": [[*one.probabilities] for one in answers]}
        case "answer":
            answers = run.answer("Where does Anna live ?", "Anna lives in Rome . Bert lives in Oslo .")
            return {"answer": answers.text, "probabilities": answers.probability}
        case "masked":
            (answers,) = run.fill("the l__st")
            return {"fillers": [one.filler for one in answers], "probabilities": [one.probability for one in answers]}
        case "electra":
            return {"probabilities": [[*one.probabilities] for one in run.replaced(["the list", "a name is"])]}
        case "caption":
            return _caption(run)
        case task:
            raise NotImplementedError(f'say in {Path(__file__).name} what a run of the task "{task}" answers')


def _language(run: Run[Any]) -> Numbers:
    """Logits of a prompt of 5 tokens and of 4 more, one by one, so of the cached steps, too."""
    vocab = run.network.vocab
    token_BT = torch.tensor([[(7 * t + 3 * b + t * t) % vocab for t in range(9)] for b in range(2)])
    state = run.network.start(2)
    parts = []
    with torch.inference_mode():
        for part_BT in token_BT.split([5, 1, 1, 1, 1], dim=1):
            logits_BTV, state = run.network.step(part_BT, state)
            parts.append(logits_BTV)
    return {"logits": summary(torch.cat(parts, dim=1)), **_continued(run)}


def _continued(run: Run[Any]) -> Numbers:
    prompt = "the list" if run.task.name == "next-token" else "name 3" if run.task.name == "conversation" else "ab"
    greedy = run.generate(prompt, tokens=20, temperature=0.0)
    continuations = run.continuations(prompt, run.decoding({"beam": 3, "tokens": 6}))
    return {"greedy": greedy, "beam": [[one.text, one.score] for one in continuations]}


def _translation(run: Run[Any]) -> Numbers:
    texts = ["1 2 3", "7"]
    greedy = [one[0] for one in run.translator.translate(texts, run.decoding({"tokens": 8}))]
    beams = run.translator.translate(texts, run.decoding({"beam": 3, "tokens": 6}))
    return {
        "greedy": [[one.text, one.log_probability] for one in greedy],
        "beam": [[[one.text, one.score] for one in beam] for beam in beams],
    }


def _caption(run: Run[Any]) -> Numbers:
    image_HWC = (np.arange(12 * 12 * 3).reshape(12, 12, 3) * 37 % 251).astype(np.uint8)
    greedy = run.captions([image_HWC], run.decoding({"tokens": 8}))[0][0]
    beam = run.captions([image_HWC], run.decoding({"beam": 3, "tokens": 6}))[0]
    return {"greedy": [greedy.text, greedy.log_probability], "beam": [[one.text, one.score] for one in beam]}


def summary(x: Tensor) -> list[float]:
    """A summary of N numbers: Σ ±x / √N with alternating signs, √(Σ x² / N), and three of them, all of the same order."""
    flat = x.double().flatten()
    turns = torch.ones_like(flat)
    turns[1::2] = -1
    count = len(flat)
    of_all = float(flat @ turns) / math.sqrt(count), math.sqrt(float(flat @ flat) / count)
    return [*of_all, *(float(flat[count * n // 4]) for n in (1, 2, 3))]
