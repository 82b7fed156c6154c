"""Public encoder–decoders in and out: the same states, logits, and texts as in `transformers`, greedy and by beam search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_decoder_folders import BUILDERS, END, PAD, folder_of, opened, separate_output, trained
from foreign_folders import setting_names, transformers
from shares import half

import firth
from firth.api import export_model, import_model
from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import Hypothesis
from firth.errors import ConfigError, DataError
from firth.layers.tap import outputs
from firth.models import TransformerDecoder
from firth.tasks.abilities.conditional_search import search
from firth.tasks.translation import TranslatorRun

TEXTS = ["The list is empty.", "The café serves naïve users, too", "The"]


@pytest.fixture(scope="module", params=list(BUILDERS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, TranslatorRun, Path]:
    """A model of theirs, the same as a run of ours, and its folder."""
    folder = folder_of(request.param, tmp_path_factory.mktemp("foreign") / "model")
    return opened(folder), firth.load(folder, "cpu", kind=TranslatorRun), folder


def sources(rows: int = 3, length: int = 14) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random sources of different lengths, padded on the right; their lengths, and which tokens are no padding."""
    generator = torch.Generator().manual_seed(1)
    length_B = torch.tensor([length, length - 5, 3])[:rows]
    seen_BS = torch.arange(length) < length_B[:, None]
    token_BS = torch.randint(2, 330, (rows, length), generator=generator)
    return token_BS.masked_fill(~seen_BS, PAD), length_B, seen_BS


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


@torch.inference_mode()
def test_logits_and_the_states_of_every_layer_are_theirs(pair: tuple[Any, TranslatorRun, Path]) -> None:
    theirs, run, _ = pair
    ours, (source_BS, length_B, seen_BS) = run.network, sources()
    assert isinstance(ours, TransformerDecoder)
    target_BT = torch.randint(2, 330, (3, 20), generator=torch.Generator().manual_seed(2))
    exact = theirs(source_BS, attention_mask=seen_BS.long(), decoder_input_ids=target_BT, output_hidden_states=True)
    with outputs([*ours.encoder.blocks[:-1], ours.encoder.norm, *ours.decoder.blocks[:-1], ours.decoder.norm]) as states:
        close(ours(source_BS, length_B, target_BT), exact.logits)
    depth = len(ours.encoder.blocks)
    for mine, other in zip(states[:depth], exact.encoder_hidden_states[1:], strict=True):
        close(mine[seen_BS], other[seen_BS])
    for mine, other in zip(states[depth:], exact.decoder_hidden_states[1:], strict=True):
        close(mine, other)


@torch.inference_mode()
def test_padding_before_a_source_changes_nothing_where_positions_are_relative(pair: tuple[Any, TranslatorRun, Path]) -> None:
    theirs, run, _ = pair
    if theirs.config.model_type not in ("t5", "umt5"):
        pytest.skip("their learned and sinusoidal positions count the padding")
    source_BS, length_B, seen_BS = sources()
    target_BT = source_BS[:, :6]
    rolled = [torch.stack([row.roll(14 - int(n)) for row, n in zip(x, length_B, strict=True)]) for x in (source_BS, seen_BS)]
    exact = theirs(rolled[0], attention_mask=rolled[1].long(), decoder_input_ids=target_BT)
    close(run.network(source_BS, length_B, target_BT), exact.logits)


def searched(run: TranslatorRun, config: DecodingConfig, end: int) -> list[list[Hypothesis]]:
    source_BS, length_B, _ = sources()
    network = run.network
    return search(network, lambda: network.encode(source_BS, length_B), config, range(3), end, run.tokenizer.decoder)


def generated(theirs: Any, **options: Any) -> Any:
    source_BS, _, seen_BS = sources()
    plain = {"do_sample": False, "return_dict_in_generate": True, "output_scores": True, "forced_eos_token_id": None}
    return theirs.generate(source_BS, attention_mask=seen_BS.long(), **(plain | options))


@pytest.mark.parametrize("pair", half(BUILDERS, 1), indirect=True)
def test_greedy_tokens_are_theirs(pair: tuple[Any, TranslatorRun, Path]) -> None:
    theirs, run, _ = pair
    expected = generated(theirs, max_new_tokens=25, eos_token_id=None).sequences[:, 1:]
    hypotheses = searched(run, DecodingConfig(tokens=25), end=-1)
    assert [list(rows[0].tokens) for rows in hypotheses] == expected.tolist()
    assert expected.shape == (3, 25)


BEAMS = [(4, 1.0, False), (3, 0.0, False), (3, 2.0, True)]


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.long) for turn in (1, 2))])
def test_beam_search_finds_the_texts_and_scores_of_theirs(
    pair: tuple[Any, TranslatorRun, Path], turn: int, request: pytest.FixtureRequest
) -> None:
    """The families take the settings in turns; with the long tests, each takes all of them."""
    theirs, run, _ = pair
    beams, penalty, early = BEAMS[(list(BUILDERS).index(request.node.callspec.params["pair"]) + turn) % len(BEAMS)]
    plain = searched(run, DecodingConfig(tokens=12, beam=4, beam_rules="transformers", penalty=1.0), end=-1)
    ends = [tokens for tokens in {hypothesis.tokens[n] for rows in plain for hypothesis in rows for n in (3, 7)} if tokens > 2]
    finished = 0
    for end in sorted(ends)[:2]:  # tokens that occur, so that some texts end early
        expected = generated(
            theirs,
            max_new_tokens=14,
            eos_token_id=end,
            num_beams=beams,
            num_return_sequences=beams,
            length_penalty=penalty,
            early_stopping=early,
        )
        config = DecodingConfig(tokens=14, beam=beams, penalty=penalty, beam_rules="transformers", early_stopping=early)
        hypotheses = [hypothesis for rows in searched(run, config, end) for hypothesis in rows]
        finished += sum(hypothesis.finished for hypothesis in hypotheses)
        assert len(hypotheses) == len(expected.sequences) == 3 * beams
        for mine, other in zip(hypotheses, expected.sequences[:, 1:].tolist(), strict=True):
            assert list(mine.tokens) == other[: len(mine.tokens)]
            assert end not in other[: len(mine.tokens) - 1]
        np.testing.assert_allclose([mine.score for mine in hypotheses], expected.sequences_scores.numpy(), rtol=1e-4, atol=1e-4)
    assert finished


@pytest.mark.parametrize("pair", half(BUILDERS), indirect=True)
def test_texts_are_encoded_and_translated_as_by_their_tokenizer(pair: tuple[Any, TranslatorRun, Path]) -> None:
    theirs, run, folder = pair
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token="<|begin|>")
    given = tokenizer(TEXTS, return_tensors="pt", padding=True)
    for row, text in enumerate(TEXTS):
        assert run._encoder().encode([text]).ids[0].tolist() == given.input_ids[row][given.attention_mask[row].bool()].tolist()
    options = {"num_beams": 3, "length_penalty": 1.0, "do_sample": False, "forced_eos_token_id": None, "max_new_tokens": 12}
    expected = theirs.generate(given.input_ids, attention_mask=given.attention_mask, **options)
    texts = [" ".join(tokenizer.decode(row, skip_special_tokens=True).split()) for row in expected]
    assert run.translate([*TEXTS, " "], beam=3, tokens=12) == [*texts, ""]


def test_the_abilities_of_a_translator_work(pair: tuple[Any, TranslatorRun, Path]) -> None:
    theirs, run, _ = pair
    assert len(run.embed(TEXTS, pool=None)[2]) == len(run.tokenizer.encode("The"))
    assert run.embed(TEXTS, layer=1).shape == (3, 32)
    assert len(run.senses("list", ["The list is empty.", "a list of users"]).sentences) == 2
    for part in ("encoder", "decoder", "cross"):
        weights = run.attention(TEXTS[0], target="empty", part=part).weights(0)
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert run.align(TEXTS[0], "empty").best.shape[1] > 2
    ids = [*run.tokenizer.begin, *run.tokenizer.encode("is empty").tolist(), END]
    with torch.inference_mode():
        inputs = torch.tensor([[run.tokenizer.decoder.start, *ids[:-1]]])
        source = torch.from_numpy(run._encoder().encode([TEXTS[0]]).ids[0].astype(np.int64)).unsqueeze(0)
        p_TV = torch.softmax(theirs(source, decoder_input_ids=inputs).logits[0], -1)
    predicted = run.predictions(TEXTS[0], target="is empty", top=1)
    expected = [float(p_TV[t, id]) for t, id in enumerate(ids)]
    np.testing.assert_allclose(predicted.probability, expected, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("pair", half(BUILDERS), indirect=True)
def test_import_export_import_is_equal_to_the_bit(pair: tuple[Any, TranslatorRun, Path], tmp_path: Path) -> None:
    theirs, run, folder = pair
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "again")
    once, twice = (firth.load(tmp_path / name, "cpu", kind=TranslatorRun) for name in ("run", "again"))
    assert once.recipe.model == twice.recipe.model == run.recipe.model
    assert once.recipe.decoding == twice.recipe.decoding == run.recipe.decoding
    assert once.tokenizer.to_json() == twice.tokenizer.to_json()
    assert once.tokenizer.decoder == twice.tokenizer.decoder == run.tokenizer.decoder
    weights = twice.network.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in once.network.state_dict().items())
    source_BS, _, seen_BS = sources()
    given = {"attention_mask": seen_BS.long(), "decoder_input_ids": source_BS[:1, :7].expand(3, 7)}
    with torch.inference_mode():
        assert torch.equal(opened(tmp_path / "exported")(source_BS, **given).logits, theirs(source_BS, **given).logits)
    assert once.translate(TEXTS, tokens=8) == run.translate(TEXTS, tokens=8)


@pytest.mark.parametrize("pair", half(BUILDERS), indirect=True)
def test_loss_and_gradient_of_a_pair_are_theirs(pair: tuple[Any, TranslatorRun, Path], tmp_path: Path) -> None:
    """The decoder's input begins with their token, not with <eos>."""
    theirs, run, folder = pair
    if theirs.config.model_type == "mbart":
        pytest.skip("it begins with the last token of the labels, a language; see test_languages.py")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    (tmp_path / "pairs.tsv").write_text("source\ttarget\nThe list is empty.\tThe café\n")
    given, labels = tokenizer("The list is empty.", return_tensors="pt"), tokenizer("The café", return_tensors="pt").input_ids
    with torch.inference_mode():
        loss = theirs(**given, labels=labels).loss
    assert run.evaluate(tmp_path / "pairs.tsv")["loss"] == pytest.approx(float(loss), rel=1e-5)


PUBLISHED = {"norm": "layer", "norm_placement": "post", "activation": "relu", "bias": True, "output_bias": True}
OWN: dict[str, dict[str, Any]] = {
    "T5": {"position": "t5", "score": "dot", "activation": "geglu_tanh", "tied": False},
    "UMT5": {
        "position": {"kind": "t5", "per_layer": True},
        **{"score": "dot", "activation": "geglu_tanh", "output_scale": True},
    },
    "BART": PUBLISHED | {"position": "learned", "embedding_norm": True},
    "Marian": PUBLISHED | {"position": "sinusoidal", "position_order": "halves"},
    "mBART": PUBLISHED | {"norm_placement": "pre", "position": "learned", "embedding_norm": True},
    "Pegasus": PUBLISHED | {"norm_placement": "pre", "position": "sinusoidal", "position_order": "halves"},
}


QUICK = ("T5", "mBART")


@pytest.mark.parametrize("family", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in OWN])
def test_a_translator_of_ours_opens_in_transformers_and_translates_the_same(family: str, tmp_path: Path) -> None:
    path = trained(tmp_path, OWN[family] | {"shared": True}, {"kind": "char", "joint": True})
    run, folder = firth.load(path, "cpu", kind=TranslatorRun), export_model(path, tmp_path / "hf", license="mit")
    theirs, tokenizer = opened(folder), transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["a b c", "the list", "be at the list"]
    given = tokenizer(texts, return_tensors="pt", padding=True)
    id_BT = theirs.generate(given.input_ids, attention_mask=given.attention_mask, max_new_tokens=30)
    expected = run.translate(texts, beam=1)
    assert [" ".join(tokenizer.decode(row, skip_special_tokens=True).split()) for row in id_BT] == expected
    assert any(expected)
    assert "AutoModelForSeq2SeqLM" in (folder / "README.md").read_text()
    assert f"in the shape of {family}," in (folder / "README.md").read_text()


def test_a_translator_without_a_counterpart_is_refused(tmp_path: Path) -> None:
    path = trained(tmp_path, {"shared": True}, {"kind": "char", "joint": True}, steps=1)
    with pytest.raises(
        ConfigError, match=r"T5 cannot express model\.attention\.score = 'scaled_dot'; .* nor do 5 other families fit"
    ):
        export_model(path, tmp_path / "hf")
    path.rename(tmp_path / "joint")
    path = trained(tmp_path, OWN["T5"], steps=1)
    with pytest.raises(ConfigError, match=r"T5 cannot express model\.shared = False"):
        export_model(path, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_a_model_that_counts_a_token_of_text_as_padding_is_not_written_as_m2m_100(tmp_path: Path) -> None:
    """There, the first position is the number after the padding token's id, and padding has none."""
    position = {"kind": "sinusoidal", "order": "halves", "endpoint": True, "first": 5}
    own = PUBLISHED | {"norm_placement": "pre", "output_bias": False, "shared": True, "position": position}
    path = trained(tmp_path, own, {"kind": "char", "joint": True}, steps=1)
    with pytest.raises(ConfigError, match="whose padding is the token 4"):
        export_model(path, tmp_path / "hf")


def test_settings_of_generation_are_kept_and_others_are_named(tmp_path: Path) -> None:
    """Those of a summariser."""
    folder = folder_of("bart", tmp_path / "model")
    settings = {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "max_length": 142, "decoder_start_token_id": 0}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    decoding = firth.load(folder, "cpu").recipe.decoding
    assert (decoding.beam, decoding.penalty, decoding.early_stopping, decoding.tokens) == (4, 2.0, True, 141)
    (folder / "generation_config.json").write_text(json.dumps(settings | {"no_repeat_ngram_size": 3, "min_length": 56}))
    with pytest.warns(UserWarning, match="does not apply .*: no_repeat_ngram_size = 3, min_length = 56"):
        firth.load(folder, "cpu")


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("umt5", "feed_forward_proj", "gated-relu", "feed_forward_proj is 'gated-relu'"),
        ("umt5", "scale_decoder_outputs", False, "scale_decoder_outputs"),
        ("pegasus", "normalize_before", False, "normalize_before is False"),
        ("pegasus", "static_position_embeddings", False, "static_position_embeddings is False"),
        ("pegasus", "max_position_embeddings", 65, "embed_positions.weight has 64 rows"),
        ("mbart", "add_final_layer_norm", False, "add_final_layer_norm is False"),
        ("mbart", "decoder_attention_heads", 2, "decoder_attention_heads is 2"),
        ("m2m_100", "num_experts", 4, "num_experts = 4"),
        ("m2m_100", "pad_token_id", -1, "pad_token_id is -1"),
    ],
)
def test_keys_that_a_family_cannot_compute_are_refused_by_name(
    name: str, key: str, value: Any, message: str, tmp_path: Path
) -> None:
    folder = folder_of(name, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(DataError, match=message):
        firth.load(folder, "cpu")


def test_umt5_with_an_output_layer_of_its_own_divides_its_input_as_transformers_5_and_says_so(tmp_path: Path) -> None:
    folder = folder_of("umt5", tmp_path / "model")
    separate_output(folder)
    with pytest.warns(UserWarning, match=r"model\.output_scale = false in recipe\.toml"):
        run = firth.load(folder, "cpu", kind=TranslatorRun)
    source_BS, length_B, seen_BS = sources()
    with torch.inference_mode():
        theirs = opened(folder)(source_BS, attention_mask=seen_BS.long(), decoder_input_ids=source_BS[:, :7])
        close(run.network(source_BS, length_B, source_BS[:, :7]), theirs.logits)
    assert not run.recipe.model.tied


def test_a_decoder_without_a_first_token_is_refused(tmp_path: Path) -> None:
    folder = folder_of("t5", tmp_path / "model")
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token_id": None, "pad_token_id": None}))
    with pytest.raises(DataError, match="no decoder_start_token_id"):
        firth.load(folder, "cpu")


def test_vocab_and_merges_of_bart_make_its_tokenizer(tmp_path: Path) -> None:
    from encoder_decoder_folders import bart

    bart(bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2).save_pretrained(tmp_path)
    names = ["<s>", "<pad>", "</s>", "<unk>", "t", "h", "e", "Ġ", "th", "the", "Ġthe", "a"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ the\n")
    theirs = transformers.BartTokenizer.from_pretrained(tmp_path)("the the").input_ids
    run = firth.load(tmp_path, "cpu", kind=TranslatorRun)
    assert run._encoder().encode(["the the"]).ids[0].tolist() == theirs == [0, 9, 10, 2]
    assert (run.tokenizer.eos, run.tokenizer.decoder.start) == (2, 2)
    (tmp_path / "vocab.json").write_text(json.dumps({name: min(id, 10) for id, name in enumerate(names)}))
    with pytest.raises(DataError, match="gives the same id to several tokens"):
        firth.load(tmp_path, "cpu")


def test_every_setting_of_a_family_is_one_of_ours() -> None:
    from firth.interop import FAMILIES
    from firth.models import TransformerSeq2SeqConfig

    names = setting_names(TransformerSeq2SeqConfig)
    for family in FAMILIES:
        if family.model == "seq2seq":
            assert family.free | set(family.limited) <= names
