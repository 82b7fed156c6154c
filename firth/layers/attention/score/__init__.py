"""Scores: how well a key matches a query. One file per score holds its equation, citation, parameters, initialisation, default
scale, and its reduction to what the kernels compute.

To add a score, write such a file with a `Score` and a `ScoreLayer`, and add the layer to SCORES.
"""

from __future__ import annotations

from typing import Annotated

from firth.ideas import Ideas
from firth.layers.attention.score.additive import Additive, AdditiveLayer, additive
from firth.layers.attention.score.base import Score, ScoreLayer
from firth.layers.attention.score.bilinear import BilinearLayer, bilinear
from firth.layers.attention.score.cosine import CosineLayer, cosine
from firth.layers.attention.score.dot import DOT, SCALED_DOT, Dot, DotLayer, ScaledDotLayer
from firth.layers.attention.score.gaussian import GAUSSIAN, Gaussian, GaussianLayer, half_square

SCORES: Ideas[type[ScoreLayer]] = Ideas(
    "attention score", ScoreLayer, (ScaledDotLayer, DotLayer, GaussianLayer, BilinearLayer, AdditiveLayer, CosineLayer)
)
ScoreKind = Annotated[str, SCORES]


def kinds_for_any_widths() -> str:
    """The scores of a state and a memory whose widths may differ, for messages."""
    return " or ".join(sorted(f'"{one.kind}"' for one in SCORES if one.projects_query))


__all__ = [
    "DOT", "GAUSSIAN", "SCALED_DOT", "SCORES", "Additive", "Bilinear", "Cosine", "Dot", "Gaussian", "Score", "ScoreExample",
    "ScoreKind", "ScoreLayer", "additive", "bilinear", "cosine", "half_square", "kinds_for_any_widths", "shifted_key",
]  # fmt: skip
