from __future__ import annotations

import pytest

from firth.config import build
from firth.errors import ConfigError
from firth.text.config import (
    CaptionsConfig,
    ConversationsConfig,
    DataConfig,
    PairsConfig,
    PromptsConfig,
    QuestionsConfig,
    TaggedConfig,
    TokenizerConfig,
)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"path": "a.txt", "text": "b"}, "data.path and data.text are set"),
        ({"path": "a.txt", "valid": 1.5}, "data.valid is 1.5; expected 0 ≤ valid < 1"),
        ({"path": "a.txt", "valid": 1.0}, "data.valid is 1.0"),
        ({"path": "a.txt", "valid": -0.1}, "data.valid is -0.1"),
        ({"path": "a.jsonl", "field": ""}, 'data.field is ""'),
        ({"name": "dox"}, "data.name"),
        ({"name": "multi30k", "target_path": "a.de"}, "data.target_path is set, but data.path is not. Set both"),
        ({"path": "a.en", "valid_target_path": "v.de"}, "data.valid_target_path is set, but data.valid_path is not"),
        ({"path": "a.en", "test_target_path": "t.de"}, "data.test_target_path is set, but data.test_path is not"),
        ({"path": "a.tsv", "source": ""}, 'data.source is ""'),
        ({"path": "a.tsv", "source": "en", "target": "en"}, 'data.source and data.target are both "en"'),
        ({"name": "dates", "locales": []}, "data.locales is empty"),
        ({"name": "dates", "count": 9}, "data.count is 9; expected 10 or more"),
    ],
)
def test_bad_data_settings_are_refused_by_their_full_key(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(PairsConfig, table, "data")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "bpe", "vocab": 256}, "tokenizer.vocab is 256; expected at least 257"),
        ({"kind": "char", "vocab": 2}, "tokenizer.vocab is 2"),
        ({"min_count": 0}, "tokenizer.min_count is 0"),
        ({"kind": "bpee"}, 'Did you mean "bpe"?'),
    ],
)
def test_bad_tokenizer_settings_are_refused_by_their_full_key(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(TokenizerConfig, table, "tokenizer")
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", [TaggedConfig, QuestionsConfig, PairsConfig, ConversationsConfig, CaptionsConfig, PromptsConfig])
def test_a_field_is_refused_where_no_text_is_read_from_it(kind: type[DataConfig]) -> None:
    with pytest.raises(ConfigError, match=r'data\.field is "body", which only applies to running text and classification'):
        kind(path="a.jsonl", field="body")


def test_an_empty_text_is_still_a_source() -> None:
    assert DataConfig(text="").text == ""
