"""The pictures of docs/: their numbers follow from the definitions, written here a second time, and the files are up to date."""

from __future__ import annotations

import math
import platform
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from docs_scripts import DOCS, docs_script

from firth.figures.figure import Figure
from firth.figures.masks_and_positions import MaskGrid, mask_grids

EPS = 2.0**-52


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    return docs_script("make_pictures")


DOCUMENT = [0, 0, 0, 1, 1, 1, 2, 2]
RULES = {
    "FULL": lambda q, k: True,
    "CAUSAL": lambda q, k: k <= q,
    "STRICTLY_CAUSAL": lambda q, k: k < q,
    "ALL_BUT_SELF": lambda q, k: k != q,
    "window(3)": lambda q, k: k in (q - 2, q - 1, q),
    "lengths([5])": lambda q, k: k < 5,
    "documents & CAUSAL": lambda q, k: k <= q and DOCUMENT[q] == DOCUMENT[k],
    "prefix([3])": lambda q, k: k < 3 or k <= q,
}


def test_each_grid_shows_its_mask(pictures: ModuleType) -> None:
    figure = pictures.masks()
    expected = {name: [[k for k in range(8) if rule(q, k)] for q in range(8)] for name, rule in RULES.items()}
    drawn = [[[k for k, cell in enumerate(row) if cell] for row in trace.z] for trace in figure.plot.data]
    assert drawn == list(expected.values())
    titles = [annotation.text.split("</b>")[0].removeprefix("<b>") for annotation in figure.plot.layout.annotations]
    assert titles == [name.replace("&", "&amp;") for name in RULES]
    rows = [(name, f"{q}", " ".join(map(str, keys))) for name, grid in expected.items() for q, keys in enumerate(grid)]
    assert figure.table.rows == rows


def test_the_sinusoid_stands_beside_the_binary_numbers_of_the_same_positions(pictures: ModuleType) -> None:
    figure = pictures.positions_sinusoid()
    wave, bits = (trace.z for trace in figure.plot.data)
    assert len(wave) == len(bits) == 64
    for t, (values, bit) in enumerate(zip(wave, bits, strict=True)):
        assert sum(b << n for n, b in enumerate(bit)) == t
        angles = [t * 10_000 ** (-2 * i / 32) for i in range(16)]
        expected = [f(angle) for angle in angles for f in (math.sin, math.cos)]
        # The angle is a product of two rounded numbers, at most 64; the functions pass its error on and add one rounding.
        assert max(abs(a - b) for a, b in zip(values, expected, strict=True)) <= (4 * 64 + 2) * EPS
        shown = figure.table.rows[t]
        assert shown == (f"{t}", " ".join(f"{value:z.3f}" for value in values), f"{t:06b}"[::-1])


def test_the_rotary_curve_is_a_sum_of_cosines_of_the_distance_wherever_the_query_stands(pictures: ModuleType) -> None:
    figure = pictures.positions_rotary()
    places = (128, 1_000, 100_000)
    assert [trace.name for trace in figure.plot.data] == [f"query at position {place:,}" for place in places]
    for trace, place in zip(figure.plot.data, places, strict=True):
        # Each of 64 products of two ones, turned: the angles are wrong by a rounding of a number up to `place`, twice.
        allowed = 64 * (4 * place + 8) * EPS / 8
        for distance, value in zip(trace.x, trace.y, strict=True):
            exact = sum(2 * math.cos(distance * 10_000 ** (-2 * i / 64)) for i in range(32)) / 8
            assert abs(value - exact) <= allowed
    by_place = [[row[1:] for row in figure.table.rows if row[0] == f"{place}"] for place in places]
    assert by_place[0] == by_place[1] == by_place[2]
    assert [int(distance) for distance, _ in by_place[0]] == list(range(129))


def t5_bucket(away: int, count: int) -> int:
    """Raffel et al. 2020: half of the buckets are exact, the others are spaced evenly in the logarithm up to 128."""
    exact = count // 2
    if away < exact:
        return away
    return min(count - 1, exact + math.floor(math.log(away / exact) / math.log(128 / exact) * (count - exact) + 1e-9))


def test_the_staircases_are_the_buckets_of_t5(pictures: ModuleType) -> None:
    figure = pictures.positions_t5()
    causal, both = figure.plot.data
    assert list(causal.x) == list(both.x) == list(range(-160, 161))
    assert list(causal.y) == [t5_bucket(max(0, -n), 32) for n in causal.x]
    assert list(both.y) == [t5_bucket(abs(n), 16) + 16 * (n > 0) for n in both.x]
    rows = [(trace.name, f"{n}", f"{bucket}") for trace in (causal, both) for n, bucket in zip(trace.x, trace.y, strict=True)]
    assert figure.table.rows == rows


def test_each_head_of_alibi_falls_half_as_fast_as_the_one_before(pictures: ModuleType) -> None:
    figure = pictures.positions_alibi()
    bias, factor = figure.plot.data[::2], figure.plot.data[1::2]
    for h in range(8):
        expected = [-abs(n) / 2 ** (h + 1) for n in range(-64, 65)]  # powers of two: exact also in float32
        assert list(bias[h].y) == expected
        assert list(factor[h].y) == [math.exp(value) for value in expected]
        assert bias[h].name == f"head {h + 1}: 1/{2 ** (h + 1)}"
        rows = [row for row in figure.table.rows if row[0] == f"{h}"]
        assert [(int(row[2]), row[3]) for row in rows] == [(n, f"{-abs(n) / 2 ** (h + 1):z.4f}") for n in range(-64, 65)]


def test_a_cell_of_shaw_shows_the_clipped_distance_counted_from_the_first_row(pictures: ModuleType) -> None:
    figure = pictures.positions_shaw()
    expected = [[min(max(k - q, -4), 4) + 4 for k in range(12)] for q in range(12)]
    (cells,) = figure.plot.data
    assert [list(row) for row in cells.z] == [list(row) for row in cells.text] == expected
    assert figure.table.rows == [(f"{q}", f"{k}", f"{expected[q][k]}") for q in range(12) for k in range(12)]


def test_every_picture_is_made_by_the_script_and_shown_on_a_page(pictures: ModuleType) -> None:
    made = {f"{name}.svg" for name in pictures.PICTURES}
    assert {path.name for path in (DOCS / "pictures").iterdir()} == made
    shown = set()
    for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}, which is not there"
            shown.add(Path(target).name)
    assert made <= shown


@pytest.mark.long
def test_the_files_were_drawn_from_the_numbers_of_this_code(pictures: ModuleType) -> None:
    # Gradients that explode enlarge the last bit, which other processors round differently.
    chaotic = set() if platform.machine() in ("x86_64", "AMD64") else {"flow-exploding"}
    stale = [
        name
        for name, make in pictures.PICTURES.items()
        if name not in chaotic and pictures.digest_in(DOCS / "pictures" / f"{name}.svg") != pictures.digest(make())
    ]
    assert not stale, f"run python docs/make_pictures.py {' '.join(stale)}"


def test_another_number_is_another_digest(pictures: ModuleType) -> None:
    figure = pictures.positions_shaw()
    rows = [*figure.table.rows[:-1], ("11", "11", "5")]
    changed = Figure(figure.plot, replace(figure.table, rows=rows))
    assert pictures.digest(changed) != pictures.digest(figure) == pictures.digest(pictures.positions_shaw())


def test_the_files_are_small_white_and_complete_in_themselves(pictures: ModuleType) -> None:
    for name in pictures.PICTURES:
        svg = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
        assert len(svg) < 100_000
        assert re.search(r'<rect x="0" y="0"[^>]*fill: rgb\(255, 255, 255\)', svg)
        assert "<script" not in svg
        assert all(target.startswith("data:image/png") for target in re.findall(r'href="([^"]*)"', svg))


def test_the_name_of_a_mask_is_text_not_markup() -> None:
    figure = mask_grids([MaskGrid("<b>a</b> & b", "k < q", [[False, True]])], columns=1)
    assert [annotation.text for annotation in figure.plot.layout.annotations] == [
        "<b>&lt;b&gt;a&lt;/b&gt; &amp; b</b><br>k &lt; q"
    ]
    assert figure.table.rows == [("<b>a</b> & b", "0", "1")]
