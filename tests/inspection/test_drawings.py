"""Drawings follow from the settings of a model, say what these say, and can be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from docs_scripts import DOCS, docs_script
from drawn import faults, parts
from shell import Firth
from subjects import ADAPTERS, OTHERS, RECURRENT, SVG, TRANSFORMER, config, drawn, shipped, words

from firth.api import load
from firth.errors import ConfigError
from firth.experiments.draw import draw, subject_of_settings
from firth.figures.diagram import THEMES, Box, Diagram, Formula, Label
from firth.figures.diagram.formula import glyphs_of
from firth.inspection.drawing import KINDS, Subject, draw_model, kinds_of
from firth.inspection.drawing.masks import allowed, window_mask
from firth.layers.activation import ACTIVATIONS
from firth.layers.attention.config import WindowedConfig
from firth.layers.attention.score import SCORES
from firth.layers.norm import NORMS
from firth.layers.position import SCHEMES
from firth.layers.recurrent import CELLS
from firth.layers.token_mixer import MIXERS
from firth.models.presets import PRESETS

OWN = Path(__file__).resolve().parent.parent / "ideas"


def test_every_recipe_has_drawings_that_can_be_read() -> None:
    kinds = set()
    for one in shipped():
        for kind in kinds_of(one):
            drawing = draw_model(one, kind)
            root = ElementTree.fromstring(drawing.svg())
            assert [root.tag, root[0].tag, root[1].tag] == [f"{SVG}{tag}" for tag in ("svg", "title", "desc")]
            assert root.get("role") == "img"
            if kind != "mask":  # all are alike, and have hundreds of cells
                assert faults(drawing) == [], f"{one.name}, {kind}"
            kinds.add(kind)
    assert kinds == set(KINDS)


@pytest.mark.parametrize("name", OTHERS)
def test_other_settings_have_drawings_that_can_be_read(name: str) -> None:
    subject = Subject(name, config(**OTHERS[name]), adapters=ADAPTERS)
    for kind in kinds_of(subject):
        assert faults(draw_model(subject, kind)) == [], kind


@pytest.mark.long
def test_every_preset_has_drawings_that_can_be_read() -> None:
    for name, preset in PRESETS.items():
        subject = subject_of_settings(preset(), name)
        for kind in kinds_of(subject):
            assert faults(draw_model(subject, kind)) == [], f"{name}, {kind}"


def test_faults_are_found() -> None:
    """Of the checks above."""
    one, other = Box(0, 0, 40, 30, ("a",)), Box(20, 10, 40, 30, ("b",))
    assert faults(Diagram("", "", (one, other)))
    assert faults(Diagram("", "", (one, Label(20, 30, "on the edge"))))
    assert faults(Diagram("", "", (Box(0, 0, 20, 30, ("wider than the box",)),)))


# Drawings change with the settings


def test_depth_is_the_number_of_rows_or_the_factor_of_a_block() -> None:
    assert (
        words(drawn(family="language", kind="lstm", depth=2)).count("LSTM")
        == words(drawn(family="language", kind="lstm")).count("LSTM") + 4
    )
    assert "7 ×" in words(drawn(**TRANSFORMER | {"depth": 7}))


def test_heads_share_keys_and_values_as_the_settings_say() -> None:
    of = drawn("attention", **TRANSFORMER, attention={"heads": 8, "kv_heads": 2})
    boxes = [box for box in parts(of).boxes if box.height == 26]
    assert [box.lines[0] for box in boxes if box.tone == "green"] == ["1", "2"]
    assert [box.lines[0] for box in boxes if box.tone == "sky"] == [str(n + 1) for n in range(8)]
    assert "4 query heads share the keys and values of one" in words(of)
    assert "each with keys and values of its own" in words(drawn("attention", **TRANSFORMER))


def order(of: Diagram) -> list[str]:
    """The boxes of a drawing from below."""
    return [str(box.lines[0]) for box in sorted(parts(of).boxes, key=lambda box: -box.y)]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("pre", ["RMSNorm", "softmax attention", "+", "RMSNorm", "feed-forward network", "+", "RMSNorm"]),
        ("post", ["softmax attention", "+", "RMSNorm", "feed-forward network", "+", "RMSNorm"]),
        ("after", ["softmax attention", "RMSNorm", "+", "feed-forward network", "RMSNorm", "+", "RMSNorm"]),
        ("sandwich", [*2 * ("RMSNorm", "{}", "RMSNorm", "+"), "RMSNorm"]),
    ],
)
def test_norms_stand_where_they_act(placement: str, expected: list[str]) -> None:
    """The last one of all but "post" is that after the last block."""
    both = iter(("softmax attention", "feed-forward network"))
    in_order = [one.format(next(both)) if one == "{}" else one for one in expected]
    stages = order(drawn(**TRANSFORMER, norm={"placement": placement}))
    assert stages == ["embedding", *in_order, "output layer and softmax"]


def test_positions_stand_where_they_act() -> None:
    assert set(order(drawn(**TRANSFORMER, position="learned"))[1:3]) == {"+", "learned positions"}
    assert "positions: rotary, on q and k" in words(drawn(**TRANSFORMER))
    assert "positions: ALiBi, on scores" in words(drawn(**TRANSFORMER, position="alibi"))
    chain = order(drawn("attention", **TRANSFORMER, position="alibi", attention={"cap": 30.0}))
    assert chain.index("score: scaled dot product") < chain.index("bound of the scores") < chain.index("positions: ALiBi")
    inside = order(drawn("attention", **TRANSFORMER, position="shaw", attention={"cap": 30.0}))
    assert inside.index("positions: relative (Shaw)") < inside.index("bound of the scores")


def test_a_source_enters_where_the_decoder_attends_to_it() -> None:
    before, after = (words(drawn(**RECURRENT, decoder=one)) for one in ("bahdanau", "luong"))
    assert "c t" in before
    assert "W c [ c t ;" in re.sub(r"\s+", " ", after)
    fed = words(drawn(**RECURRENT, decoder="luong", input_feeding=True))
    assert fed.count("h̃") == after.count("h̃") + 1
    assert "attention" not in words(drawn(**RECURRENT, attention="none"))


def test_the_gru_keeps_z_of_its_state_and_the_mingru_the_rest() -> None:
    """They are written so in the literature, and compute opposite things."""
    for kind, kept in (("gru", "z"), ("mingru", "1 − z_t")):
        own = parts(drawn("cell", family="language", kind=kind))
        multiplied = min((box for box in own.boxes if box.lines == ("⊙",)), key=lambda box: box.left)
        beside = min(
            (label for label in own.labels if label.y > multiplied.y),
            key=lambda label: abs(label.y - multiplied.y) + abs(label.rect.right - multiplied.x),
        )
        assert str(beside.words) == kept


def test_a_window_is_the_mask_of_the_model_or_a_shorter_one_that_says_so() -> None:
    exact, shorter = (window_mask(WindowedConfig(span=span), bidirectional=True) for span in (5, 129))
    assert [sum(row) for row in allowed(exact.mask)] == [3, 4, 5, 5, 5, 5, 4, 3]
    assert not exact.about
    assert "instead of 129" in shorter.about
    both = [
        [cell.tone == "solid" for cell in parts(drawn("mask", **TRANSFORMER | {"family": family})).boxes]
        for family in ("language", "encoder")
    ]
    assert [sum(cells) for cells in both] == [36, 64]


# Ideas of one's own


def test_ideas_of_ones_own_are_drawn_with_their_labels(use: Any) -> None:
    for name in ("score", "position", "mixer", "norm", "activation", "cell"):
        use(OWN / f"{name}.py")
    no_positions = {"position": {"kind": "none"}}
    mixed = drawn("attention", **TRANSFORMER, **no_positions, attention={"heads": 2, "kind": "retention"})
    assert MIXERS["retention"].title() in words(mixed)
    assert "softmax" not in words(mixed)
    assert SCORES["manhattan"].title() in words(drawn("attention", **TRANSFORMER, attention={"heads": 2, "score": "manhattan"}))
    assert SCHEMES["kerple"].title() in words(drawn(**TRANSFORMER, position={"kind": "kerple"}))
    assert NORMS["dyt"].title() in words(drawn(**TRANSFORMER, norm={"kind": "dyt"}))
    assert ACTIVATIONS["relu2"].title() in words(drawn(**TRANSFORMER, feedforward={"activation": "relu2"}))
    assert CELLS["mgu"].title() in words(drawn("cell", family="language", kind="mgu"))
    with pytest.raises(ConfigError, match=r'no drawing of kind "mask".* It has "model", "block", "attention"'):
        drawn("mask", **TRANSFORMER, **no_positions, attention={"heads": 2, "kind": "retention"})


def test_a_label_is_text_and_never_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = '"><script>alert(1)</script>&'
    monkeypatch.setattr(CELLS["lstm"], "label", hostile)
    monkeypatch.setattr(CELLS["lstm"], "latex", rf"\unknown {hostile}")
    monkeypatch.setattr(CELLS["lstm"], "about", hostile)
    for kind in ("model", "cell"):
        svg = draw_model(Subject(hostile, config(family="language", kind="lstm")), kind).svg()
        assert "<script" not in svg
        assert hostile in " ".join(ElementTree.fromstring(svg).itertext())


# Names, pages, refusals, themes and formulas


def test_a_run_is_drawn_as_its_recipe_and_keeps_its_settings(firth: Firth, char_run: Path) -> None:
    answer = firth("draw", char_run)
    assert answer.out == draw(load(char_run, "cpu")).svg()
    assert words(draw(char_run / "recipe.toml")).partition(" ")[2] == words(draw(char_run)).partition(" ")[2]
    refused = firth("draw", char_run, "--model.depth=2")
    assert (refused.code, refused.out) == (2, "")
    assert "is a run, whose settings are fixed. Use" in refused.err


def test_the_drawings_of_the_pages_are_those_of_today_and_shown_there() -> None:
    maker = docs_script("make_drawings")
    folders = {maker.FOLDER: DOCS, maker.COURSE_FOLDER: maker.COURSE_FOLDER.parent}
    files = {path: path.read_text(encoding="utf-8") for folder in folders for path in folder.iterdir()}
    assert files == maker.written(), "run python docs/make_drawings.py"
    pages = {
        folder: "".join(page.read_text(encoding="utf-8") for page in beside.glob("*.md")) for folder, beside in folders.items()
    }
    assert [path for path in files if f"(drawings/{path.name})" not in pages[path.parent]] == []


def test_a_drawing_that_a_model_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(
        ConfigError, match=r'gpt2 has no drawing of kind "cell": it has no recurrent cell. It has "model", "block"'
    ):
        draw("gpt2", "cell")
    with pytest.raises(ConfigError, match=r'it is not a Transformer. It has "model", "cell" and "cache"'):
        drawn("mask", family="language", kind="gru")
    with pytest.raises(ConfigError, match='no drawing of kind "heads"; choose "model", "cell"'):
        drawn("heads", family="language", kind="gru")


def test_a_drawing_is_saved_as_svg_and_as_nothing_else(tmp_path: Path) -> None:
    drawing = draw("gpt2", assignments=["model.depth=3"], theme="dark")
    drawing.save(tmp_path / "a.SVG")
    assert (tmp_path / "a.SVG").read_text(encoding="utf-8") == drawing._repr_svg_() == drawing._repr_html_()
    assert "3 ×" in words(drawing)
    with pytest.raises(ConfigError, match=r'"x\.png" does not end in \.svg'):
        drawing.save("x.png")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_theme_is_light_or_dark_or_that_of_the_reader() -> None:
    light, dark, auto = (drawn(family="language", kind="gru").svg(theme) for theme in ("light", "dark", "auto"))
    assert ["prefers-color-scheme" in one for one in (light, dark, auto)] == [False, False, True]
    paper = '<rect class="paper" width="{}" height="{}" fill="#FFFFFF"'
    assert [paper[:20] in one and 'fill="#FFFFFF"/>' in one for one in (light, dark, auto)] == [True, False, True]
    assert THEMES == ("auto", "light", "dark")
    with pytest.raises(ConfigError, match='the theme "blue" is not known; choose one of: auto, light, dark'):
        drawn(family="language", kind="gru").svg("blue")  # type: ignore[arg-type]


def test_formulas_are_lines_of_letters_and_unknown_commands_their_source() -> None:
    for collection in (CELLS, SCORES, SCHEMES, NORMS, MIXERS):
        for idea in collection:
            assert not any(glyphs.mono for glyphs in glyphs_of(idea.latex)), idea.kind
    assert str(Formula(r"h_t = \tanh(W x_t + U h_{t-1} + b)")) == "h_t = tanh(Wx_t + Uh_{t−1} + b)"
    assert str(Formula(r"\frac{x}{\sqrt{\mathrm{E}[x^2] + \epsilon}}")) == "x/(√(E[x^2] + ε))"
    assert [glyphs.text for glyphs in glyphs_of(r"\unheard{x}")] == [r"\unheard{x}"]
