"""Beam search, penalties and stop strings of language model runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import recipe_table
from shares import half
from shell import Firth, firth

from firth.api import compose, load, train_recipe
from firth.decoding.config import DecodingConfig
from firth.errors import ConfigError
from firth.tasks.abilities import drafting as model_module
from firth.tasks.abilities.stepwise_generation import write
from firth.tasks.run import Run

__all__ = ["firth"]

RUNS = ["char_run", "transformer_run", "word_run", "bpe_run"]


@pytest.fixture(scope="module", params=RUNS)
def model(request: pytest.FixtureRequest) -> Run[Any]:
    return load(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def documents_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short documents, so that there is an <eos> and it is likely."""
    folder = tmp_path_factory.mktemp("documents")
    for n, text in enumerate(("the list is empty.", "the set is full.")):
        (folder / f"{n}.txt").write_text(text)
    table = recipe_table(steps=60) | {"data": {"path": str(folder / "*.txt"), "valid": 0.0}}
    table["training"] |= {"context": 8, "evaluate_every": 0}
    return train_recipe(compose(table), folder / "run").path


def log_p(model: Run[Any], prompt: list[int], tokens: list[int]) -> float:
    """Σ log p(token | all before it), read at once."""
    with torch.inference_mode():
        logits_TV = model.network(torch.tensor([[*prompt, *tokens]]))[0][0].double()
    return sum(float(logits_TV[len(prompt) - 1 + n].log_softmax(0)[token]) for n, token in enumerate(tokens))


# beams


def test_without_an_end_all_texts_of_a_beam_have_as_many_tokens_as_were_asked_for(model: Run[Any]) -> None:
    prompt, config = model.ids("the list").tolist(), DecodingConfig(beam=4, tokens=6, penalty=0.0)
    continuations = model.continuations("the list", config)
    assert len(continuations) == 4
    assert [one.log_probability for one in continuations] == sorted((one.log_probability for one in continuations), reverse=True)
    assert not any(one.finished for one in continuations)
    assert model.generate("the list", beam=4, tokens=6, penalty=0.0) == continuations[0].text
    greedy = model.generate("the list", tokens=6, temperature=0.0)
    ids = list(write(model, "the list", [], DecodingConfig(tokens=6, temperature=0.0)))
    assert continuations[0].log_probability >= log_p(model, prompt, ids) - 1e-4
    (alone,) = model.continuations("the list", DecodingConfig(beam=1, tokens=6))
    assert alone.text == greedy


def test_a_wide_beam_of_two_characters_finds_the_best_of_all_pairs(char_run: Path) -> None:
    model = load(char_run)
    vocab, prompt = model.tokenizer.vocab, model.ids("the list").tolist()
    truth = {pair: log_p(model, prompt, list(pair)) for pair in itertools.product(range(vocab), repeat=2)}
    continuations = model.continuations("the list", DecodingConfig(beam=vocab, tokens=2))
    best = sorted(truth, key=lambda pair: -truth[pair])[:vocab]
    assert [one.text for one in continuations] == [model.tokenizer.decode(pair) for pair in best]
    assert [one.log_probability for one in continuations] == pytest.approx([truth[pair] for pair in best], abs=1e-4)


def test_a_beam_goes_on_past_the_context_as_sampling_does(transformer_run: Path) -> None:
    """A beam of one keeps the most probable token, as temperature 0 does."""
    model = load(transformer_run)
    tokens = model.network.context + 20
    (continuation,) = model.continuations("the list", DecodingConfig(beam=1, tokens=tokens))
    assert continuation.text == model.generate("the list", tokens=tokens, temperature=0.0)
    assert len(model.continuations("the list", DecodingConfig(beam=3, tokens=tokens))[0].text) == tokens


def test_the_end_of_a_document_ends_a_hypothesis(documents_run: Path) -> None:
    model = load(documents_run)
    continuations = model.continuations("the list is empt", DecodingConfig(beam=3, tokens=10))
    assert (continuations[0].text, continuations[0].finished) == ("y.", True)
    end = [*model.ids("y.").tolist(), model.tokenizer.eos]
    assert continuations[0].log_probability == pytest.approx(log_p(model, model.ids("the list is empt").tolist(), end), abs=1e-4)
    assert continuations[0].score == pytest.approx(continuations[0].log_probability / (8 / 6) ** 0.6)


def test_the_recipe_can_ask_for_a_beam(char_run: Path) -> None:
    model = load(char_run)
    table = recipe_table() | {"decoding": {"beam": 4, "beam_groups": 2, "stop": ["."], "repetition_penalty": 1.2}}
    assert compose(table).decoding == DecodingConfig(beam=4, beam_groups=2, stop=(".",), repetition_penalty=1.2)
    diverse = model.continuations("the", DecodingConfig(beam=4, beam_groups=4, diversity=100.0, tokens=5))
    assert len({one.text[0] for one in diverse}) == 4


def test_sampling_settings_do_not_apply_to_a_beam(char_run: Path) -> None:
    model = load(char_run)
    with pytest.raises(ConfigError, match="temperature only applies to sampling, but beam is 4"):
        model.generate("the", beam=4, temperature=0.5)


# stop strings


@pytest.mark.parametrize("stop", half(["is", " e", "t", "list is", "\n"]))
@pytest.mark.parametrize("options", [{"seed": 2}, {"beam": 3}], ids=["sampled", "searched"])
def test_a_text_ends_before_its_stop_string(model: Run[Any], stop: str, options: dict[str, Any]) -> None:
    whole = model.generate("the", tokens=40, seed=2)
    cut = model.generate("the", tokens=40, stop=stop, **options)
    assert stop not in cut
    if "seed" in options:
        assert cut == whole.partition(stop)[0]
        assert model.generate("the", tokens=40, stop=[stop, "ΩΩ"], **options) == cut


def test_a_stop_string_may_span_tokens_and_generation_ends_with_it(bpe_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, text, asked = load(bpe_run), "one 🦉 owl, two", []
    tokens = model.tokenizer.encode(text).tolist()

    def fed(network: Any, prompt: Any, config: Any, spelled: Any) -> Any:
        for token in tokens:
            asked.append(token)
            yield torch.tensor([token])

    monkeypatch.setattr(model_module, "generate", fed)
    assert "".join(model.stream("the", DecodingConfig(stop=("🦉 owl",)))) == "one "
    assert len(model.tokenizer.encode("🦉 owl")) > 4
    assert asked == tokens[: len(model.tokenizer.encode("one 🦉 owl"))]


def test_a_hypothesis_that_reaches_a_stop_string_is_finished(char_run: Path) -> None:
    model = load(char_run)
    config = DecodingConfig(beam=8, tokens=12, stop=("e", "s"))
    continuations = model.continuations("the li", config)
    assert any(one.finished for one in continuations)
    assert all("e" not in one.text and "s" not in one.text for one in continuations)
    assert all(one.finished or len(one.text) == 12 for one in continuations)


def test_writing_ends_with_the_stop_string(char_run: Path) -> None:
    model, config = load(char_run), DecodingConfig(tokens=60, seed=1, stop=("e",))
    ids = list(write(model, "the list", [], config))
    text = model.tokenizer.decode(ids)
    assert text.index("e") == len(text) - 1
    assert text[:-1] == "".join(model.stream("the list", config))


# penalties


@pytest.mark.parametrize("config", [DecodingConfig(tokens=30, repetition_penalty=1.5, min_p=0.05, seed=4)])
def test_writing_is_generating_with_penalties_too(model: Run[Any], config: DecodingConfig) -> None:
    ids = list(write(model, "the list", [], config))
    drawn = model_module.generate(model.network, torch.tensor([model.ids("the list").tolist()]), config)
    assert ids == [int(token) for token in drawn][: len(ids)]


def test_greedy_decoding_with_a_repetition_penalty_is_a_plain_loop(model: Run[Any]) -> None:
    theta, past = 1.4, model.ids("the list").tolist()
    start = len(past)
    for _ in range(10):
        with torch.no_grad():
            x_V = model.network(torch.tensor([past]))[0][0, -1].double()
        for token in set(past):
            x_V[token] = x_V[token] * theta if x_V[token] < 0 else x_V[token] / theta
        past.append(int(x_V.argmax()))
    config = DecodingConfig(tokens=10, temperature=0.0, repetition_penalty=theta)
    assert list(write(model, "the list", [], config)) == past[start:]
    drawn = model_module.generate(model.network, torch.tensor([past[:start]]), config)
    assert [int(token) for token in drawn] == past[start:]


def test_a_high_repetition_penalty_avoids_what_was_written(char_run: Path) -> None:
    text = load(char_run).generate("t", tokens=12, temperature=0.0, repetition_penalty=1e3)
    assert len(set("t" + text)) == 13


# firth generate


def test_generate_with_a_beam_prints_the_best_and_more_on_request(firth: Firth, char_run: Path) -> None:
    model = load(char_run)
    continuations = model.continuations("the list", model.decoding({"beam": 4, "tokens": 9}))
    options = ("generate", char_run, "the list", "--tokens", 9, "--beam", 4)
    assert firth(*options).out == f"the list{continuations[0].text}\n"
    lines = firth(*options, "--nbest", 2).out.splitlines()
    assert lines == [f"{n} ||| the list{one.text} ||| {one.score:.4f}" for n, one in enumerate(continuations[:2], 1)]
    told = json.loads(firth(*options, "--json", "--nbest", 2).out)
    assert (told["prompt"], told["continuation"], told["score"]) == ("the list", continuations[0].text, continuations[0].score)
    assert [one["text"] for one in told["nbest"]] == [one.text for one in continuations[:2]]
    assert "nbest" not in json.loads(firth(*options, "--json").out)


def test_generate_takes_all_the_settings(firth: Firth, char_run: Path) -> None:
    model = load(char_run)
    sampled = model.generate("the", tokens=30, min_p=0.1, repetition_penalty=1.1, stop=["x", "is"], seed=5)
    options = ("--min-p", 0.1, "--repetition-penalty", 1.1, "--stop", "x", "--stop", "is", "--seed", 5)
    assert firth("generate", char_run, "the", "--tokens", 30, *options).out == f"the{sampled}\n"
    searched = model.generate("the", tokens=9, beam=4, beam_groups=2, diversity=0.7, penalty=1.0)
    options = ("--beam", 4, "--beam-groups", 2, "--diversity", 0.7, "--penalty", 1.0)
    assert firth("generate", char_run, "the", "--tokens", 9, *options).out == f"the{searched}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--beam", 2, "--temperature", 0.5), "temperature only applies to sampling, but beam is 2"),
        (("--beam", 2, "--nbest", 3), "--nbest 3 needs a --beam of at least 3, not 2"),
        (("--diversity", 0.4), "--diversity only applies to beam search; add --beam or remove it"),
        (("--beam", 4, "--beam-groups", 3), "decoding.beam_groups is 3; expected a divisor of decoding.beam, which is 4"),
        (("--stop", ""), "decoding.stop is ('',); expected strings of at least one character"),
        (("--min-p", 2), "decoding.min_p is 2.0; expected 0 ≤ min_p ≤ 1"),
        (("--repetition-penalty", 0), "decoding.repetition_penalty is 0.0; expected more than 0"),
    ],
    ids=str,
)
def test_generate_refuses_what_does_not_fit(firth: Firth, char_run: Path, options: tuple[Any, ...], message: str) -> None:
    answer = firth("generate", char_run, "the", *options)
    assert answer.code == 2
    assert message in answer.err


def test_stop_strings_are_not_for_translations() -> None:
    table = recipe_table() | {"decoding": {"stop": ["."]}}
    assert compose(table).decoding.stop == (".",)
    masked = table | {"objective": {"kind": "masked"}, "model": {"family": "encoder", "kind": "transformer"}}
    with pytest.raises(ConfigError, match=r"decoding\.stop = .* only applies to next-token"):
        compose(masked)
