"""Model: text in, text out, on runs that a second of training made."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import LINES, TEXT, recipe_table

import firth
from firth.api import compose, load, train_recipe
from firth.decoding.config import DecodingConfig
from firth.errors import DataError, FirthError, RunError
from firth.evaluation.perplexity import random_loss
from firth.inspection.predictions import read_log_probabilities
from firth.models import TransformerLM
from firth.tasks.abilities import drafting as model_module
from firth.tasks.run import Run
from firth.text.data.running_text import prepare

RUNS = ["char_run", "transformer_run", "word_run", "bpe_run"]


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Path:
    """The run that the test's parameter names."""
    path: Path = request.getfixturevalue(request.param)
    return path


every_run = pytest.mark.parametrize("run", RUNS, indirect=True)


# generate and stream


@every_run
def test_the_stream_joined_is_what_generate_returns(run: Path) -> None:
    model = load(run)
    pieces = list(model.stream("the list", model.decoding({"seed": 3})))
    assert len(pieces) > 5
    assert "".join(pieces) == model.generate("the list", seed=3)


@every_run
def test_a_generated_text_is_the_tokens_that_were_drawn(run: Path) -> None:
    """An oracle without a stream: draw all, decode once."""
    model = load(run)
    drawn = model_module.generate(model.network, torch.from_numpy(model.ids("the list"))[None], DecodingConfig(tokens=12))
    ids = [*model.ids("the list").tolist(), *(int(token) for token in drawn)]
    text = "the list" + model.generate("the list", tokens=12, seed=0)
    assert model.tokenizer.decode(ids) in (text, text + "\ufffd")  # the last character may be incomplete


@every_run
def test_the_seed_decides_the_text(run: Path) -> None:
    model = load(run)
    assert model.generate("the", seed=1) == model.generate("the", seed=1)
    assert model.generate("the", seed=1) != model.generate("the", seed=2)


def test_what_is_not_given_comes_from_the_recipe(char_run: Path) -> None:
    model = load(char_run)
    assert model.decoding({"tokens": None, "top_k": 5}) == DecodingConfig(tokens=40, top_k=5)
    assert len(model.generate("the")) == 40
    assert len(model.generate("the", tokens=7)) == 7


def fed(monkeypatch: pytest.MonkeyPatch, tokens: Sequence[int]) -> None:
    monkeypatch.setattr(
        model_module, "generate", lambda network, prompt, config, spelled: (torch.tensor([token]) for token in tokens)
    )


def test_a_character_of_several_tokens_is_never_split(bpe_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, text = load(bpe_run), "ß日本 and 🦉, ĸ"
    tokens = model.tokenizer.encode(text).tolist()
    assert len(tokens) > len(text)  # the owl was not in the training text: it is four tokens
    fed(monkeypatch, tokens)
    pieces = list(model.stream("the", DecodingConfig()))
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece and piece for piece in pieces)


def test_a_text_that_stops_inside_a_character_ends_before_it(bpe_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(bpe_run)
    fed(monkeypatch, model.tokenizer.encode("ab🦉").tolist()[:-1])
    assert "".join(model.stream("the", DecodingConfig())) == "ab"


def test_unseen_words_and_line_ends_are_spelled_as_the_tokenizer_spells_them(
    word_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(word_run)
    assert model.tokenizer.unknown is not None
    fed(monkeypatch, [*model.ids("list is\na name").tolist(), model.tokenizer.unknown])
    assert "".join(model.stream("the", DecodingConfig())) == " list is\na name <unk>"


def test_generation_stops_where_the_document_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(2):
        (tmp_path / f"{n}.txt").write_text(TEXT)
    table = recipe_table(steps=1) | {"data": {"path": str(tmp_path / "*.txt")}}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert model.tokenizer.eos is not None
    fed(monkeypatch, [*model.ids("list").tolist(), model.tokenizer.eos, *model.ids("name").tolist()])
    assert "".join(model.stream("the", DecodingConfig())) == "list"


@every_run
def test_an_empty_prompt_begins_a_line(run: Path) -> None:
    model = load(run)
    assert model.generate("", tokens=5, seed=0)


# score


def by_hand(model: Run[Any], ids: list[int]) -> float:
    """Σ log p(ids[t] | ids[:t]), each from its own reading of the text."""
    total = 0.0
    for t in range(1, len(ids)):
        with torch.inference_mode():
            logits_TV = model.network(torch.tensor([ids[:t]]))[0][0]
        total += float(torch.log_softmax(logits_TV[-1].double(), -1)[ids[t]])
    return total


@every_run
def test_a_score_is_the_sum_of_log_softmax(run: Path) -> None:
    model, text = load(run), "the list is"
    ids = [*model.start_ids().tolist(), *model.tokenizer.encode(text).tolist()]
    score = model.score([text])[0]
    assert score.tokens == len(ids) - 1 == len(model.tokenizer.encode(text))  # all of the text: a line end stands before it
    assert score.log_probability == pytest.approx(by_hand(model, ids), rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(-score.log_probability / score.tokens))
    if model.tokenizer.lossless:
        assert score.bits_per_character == pytest.approx(-score.log_probability / math.log(2) / len(text))
    else:
        assert score.bits_per_character is None


def test_each_text_is_scored_by_itself(char_run: Path) -> None:
    model = load(char_run)
    together = model.score(["the list", "a name", "the list"])
    assert together == [model.score([text])[0] for text in ("the list", "a name", "the list")]
    assert together[0] == together[2]


def test_a_likely_text_scores_above_an_unlikely_one(char_run: Path) -> None:
    likely, unlikely = load(char_run).score([LINES[0], "ylp mtesi sit hle.\n"])
    assert likely.log_probability > unlikely.log_probability


def test_a_recurrent_model_reads_a_long_text_in_pieces_without_forgetting(
    char_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(char_run)
    ids = model.ids(TEXT[:100])
    whole = read_log_probabilities(model.network, ids)
    monkeypatch.setattr("firth.inspection.predictions._PIECE", 7)
    assert len(whole) == 99
    assert read_log_probabilities(model.network, ids) == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("length", [2, 23, 24, 25, 26, 36, 37, 100])
def test_a_transformer_reads_a_long_text_in_windows_that_overlap_by_half(transformer_run: Path, length: int) -> None:
    model = load(transformer_run)
    ids, context = model.ids(TEXT[:length]), 24
    assert model.network.context == context
    expected, begin, end = [], 0, context
    for t in range(1, length):
        if t > end:  # the window is used up: the next begins half a context before the token read last
            begin = end - context // 2
            end = begin + context
        assert t - begin >= min(t, context // 2)
        with torch.inference_mode():
            logits_TV = model.network(torch.from_numpy(ids[begin:t])[None])[0][0]
        expected.append(float(torch.log_softmax(logits_TV[-1].double(), -1)[int(ids[t])]))
    assert read_log_probabilities(model.network, ids) == pytest.approx(expected, abs=1e-4)


def test_one_character_has_nothing_to_predict_where_nothing_stands_before_it(tmp_path: Path) -> None:
    table = recipe_table(steps=1, context=4, batch=1) | {"data": {"text": "hello", "valid": 0.0}}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert len(model.start_ids()) == 0
    assert model.score(["hell"])[0].tokens == 3
    with pytest.raises(DataError, match=r"'h' leaves nothing to predict; expected at least two tokens"):
        model.score(["h"])
    with pytest.raises(DataError, match=r"the prompt is empty, and the vocabulary has neither <eos> nor"):
        model.generate("")


# evaluate


HELD_OUT = TEXT[int(0.9 * len(TEXT)) :]


def test_evaluate_reads_the_held_out_text_as_one_stream(char_run: Path) -> None:
    model = load(char_run)
    result = model.evaluate()
    log_p = read_log_probabilities(model.network, model.ids(HELD_OUT))
    assert result["loss"] == pytest.approx(-math.fsum(log_p) / len(log_p), rel=1e-6)
    assert (result["split"], result["streams"], result["tokens"]) == ("valid", 1, len(HELD_OUT) - 1)


@pytest.mark.parametrize(("run", "streams"), [("char_run", 8), ("transformer_run", None)], indirect=["run"])
def test_read_as_in_training_the_held_out_text_has_the_figures_of_the_log(run: Path, streams: int | None) -> None:
    from firth.training import log

    model = load(run)
    result = model.evaluate(streams=streams)
    assert result["loss"] == pytest.approx(log.read(run / "log.jsonl")[-1]["valid"]["loss"], rel=1e-6)
    assert result["streams"] == streams
    if streams is not None:
        assert result["loss"] != model.evaluate()["loss"]


@pytest.mark.parametrize("context", [7, 24, 50, 10_000])
@pytest.mark.parametrize("scaling", [None, "ntk", "yarn"])
def test_a_context_of_its_own_reads_windows_of_that_many_tokens(transformer_run: Path, context: int, scaling: Any) -> None:
    """Against a direct loop over the windows; beyond 24 tokens, with rotary positions stretched where asked."""
    if scaling and context <= 24:
        return
    model, ids = load(transformer_run), torch.from_numpy(load(transformer_run).ids(HELD_OUT))
    network = model.network
    if scaling:
        settings = {"context": context, "rotary_scaling": scaling, "rotary_context": 24}
        network = TransformerLM(dataclasses.replace(network.config, **settings), network.vocab).eval()
        network.load_state_dict(model.network.state_dict())
    total = 0.0
    for start in range(0, len(ids) - 1, context):
        token_T = ids[start : start + context + 1]
        with torch.inference_mode():
            log_p_TV = torch.log_softmax(network(token_T[None, :-1])[0][0].double(), -1)
        total -= float(log_p_TV.gather(1, token_T[1:, None]).sum())
    result = model.evaluate(context=context, rotary_scaling=scaling)
    assert result["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-6)
    assert (result["context"], result["tokens"]) == (context, len(ids) - 1)
    assert (result["loss"] == model.evaluate()["loss"]) == (context == 24)


def test_learned_positions_are_read_up_to_their_end_and_no_further(tmp_path: Path) -> None:
    table = recipe_table(model="transformer", steps=2)
    table["model"]["position"] = "learned"
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert model.evaluate(context=24) == model.evaluate()
    assert model.evaluate(context=7)["context"] == 7
    with pytest.raises(FirthError, match=r"context is 25, but learned positions end at model\.context = 24\. Choose context=24"):
        model.evaluate(context=25)
    with pytest.raises(FirthError, match=r'rotary_scaling is "ntk", but model\.position is "learned"\. Remove'):
        model.evaluate(context=7, rotary_scaling="ntk")


def test_each_text_of_a_run_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text(TEXT[:200])
    table = recipe_table(steps=1)
    table["data"]["test_path"] = str(tmp_path / "test.txt")
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    counts = {split: model.evaluate(split=split)["tokens"] for split in ("train", "valid", "test")}
    assert counts == {"train": len(TEXT) - len(HELD_OUT) - 1, "valid": len(HELD_OUT) - 1, "test": 199}
    assert model.evaluate(split="test") == model.evaluate()
    assert model.evaluate(split="test") == {**model.evaluate(tmp_path / "test.txt"), "split": "test"}


@every_run
def test_random_batches_add_to_the_result_and_change_nothing_in_it(run: Path) -> None:
    model = load(run)
    result = model.evaluate(split="train", random_batches=2, seed=4)
    config = model.recipe.training
    text = prepare(model.recipe.data, model.tokenizer).train
    expected = random_loss(model.network, text, 2, batch=config.batch, context=config.context, seed=4)
    added = {"loss_random", "loss_random_error", "random_batches", "seed"}
    assert {key: result[key] for key in added} == {**dataclasses.asdict(expected), "seed": 4}
    assert {key: value for key, value in result.items() if key not in added} == model.evaluate(split="train")


@pytest.mark.parametrize(
    ("run", "asked", "message"),
    [
        ("char_run", {"split": "test"}, r"this run has no test data, only valid and train\. Choose one"),
        ("char_run", {"split": "vaild"}, r'unknown split "vaild"; choose train, valid or test\. Did you'),
        ("char_run", {"split": "valid", "path": "my.txt"}, r'the file my\.txt and the split "valid" cannot be combined\. Remove'),
        ("char_run", {"streams": 0}, "streams is 0; expected 1 or more"),
        ("char_run", {"random_batches": 0}, "random_batches is 0; expected 1 or more"),
        ("char_run", {"random_batches": 1, "seed": -1}, "seed is -1; expected 0 or more"),
        ("char_run", {"context": 30}, r"context only applies to Transformers; this run is recurrent .* Remove context\."),
        ("char_run", {"rotary_scaling": "ntk"}, r"rotary_scaling only applies to Transformers; .* Remove rotary_scaling\."),
        ("transformer_run", {"context": 0}, "context is 0; expected 1 or more"),
        ("transformer_run", {"rotary_scaling": "ntk"}, r'rotary_scaling = "ntk" needs a context\. Add context\.'),
        (
            "transformer_run",
            {"context": 48, "rotary_scaling": "nkt"},
            r'rotary_scaling is "nkt"; choose "none", "linear", "ntk", "yarn", "llama3" or "dynamic"',
        ),
        ("transformer_run", {"context": 24, "rotary_scaling": "yarn"}, r"context of 24 is not longer than the trained 24\."),
        ("transformer_run", {"streams": 2}, r"streams is 2, but a Transformer has no state to carry along a"),
    ],
    indirect=["run"],
)
def test_a_protocol_that_cannot_be_is_refused(run: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(FirthError, match=message):
        load(run).evaluate(**asked)


@pytest.mark.parametrize("run", ["char_run", "transformer_run"], indirect=True)
def test_a_run_of_a_gpu_is_evaluated_where_there_is_none(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its recipe names a device, bf16 and compile; what counts is the machine that reads it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shutil.copytree(run, tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.toml"
    told = {'device = "cpu"': 'device = "cuda"', 'dtype = "float32"': 'dtype = "bf16"', "compile = false": "compile = true"}
    text = recipe.read_text(encoding="utf-8")
    for here, there in told.items():
        assert here in text
        text = text.replace(here, there)
    recipe.write_text(text, encoding="utf-8")
    model = load(tmp_path / "run")
    assert model.device.type == "cpu"
    assert model.evaluate()["loss"] == load(run).evaluate()["loss"], (
        "the weights are measured in float32, however they were trained"
    )


def test_a_test_text_comes_before_the_validation_text(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text(TEXT[:200])
    table = recipe_table(steps=1)
    table["data"]["test_path"] = str(tmp_path / "test.txt")
    result = load(train_recipe(compose(table), tmp_path / "run").path).evaluate()
    assert (result["split"], result["tokens"]) == ("test", 199)


def test_a_run_without_held_out_text_is_measured_on_its_training_text(tmp_path: Path) -> None:
    table = recipe_table(steps=1)
    table["data"]["valid"] = 0.0
    assert load(train_recipe(compose(table), tmp_path / "run").path).evaluate()["split"] == "train"


@every_run
def test_evaluate_reads_any_text(run: Path, tmp_path: Path) -> None:
    model, path = load(run), tmp_path / "other.txt"
    path.write_text("".join(LINES[1:3]) * 3)
    result = model.evaluate(path)
    assert result["split"] == str(path)
    assert (result["bits_per_character"] is None) == (not model.tokenizer.lossless)
    assert model.evaluate(str(path)) == result


def test_a_run_on_standard_input_says_that_it_is_gone(char_run: Path, tmp_path: Path) -> None:
    shutil.copytree(char_run, tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.toml"
    lines = [line for line in recipe.read_text().splitlines() if not line.startswith(("text =", "sha256 ="))]
    recipe.write_text("\n".join(lines).replace("[data]", '[data]\npath = "-"'))
    with pytest.raises(DataError, match=r"this run was trained on standard input, which cannot be read"):
        load(tmp_path / "run").evaluate()


# what the vocabulary cannot spell


@pytest.mark.parametrize("verb", ["generate", "score", "complete", "evaluate"])
def test_characters_never_seen_are_named(verb: str, char_run: Path, tmp_path: Path) -> None:
    model = load(char_run)
    path = tmp_path / "odd.txt"
    path.write_text("the Ω list ß")
    asked: dict[str, Callable[[], object]] = {
        "generate": lambda: model.generate("the Ω list ß"),
        "score": lambda: model.score(["the Ω list ß"]),
        "complete": lambda: model.complete("the Ω __ ß", ["list"]),
        "evaluate": lambda: model.evaluate(path),
    }
    with pytest.raises(DataError) as error:
        asked[verb]()
    assert "'Ω'" in str(error.value)
    assert "'ß'" in str(error.value)


def test_a_prompt_is_refused_before_the_first_piece_is_asked_for(char_run: Path) -> None:
    with pytest.raises(DataError, match="'Ω'"):
        load(char_run).stream("Ω", DecodingConfig())


def test_words_never_seen_are_read_as_unknown_with_a_note(word_run: Path) -> None:
    model = load(word_run)
    with pytest.warns(UserWarning, match="read as <unk>, never seen in training: zebra"):
        ids = model.ids("the zebra")
    assert ids.tolist() == [*model.ids("the").tolist(), model.tokenizer.unknown]


def test_characters_never_seen_are_read_as_unknown_where_the_vocabulary_has_unknown(tmp_path: Path) -> None:
    table = recipe_table(steps=1)
    table["tokenizer"] = {"kind": "char", "min_count": 2}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    with pytest.warns(UserWarning, match="read as <unk>.*Ω"):
        assert model.ids("Ω").tolist() == [model.tokenizer.unknown]


# load


def test_load_gives_the_weights_of_the_run(char_run: Path) -> None:
    from firth.files import load_tensors

    stored, _ = load_tensors(char_run / "model.safetensors")
    network = firth.load(str(char_run)).network
    assert all(torch.equal(tensor, stored[name]) for name, tensor in network.state_dict().items())
    assert not network.training


@pytest.fixture
def copied(char_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(char_run, tmp_path / "run")
    return tmp_path / "run"


def test_a_place_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere is not a folder; expected a run made by firth\.train"):
        load(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"is not a run: it has no `format` file; expected a folder made by firth\.train"):
        load(tmp_path)


def test_a_newer_format_is_refused(copied: Path) -> None:
    (copied / "format").write_text("999\n")
    with pytest.raises(RunError, match=r"run format 999; this firth reads up to \d+; upgrade firth"):
        load(copied)


@pytest.mark.parametrize("name", ["recipe.toml", "tokenizer.json"])
def test_a_run_with_a_file_missing_names_the_file(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(RunError, match=rf"is incomplete: {name} is missing"):
        load(copied)


def test_a_run_without_weights_says_how_to_make_them(copied: Path) -> None:
    shutil.rmtree(copied / "checkpoints")
    (copied / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"resume=True"):
        load(copied)


def test_weights_that_do_not_fit_the_recipe_are_refused(copied: Path) -> None:
    recipe = copied / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("width = 32", "width = 33"))
    with pytest.raises(DataError, match=r"do not fit its recipe\.toml"):
        load(copied)


def test_a_damaged_weights_file_gives_way_to_the_checkpoint(copied: Path) -> None:
    weights = copied / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        model = load(copied)
    assert np.isfinite(model.score(["the list"])[0].log_probability)


def test_a_tokenizer_of_another_run_is_refused(char_run: Path, word_run: Path, tmp_path: Path) -> None:
    mixed = Path(shutil.copytree(char_run, tmp_path / "mixed"))
    shutil.copy(word_run / "tokenizer.json", mixed)
    with pytest.raises(RunError, match=r"tokenizer\.json is not the one that these weights were trained with"):
        load(mixed)
