"""The runs in this folder, one for each objective, as firth 0.1 trained them at commit b130c45.

    git worktree add /tmp/old b130c45 && cp -r tests/old_runs /tmp/old/tests/ && cd /tmp/old
    PYTHONPATH=.:tests python tests/old_runs/make.py

Each trains for 20 steps with a checkpoint after 10. The folder keeps that checkpoint, the final weights, the whole log and, in
expected.json, what `evaluate` measured, so that later code can load, resume and evaluate what earlier code left behind.
`tests/test_old_runs.py` does so. The data lie beside each run; a recipe names them by the placeholder OLD_RUN.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from in_context_tables import linear_table, swap_table
from questions import RECORDS, answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews
from runs import TEXT, recipe_table
from tags import SPANS, tagger_table
from tags import write as write_tags
from translations import pair_table, pairs_of, write_pairs

from firth import files
from firth.api import compose, load, train_recipe

HERE = Path(__file__).parent
PLACEHOLDER = "OLD_RUN"
SHORT = {"steps": 20, "evaluate_every": 10, "checkpoint_every": 10, "log_every": 1, "keep": 2}
TRANSFORMER = {"kind": "transformer", "width": 12, "depth": 1, "heads": 2}


def tables(folder: Path) -> dict[str, dict[str, Any]]:
    """By the name of the objective; what they read is written into `folder`."""
    text = {"data": {"text": TEXT[:2400], "valid": 0.2}, "tokenizer": {"kind": "char"}}
    windows = {"batch": 4, "context": 16, "rate": 0.01, "device": "cpu"}
    language = recipe_table(**windows) | {"model": {"kind": "gru", "width": 12}, **text}
    masked = {**text, "model": {"family": "encoder", **TRANSFORMER}, "objective": {"kind": "masked"}, "training": windows}
    spans = {**text, "model": {"family": "seq2seq", **TRANSFORMER}, "objective": {"kind": "span-corruption"}, "training": windows}
    pairs = pair_table(write_pairs(folder / "pairs.tsv", pairs_of()[:60])) | {
        "model": {"family": "seq2seq", "kind": "gru", "width": 10}
    }
    pairs["training"]["batch_tokens"] = 128
    answers = answer_table(write_questions(folder / "questions.jsonl", RECORDS[:40]), batch=8)
    answers["model"] |= {"width": 12, "depth": 1}
    return {
        "next-token": language,
        "masked": masked,
        "span-corruption": spans,
        "classification": classifier_table(write_reviews(folder / "reviews.tsv")),
        "tagging": tagger_table(write_tags(folder / "tags.conll", SPANS)),
        "answer": answers,
        "translation": pairs,
        "in-context": swap_table("lstm"),
        "in-context-regression": linear_table(),
    }


def asked(kind: str, model: Any) -> Any:
    """The output of a run of this kind for one input."""
    match kind:
        case "next-token":
            return [model.generate("the list", tokens=12, temperature=0), model.score(["the list is empty."])[0].log_probability]
        case "masked":
            return [one.filler for one in model.fill("the l__st")[0]][:3]
        case "classification":
            return model.classify(["a great film"])[0].probabilities
        case "tagging":
            return list(model.tag(["Ada saw London"])[0].tags)
        case "answer":
            return model.answer("Where does Anna live ?", "Anna lives in Rome . Bert lives in Oslo .").text
        case "translation":
            return model.translate(["1 2 3"])
        case _:
            return None


def make(kind: str, table: dict[str, Any], folder: Path) -> None:
    table["training"] |= SHORT
    run = folder / "run"
    train_recipe(compose(table), run)
    model = load(run, "cpu")
    expected = {"evaluate": model.evaluate(), "asked": asked(kind, model)}
    (run / "checkpoints" / "step-00000020.safetensors").unlink()
    (kept,) = (run / "checkpoints").iterdir()
    tensors, metadata = files.load_tensors(kept)
    anywhere = {key: value.replace(str(folder), PLACEHOLDER) for key, value in metadata.items()}
    files.save_tensors(kept, tensors, anywhere)
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(str(folder), PLACEHOLDER))
    (run / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    out = HERE / kind
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(run, out)
    if "path" in table["data"]:
        shutil.copy(table["data"]["path"], out)


def main() -> None:
    for kind in tables(Path(tempfile.mkdtemp())):
        folder = Path(tempfile.mkdtemp())
        make(kind, tables(folder)[kind], folder)


if __name__ == "__main__":
    main()
