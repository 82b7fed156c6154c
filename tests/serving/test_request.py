"""Requests of the page, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from firth.errors import ConfigError
from firth.serving.lab.request import LONGEST, ViewRequest


def test_numbers_come_as_numbers_or_as_text() -> None:
    asked = ViewRequest({"a": 3, "b": "4", "c": "-0.5", "d": 2.0, "e": ""})
    assert [asked.number(name, int) for name in "abd"] == [3, 4, 2]
    assert asked.number("c", float) == -0.5
    assert asked.number("e", int, 7) == 7
    assert asked.number("f", int, 8) == 8


@pytest.mark.parametrize("value", [True, "x", "1.5", 1.5, None, [], {}, "", float("inf"), "1e400", "nan"])
def test_what_is_no_whole_number_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(ConfigError, match="layer "):
        ViewRequest({"layer": value}).number("layer", int)


def test_a_number_out_of_bounds_is_told_the_bounds() -> None:
    for value, message in ((0, "layer is 0; expected a whole number from 1 to 4"), (5, "layer is 5")):
        with pytest.raises(ConfigError, match=message):
            ViewRequest({"layer": value}).number("layer", int, least=1, most=4)
    with pytest.raises(ConfigError, match='p is "nan"; expected a number, 0 or more'):
        ViewRequest({"p": "nan"}).number("p", float, least=0)


def test_a_text_has_a_limit_that_is_told() -> None:
    assert ViewRequest({"text": "x" * LONGEST}).text("text")
    with pytest.raises(ConfigError, match="text has 100,000 characters; the limit is 20,000"):
        ViewRequest({"text": "x" * 100_000}).text("text")
    with pytest.raises(ConfigError, match=r"words has 40,000 characters"):
        ViewRequest({"words": ["x" * 20_000] * 2}).names("words")
    with pytest.raises(ConfigError, match=r"text is \[1\]; expected a string"):
        ViewRequest({"text": [1]}).text("text")


def test_names_are_a_list_or_stand_between_spaces_and_commas() -> None:
    asked = ViewRequest({"a": ["x y", "z"], "b": " king, queen\nman ", "c": ["x", 1]})
    assert asked.names("a") == ("x y", "z")
    assert asked.names("b") == ("king", "queen", "man")
    assert asked.names("d", ()) == ()
    with pytest.raises(ConfigError, match="expected names separated"):
        asked.names("c")
    with pytest.raises(ConfigError, match="d is missing"):
        asked.names("d")


def test_a_choice_is_one_of_those_there_are() -> None:
    assert ViewRequest({}).choice("score", ("dot", "additive"), "dot") == "dot"
    with pytest.raises(ConfigError, match=r'score is "dott"; expected one of dot, additive\. Did you mean "dot"\?'):
        ViewRequest({"score": "dott"}).choice("score", ("dot", "additive"))


def test_a_flag_is_true_or_false() -> None:
    asked = ViewRequest({"a": True, "b": "true", "c": "false", "d": "yes"})
    assert [asked.flag("a"), asked.flag("b"), asked.flag("c"), asked.flag("e", True)] == [True, True, False, True]
    with pytest.raises(ConfigError, match='d is "yes"; expected true or false'):
        asked.flag("d")
