"""The HTTP API with the package openai, as its users have it."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest
from http_servers import Served, serving

import firth
from firth.serving.lab.library import RunLibrary
from firth.tasks.next_token import LanguageModelRun

PROMPT = "the list "


@pytest.fixture(scope="module")
def served(char_run: Path, transformer_run: Path, word_run: Path, bpe_run: Path, chat_library: RunLibrary) -> Iterator[Served]:
    """char (GRU), transformer, word, bpe (Transformer over subwords), digits (trained on conversations)."""
    with serving(char_run, transformer_run, word_run, bpe_run, chat_library.runs["digits"]) as server:
        yield server


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served.url, api_key="none", max_retries=0) as openai_client:
        yield openai_client


def run_of(served: Served, name: str) -> LanguageModelRun:
    return served.models.get(name).language


@pytest.mark.parametrize("name", ["char", "transformer", "word", "bpe"])
def test_a_greedy_text_is_that_of_generate(client: openai.OpenAI, served: Served, name: str) -> None:
    expected = run_of(served, name).generate(PROMPT, tokens=30, temperature=0)
    completion = client.completions.create(model=name, prompt=PROMPT, max_tokens=30, temperature=0)
    assert completion.choices[0].text == expected
    assert completion.usage is not None
    prompt_tokens = len(run_of(served, name).prompt_ids(PROMPT))
    assert (completion.usage.prompt_tokens, completion.usage.total_tokens) == (
        prompt_tokens,
        prompt_tokens + completion.usage.completion_tokens,
    )
    with client.completions.create(model=name, prompt=PROMPT, max_tokens=30, temperature=0, stream=True) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == expected
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == completion.choices[0].finish_reason
    assert {chunk.choices[0].finish_reason for chunk in chunks[:-1]} <= {None}


def test_prompts_are_texts_or_ids_one_or_several(client: openai.OpenAI, served: Served) -> None:
    run = run_of(served, "bpe")
    expected = [run.generate(prompt, tokens=8, temperature=0) for prompt in ("the list", "a name")]
    ids = [run.prompt_ids(prompt).tolist() for prompt in ("the list", "a name")]
    several = [["the list", "a name"], ids]
    for prompt in several:
        completion = client.completions.create(model="bpe", prompt=prompt, max_tokens=8, temperature=0)  # type: ignore[arg-type]
        assert [choice.text for choice in completion.choices] == expected
        assert [choice.index for choice in completion.choices] == [0, 1]
    one = client.completions.create(model="bpe", prompt=ids[0], max_tokens=8, temperature=0, echo=True)
    assert one.choices[0].text == "the list" + expected[0]


def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI, served: Served) -> None:
    expected = run_of(served, "char").generate(PROMPT, tokens=60, temperature=0)
    stop = expected[5:9]
    for streamed in (False, True):
        made = client.completions.create(
            model="char", prompt=PROMPT, max_tokens=60, temperature=0, stop=[stop, "§"], stream=streamed
        )
        chunks = list(made) if streamed else [made]
        assert "".join(chunk.choices[0].text for chunk in chunks) == expected[: expected.index(stop)]
        assert chunks[-1].choices[0].finish_reason == "stop"
    assert served.idle("char")


def test_a_seed_repeats_a_text_and_each_of_n_is_drawn_for_itself(client: openai.OpenAI) -> None:
    def texts(seed: int | None, n: int = 3) -> list[str]:
        completion = client.completions.create(model="transformer", prompt=PROMPT, max_tokens=20, temperature=1, seed=seed, n=n)
        return [choice.text for choice in completion.choices]

    assert texts(3) == texts(3)
    assert len(set(texts(3))) == 3
    assert texts(3) != texts(4)
    assert texts(None) != texts(None)
    assert texts(3, n=1) == texts(3)[:1]


def test_best_of_returns_the_text_with_the_highest_probability_per_token(client: openai.OpenAI) -> None:
    common = {"model": "transformer", "prompt": PROMPT, "max_tokens": 12, "temperature": 1, "seed": 5, "logprobs": 0}
    every = client.completions.create(n=5, **common)  # type: ignore[call-overload]
    means = [float(np.mean(choice.logprobs.token_logprobs)) for choice in every.choices]
    ranked = [every.choices[n].text for n in np.argsort(means)[::-1]]
    best = client.completions.create(n=2, best_of=5, **common)  # type: ignore[call-overload]
    assert [choice.text for choice in best.choices] == ranked[:2]


@pytest.mark.parametrize("streamed", [False, True])
def test_echoed_logprobs_are_those_of_score(client: openai.OpenAI, served: Served, streamed: bool) -> None:
    run, text = run_of(served, "transformer"), "the list is empty."
    ids = np.concatenate((run.start_ids(), run.ids(text))).tolist()
    made = client.completions.create(
        model="transformer", prompt=ids, max_tokens=3, logprobs=2, echo=True, temperature=0, stream=streamed
    )
    chunks = list(made) if streamed else [made]
    tokens = [token for chunk in chunks for token in chunk.choices[0].logprobs.tokens]
    values = [value for chunk in chunks for value in chunk.choices[0].logprobs.token_logprobs]
    tops = [top for chunk in chunks for top in chunk.choices[0].logprobs.top_logprobs]
    offsets = [offset for chunk in chunks for offset in chunk.choices[0].logprobs.text_offset]
    whole = "".join(chunk.choices[0].text for chunk in chunks)
    assert values[0] is None
    assert tops[0] is None
    assert math.fsum(values[1 : len(ids)]) == pytest.approx(run.score([text])[0].log_probability, abs=1e-4)
    assert len(tokens) == len(values) == len(offsets) == len(ids) + 3
    assert [whole[begin:end] for begin, end in zip(offsets, [*offsets[1:], None], strict=True)] == tokens  # a token per character
    for value, top in zip(values[1:], tops[1:], strict=True):
        assert len(top) in (2, 3)
        assert value <= max(top.values()) + 1e-9
    assert values[-1] == pytest.approx(max(tops[-1].values()))  # greedy


def test_an_echo_without_tokens_only_scores(client: openai.OpenAI, served: Served) -> None:
    completion = client.completions.create(model="char", prompt="a name", max_tokens=0, logprobs=0, echo=True)
    assert completion.choices[0].text == "a name"
    assert len(completion.choices[0].logprobs.tokens) == 6
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 0


def test_usage_is_streamed_where_it_is_asked_for(client: openai.OpenAI) -> None:
    with client.completions.create(
        model="char", prompt="a", max_tokens=5, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (1, 5)
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_conversation_is_answered_as_by_chat(client: openai.OpenAI, served: Served) -> None:
    run = run_of(served, "digits")
    messages = [
        {"role": "user", "content": "name 3"},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": [{"type": "text", "text": "again"}]},
    ]
    plain = [*messages[:2], {"role": "user", "content": "again"}]
    expected = run.chat(plain, temperature=0)  # type: ignore[arg-type]
    completion = client.chat.completions.create(model="digits", messages=messages, temperature=0)  # type: ignore[arg-type]
    assert completion.choices[0].message.content == expected
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].finish_reason == "stop"
    with client.chat.completions.create(model="digits", messages=messages, temperature=0, stream=True, n=2) as stream:  # type: ignore[call-overload]
        texts = ["", ""]
        for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
    assert texts == [expected, expected]


def test_a_response_is_the_answer_of_the_model(client: openai.OpenAI, served: Served) -> None:
    expected = run_of(served, "digits").chat("name 7", temperature=0)
    assert client.responses.create(model="digits", input="name 7", temperature=0).output_text == expected
    with client.responses.stream(model="digits", input="name 7", temperature=0) as stream:
        assert stream.get_final_response().output_text == expected
    with pytest.raises(openai.BadRequestError, match="without a chat template and cannot chat; it can: generate"):
        client.responses.create(model="char", input="name 7")
    assert served.idle("digits")


def test_chat_lists_logprobs(client: openai.OpenAI) -> None:
    asked = [{"role": "user", "content": "name 7"}]
    completion = client.chat.completions.create(
        model="digits",
        messages=asked,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
        max_completion_tokens=2,  # type: ignore[arg-type]
    )
    content = completion.choices[0].logprobs.content
    assert "".join(one.token for one in content) == (completion.choices[0].message.content or "").replace(" ", "")
    for one in content:
        assert len(one.top_logprobs) == 3
        assert one.logprob == pytest.approx(one.top_logprobs[0].logprob)
        assert bytes(one.bytes or ()).decode() == one.token


def test_embeddings_are_those_of_embed_as_numbers_and_as_base64(client: openai.OpenAI, served: Served) -> None:
    texts = ["the list is empty.", "a name"]
    expected = run_of(served, "bpe").embed(texts)
    numbers = client.embeddings.create(model="bpe", input=texts, encoding_format="float")
    np.testing.assert_allclose([one.embedding for one in numbers.data], expected, rtol=1e-5, atol=1e-6)
    encoded = client.embeddings.create(model="bpe", input=texts, encoding_format="base64")
    decoded = [np.frombuffer(base64.b64decode(str(one.embedding)), "<f4") for one in encoded.data]
    np.testing.assert_allclose(decoded, expected, rtol=1e-5, atol=1e-6)
    implicit = client.embeddings.create(model="bpe", input=texts[0])  # the client asks for base64 and decodes it
    np.testing.assert_allclose(implicit.data[0].embedding, expected[0], rtol=1e-5, atol=1e-6)


def test_models_are_listed_by_the_names_of_their_folders(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["char", "transformer", "word", "bpe", "digits"]
    assert client.models.retrieve("char").owned_by == "firth"
    with pytest.raises(openai.NotFoundError, match=r'no model "chat"\. Did you mean "char"\?.* Served: char, transformer'):
        client.completions.create(model="chat", prompt="a")


def test_errors_are_those_that_the_client_knows(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="char", messages=[{"role": "user", "content": "a"}])
    assert "cannot chat" in str(refused.value)
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="digits", messages=[{"role": "user", "content": "a"}], tools=[{"type": "function", "function": {"name": "f"}}]
        )
    assert (refused.value.param, refused.value.code) == ("tools", "unsupported_parameter")


def test_firth_load_is_what_is_served(served: Served, char_run: Path) -> None:
    assert served.post("/v1/completions", {"model": "char", "prompt": "a", "max_tokens": 9, "temperature": 0}).json["choices"][0][
        "text"
    ] == firth.load(char_run).generate("a", tokens=9, temperature=0)
