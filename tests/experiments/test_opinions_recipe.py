"""The lecture's pair and forty pairs like it, by the recipe that ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from opinion_pairs import PAIRS, SENTENCES

from firth.api import find_recipe, load, train_recipe
from firth.tasks.classification import ClassifierRun


@pytest.mark.long
def test_liking_a_product_is_positive_not_liking_it_is_negative_and_so_are_nine_of_ten_other_sentences(tmp_path: Path) -> None:
    recipe = find_recipe("opinions-transformer")
    run = train_recipe(find_recipe("opinions-transformer", ["training.device=cpu"]), tmp_path / "run").path
    model: ClassifierRun = load(run)
    assert [one.label for one in model.classify(["I like this product", "I do not like this product"])] == [
        "positive",
        "negative",
    ]
    labels = [one.label for one in model.classify([text for text, _ in SENTENCES])]
    right = [given == label for given, (_, label) in zip(labels, SENTENCES, strict=True)]
    assert len(right) == 80
    assert sum(right) >= 72  # 76 on 2026-11-18
    both = [one and other for one, other in zip(right[::2], right[1::2], strict=True)]
    assert sum(both) >= 0.8 * len(PAIRS)
    measured = model.evaluate(split="test")["accuracy"]
    assert abs(measured - recipe.expected.measured) <= recipe.expected.tolerance  # type: ignore[union-attr, operator]
