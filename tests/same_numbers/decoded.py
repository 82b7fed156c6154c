"""Texts decoded with each setting by each way of decoding, and by the fast paths in the precision that they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from same_numbers.case import Case, Numbers, draw, summary
from same_numbers.cases import CONTEXT, TRANSFORMER, Table, pair_recipe, text_recipe

from firth.decoding.engine.engine import Engine, Event, GeneratedToken, Job
from firth.models.quantisation import quantise
from firth.tasks.abilities.stepwise_generation import next_token, write

Compute = Callable[[int, float], Numbers]  # of the seed and the noise of the weights

TOKENS = 12
SAMPLED: dict[str, Table] = {
    "greedy": {"temperature": 0.0},
    "plain": {},
    "another seed": {"seed": 7},
    "fewer tokens": {"tokens": 5},
    "hot": {"temperature": 1.7},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.6},
    "min_p": {"min_p": 0.25},
    "top_k, then top_p": {"top_k": 3, "top_p": 0.75},
    "top_p, then min_p": {"top_p": 0.8, "min_p": 0.3},
    "repetition": {"repetition_penalty": 1.8},
    "repetition, wanted": {"repetition_penalty": 0.6},
    "repetition, greedy": {"temperature": 0.0, "repetition_penalty": 1.3},
    "all": {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2, "seed": 3},
}
FILTERED: dict[str, Table] = {  # by filters that came later, in a case of their own
    "typical_p": {"typical_p": 0.6},
    "xtc": {"xtc_probability": 0.5, "xtc_threshold": 0.05},
    "mirostat": {"mirostat": 2.0, "mirostat_rate": 0.4},
    "dry": {"dry_multiplier": 2.0, "dry_base": 1.5, "dry_allowed_length": 1},
    "dry, greedy": {"dry_multiplier": 2.0, "dry_base": 1.5, "dry_allowed_length": 1, "temperature": 0.0},
    "together": {"typical_p": 0.9, "xtc_probability": 0.3, "dry_multiplier": 1.0, "top_k": 9},
}
CONSTRAINED: dict[str, Table] = {
    "choice": {"choice": ["the list", "a name", "thin"]},
    "regex": {"regex": "[a-l]{2,4}( [m-z]{1,3}){2}\\."},
    "regex, greedy": {"regex": "[a-l]{2,4}( [m-z]{1,3}){2}\\.", "temperature": 0.0},
    "json_schema": {"json_schema": '{"enum": [[], [1]]}'},
}
SOME = ("greedy", "top_p", "repetition", "all")  # for models that differ from the first in their states alone
STOPPED: dict[str, Table] = {"stop": {"stop": ["s", "he"]}, "stop, greedy": {"stop": ["t"], "temperature": 0.0}}
SEARCHED: dict[str, Table] = {
    "beam": {"beam": 4},
    "no length penalty": {"beam": 4, "penalty": 0.0},
    "rules of transformers": {"beam": 4, "beam_rules": "transformers", "penalty": 1.0},
    "early stopping": {"beam": 3, "beam_rules": "transformers", "penalty": 2.0, "early_stopping": True},
    "wu, not early": {"beam": 2, "beam_rules": "wu", "early_stopping": False},
    "groups": {"beam": 6, "beam_groups": 3},
    "diverse": {"beam": 4, "beam_groups": 2, "diversity": 3.0},
    "repetition": {"beam": 3, "repetition_penalty": 1.8},
}
STOPPED_SEARCH: dict[str, Table] = {"stop": {"beam": 3, "stop": ["s", "he"]}}
WRITERS: dict[str, Table] = {
    "transformer": TRANSFORMER | {"heads": 4, "kv_heads": 2, "context": CONTEXT},
    "windows": TRANSFORMER | {"mask": "window", "span": 3, "window_pattern": "LG", "context": CONTEXT},
    "linear": TRANSFORMER | {"attention": "based", "span": 3, "context": CONTEXT},
    "alibi": TRANSFORMER | {"position": "alibi", "score": "additive", "context": CONTEXT},
    "gru": {"kind": "gru", "width": 9, "depth": 2},
    "mingru": {"kind": "mingru", "width": 9},
}
TRANSLATORS: dict[str, Table] = {
    "rnnsearch": {"kind": "gru", "width": 8},
    "transformer": TRANSFORMER | {"heads": 4, "kv_heads": 2},
    "prefix": TRANSFORMER | {"kind": "prefix"},
}
WIDE: Table = {"kind": "transformer", "width": 32, "depth": 2, "heads": 2, "head_width": 32, "context": 40}
FAST: dict[str, Table] = {  # heads of 32 numbers: what the compiled kernels for CPUs take
    "swiglu, rms, rotary": WIDE | {"heads": 4, "kv_heads": 2},
    "gelu_tanh, layer norm, biases, learned": WIDE
    | {"activation": "gelu_tanh", "norm": "layer", "bias": True, "position": "learned"},
    "relu, layer norm without biases": WIDE | {"activation": "relu", "norm": "layer"},
    "silu, biases of q, k and v, scale": WIDE | {"activation": "silu", "bias": "qkv", "score_scale": 0.2},
    "geglu_tanh, no positions": WIDE | {"activation": "geglu_tanh", "position": "none"},
    "gelu, deep product": {**WIDE, "depth": 1, "activation": "gelu", "hidden": 1 << 14},
    "lstm": {"kind": "lstm", "width": 16},
}
MANY = "".join(chr(0x4E00 + n) for n in range(500))  # characters, so that a beam compares them in blocks


def decoded(pairs: str) -> dict[str, Compute]:
    """By name. `pairs`: a file of sentence pairs."""
    return dict(_decoded(pairs))


def _decoded(pairs: str) -> Iterator[tuple[str, Compute]]:
    for name, model in WRITERS.items():
        settings = SAMPLED | STOPPED if name == "transformer" else {one: SAMPLED[one] for one in SOME}
        yield f"decoding: {name}", lambda seed, noise, model=model, settings=settings: _written(model, settings, seed, noise)
    yield "decoding: more filters", _filtered
    yield "decoding: constraints", _constrained
    yield "decoding: many characters", _many
    for name, model in TRANSLATORS.items():
        yield f"decoding: translation, {name}", lambda seed, noise, model=model: _translated(pairs, model, seed, noise)
    for name, model in FAST.items():
        yield f"fast: {name}", lambda seed, noise, model=model: _fast(model, seed, noise)
    for kind in ("int8", "int4"):
        for name, model in (("transformer", FAST["silu, biases of q, k and v, scale"]), ("gru", {"kind": "gru", "width": 32})):
            yield f"quantised: {kind}, {name}", lambda seed, noise, kind=kind, model=model: _quantised(kind, model, seed, noise)
    yield "fast: translation", lambda seed, noise: _fast_translation(pairs, seed, noise)


def _written(model: Table, settings: dict[str, Table], seed: int, noise: float) -> Numbers:
    run = Case(text_recipe(model), seed, noise).run
    draft = Case(text_recipe({"kind": "rnn", "width": 8}), seed, noise).run
    prompt, given = "the list", {name: {"tokens": TOKENS} | one for name, one in settings.items()}
    return {
        "generate": {name: run.generate(prompt, **one) for name, one in given.items()},
        "draft": {name: run.generate(prompt, draft=draft, **one) for name, one in given.items()},
        "step by step": {name: _stepwise(run, prompt, one) for name, one in given.items()},
        "shares": {name: _shares(run, prompt, one) for name, one in given.items()},
        "search": {name: _search(run, prompt, one) for name, one in (SEARCHED | STOPPED_SEARCH).items()},
        "engine": _engine(run),
    }


def _filtered(seed: int, noise: float) -> Numbers:
    run = Case(text_recipe(WRITERS["transformer"]), seed, noise).run
    draft = Case(text_recipe({"kind": "rnn", "width": 8}), seed, noise).run
    prompt, given = "the list", {name: {"tokens": TOKENS} | one for name, one in FILTERED.items()}
    alone = {name: one for name, one in given.items() if name != "mirostat"}  # the others know a text by its tokens
    return {
        "generate": {name: run.generate(prompt, **one) for name, one in given.items()},
        "draft": {name: run.generate(prompt, draft=draft, **one) for name, one in alone.items()},
        "step by step": {name: _stepwise(run, prompt, one) for name, one in alone.items()},
        "shares": {name: _shares(run, prompt, one) for name, one in alone.items()},
        "search": _search(run, prompt, {"beam": 3, "dry_multiplier": 2.0, "dry_allowed_length": 1}),
        "engine": _engine(run, FILTERED),
    }


def _constrained(seed: int, noise: float) -> Numbers:
    table = text_recipe(WRITERS["transformer"])
    run = Case(table | {"tokenizer": {"kind": "bpe", "vocab": 300}}, seed, noise).run
    given = {name: {"tokens": 40} | one for name, one in CONSTRAINED.items()}
    return {
        "generate": {name: run.generate("the list", **one) for name, one in given.items()},
        "engine": _engine(run, CONSTRAINED),
    }


def _stepwise(run: Any, prompt: str, settings: Table) -> str:
    ids = list(write(run, prompt, [], run.decoding(settings)))
    return str(run.tokenizer.decode(ids))


def _shares(run: Any, prompt: str, settings: Table) -> list[Any]:
    step = next_token(run, prompt, [], run.decoding(settings), top=4)
    return [[one.token, one.probability, one.share] for one in step.candidates]


def _search(run: Any, prompt: str, settings: Table) -> list[Any]:
    continuations = run.continuations(prompt, run.decoding({"tokens": 6} | settings))
    return [[one.text, one.score, one.finished] for one in continuations]


def _engine(run: Any, chosen: dict[str, Table] = SAMPLED) -> Numbers:
    """All settings at once, as rows of one batch, with prompts of different lengths that are read in pieces."""
    engine = Engine(run.network, slots=5, chunk=4, tokenizer=run.tokenizer)
    heard: dict[str, list[Event]] = {}
    text, numbered = "the list has a name", enumerate(chosen.items())
    for n, (name, settings) in numbered:
        prompt = run.prompt_ids(text[: 3 + n]).tolist()
        config = run.decoding({"tokens": TOKENS, "seed": 1} | settings)
        ends = tuple(run.ids("y").tolist()) if n % 3 == 0 else ()
        job = Job(tuple(prompt), config, ends=ends, top=2 * (n % 2), number=n % 2, score_prompt=n % 4 == 1)
        heard[name] = []
        engine.submit(job, heard[name].extend)
    while engine.busy:
        engine.turn()
    return {name: _told(run, events) for name, events in heard.items()}


def _told(run: Any, events: list[Event]) -> list[Any]:
    """The text, why it ended, Σ log p of its tokens, and of the alternatives."""
    *written, end = events
    tokens = [event for event in written if isinstance(event, GeneratedToken)]
    best = sum(value for token in tokens for _, value in token.top)
    reason = getattr(end, "reason", None)
    return [
        run.tokenizer.decode([token.id for token in tokens]),
        reason,
        sum(token.log_probability or 0.0 for token in tokens),
        best,
    ]


def _translated(pairs: str, model: Table, seed: int, noise: float) -> Numbers:
    run = Case(pair_recipe(pairs, model), seed, noise).run
    texts = ["1 2 3", "7", "4 4 4 9"]

    def told(settings: Table, sample: bool) -> list[Any]:
        translations = run.translations(texts, run.decoding({"tokens": 6} | settings), sample=sample, progress=False)
        return [[[one.text, one.score, one.finished] for one in beam] for beam in translations]

    return {
        "sample": {name: told(settings, True) for name, settings in SAMPLED.items()},
        "greedy": told({}, False),
        "greedy, repetition": told({"repetition_penalty": 1.8}, False),
        "search": {name: told(settings, False) for name, settings in SEARCHED.items()},
    }


def _many(seed: int, noise: float) -> Numbers:
    """A vocabulary so large that a beam looks at the best of each block first; in float32, its normaliser is compiled code."""
    recipe = text_recipe({"kind": "gru", "width": 8}) | {"data": {"text": MANY * 2, "valid": 0.0}}
    recipe["training"] = {**recipe["training"], "context": 32}
    run = Case(recipe, seed, noise).run
    numbers = {"search": {name: _search(run, MANY[:3], one) for name, one in SEARCHED.items()}}
    run.network.float()
    return numbers | {"search, float32": {name: _search(run, MANY[:3], one) for name, one in SEARCHED.items()}}


def _fast(model: Table, seed: int, noise: float) -> Numbers:
    """One row and seven rows, each first at once and then token by token: exactly, and in float32 without gradients."""
    run = Case(text_recipe(model), seed, noise).run
    exact = {
        "logits": [_stepped(run, rows) for rows in (1, 7)],
        "greedy": run.generate("the list", tokens=TOKENS, temperature=0.0),
    }
    run.network.float()
    draw(run.network, seed, noise)
    fast = {"fast logits": [_stepped(run, rows) for rows in (1, 7)]}
    return exact | fast | {"fast greedy": run.generate("the list", tokens=TOKENS, temperature=0.0)}


def _fast_translation(pairs: str, seed: int, noise: float) -> Numbers:
    run = Case(pair_recipe(pairs, WIDE | {"bias": True}), seed, noise).run
    run.network.float()
    translations = run.translations(["1 2 3", "7", "4 4 4 9"], run.decoding({"beam": 3, "tokens": 6}), progress=False)
    return {"search": [[[one.text, one.score, one.finished] for one in beam] for beam in translations]}


def _stepped(run: Any, rows: int) -> list[float]:
    vocab, parts = run.network.vocab, []
    token_BT = torch.tensor([[(7 * t + 3 * b + t * t) % vocab for t in range(9)] for b in range(rows)])
    state = run.network.start(rows)
    with torch.inference_mode():
        for part_BT in token_BT.split([3, 1, 1, 1, 1, 1, 1], dim=1):
            logits_BTV, state = run.network.step(part_BT, state)
            parts.append(logits_BTV)
    return summary(torch.cat(parts, dim=1))


def _quantised(kind: Any, model: Table, seed: int, noise: float) -> Numbers:
    """In float64, where the rounded weights are all that differs; the kernels have tests of their own."""
    run = Case(text_recipe(model), seed, noise).run
    quantise(run.network, kind)
    return {"logits": _stepped(run, 2), "greedy": run.generate("the list", tokens=TOKENS, temperature=0.0)}
