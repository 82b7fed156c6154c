"""[decoding] in generation_config.json and in GGUF files."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from firth.decoding.config import FILTERS, DecodingConfig
from firth.decoding.foreign import from_generation_config, from_gguf, to_generation_config
from firth.errors import DataError

OURS = {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "typical_p": 0.9, "repetition_penalty": 1.2}


def test_the_names_are_those_of_transformers_and_of_gguf() -> None:
    transformers: Any = pytest.importorskip("transformers", reason="make test installs it")
    gguf: Any = pytest.importorskip("gguf", reason="make test installs it")
    theirs = {name for one in FILTERS for name in one.hugging_face.values()}
    assert theirs <= set(vars(transformers.GenerationConfig()))
    known = {value for name, value in vars(gguf.Keys.General).items() if name.startswith("SAMPLING")}
    in_gguf = {f"general.sampling.{name}" for one in FILTERS for name in one.gguf.values()}
    assert in_gguf <= known


def test_what_is_exported_is_imported_again() -> None:
    config = DecodingConfig(tokens=30, **OURS)
    assert DecodingConfig(**from_generation_config(to_generation_config(config, pairs=False), pairs=False)) == config


def test_a_gguf_file_gives_what_filters_call_theirs_and_names_the_rest() -> None:
    metadata = {"general.name": "x", "general.sampling.temp": 0.5, "general.sampling.top_k": 40, "general.sampling.mirostat": 2}
    with pytest.warns(UserWarning, match="does not apply these settings .*: general.sampling.mirostat = 2"):
        settings = from_gguf(metadata | {"general.sampling.xtc_probability": 0.25, "general.sampling.xtc_threshold": 0.2})
    assert settings == {"temperature": 0.5, "top_k": 40, "xtc_probability": 0.25, "xtc_threshold": 0.2}
    assert type(settings["top_k"]) is int


@pytest.mark.parametrize("value", [[1], "0.5", True, {}])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(DataError, match=r"min_p in the model's generation settings is .*; expected a number"):
        from_generation_config({"do_sample": True, "min_p": value}, pairs=False)


@pytest.mark.parametrize("value", [2.5, float("nan"), float("inf")])
def test_a_count_is_whole(value: float) -> None:
    with pytest.raises(DataError, match=r"top_k in the model's generation settings is .*; expected a whole number"):
        from_gguf({"general.sampling.top_k": value})


def test_without_sampling_only_the_length_counts() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_generation_config({"max_new_tokens": 7, "temperature": 0.3}, pairs=False) == {"tokens": 7}
