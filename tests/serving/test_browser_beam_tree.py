"""The beam search as a tree in the room Translate: every node is one of Python's, and branches open by click and by keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import Screenshot, Visit, Watched, executed

from firth.api import load
from firth.inspection.beam_tree import BeamTree
from firth.serving.lab.library import RunLibrary

ADDRESS = "#/translate?run=rnnsearch&text=4+7+1&beam=3"
NODES = """board => [...board.querySelectorAll('[role=treeitem]')].map(one => ({
  at: Number(one.dataset.node), outcome: one.dataset.outcome, open: one.getAttribute('aria-expanded'),
  token: one.querySelector('.beam-token').textContent, number: one.querySelector('.beam-number')?.textContent ?? '',
  x: one.getBoundingClientRect().x, dashed: getComputedStyle(one).borderStyle, lit: one.hasAttribute('data-lit'),
}))"""


def _nodes(page: Watched) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.page.locator(".beam-board").evaluate(NODES)
    return found


def _tree(library: RunLibrary, beam: int = 3) -> BeamTree:
    tree: BeamTree = load(library.path("rnnsearch")).beam_tree("4 7 1", beam=beam, penalty=0.6)
    return tree


def _visible(tree: BeamTree, opened: set[int]) -> set[int]:
    """The nodes above which everything is open."""
    return {n for n in range(len(tree.nodes)) if set(tree.path(n)[:-1]) <= opened}


def _ways(tree: BeamTree) -> set[int]:
    """The nodes on the ways to the translations, which are open at first."""
    return {node for one in tree.results for node in tree.path(one.node)[:-1]}


def _focused(page: Watched) -> int:
    return int(page.page.evaluate("document.activeElement.dataset.node ?? -1"))


def test_the_tree_is_that_of_python_and_opens_on_the_ways_to_the_translations(
    visit: Visit, pair_library: RunLibrary, pair_lab: str, screenshot: Screenshot
) -> None:
    page, tree = visit(ADDRESS, at=pair_lab), _tree(pair_library)
    assert {node["at"] for node in _nodes(page)} == _visible(tree, _ways(tree))
    page.page.get_by_role("button", name="Open all").click()
    shown = {node["at"]: node for node in _nodes(page)}
    assert set(shown) == set(range(len(tree.nodes)))
    rank = {one.node: n for n, one in enumerate(tree.results, start=1)}
    marks = {"kept": "○", "ended": "■", "dropped": "✕"}
    for n, node in enumerate(tree.nodes[1:], start=1):
        one = shown[n]
        told = f"{rank[n]}. {node.token}" if n in rank else node.token
        assert (one["outcome"], one["token"]) == (node.outcome, f"{marks[node.outcome]} {told}")
        assert one["number"] == f"{node.log_probability:.2f}".replace("-", "−")
        assert one["x"] > shown[node.parent]["x"]
        assert one["dashed"] == ("dashed" if node.outcome == "dropped" else "solid")  # not by colour alone
    results = page.page.locator("[data-result]")
    assert results.all_text_contents() == [
        f"{n}. {one.text}{one.score:.2f}".replace("-", "−") for n, one in enumerate(tree.results, start=1)
    ]
    assert page.table("beam_tree") == [list(row) for row in tree.figure().table.rows]
    page.page.locator("[data-search] [data-testid=copy-python]").click()
    assert executed(page.page.evaluate("navigator.clipboard.readText()"))["tree"] == tree
    screenshot(page, "beam-tree")


@pytest.mark.long
def test_a_branch_opens_and_closes_by_click_and_says_its_text_so_far(
    visit: Visit, pair_library: RunLibrary, pair_lab: str
) -> None:
    page, tree = visit(ADDRESS, at=pair_lab), _tree(pair_library)
    way = tree.path(tree.results[0].node)
    page.page.locator(f"[role=treeitem][data-node='{way[1]}']").click()
    assert {node["at"] for node in _nodes(page)} == _visible(tree, {0})
    page.page.locator(f"[role=treeitem][data-node='{way[1]}']").click()
    node = page.page.locator(f"[role=treeitem][data-node='{way[2]}']")
    node.hover()
    told = page.page.locator("[data-told]").text_content()
    expected = tree.nodes[way[2]]
    assert told.splitlines()[0] == expected.text == "four seven"
    assert f"{expected.log_probability:.4f}; score {expected.score:.4f}; kept".replace("-", "−") in told
    assert {one["at"] for one in _nodes(page) if one["lit"]} == set(way[:3])
    page.page.get_by_role("button", name="Close all").click()
    page.page.locator("[data-result='1']").click()  # the second translation: its branch opens
    assert _focused(page) == tree.results[1].node
    assert set(tree.path(tree.results[1].node)) <= {one["at"] for one in _nodes(page)}
    assert page.page.locator("[data-told]").text_content().splitlines()[0] == tree.results[1].text


@pytest.mark.long
def test_the_keyboard_walks_through_the_tree(visit: Visit, pair_library: RunLibrary, pair_lab: str) -> None:
    page, tree = visit(ADDRESS, at=pair_lab), _tree(pair_library)
    page.page.get_by_role("button", name="Close all").focus()
    page.page.keyboard.press("Enter")
    assert [node["at"] for node in _nodes(page)] == [0]
    page.page.keyboard.press("Tab")  # the region, which scrolls
    page.page.keyboard.press("Tab")
    assert _focused(page) == 0
    page.page.keyboard.press("ArrowRight")
    first = tree.children(0)
    assert [node["at"] for node in _nodes(page)] == [0, *first]
    page.page.keyboard.press("ArrowRight")
    assert _focused(page) == first[0]
    page.page.keyboard.press("ArrowDown")
    assert _focused(page) == first[1]
    page.page.keyboard.press("End")
    assert _focused(page) == first[-1]
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("ArrowLeft")
    assert _focused(page) == 0
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press(" ")
    opened = tree.children(first[0])
    assert {node["at"] for node in _nodes(page)} == {0, *first, *opened}
    assert page.page.locator("[data-told]").text_content().splitlines()[0] == tree.nodes[first[0]].text
    page.page.keyboard.press("Enter")
    assert {node["at"] for node in _nodes(page)} == {0, *first}
    assert _focused(page) == first[0]


@pytest.mark.long
def test_a_copied_link_opens_the_same_branches(visit: Visit, pair_library: RunLibrary, pair_lab: str) -> None:
    page, tree = visit(ADDRESS, at=pair_lab), _tree(pair_library)
    assert "branches" not in page.hash()  # what is open at first needs no mention
    ways = _ways(tree)
    closed = next(n for n in sorted(ways) if n and tree.children(n))
    opened = next(n for n in _visible(tree, ways - {closed}) if n not in ways and tree.children(n))
    for node in (closed, opened):
        page.page.locator(f"[role=treeitem][data-node='{node}']").click()
    expected = _visible(tree, ways - {closed} | {opened})
    assert {node["at"] for node in _nodes(page)} == expected
    other = visit(page.hash(), at=pair_lab)
    assert {node["at"] for node in _nodes(other)} == expected
    page.page.go_back()
    page.until(f"!document.querySelector(\"[data-node='{tree.children(opened)[0]}']\")")
    assert {node["at"] for node in _nodes(page)} == _visible(tree, ways - {closed})
    page.page.get_by_role("button", name="Close all").click()
    assert [node["at"] for node in _nodes(visit(page.hash(), at=pair_lab))] == [0]
    page.page.get_by_role("button", name="Open all").click()
    assert len(_nodes(visit(page.hash(), at=pair_lab))) == len(tree.nodes)
    page.set("beam", "2")  # another search has other nodes
    assert "branches" not in page.hash()
    assert {node["at"] for node in _nodes(page)} == _visible(_tree(pair_library, 2), _ways(_tree(pair_library, 2)))
    nonsense = visit(f"{ADDRESS}&branches=0.x.99999.-1", at=pair_lab)
    assert {node["at"] for node in _nodes(nonsense)} == _visible(tree, {0})


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_the_tree_scrolls_by_itself(visit: Visit, pair_lab: str, scheme: str, screenshot: Screenshot) -> None:
    page = visit(ADDRESS, at=pair_lab, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.page.locator(".beam-scroll").evaluate("one => one.scrollWidth > one.clientWidth")
    screenshot(page, f"beam-tree-phone-{scheme}")


@pytest.mark.long
def test_another_beam_has_another_tree_and_a_beam_of_one_has_none(visit: Visit, pair_library: RunLibrary, pair_lab: str) -> None:
    page = visit(ADDRESS, at=pair_lab).set("beam", "2")
    tree = _tree(pair_library, 2)
    assert {node["at"] for node in _nodes(page)} == _visible(tree, _ways(tree))
    page.set("beam", "1")
    assert page.page.locator(".beam-board").is_hidden()
    assert page.page.get_by_text("A beam of 1 is greedy decoding").is_visible()
    assert page.page.locator("[role=alert]").count() == 0
    page.set("beam", "3")
    assert page.page.locator(".beam-board").is_visible()
