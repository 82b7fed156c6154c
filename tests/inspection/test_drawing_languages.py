"""Labels of drawings in other languages, and slides: complete, and as readable as pages in English."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any

import pytest
from drawn import faults, parts
from labels import declared
from subjects import OTHERS, TRANSFORMER, config, drawn, shipped, words

from firth.errors import ConfigError
from firth.experiments.draw import draw
from firth.figures.diagram import Label
from firth.figures.diagram.shapes import text_width
from firth.inspection.drawing import LANGUAGES, Subject, draw_model, kinds_of, wording
from firth.inspection.drawing.sheet import wrapped

OTHER_LANGUAGES = [language for language in LANGUAGES if language != "en"]
HEAVY = ("mask", "families")  # hundreds of cells, whose words differ from model to model by little


def one_of_each() -> Iterator[tuple[Subject, str]]:
    """Every kind of drawing of every sort of model."""
    seen = set()
    for one in shipped():
        for kind in kinds_of(one):
            if (sort := (type(one.config), kind, getattr(one.config, "kind", ""))) not in seen:
                seen.add(sort)
                yield one, kind


def test_every_label_is_translated_and_every_translation_is_used() -> None:
    table = wording.translations()
    assert sorted(declared() - set(table)) == []
    assert sorted(set(table) - declared()) == []
    assert all(set(words) in (set(), set(OTHER_LANGUAGES)) for words in table.values())
    assert tuple(LANGUAGES) == ("en", *OTHER_LANGUAGES)


def test_translations_have_the_places_of_the_english_words() -> None:
    def places(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    wrong = [
        (english, language)
        for english, words in wording.translations().items()
        for language, text in words.items()
        if not text.strip() or places(text) != places(english)
    ]
    assert wrong == []


def test_no_words_of_a_drawing_are_left_out_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a language that marks all that it translates, no other words are left but names, values and formulas."""
    marked = {english: {"fr": f"⟦{english}⟧"} for english in wording.translations()}
    monkeypatch.setattr(wording, "translations", lambda: marked)
    for subject, kind in one_of_each():
        named = Subject("", *(getattr(subject, name) for name in ("config", "ends", "adapters", "decoding", "tree", "merged")))
        own = parts(draw_model(named, kind, language="fr"))
        said = [label.words for label in own.labels] + [line for box in own.boxes for line in box.lines]
        told = " ".join(line for line in said if isinstance(line, str))
        while (fewer := re.sub(r"⟦[^⟦⟧]*⟧", " ", told)) != told:
            told = fewer
        left = set(re.findall(r"[A-Za-z]{3,}", told)) - VALUES
        assert not left, f"{subject.name}, {kind}: {left}"


# of settings, of units, of formulas written as text, and of words that are merged
VALUES = {"tanh", "pre", "post", "after", "sandwich", "KiB", "MiB", "GiB", "eos", "low", "est", "new", "lowest", "newer", "wide"}


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_drawings_in_other_languages_can_be_read(language: str) -> None:
    for subject, kind in one_of_each():
        if kind not in HEAVY or subject.name == "hello":
            assert faults(draw_model(subject, kind, language=language)) == [], f"{subject.name}, {kind}"  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("size", ["page", "slide"])
def test_all_drawings_of_all_languages_can_be_read(size: Any) -> None:
    others = [Subject(name, config(**settings)) for name, settings in OTHERS.items()]
    for language in LANGUAGES:
        for subject in (*shipped(), *others):
            for kind in kinds_of(subject):
                if kind not in HEAVY or subject.name == "two norms":
                    misfits = faults(draw_model(subject, kind, size, language))
                    assert misfits == [], f"{language}, {subject.name}, {kind}"


def test_words_and_numbers_are_those_of_the_language() -> None:
    said = {language: words(draw("llama2-70b", "block", language=language)) for language in LANGUAGES}  # type: ignore[arg-type]
    assert "réseau feed-forward 8\u202f192 → 28\u202f672" in said["fr"]
    assert "Feed-Forward-Netz 8.192 → 28.672" in said["de"]
    assert "前馈网络 8,192 → 28,672" in said["zh"]
    svg = draw("llama2-70b", "block", language="fr").svg()
    assert 'lang="fr"' in svg
    assert "<title>llama2-70b: le bloc du Transformer" in svg
    with pytest.raises(ConfigError, match='no labels in the language "nl"; choose "en", "fr", "de", "es" or "zh"'):
        draw("gpt2", language="nl")  # type: ignore[arg-type]


def test_labels_of_ones_own_stay_as_they_are(use: Any) -> None:
    from pathlib import Path

    use(Path(__file__).resolve().parent.parent / "ideas" / "cell.py")
    subject = Subject("mine", config(family="language", kind="mgu"))
    from firth.layers.recurrent import CELLS

    assert CELLS["mgu"].title() in words(draw_model(subject, "cell", language="de"))


def test_the_metric_knows_wide_letters_and_accents() -> None:
    assert text_width("注意力", 10) == pytest.approx(31.5)
    assert text_width("é", 10) == text_width("e", 10)
    assert text_width("1\u202f000", 10) < text_width("1,0000", 10)
    lines = wrapped("门不依赖状态的 GRU，因此可以并行训练（Feng）。", 90)
    assert len(lines) > 2
    assert not any(line[0] in "，（）。 " for line in lines)
    assert "".join(lines).replace(" ", "") == "门不依赖状态的GRU，因此可以并行训练（Feng）。"


# Slides


def test_slides_are_sixteen_to_nine_and_can_be_read() -> None:
    for subject, kind in one_of_each():
        if kind in HEAVY and subject.name != "hello":
            continue
        of = draw_model(subject, kind, "slide")
        width, height = of.size
        assert width / height == pytest.approx(16 / 9)
        assert faults(of) == [], f"{subject.name}, {kind}"


def test_letters_of_slides_can_be_read_from_afar() -> None:
    """On 720 pixels; a page as high as the screen has smaller ones wherever a model is high."""
    for name, kind in (("docs-char-lstm", "cell"), ("tinyshakespeare-gpt", "model"), ("multi30k-de-en-transformer", "model")):
        page, slide = draw(name, kind), draw(name, kind, size="slide")
        own = [720 / one.size[1] * min(label.size for label in _labels(one)) for one in (page, slide)]
        assert own[1] > 10, name
        assert own[1] > 1.15 * own[0] or page.size[1] < 600, name
        title = max(_labels(slide), key=lambda label: label.size)
        assert title.bold
        assert 720 * title.size / slide.size[1] > 20
    with pytest.raises(ConfigError, match='the size "A4" is not known; choose one of: page, slide'):
        draw("gpt2", size="A4")  # type: ignore[arg-type]


def _labels(of: Any) -> list[Label]:
    own = parts(of)
    return [*own.labels, *(label for box in own.boxes for label in box.labels())]


def test_drawings_are_described_from_the_title_downwards_wherever_words_stand() -> None:
    page, slide = (draw_model(Subject("mine", config(**TRANSFORMER)), "model", size) for size in ("page", "slide"))  # type: ignore[arg-type]
    assert page.description.startswith("mine; 2 layers, width 64")
    assert slide.description.startswith("mine; 2 layers, width 64")
    assert drawn(**TRANSFORMER).description == page.description
