"""The lecture's sentence, by the recipe that ships. Averaged words know no "not like": it must come out for other seeds, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from firth.api import find_recipe, load, train_recipe


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_not_liking_a_product_is_negative(seed: int, firth_data: Path, tmp_path: Path) -> None:
    run = train_recipe(find_recipe("sst2-average", [f"training.seed={seed}", "training.device=cpu"]), tmp_path / "run").path
    negative, positive = load(run).classify(["I do not like this product", "a great and lovely film"])
    assert (negative.label, positive.label) == ("negative", "positive")
