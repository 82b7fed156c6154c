"""Dates as people write them in many languages → ISO 8601: a translation task that needs no download.

"samedi 14 novembre 2026" → "2026-11-14". The words come from Unicode's CLDR through `babel`, so another version of babel may
produce a few different strings; everything else depends on the arguments alone.

A string must determine its date. Two-digit years do, because all dates are within a century (1970–2069). But "03/04/26" is in
March in the United States and in April elsewhere, and "listopada" is October in Croatia and November in Poland. So each format is
rendered with its numbers blanked out ("n/n/n", "n listopada Y"). If two formats look the same but mean different dates, the
meaning used by most of the chosen locales is kept and the others are left out (all of them, if there is a tie).
"""

from __future__ import annotations

import datetime
import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firth.errors import ConfigError
from firth.text.batches.permutation import keys, mixed, permuted
from firth.text.data_set import Part

if TYPE_CHECKING:
    from babel import Locale


FIRST, LAST = datetime.date(1970, 1, 1), datetime.date(2069, 12, 31)
LOCALES = (
    *("ar", "bg", "ca", "cs", "da", "de", "el", "en_GB", "en_US", "es", "et", "fi", "fr", "he", "hi", "hr", "hu", "id", "it"),
    *("ja", "ko", "lt", "nb", "nl", "pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh"),
)
_USUAL = ("full", "long", "medium", "short")
_DRAWN = 0  # the purpose of the key
_TENTHS: Mapping[Part, tuple[int, ...]] = {"train": tuple(range(8)), "valid": (8,), "test": (9,)}  # of all dates
_PROBE_YEAR = 2044  # its last two digits are neither a day nor a month, so each number of a probe identifies its field
_PROBE_DAYS = range(20, 27)  # a whole week, none of them a month number
_NEAR = 3  # locales named in a message

Look = str  # a written date, with n for a number of one or two digits and Y for a longer one
Meaning = tuple[str, ...]  # the field of each number, and the month if it is a word


@dataclass(frozen=True)
class DateFormat:
    """One way to write a date in one locale."""

    locale: str
    pattern: str  # as CLDR has it: "d MMMM y"


def dates(locales: Sequence[str] | None, count: int, split: Part, seed: int = 0) -> list[tuple[str, str]]:
    """`count` pairs (written date, ISO 8601), no date in the same format twice; `locales` None: LOCALES.

    Eight tenths of the dates are for training, one each for validation and test. A hash of the date alone decides, whatever
    the locales, count and seed, so a test date never occurs in training in any format.
    """
    formats = _formats(LOCALES if locales is None else tuple(locales))
    days = days_of(split)
    total = len(formats) * len(days)
    if not 0 <= count <= total:
        raise ConfigError(
            f"{count:,} dates requested for {split}, but {len(formats)} formats on {len(days):,} days give {total:,}. "
            "Lower data.count, or add locales."
        )
    key = keys(seed, np.array([list(_TENTHS).index(split)], np.uint64), _DRAWN)
    drawn = permuted(np.arange(count, dtype=np.uint64), total, key).tolist()
    writers = [_writer(format) for format in formats]
    pairs = ((writers[place // len(days)], days[place % len(days)]) for place in drawn)
    return [(write(day), day.isoformat()) for write, day in pairs]


@functools.lru_cache(maxsize=8)
def _formats(locales: tuple[str, ...]) -> list[DateFormat]:
    """Cached: comparing all formats takes longer than writing thousands of dates."""
    return distinct(unambiguous(date_formats(locales)))


def days_of(split: Part) -> list[datetime.date]:
    """The dates from 1970 to 2069 that belong to one part."""
    day_N = np.arange(FIRST.toordinal(), LAST.toordinal() + 1)
    tenth_N = mixed(mixed(day_N.astype(np.uint64))) % np.uint64(10)
    return [datetime.date.fromordinal(day) for day in day_N[np.isin(tenth_N, _TENTHS[split])].tolist()]


def date_formats(locales: Sequence[str]) -> list[DateFormat]:
    """The four formats of each locale, and its short one with the year in four and in two digits."""
    formats: dict[DateFormat, None] = {}
    for name in locales:
        locale = _locale(name)
        short = locale.date_formats["short"].pattern
        usual = (locale.date_formats[format].pattern for format in _USUAL)
        for pattern in (*usual, _with_year(short, "y"), _with_year(short, "yy")):
            formats[DateFormat(str(locale), pattern)] = None
    return list(formats)


def unambiguous(formats: Sequence[DateFormat]) -> list[DateFormat]:
    """The formats whose strings have a single meaning among all formats."""
    looks = {format: list(_looks(format)) for format in formats}
    locales: dict[Look, dict[Meaning, set[str]]] = defaultdict(lambda: defaultdict(set))
    for format in formats:
        for look, meaning in looks[format]:
            locales[look][meaning].add(format.locale)
    taken = {look: _usual_meaning(meanings) for look, meanings in locales.items()}
    kept = [format for format in formats if all(taken[look] == meaning for look, meaning in looks[format])]
    if not kept:
        given = ", ".join(sorted({format.locale for format in formats}))
        raise ConfigError(f"every date format of {given} is ambiguous. Choose other locales.")
    return kept


def distinct(formats: Sequence[DateFormat]) -> list[DateFormat]:
    """Patterns of numbers alone are the same in all locales: each is kept once."""
    probe = datetime.date(_PROBE_YEAR, 1, _PROBE_DAYS[0])
    distinct_formats: dict[tuple[str, str], DateFormat] = {}
    for format in formats:
        has_words = any(character.isalpha() for character in _writer(format)(probe))
        distinct_formats.setdefault((format.pattern, format.locale if has_words else ""), format)
    return list(distinct_formats.values())


def _looks(format: DateFormat) -> Iterator[tuple[Look, Meaning]]:
    """All renderings of a format with its numbers blanked out, and the meaning of the numbers."""
    write = _writer(format)
    names_days = "E" in format.pattern or "c" in format.pattern
    for month in range(1, 13):
        for day in _PROBE_DAYS if names_days else _PROBE_DAYS[:1]:
            yield _look(write(datetime.date(_PROBE_YEAR, month, day)), month, day)


def _look(written: str, month: int, day: int) -> tuple[Look, Meaning]:
    fields = {month: "month", day: "day", _PROBE_YEAR: "year", _PROBE_YEAR % 100: "year"}
    numbers = re.findall(r"\d+", written)
    meaning = [fields.get(int(number), "unknown") for number in numbers]
    if "month" not in meaning:
        meaning.append(f"month {month}")
    return re.sub(r"\d+", lambda number: "n" if len(number[0]) <= 2 else "Y", written), tuple(meaning)


def _usual_meaning(meanings: Mapping[Meaning, set[str]]) -> Meaning | None:
    """The meaning in most locales; None in case of a tie, or if it leaves a part of the date undetermined."""
    votes = sorted(((len(locales), meaning) for meaning, locales in meanings.items()), reverse=True)
    tied = len(votes) > 1 and votes[0][0] == votes[1][0]
    meaning = votes[0][1]
    whole = "unknown" not in meaning and sorted(field.split()[0] for field in meaning) == ["day", "month", "year"]
    return meaning if whole and not tied else None


def _writer(format: DateFormat) -> Callable[[datetime.date], str]:
    from babel.dates import parse_pattern

    pattern, locale = parse_pattern(format.pattern), _locale(format.locale)
    return lambda day: pattern.apply(day, locale)


def _with_year(pattern: str, year: str) -> str:
    """The pattern with another form of the year; quoted parts are literal text."""
    return re.sub(r"'[^']*'|y+", lambda match: match[0] if match[0].startswith("'") else year, pattern)


def _locale(name: str) -> Locale:
    try:
        import babel
    except ImportError:
        raise ConfigError("dates need one more package: pip install babel") from None
    try:
        return babel.Locale.parse(name.replace("-", "_"))
    except (babel.UnknownLocaleError, ValueError):
        known = babel.localedata.locale_identifiers()
        near = difflib.get_close_matches(name.replace("-", "_"), known, n=_NEAR, cutoff=0.5)
        what = f"did you mean {' or '.join(near)}?" if near else "expected a language such as fr, or a locale such as en_GB"
        raise ConfigError(f'there is no locale "{name}"; {what}') from None
