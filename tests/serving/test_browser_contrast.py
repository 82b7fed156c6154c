"""Text in every room is readable, in light and in dark: the contrast of all of it, checked by axe-core.

axe-core is an npm package that only this test uses: `npm install --no-save axe-core` in the repository, or set FIRTH_AXE to the
path of its axe.min.js.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import Visit, Watched

from firth.serving.lab.rooms import ROOMS

pytestmark = pytest.mark.long
AXE = Path(os.environ.get("FIRTH_AXE") or Path(__file__).resolve().parents[2] / "node_modules/axe-core/axe.min.js")
STATE = {
    "attention": f"?run=bpe&text={quote('the list is empty')}",
    "walk": f"?run=transformer&text={quote('the list')}&stage=1",
    "inspect": f"?run=char&text={quote('the Ωlist')}",  # with an unknown character
    "search": "?query=zyzzyva&vectors=&run=bpe",
    "playground": "?of=sentence&shown=5",
    "dynamics": "?depth=5",
    "compare": "?look=flow&length=10&size=2000",
    "describe": "?of=gpt2",
    "lesson": "/query-key-value?step=2&answer=1.00+and+0.00",
}


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        pytest.skip(f"{AXE} is not there; run `npm install --no-save axe-core` in the repository, or set FIRTH_AXE")
    return AXE.read_text(encoding="utf-8")


RULES = "{ runOnly: ['color-contrast', 'label', 'button-name', 'image-alt', 'link-name'] }"


def _violations(page: Watched, axe: str, rules: str = RULES) -> list[str]:
    """Violations that axe reports: each element and the reason. Plotly's own labels are included."""
    page.page.evaluate(f"() => {{ {axe} }}")
    found: dict[str, Any] = page.page.evaluate(f"() => axe.run(document, {rules})")
    return [
        f"{one['id']}: {node['html'][:120]}: {node['failureSummary']}" for one in found["violations"] for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_room_is_readable(visit: Visit, axe: str, scheme: str) -> None:
    page = visit("#/", color_scheme=scheme)
    wrong = {"the first page": _violations(page, axe)}
    for name in ROOMS.kinds:
        page.open(f"#/{name}{STATE.get(name, '')}")
        wrong[name] = _violations(page, axe)
    assert not {name: found for name, found in wrong.items() if found}


def test_what_cannot_be_read_is_found(visit: Visit, axe: str) -> None:
    page = visit("#/", color_scheme="light")
    page.page.evaluate("document.querySelector('.cards p').style.color = '#c8c8c8'")
    (found,) = _violations(page, axe)
    assert found.startswith("color-contrast")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tree_of_a_beam_search_is_readable(visit: Visit, axe: str, pair_lab: str, scheme: str) -> None:
    page = visit("#/translate?run=rnnsearch&text=4+7+1&beam=3", at=pair_lab, color_scheme=scheme)
    page.page.locator("[data-result='1']").hover()  # its way is marked
    assert page.page.locator(".beam-node[data-lit]").count()
    assert not _violations(page, axe)


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_open_layer_of_the_walk_breaks_no_rule(visit: Visit, axe: str, scheme: str, width: int) -> None:
    viewport = {"width": width, "height": 900}
    page = visit(
        "#/walk?run=transformer&text=the&stage=1&cell=7,2,1", color_scheme=scheme, viewport=viewport, reduced_motion="reduce"
    )
    page.page.wait_for_selector("[data-look=cell] [data-line]")
    page.settled()
    assert not _violations(page, axe, "{}")
