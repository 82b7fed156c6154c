"""The recipes whose numbers are known: every idea of the package at least once, each as small as it can be.

A case is a recipe as a user writes it, so that it means the same however the package is built inside. `recipes(files)` gives them
by name; what they read is written by `Files`. `test_same_numbers.py` checks that no idea is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from captioned import write_captions
from chat_lines import digits, write_chats
from questions import RECORDS, write_questions
from reviews import write as write_reviews
from tags import SPANS
from tags import write as write_tags
from translations import pairs_of, write_pairs

from firth.layers.recurrent import CELLS

Table = dict[str, Any]

TEXT = "the list is empty.\nthe list has a name.\na name is in the set.\n" * 6
TRANSFORMER: Table = {"kind": "transformer", "width": 16, "depth": 2, "heads": 2}
CONTEXT = 12  # less than the texts that are written, so that the context is left behind
STEPS = 3
TRAINING: Table = {"steps": STEPS, "batch": 2, "context": 8, "rate": 0.01, "device": "cpu", "log_every": 1}

POSITIONS: dict[str, Table] = {
    "no positions": {"position": "none"},
    "learned": {"position": "learned"},
    "sinusoidal": {"position": "sinusoidal"},
    "sinusoidal, halves": {"position": "sinusoidal", "position_order": "halves", "embedding_scale": False},
    "sinusoidal, interleaved": {"position": "sinusoidal", "position_order": "interleaved", "position_base": 500.0},
    "sinusoidal, fairseq": {"position": {"kind": "sinusoidal", "order": "halves", "endpoint": True, "first": 2}},
    "rotary": {"position": "rotary"},
    "rotary, base": {"position": "rotary", "position_base": 500.0},
    "rotary, half": {"position": "rotary", "rotary_fraction": 0.5},
    "shaw": {"position": "shaw"},
    "shaw, near": {"position": "shaw", "max_distance": 3},
    "t5": {"position": "t5"},
    "t5, near": {"position": "t5", "distance_buckets": 6, "max_distance": 8},
    "t5, per layer": {"position": {"kind": "t5", "per_layer": True}},
    "alibi": {"position": "alibi"},
    "alibi, scaled": {"position": {"kind": "alibi", "scaled": True}, "score_scale": 0.5},
    "learned, t5": {"position": {"kind": "learned_t5", "buckets": 6, "max_distance": 8}},
    "disentangled": {"position": "disentangled"},
    "disentangled, own": {
        "position": "disentangled",
        "position_projections": "own",
        "position_norm": False,
        "distance_buckets": 4,
        "max_distance": 8,
    },
    "disentangled, shared": {"position": "disentangled", "position_projections": "shared", "position_norm": True},
}
ELSEWHERE = {  # in models of other families, where the same schemes also act without a direction, and on two sides
    name: POSITIONS[name]
    for name in (
        "no positions",
        "learned",
        "sinusoidal",
        "rotary",
        "shaw, near",
        "t5, near",
        "alibi",
        "disentangled, own",
        "learned, t5",
    )
}
SCALINGS: dict[str, Table] = {
    f"rotary, {kind}": {"position": "rotary", "rotary_scaling": kind, "rotary_context": 8, "rotary_factor": 2.5}
    for kind in ("linear", "ntk", "yarn", "llama3")
} | {
    "rotary, dynamic": {"rotary_scaling": "dynamic", "rotary_context": CONTEXT, "rotary_factor": 2.5},
    "rotary, not scaled": {"rotary_scaling": "none"},
    "rotary, yarn, factor of the context": {"rotary_scaling": "yarn", "rotary_context": 4},
}
SCORES: dict[str, Table] = {
    f"score {kind}": {"score": kind} for kind in ("scaled_dot", "dot", "gaussian", "bilinear", "cosine")
} | {"score additive": {"score": "additive", "position": "alibi"}}
BLOCKS: dict[str, Table] = {
    "score, scale": {"score_scale": 0.3},
    "score, cap": {"score_cap": 2.0},
    "layer norm, biases, relu": {"norm": "layer", "bias": True, "activation": "relu"},
    "layer norm, no biases, gelu": {"norm": "layer", "bias": False, "activation": "gelu"},
    "layer norm, biases in norms only": {"norm": {"kind": "layer", "bias": True}, "bias": False},
    "layer norm, biases but in norms": {"norm": {"kind": "layer", "bias": False}, "bias": True},
    "rms norm, ε, gelu_tanh": {"norm": "rms", "norm_eps": 0.01, "activation": "gelu_tanh"},
    "no biases of keys": {"bias": True, "attention": {"key_bias": False}},
    "biases of q, k and v, silu": {"bias": "qkv", "activation": "silu"},
    "swiglu, hidden": {"activation": "swiglu", "hidden": 12},
    "geglu": {"activation": "geglu"},
    "geglu_tanh": {"activation": "geglu_tanh"},
    "norms of q and k": {"qk_norm": True},
    "norms of all of q and all of k": {"qk_norm": "whole", "heads": 4, "kv_heads": 2},
    "pre": {"norm_placement": "pre"},
    "post": {"norm_placement": "post"},
    "sandwich": {"norm_placement": "sandwich"},
    "norm of the output": {"norm_placement": "after"},
    "grouped queries": {"heads": 4, "kv_heads": 2},
    "one key head": {"heads": 4, "kv_heads": 1},
    "wide heads": {"head_width": 12},
    "not tied": {"tied": False},
    "output bias": {"output_bias": True},
    "no output bias": {"output_bias": False, "bias": True, "tied": False},
    "norm of embeddings": {"embedding_norm": True},
    "embedding scale": {"embedding_scale": True},
    "three layers": {"depth": 3},
}
LANGUAGE: dict[str, Table] = {
    "parallel": {"parallel_block": True},
    "parallel, two norms": {"parallel_block": "two_norms"},
    "not parallel": {"parallel_block": False},
    "norm of embeddings replaces the first": {"embedding_norm": "replaces_first"},
    "logit cap": {"logit_cap": 3.0},
    "muP": {"parametrization": {"kind": "mup", "base_width": 4}},
    "strictly causal": {"mask": "strictly_causal"},
    "window": {"mask": "window", "span": 3},
    "window, learned": {"mask": "window", "span": 3, "position": "learned"},
    "window, alibi": {"mask": "window", "span": 3, "position": "alibi"},
    "windows by turns": {"mask": "window", "span": 3, "window_pattern": "LG"},
    "windows with a base of their own": {"mask": "window", "span": 3, "window_pattern": "LG", "position_base_local": 50.0},
    "window, one key head": {"mask": "window", "span": 4, "heads": 4, "kv_heads": 1},
    "softmax": {"attention": "softmax"},
    "linear": {"attention": "linear", "position": "none"},
    "linear, learned": {"attention": "linear", "position": "learned"},
    "gated linear": {"attention": "gated_linear", "position": "none"},
    "based": {"attention": "based", "span": 3},
    "based, features": {"attention": "based", "feature_width": 4, "position": "none"},
}
RECURRENT: dict[str, Table] = {
    **{kind: {"kind": kind} for kind in CELLS.shipped_kinds},
    "gru, reset before": {"kind": "gru", "reset": "before"},
    "lstm, tied": {"kind": "lstm", "embedding": 6, "tied": True},
    "mingru, one layer": {"kind": "mingru", "depth": 1},
}
SEQ2SEQ: dict[str, Table] = {
    "rnnenc": {"kind": "lstm", "attention": "none"},
    "rnnenc, reverse": {"kind": "lstm", "attention": "none", "reverse": True, "depth": 2},
    "rnnenc, feed": {"kind": "gru", "attention": "none", "feed_context": True},
    "rnnsearch": {"kind": "gru"},
    **{
        f"rnnsearch, {kind}": {"kind": kind, "attention": "additive", "embedding": 6}
        for kind in CELLS.shipped_kinds
        if kind != "gru"
    },
    "rnnsearch, reset after": {"kind": "gru", "reset": "after", "tied": True},
    "rnnsearch, bilinear": {"kind": "gru", "attention": "bilinear", "depth": 2, "bidirectional": True},
    **{
        f"rnnsearch, {score}": {"kind": "gru", "attention": score, "bidirectional": False}
        for score in ("dot", "scaled_dot", "gaussian", "cosine")
    },
    "bahdanau": {"kind": "lstm", "decoder": "bahdanau"},
    "luong": {"kind": "lstm", "decoder": "luong", "attention": "dot", "bidirectional": False},
    "luong, input feeding": {"kind": "gru", "decoder": "luong", "input_feeding": True, "reset": "before"},
}
TO_A_TARGET: dict[str, Table] = {  # Transformers that write a target
    "more encoder": {"encoder_depth": 3},
    "output scale": {"output_scale": True},
}
ENCODERS: dict[str, Table] = {
    "average": {"kind": "average", "width": 8},
    **{kind: {"kind": kind, "width": 8} for kind in CELLS.shipped_kinds},
    "gru, one direction": {"kind": "gru", "width": 8, "bidirectional": False, "depth": 2, "embedding": 6},
    **{f"lstm, {pool}": {"kind": "lstm", "width": 8, "pool": pool} for pool in ("first", "last", "mean", "max", "attention")},
    **{f"transformer, {pool}": TRANSFORMER | {"pool": pool} for pool in ("first", "last", "mean", "max", "attention")},
    **{f"transformer, pooler {kind}": TRANSFORMER | {"pooler": kind} for kind in ("tanh", "relu", "gelu")},
    "transformer, transform": TRANSFORMER | {"transform": True},
    "transformer, transform without biases": TRANSFORMER | {"transform": True, "transform_bias": False, "norm": "layer"},
    "transformer, shared layers": TRANSFORMER | {"depth": 4, "layer_groups": 2},
    "transformer, window": TRANSFORMER | {"span": 3},
    "transformer, windows by turns": TRANSFORMER | {"span": 3, "window_pattern": "LG", "position_base_local": 50.0},
    "transformer, norm of embeddings replaces the first": TRANSFORMER | {"embedding_norm": "replaces_first"},
    "transformer, parallel": TRANSFORMER | {"parallel_block": True},
}
TAGGERS: dict[str, Table] = {
    "average, crf": {"kind": "average", "width": 8, "readout": "crf"},
    "lstm": {"kind": "lstm", "width": 8, "readout": "softmax"},
    "lstm, characters, crf": {"kind": "lstm", "width": 8, "characters": 4, "readout": "crf"},
    "lstm, spelled by an lstm": {"kind": "lstm", "width": 8, "spelling": {"kind": "lstm", "width": 4, "join": "concatenate"}},
    "transformer, characters": TRANSFORMER | {"characters": 4},
    "transformer, spelled by an lstm": TRANSFORMER | {"spelling": {"kind": "lstm", "width": 4}},
    "transformer, crf": TRANSFORMER | {"readout": "crf"},
    "transformer, transform": TRANSFORMER | {"transform": True},
}
CAPTIONERS: dict[str, Table] = {
    "lstm": {"kind": "lstm", "width": 8, "embedding": 6, "channels": [3, 4]},
    "gru, tied": {"kind": "gru", "width": 8, "channels": [3, 4], "tied": True, "depth": 2, "reset": "after"},
    "gru, reset before": {"kind": "gru", "width": 8, "channels": [3, 4], "reset": "before", "decoder": "luong"},
    "luong": {"kind": "gru", "width": 8, "channels": [3, 8], "decoder": "luong", "input_feeding": True, "attention": "dot"},
    **{f"{kind}": {"kind": kind, "width": 8, "channels": [3, 4]} for kind in CELLS.shipped_kinds if kind not in ("lstm", "gru")},
    **{
        f"gru, {score}": {"kind": "gru", "width": 8, "channels": [3, 8], "attention": score}
        for score in ("additive", "bilinear", "gaussian", "scaled_dot", "cosine")
    },
    "patches": TRANSFORMER | {"encoder": "patch", "patch": 6, "encoder_depth": 1},
    "convolutions": TRANSFORMER | {"encoder": "conv", "channels": [3, 4], "encoder_depth": 0},
}
DROPPED: dict[str, Table] = {  # of language models
    "lstm": {"kind": "lstm", "depth": 2, "dropout": 0.3},
    "gru, each place": {"kind": "gru", "depth": 2, "dropout_input": 0.2, "dropout_hidden": 0.3, "dropout_output": 0.4},
    "lstm, locked, words, weights": {
        **{"kind": "lstm", "depth": 2, "dropout": 0.3, "dropout_locked": True, "dropout_word": 0.2, "dropout_weight": 0.3},
    },
    "transformer": TRANSFORMER | {"dropout": 0.3},
    "parallel": TRANSFORMER | {"dropout": 0.3, "parallel_block": True},
}
TRAININGS: dict[str, tuple[Table, Table]] = {
    "sgd, momentum, constant": ({"kind": "gru"}, {"optimizer": "sgd", "momentum": 0.5, "schedule": "constant", "clip": 0.0}),
    "adamw, decay, linear, warmup": (
        {"kind": "gru"},
        {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "linear", "warmup": 1},
    ),
    "cosine, two pieces": (TRANSFORMER, {"schedule": "cosine", "accumulate": 2, "final_rate_ratio": 0.5}),
    "inverse square root, betas": (TRANSFORMER, {"schedule": "inverse-sqrt", "warmup": 1, "betas": [0.8, 0.9]}),
    "carry": ({"kind": "lstm"}, {"carry": True}),
    "recompute": (TRANSFORMER, {"recompute": True}),
    "part": (TRANSFORMER, {"freeze": ["embedding"]}),
}


def recipes(files: Files) -> dict[str, Table]:
    """By name; the first word is the family or the task."""
    return dict(_recipes(files))


class Files:
    """Input files of the recipes, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.pairs = str(write_pairs(folder / "pairs.tsv", pairs_of()[:24]))
        self.reviews = str(write_reviews(folder / "reviews.tsv"))
        self.tags = str(write_tags(folder / "tags.conll", SPANS))
        self.questions = str(write_questions(folder / "questions.jsonl", RECORDS[:24]))
        self.chats = str(write_chats(folder / "chats.jsonl", digits()[:12]))
        self.captions = str(write_captions(folder / "captions", 10))
        self.vectors = str(_write_vectors(folder / "vectors.txt"))


def _write_vectors(path: Path) -> Path:
    """One for each of some words, in word2vec's text format: multiples of ⅛, which every float holds exactly."""
    words = ("a", "e", "t", "great", "film", "dull", "1", "2", "one", "the")
    rows = [" ".join([word, *(str(((3 * n + 5 * d) % 17 - 8) / 8) for d in range(8))]) for n, word in enumerate(words)]
    path.write_text(f"{len(rows)} 8\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def _recipes(files: Files) -> Iterator[tuple[str, Table]]:
    for name, model in {**POSITIONS, **SCALINGS, **SCORES, **BLOCKS, **LANGUAGE}.items():
        yield f"language transformer: {name}", text_recipe(TRANSFORMER | {"context": CONTEXT} | model)
    for name, model in RECURRENT.items():
        yield f"language recurrent: {name}", text_recipe({"width": 9, "depth": 2} | model)
    yield "language recurrent: start", text_recipe({"kind": "gru", "width": 9}) | {"tokenizer": {"kind": "char", "start": True}}
    for name, model in SEQ2SEQ.items():
        yield f"seq2seq recurrent: {name}", pair_recipe(files.pairs, {"width": 8} | model)
    yield "seq2seq recurrent: shared", pair_recipe(files.pairs, {"kind": "gru", "width": 8, "shared": True})
    yield "seq2seq transformer: shared", pair_recipe(files.pairs, TRANSFORMER | {"shared": True})
    for name, model in {**ELSEWHERE, **_without_score(BLOCKS), **TO_A_TARGET}.items():
        yield f"seq2seq transformer: {name}", pair_recipe(files.pairs, TRANSFORMER | model)
    for name, model in {**ELSEWHERE, **SCORES}.items():
        yield f"seq2seq prefix: {name}", pair_recipe(files.pairs, TRANSFORMER | model | {"kind": "prefix"})
    for name, model in {**ENCODERS, **{f"transformer, {name}": TRANSFORMER | one for name, one in ELSEWHERE.items()}}.items():
        yield f"encoder: {name}", _labelled(files, model)
    for name, model in TAGGERS.items():
        yield f"tagging: {name}", _table("tagging", {"path": files.tags, "valid": 0.2}, "word", "encoder", model)
    for name, model in CAPTIONERS.items():
        yield f"caption: {name}", _captions(files, model)
    yield from _tasks(files)
    yield from _with_vectors(files)
    yield from _with_dropout(files)
    for name, (model, training) in TRAININGS.items():
        table = text_recipe({"width": 8} | model)
        yield f"training: {name}", table | {"training": table["training"] | training}


def _with_vectors(files: Files) -> Iterator[tuple[str, Table]]:
    """Word vectors in the embedding: the initial weights show that they are there, the gradients that they stay."""
    given: Table = {"vectors": files.vectors, "width": 8}
    fixed = given | {"vectors_fixed": True}
    yield "vectors: average", _labelled(files, {"kind": "average"} | given)
    yield "vectors: average, fixed", _labelled(files, {"kind": "average"} | fixed)
    yield "vectors: lstm encoder", _labelled(files, {"kind": "lstm"} | fixed)
    yield "vectors: transformer encoder", _labelled(files, TRANSFORMER | fixed)
    yield "vectors: gru", text_recipe({"kind": "gru"} | fixed)
    yield "vectors: transformer", text_recipe(TRANSFORMER | fixed)
    yield "vectors: rnnsearch", pair_recipe(files.pairs, {"kind": "gru"} | fixed)
    yield "vectors: transformer seq2seq", pair_recipe(files.pairs, TRANSFORMER | fixed)
    yield "vectors: prefix", pair_recipe(files.pairs, TRANSFORMER | fixed | {"kind": "prefix"})
    yield "vectors: gru captioner", _captions(files, {"kind": "gru", "channels": [3, 4]} | fixed)
    yield "vectors: transformer captioner", _captions(files, TRANSFORMER | fixed | {"patch": 6})


def _with_dropout(files: Files) -> Iterator[tuple[str, Table]]:
    for name, model in DROPPED.items():
        yield f"dropout: {name}", text_recipe({"width": 8} | model)
    rate: Table = {"dropout": 0.3, "width": 8}
    for name, model in (
        ("average", {"kind": "average"}),
        ("lstm", {"kind": "lstm"}),
        ("pooler", TRANSFORMER | {"pooler": "tanh"}),
    ):
        yield f"dropout: {name} classifier", _labelled(files, model | rate)
    yield "dropout: tagger", _table("tagging", {"path": files.tags, "valid": 0.2}, "word", "encoder", {"kind": "lstm"} | rate)
    asked = {"path": files.questions, "valid": 0.2}
    yield "dropout: answer", _table("answer", asked, "word", "encoder", TRANSFORMER | rate | {"segments": 2}, context=32)
    for name, model in (
        ("rnnsearch", {"kind": "gru"}),
        ("transformer", TRANSFORMER),
        ("prefix", TRANSFORMER | {"kind": "prefix"}),
    ):
        yield f"dropout: {name} seq2seq", pair_recipe(files.pairs, model | rate)
    yield "dropout: gru captioner", _captions(files, {"kind": "gru", "channels": [3, 4]} | rate)
    yield "dropout: transformer captioner", _captions(files, TRANSFORMER | rate | {"patch": 6})


def _tasks(files: Files) -> Iterator[tuple[str, Table]]:
    running = {"text": TEXT, "valid": 0.2}
    encoder = TRANSFORMER | {"norm": "layer", "bias": True, "activation": "gelu"}
    yield "masked: transformer", _table("masked", running, "char", "encoder", encoder)
    plain = encoder | {"transform_bias": False, "output_bias": False, "embedding": 6}
    yield "masked: transformer, no bias", _table("masked", running, "char", "encoder", plain)
    for kind in ("relu", "gelu_tanh", "silu"):
        table = encoder | {"transform_activation": kind}
        yield f"masked: transformer, {kind}", _table("masked", running, "char", "encoder", table)
    yield "masked: lstm", _table("masked", running, "char", "encoder", {"kind": "lstm", "width": 8})
    yield "electra", _table("electra", running, "char", "encoder", encoder | {"embedding": 12})
    yield "span-corruption", _table("span-corruption", running, "char", "seq2seq", TRANSFORMER | {"position": "t5"})
    yield "denoising", _table("denoising", running, "char", "seq2seq", TRANSFORMER | {"position": "learned"})
    asked = {"path": files.questions, "valid": 0.2}
    yield "answer", _table("answer", asked, "word", "encoder", TRANSFORMER | {"segments": 2}, context=32)
    hidden = TRANSFORMER | {"segments": 2, "transform": True}
    yield "answer, transform", _table("answer", asked, "word", "encoder", hidden, context=32)
    chats = {"path": files.chats, "valid": 0.2}
    yield "conversation", _table("conversation", chats, "word", "language", TRANSFORMER, context=32)
    swaps = {"name": "swaps", "letters": 4, "word_length": 3, "examples": 3, "count": 200}
    yield "in-context", _table("in-context", swaps, "char", "language", TRANSFORMER, context=31)
    lines = {"name": "linear", "dimensions": 2, "examples": 4, "count": 200}
    yield "in-context-regression", _table("in-context-regression", lines, "char", "language", TRANSFORMER, context=9)


def _without_score(blocks: dict[str, Table]) -> dict[str, Table]:
    """Without the settings that only language models have."""
    return {name: table for name, table in blocks.items() if not {"score_scale", "score_cap"} & table.keys()}


def text_recipe(model: Table) -> Table:
    table = _table("next-token", {"text": TEXT, "valid": 0.2}, "char", "language", model)
    return table | {"tokenizer": {"kind": "char", "start": False}}


def _captions(files: Files, model: Table) -> Table:
    data = {"path": files.captions, "valid": 0.2, "size": 12}
    return _table("caption", data, "word", "caption", model, context=16)


def _labelled(files: Files, model: Table) -> Table:
    return _table("classification", {"path": files.reviews, "valid": 0.2}, "word", "encoder", model)


def pair_recipe(pairs: str, model: Table) -> Table:
    joint = model["kind"] == "prefix" or model.get("shared", False)
    table = _table("translation", {"path": pairs, "valid": 0.2}, "word", "seq2seq", model, batch_tokens=24)
    return table | ({"tokenizer": {"kind": "word", "joint": True}} if joint else {})


def _table(task: str, data: Table, tokenizer: str, family: str, model: Table, **training: Any) -> Table:
    own = {key: value for key, value in TRAINING.items() if not (key == "batch" and "batch_tokens" in training)}
    return {
        "data": data,
        "tokenizer": {"kind": tokenizer} if task not in ("in-context", "in-context-regression") else {},
        "model": {"family": family} | model,
        "objective": {"kind": task},
        "training": own | training,
        "decoding": {"tokens": 8},
    }
