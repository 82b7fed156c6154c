"""The labels of the lab's controls: one word for one thing, in every room."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest
from browsing import Visit

from firth.serving.lab.app import PAGE
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms import ROOMS

SPEC = re.compile(r'\{ name: "(\w+)", label: (?:"([^"]*)"|`([^`]*)`)')
SHARED = ("run", "seed", "beam", "top_k", "top_p", "vectors", "score", "position", "mask", "level", "gate", "heads", "corpus")


def labels() -> dict[str, set[str]]:
    """Control → its labels in all rooms."""
    by_control: defaultdict[str, set[str]] = defaultdict(set)
    for file in (PAGE / "rooms").glob("*.js"):
        for name, plain, built in SPEC.findall(file.read_text(encoding="utf-8")):
            by_control[name].add(plain or built)
    return by_control


def test_the_same_setting_has_the_same_label_in_every_room() -> None:
    assert {name: said for name, said in labels().items() if name in SHARED and len(said) > 1} == {}
    assert labels()["run"] == {"Run"}


def test_labels_are_phrases() -> None:
    for name, said in labels().items():
        for label in said:
            assert label[:1].isupper() or label[:1] in "◀$", (name, label)
            assert not re.search(r"if empty|\(empty|[.:]$", label), (name, label)


def test_no_room_calls_a_layer_a_block() -> None:
    told = [json.dumps(room.json(RunLibrary())) for room in ROOMS]
    assert not re.search(r"\bblocks?\b", " ".join([*told, *(one for said in labels().values() for one in said)]))


@pytest.mark.long
def test_layers_and_heads_are_counted_from_one_everywhere(visit: Visit) -> None:
    page = visit("#/attention?run=transformer&text=the")
    first = "box => [box.options[0].textContent, box.options[0].value]"
    for control in ("layer", "head"):
        assert page.page.locator(f"[data-control={control}]").evaluate(first) == ["1", "0"]
    page.open("#/walk?run=transformer&text=the&stage=1")
    assert page.page.locator("[data-control=head]").evaluate(first) == ["1", "0"]
    assert "layer 1" in page.page.locator("[data-stage='1']").first.text_content()
    page.open("#/generate?run=char&prompt=the")
    assert page.page.locator("[data-control=level]").evaluate("box => box.options[0].textContent") == "layer 1"
    page.open("#/playground?of=sentence&heads=2")
    assert page.page.locator("[data-control=head]").get_attribute("min") == "1"
