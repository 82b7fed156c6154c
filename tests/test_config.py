"""TOML and overrides become typed configs, or an error that names the key by its full path."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.config import build, override, read_toml, renamed, to_table, to_toml
from firth.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Square:
    kind: Literal["square"]
    side: int = 1


@dataclass(frozen=True, kw_only=True)
class Circle:
    kind: Literal["circle", "disc"]
    radius: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Paint:
    colour: Literal["red", "green", "blue"] = "red"
    coats: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    shape: Square | Circle
    paint: Paint = field(default_factory=Paint)
    name: str = "thing"
    weight: float = 1.0
    shiny: bool = False
    sizes: tuple[int, ...] = ()
    shares: tuple[float, ...] = (0.5,)
    seed: int | None = None


SQUARE = {"shape": {"kind": "square"}}


def test_a_table_becomes_a_config_and_what_is_absent_takes_its_default() -> None:
    recipe = build(Recipe, {"shape": {"kind": "disc", "radius": 2}, "paint": {"coats": 3, "notes": ["a", "b"]}, "sizes": [1, 2]})
    assert recipe == Recipe(shape=Circle(kind="disc", radius=2.0), paint=Paint(coats=3, notes=("a", "b")), sizes=(1, 2))
    assert isinstance(recipe.shape, Circle)
    assert type(recipe.shape.radius) is float, "a whole number is a number"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"nam": "x"}, r'unknown key "nam". Did you mean "name"\?'),
        ({"paint": {"colur": "red"}}, r'unknown key "paint.colur" in "paint". Did you mean "colour"\?'),
        ({"shape": {"kind": "square", "sides": 2}}, r'unknown key "shape.sides" in "shape". Did you mean "side"\?'),
        ({"shape": {"kind": "square", "radius": 2}}, r'unknown key "shape.radius".*Known: kind, side'),
        ({"paint": {"zzz": 1}}, r'unknown key "paint.zzz" in "paint". Known: coats, colour, notes'),
    ],
)
def test_an_unknown_key_is_named_by_its_path_with_what_was_probably_meant(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(Recipe, SQUARE | table)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": 3}, r'"name" is 3; expected a string'),
        ({"weight": "heavy"}, r"\"weight\" is 'heavy'; expected a number"),
        ({"weight": True}, r'"weight" is True; expected a number'),
        ({"seed": True}, r'"seed" is True; expected a whole number'),
        ({"seed": 1.5}, r'"seed" is 1.5; expected a whole number'),
        ({"shiny": 1}, r'"shiny" is 1; expected true or false'),
        ({"shiny": "yes"}, r"\"shiny\" is 'yes'; expected true or false"),
        ({"sizes": 3}, r'"sizes" is 3; expected a list of a whole number'),
        ({"sizes": [1, "2"]}, r"\"sizes\" is \[1, '2'\]; expected a list of a whole number"),
        ({"sizes": [1, 2.5]}, r'"sizes" is \[1, 2.5\]'),
        ({"sizes": {"a": 1}}, r'"sizes" is .*expected a list'),
        ({"paint": 3}, r'"paint" is 3; expected a table'),
        ({"paint": ["red"]}, r"\"paint\" is \['red'\]; expected a table"),
        ({"name": {"a": 1}}, r'"name" is .*expected a string'),
        (
            {"paint": {"colour": "gren"}},
            r"\"paint.colour\" is 'gren'; expected one of 'red', 'green', 'blue'. Did you mean \"green\"\?",
        ),
        ({"paint": {"colour": 3}}, r'"paint.colour" is 3; expected one of'),
        ({"paint": {"colour": ["red"]}}, r"\"paint.colour\" is \['red'\]; expected one of"),
        ({"paint": {"notes": [1]}}, r'"paint.notes" is \[1\]; expected a list of a string'),
        ({"shape": {"kind": "square", "side": "1"}}, r"\"shape.side\" is '1'; expected a whole number"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_was_expected(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        build(Recipe, SQUARE | table)
    assert "\n" not in str(caught.value), "one line"


def test_a_path_can_be_put_before_the_keys_of_a_message() -> None:
    with pytest.raises(ConfigError, match=r'"training.paint.coats" is'):
        build(Recipe, SQUARE | {"paint": {"coats": "two"}}, at="training")


def test_kind_tells_the_members_of_a_union_apart() -> None:
    assert build(Recipe, {"shape": {"kind": "square", "side": 4}}).shape == Square(kind="square", side=4)
    assert build(Recipe, {"shape": {"kind": "circle"}}).shape == Circle(kind="circle")


@pytest.mark.parametrize("table", [{}, {"shape": {}}, {"shape": {"side": 4}}])
def test_a_missing_kind_lists_the_kinds(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"\"shape.kind\" is missing; expected one of 'square', 'circle', 'disc'"):
        build(Recipe, table)


@pytest.mark.parametrize("kind", ["cirle", 3, True, ["square"], {"a": 1}])
def test_an_unknown_kind_lists_the_kinds(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"\"shape.kind\" is .*; expected one of 'square', 'circle', 'disc'"):
        build(Recipe, {"shape": {"kind": kind}})


@dataclass(frozen=True, kw_only=True)
class Drawing:
    family: Literal["drawing"] = "drawing"
    kind: Literal["ink", "chalk"]
    paper: int = 1


@dataclass(frozen=True, kw_only=True)
class Painting:
    family: Literal["drawing"] = "drawing"
    kind: Literal["oil"]


@dataclass(frozen=True, kw_only=True)
class Print:
    family: Literal["print"] = "print"
    kind: Literal["ink", "wood"]
    copies: int = 1


@dataclass(frozen=True, kw_only=True)
class Gallery:
    work: Drawing | Painting | Print


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"kind": "ink"}, Drawing(kind="ink")),
        ({"kind": "oil"}, Painting(kind="oil")),
        ({"family": "drawing", "kind": "ink"}, Drawing(kind="ink")),
        ({"family": "print", "kind": "ink", "copies": 3}, Print(kind="ink", copies=3)),
        ({"family": "print", "kind": "wood"}, Print(kind="wood")),
        ({"kind": "wood"}, Print(kind="wood")),
    ],
    ids=str,
)
def test_families_share_kinds_and_the_first_is_meant_where_none_is_named(table: dict[str, Any], expected: Any) -> None:
    assert build(Gallery, {"work": table}).work == expected


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, r"\"work.kind\" is missing; expected one of 'ink', 'chalk', 'oil', 'wood'$"),
        ({"family": "drawing"}, r"\"work.kind\" is missing; expected one of 'ink', 'chalk', 'oil'$"),
        ({"kind": "tin"}, r"\"work.kind\" is 'tin'; expected one of 'ink', 'chalk', 'oil', 'wood'\. Did you mean \"ink\"\?$"),
        ({"family": "song", "kind": "ink"}, r"\"work.family\" is 'song'; expected one of 'drawing', 'print'\.$"),
        ({"kind": "ink", "copies": 3}, r'unknown key "work.copies" in "work"'),
        ({"family": "print", "kind": "oil"}, r"\"work.kind\" is 'oil'; expected one of 'ink', 'wood'"),
    ],
    ids=str,
)
def test_what_cannot_be_told_apart_names_each_possibility_once(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(Gallery, {"work": table})


def test_a_missing_value_is_named_with_what_was_expected() -> None:
    @dataclass(frozen=True)
    class Needs:
        path: str

    with pytest.raises(ConfigError, match=r'"data.path" is missing; expected a string'):
        build(Needs, {}, at="data")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6", 6),
        ("-6", -6),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("true", True),
        ("false", False),
        ("hello", "hello"),
        ('"6"', "6"),
        ("two words", "two words"),
        ("a=b", "a=b"),
        ("", ""),
        ("[1, 2]", [1, 2]),
        ('["a", "b"]', ["a", "b"]),
        ("[]", []),
        ("~/corpus/*.txt", "~/corpus/*.txt"),
        (r"C:\texts", r"C:\texts"),
        ("True", "True"),
        ("[1, 2", "[1, 2"),
        ("héllo", "héllo"),
    ],
)
@pytest.mark.parametrize("dashes", ["", "--"])
def test_an_override_is_read_as_toml_and_else_as_a_string(text: str, value: Any, dashes: str) -> None:
    overridden = override({"model": {"width": 8}}, [f"{dashes}model.depth={text}"])
    assert overridden == {"model": {"width": 8, "depth": value}}
    assert type(overridden["model"]["depth"]) is type(value)


def test_overrides_reach_any_depth_make_tables_and_the_last_one_wins() -> None:
    overridden = override({}, ["--a.b.c=1", "--a.d=2", "--a.b.c=3"])
    assert overridden == {"a": {"b": {"c": 3}, "d": 2}}


def test_overrides_leave_the_given_table_alone() -> None:
    table = {"model": {"depth": 2}}
    override(table, ["--model.depth=6"])
    assert table == {"model": {"depth": 2}}


@pytest.mark.parametrize("bad", ["--model.depth", "--depth=6", "model", "--", "=3", "--model.=3", "--.depth=3", "--a..b=3"])
def test_an_override_that_is_not_a_setting_is_refused_with_an_example(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a setting\. Write --table\.key=value, for example"):
        override({}, [bad])


def test_an_override_through_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'cannot set "model.depth.x": "depth" is a value, not a table'):
        override({"model": {"depth": 6}}, ["--model.depth.x=1"])


def test_an_override_is_checked_like_the_recipe_it_changes() -> None:
    with pytest.raises(ConfigError, match=r'unknown key "paint.coat" in "paint". Did you mean "coats"\?'):
        build(Recipe, override(SQUARE, ["--paint.coat=2"]))
    assert build(Recipe, override(SQUARE, ["--paint.coats=2", "--paint.notes=['x']"])).paint == Paint(coats=2, notes=("x",))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)  # surrogates are not text
WHOLE = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
SQUARES = st.builds(Square, kind=st.just("square"), side=WHOLE)
CIRCLES = st.builds(Circle, kind=st.sampled_from(["circle", "disc"]), radius=NUMBER)
PAINTS = st.builds(
    Paint,
    colour=st.sampled_from(["red", "green", "blue"]),
    coats=st.none() | WHOLE,
    notes=st.lists(TEXT, max_size=3).map(tuple),
)
RECIPES = st.builds(
    Recipe,
    shape=SQUARES | CIRCLES,
    paint=PAINTS,
    name=TEXT,
    weight=NUMBER,
    shiny=st.booleans(),
    sizes=st.lists(WHOLE, max_size=3).map(tuple),
    shares=st.lists(NUMBER, max_size=3).map(tuple),
    seed=st.none() | WHOLE,
)


@given(recipe=RECIPES)
def test_a_config_written_as_toml_and_read_back_is_the_same_config(recipe: Recipe) -> None:
    assert build(Recipe, tomllib.loads(to_toml(recipe))) == recipe


def test_what_is_none_is_left_out_of_the_table() -> None:
    assert "seed" not in to_table(Recipe(shape=Square(kind="square")))


def test_a_file_that_is_missing_or_not_toml_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent.toml: No such file"):
        read_toml(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("a = \n")
    with pytest.raises(ConfigError, match=r"broken.toml is not valid TOML"):
        read_toml(tmp_path / "broken.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe9"\n')
    with pytest.raises(ConfigError, match=r"latin.toml is not valid TOML"):
        read_toml(tmp_path / "latin.toml")
    for text in ("[" * 100_000, "a = " + "[" * 100_000, "a = " + "9" * 5000):
        (tmp_path / "deep.toml").write_text(text)
        with pytest.raises(ConfigError, match=r"deep.toml is not (a recipe|valid TOML)"):
            read_toml(tmp_path / "deep.toml")
    (tmp_path / "good.toml").write_text('[a]\nb = 1\nc = "é"\n', encoding="utf-8")
    assert read_toml(tmp_path / "good.toml") == {"a": {"b": 1, "c": "é"}}


@dataclass(frozen=True)
class Renamed:
    max_distance: int = renamed("clip", "reach", default=64)
    plain: int = 1


def test_an_old_name_is_read_and_told() -> None:
    told: list[str] = []
    assert build(Renamed, {"clip": 8}, "model", told.append) == Renamed(max_distance=8)
    assert told == ["model.clip is now called model.max_distance; the old name still works"]
    assert build(Renamed, {"max_distance": 8}, "model", told.append) == Renamed(max_distance=8)
    assert len(told) == 1


def test_an_old_name_beside_the_new_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'"model.clip" is an old name of "model.max_distance", and both are set'):
        build(Renamed, {"clip": 8, "max_distance": 9}, "model")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"seed": 2**63}, '"seed" is a number of 64 bits; expected at most 63'),
        ({"weight": 10**400}, '"weight" is a number of 1329 bits; expected at most 63'),
        ({"weight": float("inf")}, '"weight" is inf; expected a finite number'),
        ({"shares": [0.5, float("nan")]}, '"shares" is nan; expected a finite number'),
        ({"sizes": [1, 10**22]}, '"sizes" is a number of 74 bits; expected at most 63'),
    ],
)
def test_numbers_that_no_setting_can_have(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(Recipe, {"shape": {"kind": "square", "side": 1}, **table})
