"""Filling a blank, with a language model whose every probability is known: a list of texts, each with its weight."""

from __future__ import annotations

import contextlib
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import recipe_table
from shares import half
from torch import Tensor, nn

from firth.api import compose, load, train_recipe
from firth.errors import DataError
from firth.models import LanguageModel
from firth.tasks.abilities.completion import Completion, _SpelledWord
from firth.tasks.next_token import LanguageModelRun
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

TEXTS = {
    "i was in a church. i was praying.\n": 6.0,
    "i was in a cinema. i was eating popcorn.\n": 3.0,
    "i was in a cinema. i was praying.\n": 0.5,
    "i was in a church-yard! i was eating popcorn.\n": 0.25,
}
TOTAL = sum(TEXTS.values())
FLOOR = 1e-9  # share of every other token, so that no text is impossible


class Listed(LanguageModel):
    """p(x_t | x_<t) = weight of the texts that begin with x_≤t over the weight of those that begin with x_<t."""

    carries = False

    def __init__(self, tokenizer: Tokenizer, opening: list[int], context: int | None = None) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(()))
        self.vocab, self.context = tokenizer.vocab, context
        self.texts = {(*opening, *tokenizer.encode(text).tolist()): weight for text, weight in TEXTS.items()}
        self.longest = 0

    def start(self, batch: int) -> Any:
        return History([()] * batch)

    def hidden(self, token_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        read = [list(row) for row in (state.rows if state else [()] * len(token_BT))]
        probability_BTV = torch.full((*token_BT.shape, self.vocab), FLOOR, dtype=torch.float64)
        for b, row in enumerate(token_BT.tolist()):
            for t, token in enumerate(row):
                read[b].append(token)
                self._follow(tuple(read[b]), probability_BTV[b, t])
            self.longest = max(self.longest, len(read[b]))
        return probability_BTV.log(), History([tuple(row) for row in read])

    def _follow(self, before: tuple[int, ...], probability_V: Tensor) -> None:
        going = {text: w for text, w in self.texts.items() if text[: len(before)] == before and len(text) > len(before)}
        for text, weight in going.items():
            probability_V[text[len(before)]] += weight / sum(going.values())

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        return torch.eye(self.vocab, dtype=torch.float64), None


class History:
    def __init__(self, rows: list[tuple[int, ...]]) -> None:
        self.rows = rows

    def select(self, rows: Tensor) -> History:
        return History([self.rows[n] for n in rows.tolist()])


def listed(kind: str, context: int | None = None) -> LanguageModelRun:
    text = "\n" + "".join(TEXTS)
    config = TokenizerConfig(kind=kind, vocab=300 if kind == "bpe" else None)  # type: ignore[arg-type]
    tokenizer = Tokenizer.train(config, [Piece(text, True)], documents=1)
    opening = [tokenizer.eos] if tokenizer.eos is not None else tokenizer.encode("\n").tolist()
    return LanguageModelRun(compose(recipe_table(kind)).task, Listed(tokenizer, opening, context), tokenizer)


BLANK = "i was in a __. i was eating popcorn.\n"
KINDS = ["char", "word", "bpe"]
CANDIDATES = ["church", "cinema"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_context_changes_the_ranking(kind: str) -> None:
    model = listed(kind)
    ranked = {c.filler: c for c in model.complete(BLANK, CANDIDATES)}
    assert list(ranked) == ["cinema", "church"]  # best first
    assert ranked["church"].share_given_left > ranked["cinema"].share_given_left  # what the left alone says
    assert ranked["cinema"].share > 0.99
    praying = model.complete(BLANK.replace("eating popcorn", "praying"), CANDIDATES)
    assert praying[0].filler == "church"


@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_are_those_of_the_distribution(kind: str) -> None:
    model = listed(kind)
    ranked = {c.filler: c for c in model.complete(BLANK, CANDIDATES)}
    # of 9.75 in all, 3.5 begin "… cinema"; "… church" is 6 and, where "church." is not one word, also church-yard's 0.25
    church = 6.0 if kind == "word" else 6.25
    left = {"cinema": 3.5, "church": church}
    for filler, weight in left.items():
        assert ranked[filler].probability_given_left == pytest.approx(weight / TOTAL, rel=1e-3)
        assert ranked[filler].share_given_left == pytest.approx(weight / (3.5 + church), rel=1e-3)
    assert ranked["cinema"].log_probability == pytest.approx(math.log(3.0 / TOTAL), abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_log_probability_is_the_score_of_the_whole_text(kind: str) -> None:
    model = listed(kind)
    for completion in model.complete(BLANK, CANDIDATES):
        whole = BLANK.replace("__", completion.filler)
        assert completion.log_probability == pytest.approx(model.score([whole])[0].log_probability)


def checked(completions: list[Completion]) -> None:
    assert sum(c.share for c in completions) == pytest.approx(1)
    assert sum(c.share_given_left for c in completions) == pytest.approx(1)
    ranked = [c.log_probability for c in completions]
    assert ranked == sorted(ranked, reverse=True)
    top = max(ranked)
    total = sum(math.exp(value - top) for value in ranked)
    assert [c.share for c in completions] == pytest.approx([math.exp(value - top) / total for value in ranked])


@pytest.mark.parametrize("run", half(["char_run", "transformer_run", "word_run", "bpe_run"]))
def test_shares_sum_to_one_and_follow_the_ranking(run: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue(run))
    checked(model.complete("a name is in the __\n", ["set.", "list", "name.", "café"]))


@pytest.mark.parametrize("run", ["char_run", "bpe_run"])
def test_the_figures_of_a_trained_model_are_differences_of_scores(run: str, request: pytest.FixtureRequest) -> None:
    model: LanguageModelRun = load(request.getfixturevalue(run))
    left = "the " if model.tokenizer.kind == "char" else "the"  # to subwords the space belongs to the filler
    for c in model.complete("the __ is empty.", ["list", "set"]):
        filler, before = (model.score([text])[0].log_probability for text in (f"the {c.filler}", left))
        assert c.probability_given_left == pytest.approx(math.exp(filler - before), rel=1e-6)


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_proposals_are_whole_words_ranked_by_the_whole_text(kind: str) -> None:
    proposed = listed(kind).complete(BLANK, proposals=3)
    assert {"church", "cinema", "church-yard"} <= {c.filler for c in proposed}
    assert proposed[0].filler == "cinema"
    checked(proposed)


def test_proposals_of_a_word_model_are_words_of_its_vocabulary_once_the_right_context_is_joined_on() -> None:
    """To words, "cinema." is one: before a point "cinema" is proposed, and not "praying", which never ended so."""
    proposed = listed("word").complete(BLANK, proposals=2)
    assert [c.filler for c in proposed] == ["cinema", "church"]
    checked(proposed)


@pytest.mark.parametrize("run", ["char_run", "word_run", "bpe_run", "transformer_run"])
def test_a_trained_model_proposes_words(run: str, request: pytest.FixtureRequest) -> None:
    proposed = load(request.getfixturevalue(run)).complete("the list is empty.\nthe __ is empty.", proposals=5)
    assert 1 <= len(proposed) <= 5
    assert all(c.filler and " " not in c.filler and any(letter.isalnum() for letter in c.filler) for c in proposed)
    checked(proposed)


@pytest.mark.parametrize("context", [1, 2, 5, 16, 24, 25, 64])
def test_proposing_never_reads_more_than_the_context(context: int) -> None:
    model = listed("char", context)
    assert isinstance(model.network, Listed)
    with contextlib.suppress(DataError):  # no candidates: too little room for a word and what follows it
        model.complete(BLANK, proposals=2)
    assert 0 < model.network.longest <= context


def test_a_word_does_not_end_inside_a_letter() -> None:
    """é is two tokens to this vocabulary; after the first, "caf" is not yet a word with something behind it."""
    model = listed("bpe")
    tokens = tuple(model.tokenizer.encode(" café.").tolist())
    assert model.tokenizer.decode(tokens[:-2]) == " caf\ufffd"
    words = _SpelledWord(model)
    assert words.begins_V[tokens[0]]
    assert words.continues_V[list(tokens[1:-1])].all()
    assert words.ends_V[tokens[-1]]
    assert not words.ends_V[list(tokens[1:-1])].any()
    assert words.text(tokens[:-1]) == "café"
    assert words.text(tokens[:-2]) == ""


@pytest.mark.parametrize("run", ["char_run", "bpe_run"])
def test_as_many_words_are_proposed_as_are_asked_for(run: str, request: pytest.FixtureRequest) -> None:
    """The token after a word does not make a second proposal of the same word."""
    model = load(request.getfixturevalue(run))
    fillers = [c.filler for c in model.complete("the list is empty.\nthe __ is empty.", proposals=6)]
    assert len(fillers) == len(set(fillers)) == 6


def test_without_room_to_the_left_the_beginning_of_a_line_is_proposed_from() -> None:
    assert listed("char").complete("__ was in a cinema.", proposals=2)[0].filler == "i"


def test_candidates_are_stripped_and_counted_once() -> None:
    ranked = listed("char").complete(BLANK, [" cinema", "cinema ", "", "church"])
    assert [c.filler for c in ranked] == ["cinema", "church"]


@pytest.mark.parametrize(("text", "blanks"), [("no blank", 0), ("__ and __", 2)])
def test_a_text_has_exactly_one_blank(text: str, blanks: int, char_run: Path) -> None:
    with pytest.raises(DataError, match=f"has {blanks} blanks; expected exactly one __"):
        load(char_run).complete(text, ["a"])


def test_no_candidates_is_an_error_that_says_how_to_give_some(char_run: Path) -> None:
    with pytest.raises(DataError, match=r"the list of candidates is empty\. Give some: candidates=\["):
        load(char_run).complete("the __.", ["", " "])


def test_candidates_that_are_all_unknown_words_are_refused_by_name() -> None:
    with pytest.raises(DataError, match=r'sees them all as <unk>: "house\.", "theater\."\. Choose other'):
        listed("word").complete(BLANK, ["cinema", "house", "theater"])


def test_where_no_token_can_end_a_word_single_tokens_are_proposed(tmp_path: Path) -> None:
    table = recipe_table(context=4) | {"data": {"text": "hello", "valid": 0}}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    proposed = model.complete("h__")
    assert sorted(one.filler for one in proposed) == ["e", "h", "l", "o"]
    assert sum(one.probability_given_left for one in proposed) == pytest.approx(1, abs=1e-5)


def test_ids_of_nothing_are_nothing(char_run: Path) -> None:
    assert load(char_run).ids("").shape == np.zeros(0).shape


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_to_the_left_a_filler_begins_the_text(kind: str) -> None:
    model = listed(kind)
    ranked = {c.filler: c for c in model.complete("__ was in a church. i was praying.\n", ["i", "a"])}
    assert ranked["i"].probability_given_left == pytest.approx(1, rel=1e-3)
    assert ranked["i"].log_probability == pytest.approx(math.log(6 / TOTAL), abs=1e-3)
    assert next(c.filler for c in model.complete("__ was in a church. i was praying.\n", proposals=3)) == "i"


def test_a_vocabulary_without_a_start_gives_every_first_token_the_same_probability() -> None:
    """p(filler) = 1/V · Π p(x_t | x_<t), over the tokens of the filler after its first one."""
    table = {
        "data": {"text": "hello", "valid": 0.0},
        "tokenizer": {"start": False},
        "model": {"kind": "rnn", "width": 16},
        "training": {"steps": 40, "batch": 1, "context": 4, "rate": 0.01, "device": "cpu"},
    }
    with tempfile.TemporaryDirectory() as folder:
        model = load(train_recipe(compose(table), Path(folder) / "run").path)
    assert not len(model.start_ids())
    ranked = {c.filler: c for c in model.complete("__lo", ["he", "ol", "e"])}
    for filler, one in ranked.items():
        inside = model.score([filler])[0].log_probability if len(filler) > 1 else 0.0
        assert one.probability_given_left == pytest.approx(math.exp(inside) / 4)
        assert one.log_probability == pytest.approx(model.score([f"{filler}lo"])[0].log_probability - math.log(4))
    proposed = model.complete("__ello")
    assert next(c.filler for c in proposed) == "h"
    assert {c.filler for c in proposed} == set("helo")
    assert [c.share_given_left for c in proposed] == pytest.approx([0.25] * 4)
    checked(proposed)
