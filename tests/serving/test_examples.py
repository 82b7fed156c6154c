"""A room opens with a text of the kind that the run was trained on."""

from __future__ import annotations

import pytest

from firth.api import find_recipe
from firth.serving.lab.examples import USUAL, example


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dates-rnnsearch", "samedi 14 novembre 2026"),
        ("multi30k-de-en-gru", "Ein Mann steht auf einer Leiter."),
        ("multi30k-en-de-transformer", "A man is standing on a ladder."),
        ("tatoeba-en-nl-transformer", "This is a book."),
        ("scan-length", "jump twice and walk left"),
        ("docstrings-summary", ""),
        ("docs-char-lstm", USUAL),
        ("sst2-lstm", USUAL),
    ],
)
def test_the_example_suits_the_run(name: str, text: str) -> None:
    assert example(find_recipe(name)) == text
