"""Our models in CTranslate2: its Translator and Generator write the same greedy texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from encoder_decoder_folders import BUILDERS, folder_of, trained
from foreign_folders import gpt2, llama, saved
from shares import half

import firth
from firth.api import export_model
from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.errors import ConfigError
from firth.tasks.translation import TranslatorRun

ctranslate2 = pytest.importorskip("ctranslate2", reason="the oracle is CTranslate2's own translator")
SOURCES = ["a b c", "the list", "be at the list"]


def translated(folder: Path, texts: list[str], **options: Any) -> list[str]:
    """As the README.md of an exported folder does it."""
    own = folder / "source_tokenizer.json"
    source = tokenizers.Tokenizer.from_file(str(own if own.is_file() else folder / "tokenizer.json"))
    target = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    given = [source.encode(text).tokens for text in texts]
    results = translator.translate_batch(given, beam_size=1, max_decoding_length=30, **options)
    return [target.decode([target.token_to_id(token) for token in one.hypotheses[0]]) for one in results]


@pytest.mark.parametrize("name", half(BUILDERS))
def test_public_encoder_decoders_write_the_same_tokens(name: str, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path / "hf")
    run = firth.load(folder, "cpu", kind=TranslatorRun)
    export_model(folder, tmp_path / "ct2", format="ctranslate2")
    names = run.tokenizer.names()
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", compute_type="float32", intra_threads=1)
    encoded = run._encoder().encode(["The list is empty.", "The café", "naïve users"]).ids
    first = run.tokenizer.decoder.first
    prefix = None if first is None else [[names[first]]] * 3
    given = [[names[int(id)] for id in ids] for ids in encoded]
    theirs = translator.translate_batch(given, beam_size=1, max_decoding_length=40, target_prefix=prefix)
    search = run.translator._search(DecodingConfig(tokens=40), False, range(3))
    for mine, other in zip(search(encoded), theirs, strict=True):
        tokens = mine[0].tokens[:-1] if mine[0].finished else mine[0].tokens
        assert [names.get(token, f"<unused {token}>") for token in tokens] == other.hypotheses[0]
    assert max(len(other.hypotheses[0]) for other in theirs) == 40


@pytest.mark.parametrize(
    "build", [gpt2, llama, lambda: llama(head_dim=16, tie_word_embeddings=True)], ids=["gpt2", "llama", "wide"]
)
def test_language_models_write_the_same_tokens(build: Any, tmp_path: Path) -> None:
    folder = saved(tmp_path / "hf", build())
    run = firth.load(folder, "cpu")
    export_model(folder, tmp_path / "ct2", format="ctranslate2", license="mit")
    ids, names = run.prompt_ids("The café is"), run.tokenizer.names()
    generator = ctranslate2.Generator(str(tmp_path / "ct2"), device="cpu", compute_type="float32", intra_threads=1)
    given = [[names[int(id)] for id in ids]]
    theirs = generator.generate_batch(given, max_length=40, sampling_topk=1, include_prompt_in_result=False, end_token=[])
    config = DecodingConfig(tokens=40, temperature=0)
    expected = [int(token) for token in generate(run.network, torch.from_numpy(ids).unsqueeze(0), config)]
    assert theirs[0].sequences_ids[0] == expected
    assert (tmp_path / "ct2" / "README.md").read_text().startswith("---\nlicense: mit\nlibrary_name: ctranslate2\n")


OWN: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "as the shipped translators": ({}, None),
    "one vocabulary, uneven": ({"shared": True, "encoder_depth": 1}, {"kind": "char", "joint": True}),
    "as published in 2017": (
        {"position": "sinusoidal", "norm": "layer", "norm_placement": "post", "activation": "relu", "bias": True},
        None,
    ),
    "learned, LayerNorm without bias": ({"position": "learned", "norm": "layer", "activation": "gelu", "tied": False}, None),
    "LayerNorm with a bias of its own": ({"norm": {"kind": "layer", "bias": True}, "activation": "gelu"}, None),
}


QUICK = ("one vocabulary, uneven", "as published in 2017")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in OWN])
def test_a_translator_of_ours_translates_the_same(name: str, tmp_path: Path) -> None:
    model, tokenizer = OWN[name]
    path = trained(tmp_path, model, tokenizer)
    run = firth.load(path, "cpu", kind=TranslatorRun)
    folder = export_model(path, tmp_path / "ct2", format="ctranslate2")
    expected = run.translate(SOURCES, beam=1)
    assert translated(folder, SOURCES) == expected
    assert any(expected)
    shared = tokenizer is not None
    assert (folder / "source_tokenizer.json").is_file() is not shared
    assert json.loads((folder / "config.json").read_text())["layer_norm_epsilon"] == run.recipe.model.norm.eps


REFUSED: dict[str, dict[str, Any]] = {
    "position.kind = 'alibi'": {"position": "alibi"},
    "attention.score = 'additive'": {"score": "additive", "position": "learned"},
    "norm.placement = 'sandwich'": {"norm_placement": "sandwich"},
    "position.fraction = 0.5": {"rotary_fraction": 0.5},
    "norm.placement = 'after'": {"norm_placement": "after"},
    "attention.qk_norm = 'whole'": {"qk_norm": "whole"},
}


@pytest.mark.parametrize("reason", list(REFUSED))
def test_what_it_cannot_compute_is_refused_with_the_reason(reason: str, tmp_path: Path) -> None:
    path = trained(tmp_path, REFUSED[reason], steps=1)
    with pytest.raises(ConfigError, match=f"CTranslate2 cannot express model.{reason}"):
        export_model(path, tmp_path / "ct2", format="ctranslate2")
    assert not (tmp_path / "ct2").exists()


def test_recurrent_translators_and_unknown_formats_are_refused(tmp_path: Path, char_run: Path) -> None:
    with pytest.raises(ConfigError, match=r'CTranslate2 cannot express model\.family = "language" with model\.kind = "gru"'):
        export_model(char_run, tmp_path / "ct2", format="ctranslate2")
    with pytest.raises(ConfigError, match='unknown format "exe"; choose one of: hf, '):
        export_model(char_run, tmp_path / "ct2", format="exe")  # type: ignore[arg-type]
