"""The corpus of dates: each string tells one date, no tested date is ever trained on, and it is the same every time."""

from __future__ import annotations

import datetime
import sys

import pytest

from firth.errors import ConfigError
from firth.text.datasets import dates as module
from firth.text.datasets.dates import FIRST, LAST, LOCALES, DateFormat, date_formats, dates, days_of, distinct, unambiguous

babel_dates = pytest.importorskip("babel.dates", reason="needs babel")


def test_known_dates_are_among_those_of_their_locale() -> None:
    day = datetime.date(2026, 11, 14)
    formats = unambiguous(date_formats(["fr", "de", "ja"]))
    written = {babel_dates.format_date(day, format.pattern, locale=format.locale) for format in formats}
    assert {"samedi 14 novembre 2026", "14.11.26", "2026年11月14日"} <= written


def test_the_short_format_comes_with_years_of_two_and_of_four_digits() -> None:
    patterns = {format.pattern for format in date_formats(["es", "fr"])}
    assert {"d/M/yy", "d/M/y", "dd/MM/y", "dd/MM/yy"} <= patterns
    assert module._with_year("d.M.yy 'year'", "y") == "d.M.y 'year'"


def test_the_source_is_what_babel_writes_for_the_target() -> None:
    formats = unambiguous(date_formats(LOCALES))
    for source, target in dates(None, 40, "valid"):
        day = datetime.date.fromisoformat(target)
        assert FIRST <= day <= LAST
        assert source in {babel_dates.format_date(day, format.pattern, locale=format.locale) for format in formats}


def test_every_date_is_in_one_part_and_most_are_to_train_on() -> None:
    parts = [days_of(part) for part in ("train", "valid", "test")]
    every = sorted(day for part in parts for day in part)
    assert every == [FIRST + datetime.timedelta(n) for n in range((LAST - FIRST).days + 1)]
    shares = [len(part) / len(every) for part in parts]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


def test_no_date_of_validation_or_test_is_trained_on_whatever_the_seed_and_the_locales() -> None:
    trained = {target for locales in (None, ["fr"]) for seed in (0, 1) for _, target in dates(locales, 2000, "train", seed)}
    valid, test = ({target for _, target in dates(None, 2000, part, seed=2)} for part in ("valid", "test"))
    assert not trained & valid
    assert not trained & test
    assert not valid & test


def test_no_source_occurs_with_two_targets_in_the_corpus() -> None:
    target_of: dict[str, str] = {}
    for part in ("train", "valid", "test"):
        for source, target in dates(None, 10_000, part):
            assert target_of.setdefault(source, target) == target


def test_where_numbers_could_be_day_month_or_year_no_two_formats_write_different_dates_alike() -> None:
    """All formats on those days whose day, month and year of two digits can change places."""
    few = (1, 2, 11, 12)
    days = [datetime.date(2000 + year, month, day) for year in few for month in few for day in few]
    target_of: dict[str, datetime.date] = {}
    for format in unambiguous(date_formats(LOCALES)):
        for day in days:
            source = babel_dates.format_date(day, format.pattern, locale=format.locale)
            assert target_of.setdefault(source, day) == day, format


def kept(locales: list[str]) -> set[tuple[str, str]]:
    return {(format.locale, format.pattern) for format in unambiguous(date_formats(locales))}


def test_conflicting_orders_of_numbers_are_left_out_unless_most_locales_agree() -> None:
    assert ("en_US", "M/d/yy") in kept(["en_US"])
    both = kept(["en_US", "es"])
    assert not {("en_US", "M/d/yy"), ("es", "d/M/yy")} & both
    assert ("en_US", "MMMM d, y") in both
    most = kept(["en_US", "es", "it"])
    assert {("es", "d/M/yy"), ("it", "dd/MM/yy")} <= most
    assert ("en_US", "M/d/yy") not in most


def test_a_year_of_four_digits_is_not_taken_for_a_day() -> None:
    formats = [DateFormat("en_US", "M/d/yy"), DateFormat("en_GB", "dd/MM/y"), DateFormat("ja", "y/MM/dd")]
    assert unambiguous(formats) == formats


def test_a_month_that_is_another_month_elsewhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """July is "Juli" in German; a locale that called May so must not stand beside it."""
    write = module._writer

    def mistaken(format: DateFormat) -> object:
        if format.locale != "fi":
            return write(format)
        return lambda day: write(DateFormat("de", "d. MMMM y"))(day.replace(month=(day.month + 1) % 12 + 1))

    monkeypatch.setattr(module, "_writer", mistaken)
    assert unambiguous([DateFormat("de", "d. MMMM y"), DateFormat("de", "d.M.y"), DateFormat("fi", "x")]) == [
        DateFormat("de", "d.M.y")
    ]


@pytest.mark.parametrize("pattern", ["d MMMM", "MMMM y", "d. MMMMM y", "EEEE y", "d MMMM y w"])
def test_a_format_that_does_not_tell_the_whole_date_is_left_out(pattern: str) -> None:
    with pytest.raises(ConfigError, match="every date format of en_GB is ambiguous"):
        unambiguous([DateFormat("en_GB", pattern)])


def test_patterns_of_numbers_alone_are_taken_once() -> None:
    formats = [
        DateFormat("de", "dd.MM.y"),
        DateFormat("da", "dd.MM.y"),
        DateFormat("de", "d. MMM y"),
        DateFormat("da", "d. MMM y"),
    ]
    assert distinct(formats) == [formats[0], formats[2], formats[3]]


def test_the_corpus_depends_on_its_arguments_alone_and_repeats_nothing() -> None:
    one = dates(["nl"], 500, "train", seed=1)
    assert dates(["nl"], 500, "train", seed=1) == one
    assert dates(["nl"], 300, "train", seed=1) == one[:300]
    assert dates(["nl"], 500, "train", seed=2) != one
    assert len(set(one)) == 500


def test_a_locale_may_be_written_with_a_hyphen() -> None:
    assert dates(["en-GB"], 20, "test") == dates(["en_GB"], 20, "test")


@pytest.mark.parametrize(
    ("locale", "message"),
    [
        ("fr_XQ", r'there is no locale "fr_XQ"; did you mean fr_'),
        ("en_GX", r"did you mean en_.. or en_.. or en_..\?"),
        ("nederlands", r"expected a language such as fr"),
        ("", r'there is no locale ""'),
    ],
)
def test_an_unknown_locale_is_refused_with_near_names(locale: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dates(["fr", locale], 1, "train")


def test_more_dates_than_there_are_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"999,999,999 dates requested for test, but \d+ formats on 3,607 days give"):
        dates(["fr"], 999_999_999, "test")


def test_without_babel_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    module._formats.cache_clear()
    with pytest.raises(ConfigError, match="pip install babel"):
        dates(["fr"], 1, "train")
