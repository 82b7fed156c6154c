"""Chat templates against Hugging Face's: the text, the assistant's part of it, the tokens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_templates import CHATML, HEADERS, INST, MARKED, ZEPHYR, in_transformers

from firth.errors import DataError
from firth.text.chat_template import ChatTemplate, read_template
from firth.text.config import TokenizerConfig
from firth.text.conversation import Message
from firth.text.readers.pieces import Piece
from firth.text.template_format import TemplateFormat, special_tokens
from firth.text.tokenizers.tokenizer import Tokenizer

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SPECIAL = (
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin|>",
    "<|header|>",
    "<|close|>",
    "<|eot|>",
    "<|user|>",
    "<|assistant|>",
)

TEMPLATES = {"chatml": CHATML, "inst": INST, "headers": HEADERS, "zephyr": ZEPHYR, "marked": MARKED}
TALKS = {
    "one round": [("user", "name 3"), ("assistant", "three")],
    "two rounds": [("user", " name 3"), ("assistant", "three "), ("user", "and 4"), ("assistant", "four")],
    "with a system": [("system", "be brief"), ("user", "name 3"), ("assistant", "three")],
}


def messages_of(name: str) -> list[Message]:
    return [Message(*turn) for turn in TALKS[name]]  # type: ignore[arg-type]


def template(name: str) -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name], "<s>", "</s>")


def tokenizer() -> Tokenizer:
    text = "name 3 three and 4 four be brief system user assistant [INST] helpful\n" * 9
    return Tokenizer.train(TokenizerConfig(kind="bpe", vocab=330), [Piece(text, True)], documents=1, markers=SPECIAL)


def formatted(name: str) -> TemplateFormat:
    own = tokenizer()
    return TemplateFormat(own, template(name), special_tokens(own, SPECIAL))


@pytest.fixture(scope="module")
def hugging_face() -> Any:
    return in_transformers(tokenizer(), SPECIAL)


def dicts(messages: list[Message]) -> list[dict[str, str]]:
    return [message._asdict() for message in messages]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("talk", TALKS)
def test_text_and_tokens_are_hugging_faces(name: str, talk: str, hugging_face: Any) -> None:
    messages, own = messages_of(talk), formatted(name)
    for given, answer_next in ((messages, False), (messages[:-1], True)):
        theirs = hugging_face.apply_chat_template(
            dicts(given), chat_template=TEMPLATES[name], tokenize=False, add_generation_prompt=answer_next
        )
        assert template(name).render(given, answer_next=answer_next) == theirs
    expected = hugging_face.apply_chat_template(dicts(messages), chat_template=TEMPLATES[name], return_dict=True)["input_ids"]
    assert own.render(messages).ids.tolist() == expected
    expected = hugging_face.apply_chat_template(
        dicts(messages[:-1]), chat_template=TEMPLATES[name], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert own.prompt(messages[:-1]).tolist() == expected


@pytest.mark.parametrize("talk", TALKS)
def test_the_learned_tokens_are_those_of_generation_blocks(talk: str, hugging_face: Any) -> None:
    theirs = hugging_face.apply_chat_template(
        dicts(messages_of(talk)), chat_template=MARKED, return_dict=True, return_assistant_tokens_mask=True
    )
    assert formatted("marked").render(messages_of(talk)).learned.astype(int).tolist() == theirs["assistant_masks"]


ENDS = {"chatml": "<|im_end|>", "inst": "</s>", "headers": "<|eot|>", "zephyr": "</s>", "marked": "<|im_end|>"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_answers_and_their_ends_are_learned_and_nothing_else(name: str) -> None:
    own, rendered = formatted(name), formatted(name).render(messages_of("two rounds"))
    starts = np.flatnonzero(np.diff(np.r_[0, rendered.learned.astype(int)]) == 1)
    ends = np.flatnonzero(np.diff(np.r_[rendered.learned.astype(int), 0]) == -1)
    texts = [own.tokenizer.decode(rendered.ids[a:b]).strip() for a, b in zip(starts, ends, strict=True)]
    assert texts == ["three", "four"]
    assert [own.tokenizer.token(int(rendered.ids[b])) for b in ends] == [ENDS[name]] * 2
    assert own.end == own.tokenizer.encode("x").dtype.type(rendered.ids[ends[0]])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_the_conversation_up_to_the_answer(name: str) -> None:
    own, messages = formatted(name), messages_of("two rounds")
    ids = own.render(messages).ids
    if name == "zephyr":  # its prompt has no newline after <|assistant|>, so the model writes it
        messages = messages[:3]
        assert ids[: len(own.prompt(messages))].tolist() == own.prompt(messages).tolist()
        return
    last = np.flatnonzero(np.diff(own.render(messages).learned.astype(int)) == 1)[-1]
    assert own.prompt(messages[:3]).tolist() == ids[: last + 1].tolist()


def test_special_tokens_that_a_user_types_are_text() -> None:
    own = formatted("chatml")
    ids = own.render([Message("user", "a<|im_end|>b"), Message("assistant", "three")]).ids
    assert (ids == own.end).sum() == 3, "of the system, the user, and the answer"
    assert "a<|im_end|>b" in own.tokenizer.decode(ids)


def test_a_template_that_rewrites_the_past_needs_generation_blocks() -> None:
    forgetful = "{% for m in messages %}{{ m.content if loop.last else '…' }}</s>{% endfor %}"
    own = tokenizer()
    format = TemplateFormat(
        own, ChatTemplate(forgetful.replace("'…'", "m.content[:1]"), "", "</s>"), special_tokens(own, SPECIAL)
    )
    with pytest.raises(DataError, match="changes earlier messages when later ones follow"):
        format.render(messages_of("two rounds"))


@pytest.mark.parametrize(
    "source",
    [
        "{{ '{:>9}|{:.2f}'.format(1, 2.5) }}",
        "{{ '%5d|%-4s|' % (3, 'a') }}",
        "{{ messages | tojson(indent=2) }}{{ {'ä': [1, 2]} | tojson(sort_keys=true, separators=(',', ':')) }}",
        "{{ 'a b c' | wordwrap(3) }}{{ '<b>a</b>' | striptags }}{{ 'a\nb' | indent(2) }}{{ [1, 'a'] | pprint }}",
        "{% set ns = namespace(n=2 ** 70) %}{{ ns.n }}{{ ('a\tb').expandtabs(4) }}{{ 'é'.encode('utf-8') | length }}",
        "{% for a in range(3) %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{{ cycler('x', 'y').next() }}{% endfor %}",
        "{% macro f(a, b=2) %}{{ a * b }}{{ varargs }}{% endmacro %}{{ f(3) }}{{ f('a', 3) }}",
        "{% for m in messages | selectattr('role', 'equalto', 'user') %}{{ m.content | upper | replace('N', '') }}{% endfor %}",
        "{{ undefined_name }}{{ messages[9] }}{{ messages[0].nothing is defined }}{{ tools is none }}",
    ],
)
def test_what_templates_may_do_is_what_hugging_faces_may(source: str, hugging_face: Any) -> None:
    talk = messages_of("two rounds")
    theirs = hugging_face.apply_chat_template(dicts(talk), chat_template=source, tokenize=False)
    assert ChatTemplate(source).render(talk) == theirs


def test_what_a_template_says_of_a_conversation_is_told() -> None:
    with pytest.raises(DataError, match="the chat template refuses this conversation: roles must alternate"):
        template("inst").render([Message("assistant", "three")])
    with pytest.raises(DataError, match=r"not valid Jinja: .* Correct it\."):
        ChatTemplate("{% for %}")
    with pytest.raises(DataError, match="puts no special token after an answer"):
        TemplateFormat(tokenizer(), ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}"), {"<s>": 1})
    with pytest.raises(DataError, match=r'"<no>" of objective\.special_tokens is not in the vocabulary'):
        special_tokens(tokenizer(), ["<no>"])


def test_a_template_is_read_from_a_tokenizer_config(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": INST, "bos_token": "<s>", "eos_token": {"content": "</s>", "special": True}}))
    assert read_template(path) == template("inst")
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": INST}]
    path.write_text(json.dumps({"chat_template": named, "bos_token": "<s>", "eos_token": "</s>"}))
    assert read_template(path) == template("inst")
    path.write_text("{}")
    with pytest.raises(DataError, match='has no "chat_template"'):
        read_template(path)
    with pytest.raises(DataError, match="cannot read the chat template"):
        read_template(tmp_path / "absent.jinja")
    (tmp_path / "chat.jinja").write_text(CHATML)
    assert read_template(tmp_path / "chat.jinja") == ChatTemplate(CHATML)
