"""Sentence pairs from recipe to run: what is learned, that it survives a move and a stop, how it writes, and what it refuses."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shares import half, third
from tiny_runs import assert_stopping_changes_nothing, watching
from torch import Tensor
from translations import MODELS, NUMBERS, pair_table, pairs_of, said, spaced, trained_on_numbers, write_pairs, write_sides

import firth
from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.decoding.config import DecodingConfig
from firth.errors import ConfigError, DataError, FirthError, RunError
from firth.evaluation.translation import measures
from firth.layers.position import LearnedConfig
from firth.tasks.run import Run
from firth.text.data.pairs import encode_pairs
from firth.training.log import read as read_log

JOINT: Table = {"kind": "word", "joint": True}
UNSEEN = [spaced(number) for number in ("21", "364", "907", "57", "44", "872", "153") if number not in NUMBERS]


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_numbers()


@pytest.fixture(scope="module")
def model(run: Path) -> Run[Any]:
    return load(run)


FORMS: dict[str, tuple[str, Table, Table]] = {
    "rnnenc": ("rnnenc", {"kind": "word"}, {}),
    "rnnenc, lstm, fed, reversed": ("rnnenc", JOINT, {"kind": "lstm", "feed_context": True, "reverse": True, "shared": True}),
    "rnnsearch, characters": ("rnnsearch", {"kind": "char"}, {"depth": 2}),
    "rnnsearch, tied, shared": ("rnnsearch", JOINT, {"tied": True, "shared": True}),
    "transformer": ("transformer", {"kind": "word"}, {}),
    "transformer, learned, shared": ("transformer", JOINT, {"position": "learned", "shared": True}),
    "transformer, pieces": ("transformer", {"kind": "bpe", "vocab": 270, "joint": True}, {"position": "sinusoidal"}),
}


@pytest.fixture(scope="module", params=half(FORMS))
def few_steps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind, hardly trained: what it writes is nonsense, and all the more its own."""
    model, tokenizer, change = FORMS[request.param]
    folder = tmp_path_factory.mktemp("few")
    table = pair_table(write_pairs(folder / "numbers.tsv"), model, tokenizer=tokenizer, steps=8, context=60)
    return train_recipe(compose(table | {"model": table["model"] | change}), folder / "run").path


# --- what it learns


def test_it_learns_a_language(model: Run[Any]) -> None:
    result: dict[str, Any] = model.evaluate(split="valid")
    assert result["exact"] >= 0.8
    assert result["bleu"] >= 80
    assert model.translate([spaced("367")]) == ["three six seven"]
    assert model.translate([]) == []


def test_an_alignment_moves_along_the_source_as_it_writes(model: Run[Any]) -> None:
    aligned = model.align("3 6 7", "three six seven")
    assert (aligned.source, aligned.target) == (("3", "6", "7", "<eos>"), ("three", "six", "seven", "<eos>"))
    looked_at = aligned.best.argmax(-1).tolist()
    assert looked_at == sorted(looked_at)
    assert looked_at[-1] - looked_at[0] >= 2


def test_the_log_tells_loss_and_perplexity_of_what_was_held_out(run: Path) -> None:
    valid = [line["valid"] for line in read_log(run / "log.jsonl") if "valid" in line]
    assert len(valid) == 2
    assert valid[-1].keys() == {"loss", "perplexity", "tokens"}
    assert valid[-1]["loss"] < valid[0]["loss"]


def test_what_is_too_long_to_train_on_is_said(tmp_path: Path) -> None:
    notes: list[str] = []
    table = pair_table(write_pairs(tmp_path / "n.tsv"), steps=1, context=2)
    train_recipe(compose(table), tmp_path / "run", watcher=watching(notice=notes.append))
    assert len(notes) == 1
    assert "training pairs" in notes[0]
    assert "have more than 2 tokens on a side and are left out" in notes[0]


# --- moved, stopped, chosen


def test_a_run_translates_the_same_wherever_it_goes(few_steps: Path, tmp_path: Path) -> None:
    before = load(few_steps).translations(UNSEEN, DecodingConfig(beam=2, tokens=8))
    moved = Path(shutil.copytree(few_steps, tmp_path / "elsewhere"))
    shutil.rmtree(moved / "checkpoints")
    model = firth.load(moved)
    assert model.translations(UNSEEN, DecodingConfig(beam=2, tokens=8)) == before
    joint = model.recipe.tokenizer.joint
    assert (moved / "source_tokenizer.json").exists() != joint
    assert (model.source_tokenizer is model.tokenizer) == joint


def test_each_side_has_its_own_words_unless_they_are_joint(run: Path, tmp_path: Path) -> None:
    model = load(run)
    assert model.source_tokenizer.unseen("three")
    assert model.tokenizer.unseen("3")
    recipe = compose(pair_table(write_pairs(tmp_path / "n.tsv"), tokenizer=JOINT, steps=1))
    joint = load(train_recipe(recipe, tmp_path / "run").path)
    assert not joint.tokenizer.unseen("3 three")


@pytest.mark.parametrize("name", third(MODELS, 1))
def test_a_run_that_was_stopped_goes_on_to_the_bit(name: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 12, "evaluate_every": 5, "checkpoint_every": 4, "batch_tokens": 64, "select": "exact"}
    table = pair_table(write_pairs(tmp_path / "n.tsv", pairs_of(NUMBERS[:60])), name, **settings)
    table["model"]["dropout"] = 0.1
    recipe = compose(table)
    assert_stopping_changes_nothing(recipe, tmp_path, at=7)


def test_a_run_is_not_resumed_on_other_pairs(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "n.tsv")
    recipe = compose(pair_table(path, steps=1))
    train_recipe(recipe, tmp_path / "run")
    write_pairs(path, [("1 2", "one zwei"), *pairs_of()[1:]])
    with pytest.raises(DataError, match=r"the data have changed since this run was started\. Restore"):
        train_recipe(recipe, tmp_path / "run", resume=True)


@pytest.mark.parametrize("select", half(["bleu", "exact"]))
def test_the_weights_that_are_kept_have_the_highest_of_what_selects(select: str, tmp_path: Path) -> None:
    """At a rate that is far too high the metric goes up and down; see tests/training/test_selection.py, too."""
    table = pair_table(write_pairs(tmp_path / "n.tsv"), "rnnenc", select=select, steps=64, rate=0.2, evaluate_every=8)
    run = train_recipe(compose(table, ["training.schedule=constant"]), tmp_path / "run").path
    valid = [line["valid"] for line in read_log(run / "log.jsonl") if "valid" in line]
    assert valid[-1].keys() == {"loss", "perplexity", "tokens", "bleu", "exact", "sentences"}
    highest = max(one[select] for one in valid)
    assert load(run).evaluate(split="valid")[select] == pytest.approx(highest)


# --- how it writes


def truth(model: Run[Any], source: str, target: str, finished: bool) -> float:
    """log p of a translation, its tokens and <eos>, all read at once, in float64."""
    tokenizers, network = model.translator.tokenizers, model.translator.network
    source_S, target_T = (tokenizer.encode(text) for tokenizer, text in zip(tokenizers, (source, target), strict=True))
    end = tokenizers[1].eos
    source_1S = torch.tensor([[*source_S.tolist(), tokenizers[0].eos]])
    wanted_T = torch.tensor([*target_T.tolist(), *([end] if finished else [])])
    input_1T = torch.tensor([[end, *wanted_T[:-1].tolist()]])
    network.double()
    try:
        with torch.no_grad():
            log_p_TV: Tensor = torch.log_softmax(network(source_1S, torch.tensor([source_1S.shape[1]]), input_1T)[0], -1)
    finally:
        network.float()
    return float(log_p_TV.gather(1, wanted_T[:, None]).sum())


def test_log_probabilities_are_the_models_own_and_the_best_comes_first(model: Run[Any]) -> None:
    config = DecodingConfig(beam=4, tokens=12, penalty=1.0)
    for source, translations in zip(UNSEEN, model.translations(UNSEEN, config), strict=True):
        assert 1 < len(translations) <= 4
        assert [one.score for one in translations] == sorted((one.score for one in translations), reverse=True)
        assert len({one.text for one in translations}) == len(translations)
        for one in translations:
            tokens = len(one.text.split()) + one.finished
            # float32 sums of up to 12 logarithms of up to about 10
            assert one.log_probability == pytest.approx(truth(model, source, one.text, one.finished), abs=12 * 10 * 2**-22)
            assert one.score == pytest.approx(one.log_probability / ((5 + tokens) / 6))


def test_a_wide_beam_finds_on_the_whole_nothing_less_probable_than_the_greedy_choice(few_steps: Path) -> None:
    """Without a penalty; it may lose the greedy choice on its way, but not in most sentences."""
    model = load(few_steps)
    greedy = [beams[0] for beams in model.translations(UNSEEN, DecodingConfig(beam=1, tokens=8))]
    wide = [beams[0] for beams in model.translations(UNSEEN, DecodingConfig(beam=8, tokens=8, penalty=0.0))]
    at_least = [one.log_probability >= other.log_probability - 1e-4 for one, other in zip(wide, greedy, strict=True)]
    assert sum(at_least) > len(UNSEEN) / 2


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3}, {"sample": True, "seed": 4}], ids=str)
def test_a_text_is_translated_as_it_would_be_alone(options: dict[str, Any], few_steps: Path) -> None:
    model = load(few_steps)
    sample = options.get("sample", False)
    config = DecodingConfig(tokens=6, **{name: value for name, value in options.items() if name != "sample"})
    texts = ["1", spaced("123456789" * 5), "", *UNSEEN]
    together = model.translations(texts, config, sample=sample)
    for number, text in enumerate(texts):
        (alone,) = model.translations([text], config, sample=sample, first=number)
        assert [one.text for one in together[number]] == [one.text for one in alone]
        assert [one.score for one in together[number]] == pytest.approx([one.score for one in alone], abs=1e-4)


def test_more_texts_than_are_read_at_once_keep_their_places(model: Run[Any]) -> None:
    texts = [spaced(str(n)) for n in range(150)] + ["", " \t"]
    translations = model.translate(texts)
    assert translations[-2:] == ["", ""]
    assert [text for text, one in zip(texts[:-2], translations, strict=False) if one == said(text)] == [
        text for text in texts[:-2] if model.translate([text]) == [said(text)]
    ]


def test_what_is_not_given_comes_from_the_recipe(model: Run[Any]) -> None:
    assert all(len(text.split()) <= 2 for text in model.translate(UNSEEN, tokens=2))
    for beam in (1, 2):  # wide enough beams would find an improbable end
        cut = model.translations(["1 2 3"], dataclasses.replace(model.recipe.decoding, tokens=1, beam=beam))[0][0]
        assert (cut.text, cut.finished) == ("one", False)
    assert model.translate(UNSEEN) == model.translate(UNSEEN, beam=1, tokens=12)


def test_an_evaluation_says_that_references_are_longer_than_translations_may_be(model: Run[Any], tmp_path: Path) -> None:
    write_pairs(tmp_path / "some.tsv", pairs_of(["1", "23", "456", "789"]))
    pairs = encode_pairs(tmp_path / "some.tsv", None, model.translator.tokenizers, model.recipe.data)
    with pytest.warns(UserWarning, match="^2 of 4 reference translations are longer than decoding.tokens = 3"):
        model.translator.written(pairs, model.decoding({"tokens": 3}))


def test_drawing_depends_on_seed_and_number(few_steps: Path) -> None:
    model = load(few_steps)
    first, again, other = (model.translate(["1 2"] * 20, sample=True, seed=seed, tokens=6) for seed in (0, 0, 1))
    assert first == again != other
    assert len(set(first)) > 1, "texts that are equal are not drawn equally"
    cold = model.translate(UNSEEN, sample=True, temperature=0.0, tokens=6)
    assert cold == model.translate(UNSEEN, sample=True, top_k=1, tokens=6) == model.translate(UNSEEN, beam=1, tokens=6)


def test_white_space_is_no_part_of_a_text_and_a_translation_is_one_line(few_steps: Path) -> None:
    model = load(few_steps)
    assert model.translate(["  1 2\n", "1 2"])[:1] == model.translate(["1 2"])
    for translation in model.translate(UNSEEN, sample=True, temperature=5.0, tokens=30):
        assert translation == " ".join(translation.split())


def test_words_never_seen_are_said_once_and_read_as_unknown(model: Run[Any]) -> None:
    with pytest.warns(UserWarning, match=r"^read as <unk>, never seen in training: a, b, c, d, e and 1 more$"):
        model.translate(["1 a b", "c d e f a"])


def test_characters_never_seen_are_left_out_and_said(tmp_path: Path) -> None:
    recipe = compose(pair_table(write_pairs(tmp_path / "n.tsv"), tokenizer={"kind": "char"}, steps=4, context=60))
    model = load(train_recipe(recipe, tmp_path / "run").path)
    with pytest.warns(UserWarning, match=r"^left out, never seen in training: Ω, 😀$"):
        translations = model.translate(["1 2Ω", "😀Ω", "Ω 1 2"])
    assert translations == [*model.translate(["1 2"]), "", *model.translate(["1 2"])]


def test_a_source_beyond_learned_positions_is_read_as_far_as_they_go(tmp_path: Path) -> None:
    table = pair_table(write_pairs(tmp_path / "n.tsv"), "transformer", steps=2, context=6)
    table["model"]["position"] = "learned"
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    text = spaced("123456789")
    with pytest.warns(UserWarning, match=r"1 of 2 sources have more than 6 tokens, the size of this model's position table"):
        translations = model.translate([text, "1 2"], tokens=100)
    assert translations == model.translate([spaced("123456"), "1 2"])
    drawn = model.translations(["1 2"] * 20, DecodingConfig(tokens=100, temperature=9.0), sample=True)
    assert {len(one.text.split()) for (one,) in drawn if not one.finished} == {7}, "positions of what is written end as well"


def test_a_long_source_is_read_whole_by_every_other_model(few_steps: Path) -> None:
    model = load(few_steps)
    if getattr(model.recipe.model, "position", None) == LearnedConfig():
        pytest.skip("learned positions end")
    beginning = spaced("12" * 200)
    # At both ends: 400 tokens later, an RNN has forgotten the end that it reads first.
    translations = model.translations([beginning, f"9 9 {beginning} 9 9"], DecodingConfig(tokens=4))
    assert translations[0][0].log_probability != translations[1][0].log_probability


# --- evaluation


def test_evaluation_measures_what_translate_writes(model: Run[Any], tmp_path: Path) -> None:
    pairs = pairs_of([str(n) for n in range(1, 999, 37)])
    pairs[3] = (pairs[3][0], "something else entirely")
    for beam in (1, 3):
        scores = model.evaluate(write_pairs(tmp_path / "n.tsv", pairs), beam=beam)
        written = model.translate([source for source, _ in pairs], beam=beam)
        references, lengths = [target for _, target in pairs], [len(source.split()) for source, _ in pairs]
        expected = dataclasses.asdict(measures(written, references, lengths, lower=False, language=None))
        expected |= expected.pop("own")
        assert {name: scores[name] for name in expected} == expected
        assert (scores["split"], scores["beam"]) == (str(tmp_path / "n.tsv"), beam)
    total = sum(truth(model, source, target, True) for source, target in pairs if "else" not in target)
    tokens = sum(len(target.split()) + 1 for _, target in pairs)
    del pairs[3]
    again = model.evaluate(write_pairs(tmp_path / "m.tsv", pairs))
    assert again["tokens"] == tokens - 4
    assert again["loss"] == pytest.approx(-total / (tokens - 4), rel=1e-4)


def test_evaluation_reads_one_file_or_two(model: Run[Any], tmp_path: Path) -> None:
    pairs = pairs_of(NUMBERS[::9])
    source, target = write_sides(tmp_path, pairs)
    two = model.evaluate(source, target=target)
    for name in ("n.tsv", "n.jsonl"):
        one = model.evaluate(write_pairs(tmp_path / name, pairs))
        assert one | {"split": ""} == two | {"split": ""}
    assert two["sentences"] == len(pairs)


def test_evaluation_reads_the_runs_own_pairs(model: Run[Any]) -> None:
    sizes = {split: model.evaluate(split=split)["sentences"] for split in ("train", "valid")}
    assert sum(sizes.values()) == len(NUMBERS)  # type: ignore[arg-type]
    assert model.evaluate()["split"] == "valid"
    with pytest.raises(DataError, match=r"this run has no test data, only valid and train\. Choose one"):
        model.evaluate(split="test")


def test_training_pairs_over_the_limit_are_evaluated_all_the_same(tmp_path: Path) -> None:
    table = pair_table(write_pairs(tmp_path / "n.tsv"), steps=1, context=2)
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert model.evaluate(split="train")["sentences"] + model.evaluate(split="valid")["sentences"] == len(NUMBERS)  # type: ignore[operator]


def test_two_files_train_a_run_and_test_files_are_its_test(tmp_path: Path) -> None:
    source, target = write_sides(tmp_path)
    table = pair_table(source, steps=2)
    table["data"] |= {"target_path": str(target), "test_path": str(source), "test_target_path": str(target)}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    result = model.evaluate()
    assert (result["split"], result["sentences"]) == ("test", len(NUMBERS))


def test_dates_are_learned_from_nothing(tmp_path: Path) -> None:
    table = pair_table(Path("unused"), tokenizer={"kind": "char"}, steps=2, context=60)
    table["data"] = {"name": "dates", "locales": ["en", "fr"], "count": 60}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert (model.evaluate()["split"], model.evaluate()["sentences"]) == ("test", 6)


# --- what it refuses


CALLS: dict[str, tuple[Any, str]] = {
    "generate": (lambda model: model.generate("a"), r"this run is a translator and cannot generate; it can: "),
    "score": (lambda model: model.score(["a"]), r"this run is a translator and cannot score; it can: "),
    "classify": (lambda model: model.classify(["a"]), r"this run is a translator and cannot classify; it can: "),
    "one text": (lambda model: model.translate("1 2"), r"translate takes a list of texts\. Write translate\(\['1 2'\]\)\."),
    "no beam": (lambda model: model.translate(["1"], beam=0), r"decoding\.beam is 0; expected at least 1"),
    "no tokens": (lambda model: model.translate(["1"], tokens=0), r"decoding\.tokens is 0; expected at least 1"),
    "nothing to align": (
        lambda model: model.align(" \n"),
        r"the source is ' \\n', which has no tokens; expected at least",
    ),
    "translations of nothing": (
        lambda model: model.evaluate(target="b.txt"),
        r"target is b\.txt, but the sources are missing\. Give path,",
    ),
    "a split and a file": (
        lambda model: model.evaluate("a.tsv", split="valid"),
        r"the file .* and the split .* cannot be combined\. Remove",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_it_cannot_do_is_said(name: str, model: Run[Any]) -> None:
    call, message = CALLS[name]
    with pytest.raises(FirthError, match=message):
        call(model)


def test_files_of_unequal_length_are_refused_with_both_counts(model: Run[Any], tmp_path: Path) -> None:
    source, target = write_sides(tmp_path, pairs_of(NUMBERS[:5]))
    target.write_text(target.read_text(encoding="utf-8") + "ten\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"pairs\.digits has 5 lines and .*pairs\.names 6"):
        model.evaluate(source, target=target)


def test_what_does_not_translate_says_so(char_run: Path) -> None:
    model = load(char_run)
    for call in (lambda: model.translate(["a"]), lambda: model.align("a")):
        with pytest.raises(ConfigError, match=r"this run is a language model and (cannot translate|has no align); it can:"):
            call()


def test_a_fixed_vector_has_no_alignment(tmp_path: Path) -> None:
    recipe = compose(pair_table(write_pairs(tmp_path / "n.tsv"), "rnnenc", steps=1))
    model = load(train_recipe(recipe, tmp_path / "run").path)
    with pytest.raises(ConfigError, match=r'this model has no attention \(model\.attention = "none"\), so'):
        model.align("1 2")


def test_a_run_without_the_vocabulary_of_its_source_is_not_whole(run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "run"))
    (moved / "source_tokenizer.json").unlink()
    with pytest.raises(RunError, match=r"is incomplete: source_tokenizer\.json is missing\. Restore that"):
        load(moved)


def test_a_vocabulary_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "run"))
    pairs = [*pairs_of(), ("ten", "eleven twelve")]
    recipe = compose(pair_table(write_pairs(tmp_path / "n.tsv", pairs), steps=1), ["data.valid=0.0"])
    other = train_recipe(recipe, tmp_path / "other").path
    shutil.copy(other / "source_tokenizer.json", moved)
    with pytest.raises(RunError, match=r"source_tokenizer\.json is not the one that these weights were trained with"):
        load(moved)


# --- alignment


def test_the_runs_own_translation_is_aligned_where_none_is_given(few_steps: Path) -> None:
    model = load(few_steps)
    if model.recipe.model.family == "seq2seq" and getattr(model.recipe.model, "attention", "") == "none":
        pytest.skip("a fixed vector")
    own = model.align("1 2 3", beam=2)
    text = model.translations(["1 2 3"], model.decoding({"beam": 2}))[0][0].text
    again = model.align("1 2 3", text)
    if model.tokenizer.kind == "word":
        assert own.target == again.target
        for name, alpha_TS in own.weights.items():
            np.testing.assert_allclose(alpha_TS, again.weights[name], atol=1e-6)
    assert own.source[-1] == own.target[-1] == "<eos>"


def test_a_sentence_held_out_that_learned_positions_cannot_hold_is_refused_before_training(tmp_path: Path) -> None:
    pairs = [*pairs_of(), (" ".join("1" * 40), " ".join(["one"] * 40))]
    table = pair_table(write_pairs(tmp_path / "pairs.tsv"), "transformer", steps=1)
    table["model"]["position"] = "learned"
    table["data"] |= {"valid_path": str(write_pairs(tmp_path / "valid.tsv", pairs[-2:]))}
    with pytest.raises(DataError, match=r"the longest held-out sentence needs 41 positions, <eos>"):
        train_recipe(compose(table), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    table["model"]["context"] = 41
    train_recipe(compose(table), tmp_path / "run")
