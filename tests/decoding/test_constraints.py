"""Texts that must match: by Python's `re` and `json` as oracles, with every kind of tokenizer."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from shares import half
from small_models import random_model
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from firth.decoding.config import DecodingConfig
from firth.decoding.engine.engine import Engine, Event, Finished, GeneratedToken, Job
from firth.decoding.generate import generate
from firth.decoding.sampling.choice import Chain
from firth.decoding.sampling.rows import Spelled, TextSoFar
from firth.errors import ConfigError
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

TEXT = 'To be, or not to be: that is the question.\nÄpfel und 12 Birnen/Äste, "ja" {oder} [nein] - 34567890 x_y z\'s!\n' * 3
WORDS = "yes no maybe the cat sat on a mat it is big red and so we go up to him cats sit"
OWN = ("char", "word", "bpe", "wordpiece", "unigram")
IMPORTED = ("bytes", "byte fallback", "pieces")
CPU = torch.device("cpu")


@cache
def tokenizer(kind: str) -> Tokenizer:
    if kind in OWN:
        config = TokenizerConfig(kind=kind, vocab=None if kind in ("char", "word") else 300)  # type: ignore[arg-type]
        return Tokenizer.train(config, [Piece(f"{TEXT}{WORDS}\n", True)], 2)
    made = tokenizers.Tokenizer.from_str(tokenizer("bpe").to_json()) if kind == "bytes" else _sentencepiece(kind)
    made.add_special_tokens(["</s>"])
    return Tokenizer.imported(made.to_str(), {"eos_token": "</s>"}, made.get_vocab_size() + 3)


def _sentencepiece(kind: str) -> tokenizers.Tokenizer:
    """As LLaMA's tokenizer, which has all bytes, or as T5's, which has the characters of its text."""
    spaced = [f"\u2581{word}" for word in dict.fromkeys(f"{TEXT}{WORDS}".split())]
    letters = sorted({*TEXT.replace(" ", "\u2581"), *WORDS.replace(" ", "\u2581")})
    if kind == "pieces":
        vocabulary = [("<unk>", 0.0), *((name, -1.0 - n) for n, name in enumerate([*letters, *dict.fromkeys(spaced)]))]
        made = tokenizers.Tokenizer(models.Unigram(list(dict(vocabulary).items()), unk_id=0))
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        made.decoder = decoders.Metaspace(prepend_scheme="always")
        return made
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *spaced]
    ids = {name: n for n, name in enumerate(dict.fromkeys(names))}
    made = tokenizers.Tokenizer(models.BPE(ids, [], unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return made


def sampled(made: Tokenizer, config: DecodingConfig, number: int, before: tuple[int, ...] = ()) -> list[str]:
    """Texts drawn from random logits, spelled as after the tokens `before`."""
    ends = made.ends if made.kind != "word" else ()
    texts = [TextSoFar(config, before, Spelled(made.spelling, ends, made.begins_text(before))) for _ in range(number)]
    random, ended = torch.Generator().manual_seed(len(before)), dict[int, str]()
    for _ in range(200):
        going = [n for n in range(number) if n not in ended]
        if not going:
            return [ended[n] for n in range(number)]
        chain = Chain([texts[n] for n in going], CPU)
        logits_nV = 2 * torch.randn(len(going), made.vocab, generator=random)
        token_n, _ = chain.choose(logits_nV, torch.rand(len(going), generator=random, dtype=torch.float64))
        for n, token in zip(going, token_n.tolist(), strict=True):
            texts[n].add(token, 1.0)
            assert texts[n].failure is None
            if token in ends or texts[n].ended:
                ended[n] = _shown(made, before, [one for one in texts[n].tokens[len(before) :] if one not in ends])
    raise AssertionError("a text did not end")


def _shown(made: Tokenizer, before: tuple[int, ...], tokens: list[int]) -> str:
    text = "".join(itertools.islice(made.spell(iter([*before, *tokens])), len(before), len(before) + len(tokens)))
    return text.removeprefix(" ") if made.kind == "word" else text  # the space that separates it from the words before


PATTERNS = (
    "[a-z]{2,4}( [a-z]{1,3}){0,3}",
    "(yes|no|maybe)",
    "( ?the cat| ?cats?){1,3}",
    "[^a-m]{5}",
    "(to|be)( (to|be)){4}",
)
MORE = (r"[0-9]{1,3}/[0-9]{1,2}", "(Äpfel|x_y|z's)[!,.]?", '"[A-Za-z ]{0,5}"')  # words cannot be divided like this


@pytest.mark.parametrize("after", [False, True], ids=["begins", "goes on"])
@pytest.mark.parametrize("kind", half([*OWN, *IMPORTED]))
def test_thousands_of_texts_match(kind: str, after: bool) -> None:
    made = tokenizer(kind)
    before = tuple(int(id) for id in made.encode("to be")) if after else ()
    for pattern in PATTERNS if kind == "word" else (*PATTERNS, *MORE):
        for text in sampled(made, DecodingConfig(regex=pattern, top_k=40), 40, before):
            assert re.fullmatch(pattern, text), (pattern, text)


@pytest.mark.parametrize("kind", half([*OWN, *IMPORTED], 1))
def test_all_choices_are_found_and_nothing_else(kind: str) -> None:
    choices = ("yes", "no", "the cat", "the cats sit") if kind == "word" else ("yes", "no", "the cat", "the cats", "x_y", "z")
    texts = sampled(tokenizer(kind), DecodingConfig(choice=choices), 200)
    assert set(texts) == set(choices)


SCHEMA = {
    "type": "object",
    "properties": {
        "fruit": {"enum": ["Äpfel", "Birnen"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "words": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
    },
    "required": ["fruit", "count"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("kind", half(kind for kind in (*OWN, *IMPORTED) if kind not in ("word", "wordpiece")))
def test_a_thousand_answers_are_json_of_their_schema(kind: str) -> None:
    for text in sampled(tokenizer(kind), DecodingConfig(json_schema=json.dumps(SCHEMA), top_k=40), 200):
        answer = json.loads(text)
        assert set(answer) <= {"fruit", "count", "words"}
        assert answer["fruit"] in ("Äpfel", "Birnen")
        assert answer["count"] in range(100)
        words = answer.get("words", [])
        assert len(words) <= 2
        assert all(isinstance(word, str) and len(word) <= 3 for word in words)


def test_the_tokens_that_may_come_next_are_those_of_all_spellings() -> None:
    """By enumerating every sequence of tokens that spells a choice."""
    made = tokenizer("bpe")
    choices = ("the cat", "that is", "maybe")
    spelled = [tokens for choice in choices for tokens in _spellings(made, choice.encode())]
    assert len(spelled) > 9
    for tokens in spelled:
        text = TextSoFar(DecodingConfig(choice=choices), (), Spelled(made.spelling))
        for n, token in enumerate(tokens):
            expected = {one[n] for one in spelled if one[:n] == tokens[:n] and len(one) > n}
            excluded_1V = torch.isinf(Chain([text], CPU).penalised(torch.zeros(1, made.vocab)))
            assert {id for id in range(made.vocab) if not excluded_1V[0, id]} == expected
            text.add(token, 1.0)
        assert text.ended


def _spellings(made: Tokenizer, raw: bytes) -> Iterator[tuple[int, ...]]:
    if not raw:
        yield ()
    for id, token in enumerate(made.spelling.tokens):
        if token and raw.startswith(token):
            for rest in _spellings(made, raw[len(token) :]):
                yield id, *rest


def test_a_text_may_end_where_it_matches_and_go_on_if_it_can() -> None:
    made = tokenizer("bpe")
    end = made.eos
    assert end is not None
    texts = sampled(made, DecodingConfig(regex="a+"), 300)
    assert min(map(len, texts)) == 1 < max(map(len, texts))
    text = TextSoFar(DecodingConfig(regex="aa+"), (), Spelled(made.spelling, (end,)))
    assert not text.matches
    for _ in range(2):
        assert torch.isinf(Chain([text], CPU).penalised(torch.zeros(1, made.vocab))[0, end])
        text.add(made.spelling.tokens.index(b"a"), 1.0)
    assert text.matches
    assert not text.ended
    assert not torch.isinf(Chain([text], CPU).penalised(torch.zeros(1, made.vocab))[0, end])


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("char", {"choice": ("\N{SNOWMAN}",)}, "no token of the vocabulary"),
        ("word", {"choice": ("unheard",)}, "no token of the vocabulary"),
        ("word", {"json_schema": "{}"}, "tokens that are whole words"),
        ("wordpiece", {"json_schema": json.dumps({"enum": ["\N{SNOWMAN}"]})}, "\N{SNOWMAN}"),
        ("char", {"json_schema": json.dumps({"properties": 5})}, "cannot be used"),
        ("char", {"json_schema": json.dumps({"enum": 5})}, "cannot be used"),
        ("bpe", {"json_schema": '{"items": ' * 400 + "{}" + "}" * 400}, "cannot be used"),
        ("bpe", {"regex": "(a"}, "unclosed group"),
        ("bpe", {"regex": "a(?=b)"}, "look-around"),
        ("bpe", {"regex": r"(a)\1"}, "backreferences"),
        ("bpe", {"json_schema": json.dumps({"type": "number", "minimum": 3, "maximum": 2})}, "cannot be used"),
    ],
    ids=str,
)
def test_what_cannot_be_met_is_refused(kind: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        TextSoFar(DecodingConfig(**settings), (), Spelled(tokenizer(kind).spelling))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"choice": ("a",), "regex": "b"}, "decoding.choice and decoding.regex cannot be combined"),
        ({"choice": ("",)}, "at least one character"),
        ({"json_schema": "[1"}, "is not JSON"),
        ({"json_schema": "[1]"}, 'expected an object such as {"type": "object"}'),
        ({"json_schema": "[" * 10_000}, "is not JSON"),
        ({"regex": "a" * 70_000}, "at most 65,536 characters"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_settings_are_checked(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        DecodingConfig(**settings)


def test_a_tokenizer_that_joins_its_tokens_otherwise_is_refused(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2, ".": 3, "n't": 4, "</s>": 5}, unk_token="[UNK]"))
    made.decoder = decoders.WordPiece(cleanup=True)  # "a ." is shown as "a."
    made.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    with pytest.raises(ConfigError, match="does not join its tokens byte by byte"):
        _ = Tokenizer.imported(made.to_str(), {"eos_token": "</s>"}, 6).spelling


REGEX = DecodingConfig(regex="[a-z]{3}( [a-z]{2})?", tokens=20, seed=5)
FREE = DecodingConfig(tokens=20, seed=5)


def job(config: DecodingConfig, prompt: tuple[int, ...], number: int = 0) -> Job:
    return Job(prompt, config, number=number)


def events(engine: Engine, jobs: list[Job]) -> list[list[Event]]:
    heard: list[list[Event]] = [[] for _ in jobs]
    for one, deliver in zip(jobs, heard, strict=True):
        engine.submit(one, deliver.extend)
    while engine.busy:
        engine.turn()
    return heard


def written(heard: list[Event]) -> list[int]:
    return [event.id for event in heard if isinstance(event, GeneratedToken)]


def test_rows_of_the_engine_match_beside_rows_that_need_not() -> None:
    made = tokenizer("bpe")
    model = random_model("transformer, rotary", made.vocab)
    jobs = [job(config, (1, 2, 3 + n), n) for n, config in enumerate((REGEX, FREE, REGEX, FREE, REGEX))]
    heard = events(Engine(model, slots=3, tokenizer=made), jobs)
    for one, told in zip(jobs, heard, strict=True):
        tokens = written(told)
        if one.config is REGEX:
            assert told[-1] == Finished("stop") or len(tokens) == 20
            assert re.fullmatch("[a-z]{3}( [a-z]{2})?", made.decode(tokens))
        assert tokens == written(events(Engine(model, tokenizer=made), [one])[0])


def test_generate_and_the_engine_write_the_same() -> None:
    made = tokenizer("bpe")
    model = random_model("gru", made.vocab)
    tokens = [int(one) for one in generate(model, torch.tensor([[1, 2, 3]]), REGEX, Spelled(made.spelling))]
    (heard,) = events(Engine(model, tokenizer=made), [job(REGEX, (1, 2, 3))])
    assert tokens == written(heard)
    assert re.fullmatch("[a-z]{3}( [a-z]{2})?", made.decode(tokens))


def test_a_text_that_cannot_go_on_fails_alone() -> None:
    """The pattern of a JSON schema is not compared with the vocabulary in advance. Here its last character is not in it."""
    made = tokenizer("char")
    model = random_model("gru", made.vocab)
    schema = json.dumps({"type": "string", "pattern": "^[a-z]{2}\N{SNOWMAN}$"})
    stuck = DecodingConfig(json_schema=schema, tokens=20)
    failed, fine = events(Engine(model, tokenizer=made), [job(stuck, (1, 2)), job(FREE, (1, 2))])
    assert isinstance(failed[-1], Finished)
    assert failed[-1].reason == "failed"
    assert "no token of the vocabulary" in str(failed[-1].error)
    assert written(fine) == written(events(Engine(model), [job(FREE, (1, 2))])[0])
    with pytest.raises(ConfigError, match="no token of the vocabulary"):
        list(generate(model, torch.tensor([[1, 2]]), stuck, Spelled(made.spelling)))


def test_a_text_that_is_cut_off_is_told() -> None:
    made = tokenizer("bpe")
    config = DecodingConfig(regex="[a-z]{90}", tokens=4)
    with pytest.warns(UserWarning, match="cut off after 4 tokens"):
        list(generate(random_model("gru", made.vocab), torch.tensor([[1]]), config, Spelled(made.spelling)))


def test_without_a_tokenizer_a_constraint_is_refused() -> None:
    with pytest.raises(ConfigError, match="only apply to sampling and greedy decoding of a language model"):
        list(generate(random_model("gru", 30), torch.tensor([[1]]), REGEX))
