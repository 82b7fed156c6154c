"""Multilingual translators: the tokens of the languages stand where theirs do, and none is guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from encoder_decoder_folders import END, PAD, m2m_100, mbart, opened
from foreign_folders import byte_level, saved, transformers
from http_servers import serving
from shares import half
from shell import Firth
from tokenizers import AddedToken, processors

import firth
from firth.api import export_model, import_model, load
from firth.errors import ConfigError, DataError
from firth.tasks.translation import TranslatorRun
from firth.text.tokenizers.languages import Languages

CODES = ("eng_Latn", "deu_Latn", "nld_Latn")
TEXTS = ["The list is empty.", "The café"]
Build = Callable[..., Any]
# The layouts: of NLLB, of mBART, whose decoder begins with the target's token, and of NLLB as it was first published.
LAYOUTS: dict[str, tuple[Build, str, dict[str, Any]]] = {
    "first": (m2m_100, "{} $A <|end|>", {"decoder_start_token_id": END}),
    "last, starts": (mbart, "$A <|end|> {}", {"decoder_start_token_id": None}),
    "last": (m2m_100, "$A <|end|> {}", {"decoder_start_token_id": END}),
}


def multilingual(language: str = "eng_Latn", layout: str = "first") -> tokenizers.Tokenizer:
    """A tokenizer.json as `save_pretrained` writes it: with the tokens of one source language around a text."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens([AddedToken(code, special=True) for code in CODES])
    special = [("<|end|>", END), (language, tokenizer.token_to_id(language))]
    tokenizer.post_processor = processors.TemplateProcessing(LAYOUTS[layout][1].format(language), special_tokens=special)
    return tokenizer


def folder_of(folder: Path, layout: str, **more: Any) -> Path:
    build, _, settings = LAYOUTS[layout]
    model = build(scale_embedding=False)
    for layer in model.model.decoder.layers:  # what is written should depend on the source, and so on its language
        layer.encoder_attn.out_proj.weight.data.mul_(5)
    saved(folder, model, multilingual(layout=layout))
    for name in ("config.json", "generation_config.json"):
        table = json.loads((folder / name).read_text()) | settings
        (folder / name).write_text(json.dumps({key: value for key, value in table.items() if value is not None}))
    change(folder / "tokenizer_config.json", pad_token="<|begin|>", **more)
    return folder


def change(path: Path, **more: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def theirs(folder: Path, layout: str, source: str, target: str, **options: Any) -> list[tuple[str, float]]:
    """The translation and score of `transformers`, with the tokens that its tokenizers of these models add."""
    model, tokenizer = opened(folder), multilingual(source, layout)
    token, translations = tokenizer.token_to_id(target), []
    begin = {"decoder_start_token_id": token} if layout == "last, starts" else {"forced_bos_token_id": token}
    plain = {"do_sample": False, "max_new_tokens": 12, "forced_eos_token_id": None, "return_dict_in_generate": True}
    for text in TEXTS:
        given = torch.tensor([tokenizer.encode(text).ids])
        told = model.generate(given, attention_mask=torch.ones_like(given), output_scores=True, **(plain | options | begin))
        translations.append((" ".join(tokenizer.decode(told.sequences[0].tolist()).split()), float(told.sequences_scores[0])))
    return translations


@pytest.fixture(scope="module", params=half(LAYOUTS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, TranslatorRun]:
    folder = folder_of(tmp_path_factory.mktemp("languages") / "model", request.param)
    return request.param, folder, firth.load(folder, "cpu", kind=TranslatorRun)


def test_the_languages_are_honoured_as_in_transformers(model: tuple[str, Path, TranslatorRun]) -> None:
    layout, folder, run = model
    scores_of = {}
    for source, target in (("eng_Latn", "deu_Latn"), ("nld_Latn", "deu_Latn"), ("nld_Latn", "eng_Latn")):
        tokens = run.in_languages(source, target)._encoder().encode(TEXTS).ids
        assert [ids.tolist() for ids in tokens] == [multilingual(source, layout).encode(text).ids for text in TEXTS]
        expected = theirs(folder, layout, source, target, num_beams=3, length_penalty=1.0)
        own = run.in_languages(source, target)
        told = [best for best, *_ in own.translations(TEXTS, own.decoding({"beam": 3, "penalty": 1.0, "tokens": 12}))]
        assert [one.text for one in told] == [text for text, _ in expected]
        assert [one.score for one in told] == pytest.approx([score for _, score in expected], rel=1e-4)
        scores_of[source, target] = tuple(one.score for one in told)
        languages = {"source_language": source, "target_language": target}
        assert run.translate(TEXTS, beam=3, penalty=1.0, tokens=12, **languages) == [one.text for one in told]
    assert len({round(scores[0], 3) for scores in scores_of.values()}) == 3  # each language matters


def test_a_language_that_is_not_set_is_asked_for_wherever_it_matters(
    model: tuple[str, Path, TranslatorRun], tmp_path: Path
) -> None:
    _, folder, run = model
    with pytest.raises(DataError, match="3 languages, and the source language is not set"):
        run.translate(TEXTS, target_language="deu_Latn")
    with pytest.raises(DataError, match="the target language is not set"):
        run.translate(TEXTS, source_language="eng_Latn")
    with pytest.raises(DataError, match=r'set "src_lang" in tokenizer_config\.json'):
        run.embed(TEXTS)
    with pytest.raises(DataError, match="language is not set"):
        export_model(folder, tmp_path / "ct2", format="ctranslate2")
    with pytest.raises(ConfigError, match=r'does not know the language "ger_Latn"\. It has 3, such as eng_Latn'):
        run.translate(TEXTS, source_language="eng_Latn", target_language="ger_Latn")


def test_languages_in_tokenizer_config_survive_import_and_export(model: tuple[str, Path, TranslatorRun], tmp_path: Path) -> None:
    layout = model[0]
    folder = folder_of(tmp_path / "model", layout, src_lang="nld_Latn", tgt_lang="deu_Latn")
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "again")
    (expected, score), _ = theirs(folder, layout, "nld_Latn", "deu_Latn", num_beams=3, length_penalty=1.0)
    for name in ("model", "run", "exported", "again"):
        run = firth.load(tmp_path / name, "cpu", kind=TranslatorRun)
        ((best, *_), _) = run.translations(TEXTS, run.decoding({"beam": 3, "penalty": 1.0, "tokens": 12}))
        assert (best.text, best.score) == (expected, pytest.approx(score, rel=1e-4))
    once, twice = (firth.load(tmp_path / name, "cpu") for name in ("run", "again"))
    assert once.tokenizer.decoder == twice.tokenizer.decoder
    weights = twice.network.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in once.network.state_dict().items())
    exported = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "exported" / "tokenizer.json"))
    given = torch.tensor([exported(TEXTS[0]).input_ids])  # in the source language that was set, not in that of the file
    options = {"num_beams": 3, "length_penalty": 1.0, "max_new_tokens": 12, "forced_eos_token_id": None}
    told = opened(tmp_path / "exported").generate(given, return_dict_in_generate=True, output_scores=True, **options)
    assert float(told.sequences_scores[0]) == pytest.approx(score, rel=1e-4)


def test_an_export_without_languages_still_asks_for_them(model: tuple[str, Path, TranslatorRun], tmp_path: Path) -> None:
    _, folder, run = model
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    again = firth.load(tmp_path / "exported", "cpu", kind=TranslatorRun)
    with pytest.raises(DataError, match="language is not set"):
        again.translate(TEXTS)
    languages = {"source_language": "nld_Latn", "target_language": "deu_Latn"}
    assert again.translate(TEXTS, tokens=12, **languages) == run.translate(TEXTS, tokens=12, **languages)


@pytest.mark.filterwarnings("ignore:1 of 1 sources have more than 63 tokens")
def test_a_long_source_keeps_its_end_and_its_language(model: tuple[str, Path, TranslatorRun]) -> None:
    layout, _, run = model
    own = run.in_languages("nld_Latn", "deu_Latn")
    (whole,) = own.translator._encoded(["list " * 100])
    (short,) = own.translator._cut([whole])
    assert short[:60].tolist() == whole[:60].tolist()
    assert len(short) == (64 if layout == "last, starts" else len(whole))  # only learned positions end
    assert short[-2:].tolist() == whole[-2:].tolist()


def likeliest(folder: Path) -> float:
    """log p of the best translation from Dutch to German."""
    own = load(folder, "cpu", kind=TranslatorRun).in_languages("nld_Latn", "deu_Latn")
    (best, *_), *_ = own.translations(TEXTS[:1], own.decoding({"tokens": 12}))
    return best.log_probability


def test_the_verb_takes_the_languages(firth: Firth, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "last, starts")
    command = ["translate", folder, TEXTS[0], "--from", "nld_Latn"]
    told = firth(*command, "--to", "deu_Latn", "--tokens", 12, "--json")
    assert json.loads(told.out)["log_probability"] == pytest.approx(likeliest(folder), rel=1e-5)
    refused = firth(*command)
    assert refused.code == 2
    assert "Choose one with --to, such as eng_Latn" in refused.err


def test_the_server_takes_the_languages(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "last, starts")
    with serving(folder) as served:
        body = {"model": next(iter(served.models)).name, "input": TEXTS[0], "max_tokens": 12, "source_language": "nld_Latn"}
        reply = served.post("/v1/translate", body | {"target_language": "deu_Latn"})
        assert reply.json["data"][0]["log_probability"] == pytest.approx(likeliest(folder), rel=1e-5)
        reply = served.post("/v1/translate", body)
        assert reply.status == 400
        assert "the target language is not set" in reply.json["error"]["message"]
        reply = served.post("/v1/translate", body | {"target_language": "ger_Latn"})
        assert (reply.status, "ger_Latn" in reply.json["error"]["message"]) == (400, True)


def test_a_model_without_languages_refuses_them(tmp_path: Path) -> None:
    from encoder_decoder_folders import folder_of as plain

    run = firth.load(plain("mbart", tmp_path / "model"), "cpu", kind=TranslatorRun)
    with pytest.raises(ConfigError, match="this model has no tokens of languages"):
        run.translate(TEXTS, target_language="deu_Latn")


def test_a_decoder_that_begins_with_padding_is_refused_by_m2m_100(tmp_path: Path) -> None:
    from encoder_decoder_folders import folder_of as plain

    folder = plain("m2m_100", tmp_path / "model")
    change(folder / "config.json", decoder_start_token_id=PAD)
    with pytest.raises(DataError, match="the decoder begins with the padding token, 1"):
        firth.load(folder, "cpu")


@pytest.mark.parametrize(
    "given", [7, {"place": "first"}, {"place": "middle", "starts": True}, {"place": "first", "starts": "yes"}]
)
def test_a_damaged_choice_of_languages_is_refused_in_one_line(given: Any) -> None:
    with pytest.raises(DataError, match=r"tokenizer_config.json: firth_languages is .*; expected"):
        Languages.of({"eng_Latn": 3}, {"firth_languages": given})
