"""The runs in this folder, as firth 0.2 wrote them when [model] was one flat table.

    git worktree add /tmp/old 6a833ab && cp -r tests/old_runs tests/same_numbers /tmp/old/tests/
    cd /tmp/old && PYTHONPATH=.:tests python tests/old_runs/drawn/make.py

A run is kept as text: its recipe, its tokenizers, the names and shapes of its weights (weights.json), and what it answers
(expected.json). `written` draws the weights by name from a seed and makes a run folder of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open
from same_numbers.case import drawn, says
from same_numbers.cases import TRANSFORMER, Files, Table, pair_recipe, recipes, text_recipe
from same_numbers.known import discrete
from same_numbers.record import NOISE, rounded

from firth import files
from firth.api import compose, load, train_recipe

HERE = Path(__file__).parent
PLACEHOLDER = "OLD_RUN"
LARGE = 4000  # characters of a file that several models share
KEPT = ("format", "recipe.toml", "tokenizer.json", "source_tokenizer.json", "tokenizer_config.json")
SMALL = TRANSFORMER | {"width": 8, "context": 16}
OWN: dict[str, Table] = {  # each with many settings at once, so that all of their names occur
    "gemma": SMALL
    | {
        **{"mask": "window", "span": 3, "window_pattern": "LG", "position_base_local": 50.0, "position_base": 500.0},
        **{"score_scale": 0.3, "score_cap": 4.0, "logit_cap": 5.0, "qk_norm": True, "kv_heads": 1, "head_width": 6},
        **{"norm_placement": "sandwich", "norm_eps": 1e-6, "embedding_scale": True, "activation": "geglu_tanh"},
    },
    "neox": SMALL
    | {
        "width": 16,
        **{"parallel_block": "two_norms", "rotary_fraction": 0.5, "norm": "layer", "bias": True, "activation": "gelu"},
        **{"rotary_scaling": "yarn", "rotary_context": 8, "rotary_factor": 2.0, "tied": False, "output_bias": False},
    },
    "bloom": SMALL | {"position": "alibi", "embedding_norm": True, "norm": "layer", "bias": "qkv", "activation": "gelu_tanh"},
    "sinusoidal": SMALL | {"position": "sinusoidal", "position_order": "halves", "embedding_scale": False, "hidden": 12},
    "learned": SMALL | {"position": "learned", "norm_placement": "post", "output_bias": True, "activation": "relu"},
    "t5": SMALL | {"position": "t5", "distance_buckets": 6, "max_distance": 8, "score": "additive"},
    "shaw": SMALL | {"position": "shaw", "max_distance": 3, "score": "bilinear", "mask": "strictly_causal"},
    "disentangled": SMALL
    | {
        "position": "disentangled",
        "position_projections": "own",
        "position_norm": False,
        "max_distance": 8,
        "distance_buckets": 4,
    },
    "linear": SMALL | {"attention": "linear", "position": "none"},
    "gated-linear": SMALL | {"attention": "gated_linear", "position": "none"},
    "based": SMALL | {"attention": "based", "span": 3, "feature_width": 4},
    "lstm": {"kind": "lstm", "width": 8, "embedding": 6, "tied": True, "depth": 2},
    "gru": {"kind": "gru", "width": 8, "reset": "before"},
    "rnn": {"kind": "rnn", "width": 8},
    "mingru": {"kind": "mingru", "width": 8},
}
PAIRS: dict[str, Table] = {
    "rnnenc": {"kind": "lstm", "width": 8, "attention": "none", "reverse": True, "feed_context": True},
    "rnnsearch": {"kind": "gru", "width": 8},
    "luong": {"kind": "gru", "width": 8, "decoder": "luong", "input_feeding": True, "attention": "bilinear", "reset": "before"},
    "translator": SMALL | {"encoder_depth": 1, "output_scale": True, "shared": True, "position": "sinusoidal"},
    "prefix": SMALL | {"kind": "prefix", "context": 32},
}
CASES = {  # of tests/same_numbers
    "classifier-average": "encoder: average",
    "classifier-lstm": "encoder: lstm, attention",
    "classifier": "encoder: transformer, pooler tanh",
    "classifier-windows": "encoder: transformer, windows by turns",
    "tagger": "tagging: lstm, characters, crf",
    "masked": "masked: transformer, no bias",
    "electra": "electra",
    "answer": "answer",
    "denoising": "denoising",
    "span-corruption": "span-corruption",
    "conversation": "conversation",
    "in-context": "in-context",
    "captioner": "caption: lstm",
    "captioner-transformer": "caption: convolutions",
}


def tables(folder: Path) -> dict[str, Table]:
    written = Files(folder)
    cases = recipes(written)
    own = {name: text_recipe(model) for name, model in OWN.items()}
    pairs = {name: pair_recipe(written.pairs, model) for name, model in PAIRS.items()}
    return {**own, **pairs, **{name: cases[case] for name, case in CASES.items()}}


def written(kept: Path, out: Path, seed: int, noise: float = 0.0) -> Path:
    """A model that is kept as text, as a folder with its weights."""
    shutil.copytree(kept, out, ignore=shutil.ignore_patterns("weights.json", "expected.json"))
    weights = json.loads((kept / "weights.json").read_text(encoding="utf-8"))
    for name, place in weights["shared"].items():
        shutil.copy(kept / place, out / name)
    tensors = {key: drawn(key, shape, seed, noise).float() for key, shape in weights["shapes"].items()}
    files.save_tensors(out / "model.safetensors", tensors, weights["metadata"])
    return out


def answers(folder: Path) -> dict[str, Any]:
    """The outputs of the run in a folder, computed in float64."""
    run = load(folder, "cpu")
    run.network.double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return says(run)


def keep(model: Path, out: Path, names: Sequence[str] = KEPT, shared: Path | None = None) -> None:
    """The model in a folder as text: these of its files, large ones in the folder `shared`, and what `written` needs."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    places = {}
    for name in names:
        if not (model / name).exists():
            continue
        text = (model / name).read_text(encoding="utf-8").replace(str(model.parent), PLACEHOLDER)
        if shared is not None and len(text) > LARGE:
            place = shared / f"{zlib.crc32(text.encode()):08x}-{name}"
            place.parent.mkdir(exist_ok=True)
            place.write_text(text, encoding="utf-8")
            places[name] = os.path.relpath(place, out)
        else:
            (out / name).write_text(text, encoding="utf-8")
    with safe_open(model / "model.safetensors", framework="pt") as weights:
        metadata = {key: value for key, value in sorted((weights.metadata() or {}).items()) if key != "sha256"}
        shapes = ",\n".join(f"  {json.dumps(key)}: {weights.get_slice(key).get_shape()}" for key in sorted(weights.keys()))
    facts = f' "metadata": {json.dumps(metadata)},\n "shared": {json.dumps(places)},\n "shapes": {{\n{shapes}\n }}'
    (out / "weights.json").write_text(f"{{\n{facts}\n}}\n", encoding="utf-8")


def expect(kept: Path, folder: Path) -> None:
    """Write down what a model answers, with the first seed for which that does not hang on a rounding."""
    for seed in range(20):
        places = [written(kept, folder / f"{kept.name}-{seed}{noise:+}", seed, noise) for noise in (0.0, NOISE, -NOISE)]
        answered = [answers(place) for place in places]
        if discrete(answered[0]) == discrete(answered[1]) == discrete(answered[2]):
            expected = {"seed": seed, **rounded(answered[0])}
            lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in expected.items())
            (kept / "expected.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
            return
    sys.exit(f"{kept.name}: what it says hangs on a rounding with every seed")


def make(name: str, table: Table, folder: Path) -> None:
    train_recipe(compose(table | {"training": table["training"] | {"steps": 1}}), folder / name)
    keep(folder / name, HERE / name)
    expect(HERE / name, folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, table in tables(folder).items():
            if not sys.argv[1:] or name in sys.argv[1:]:
                make(name, table, folder)
                print(name, flush=True)


if __name__ == "__main__":
    main()
