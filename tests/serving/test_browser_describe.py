"""The room Describe in a browser: what it shows is what `firth describe` counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Screenshot, Visit, executed

from firth.api import load
from firth.experiments.describe import describe
from firth.models.presets import PRESETS
from firth.shipped import shipped


@pytest.mark.long
def test_gpt3_is_counted_to_the_last_weight(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/describe?of=gpt3")
    found = describe("gpt3")
    (bars,) = page.plot("parameters")["data"]
    assert list(zip(bars["customdata"], bars["x"], strict=True)) == [(part.name, part.weights) for part in found.of.parts]
    totals = {row[0]: row[2] for row in page.table("totals")}
    assert totals == {
        "parameters": "175,181,291,520",
        "matrices": "27,938",
        "FLOPs per token, inference": f"{found.flops_per_token:,}",
        "FLOPs per token, training": f"{found.training_flops_per_token:,}",
        "memory, training": f"{found.training_bytes:,}",
        "memory, inference": f"{found.inference_bytes:,}",
    }
    assert found.summary in page.page.locator("[data-summary]").text_content()
    screenshot(page, "describe")


@pytest.mark.long
def test_every_preset_recipe_and_run_is_offered(visit: Visit) -> None:
    offered = visit("#/describe").page.locator("[data-control=of] option").all_text_contents()
    assert set(offered) == {*PRESETS, *shipped(), "char", "transformer", "bpe"}


@pytest.mark.long
def test_a_run_its_address_and_the_python_that_counts_it(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/describe?of=gpt2").set("of", "transformer")
    model = load(transformer_run)
    assert sum(page.plot("parameters")["data"][0]["x"]) == sum(weight.numel() for weight in model.network.parameters())
    again = visit(page.hash())
    assert again.plot("parameters")["data"] == page.plot("parameters")["data"]
    assert again.table("totals") == page.table("totals")
    copied = executed(page.python())
    assert page.table("parameters") == [list(row) for row in copied["figure"].table.rows]
    assert f"{copied['facts'].parameters:,}" == page.table("totals")[0][2]


@pytest.mark.long
def test_a_recipe_with_other_settings(visit: Visit) -> None:
    page = visit("#/describe?of=hello")
    before = sum(page.plot("parameters")["data"][0]["x"])
    page.set("settings", "model.width=40")
    after = describe("hello", ["--model.width=40"])
    assert before != sum(page.plot("parameters")["data"][0]["x"]) == after.of.parameters
    assert page.table("parameters") == [list(row) for row in executed(page.python())["figure"].table.rows]
