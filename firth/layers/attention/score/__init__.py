"""Scores: how well a key matches a query. One file per score holds its equation, citation, parameters, initialisation, default
scale, and its reduction to what the kernels compute.

To add a score, write such a file with a `Score` and a `ScoreLayer`, and add the layer to LAYERS and its name to ScoreKind.
"""

from __future__ import annotations

from typing import Literal, get_args

from firth.layers.attention.score.additive import Additive, AdditiveLayer, additive
from firth.layers.attention.score.base import Example, Score, ScoreLayer
from firth.layers.attention.score.bilinear import Bilinear, BilinearLayer, bilinear
from firth.layers.attention.score.cosine import Cosine, CosineLayer, cosine
from firth.layers.attention.score.dot import DOT, SCALED_DOT, Dot, DotLayer, ScaledDotLayer
from firth.layers.attention.score.gaussian import GAUSSIAN, Gaussian, GaussianLayer, half_square

LAYERS: tuple[type[ScoreLayer], ...] = (ScaledDotLayer, DotLayer, GaussianLayer, BilinearLayer, AdditiveLayer, CosineLayer)
ScoreKind = Literal["scaled_dot", "dot", "gaussian", "bilinear", "additive", "cosine"]  # the kinds of LAYERS, in their order
KINDS: tuple[ScoreKind, ...] = get_args(ScoreKind)


def score_layer(kind: ScoreKind) -> type[ScoreLayer]:
    return next(layer for layer in LAYERS if layer.kind == kind)


__all__ = [
    "DOT",
    "GAUSSIAN",
    "KINDS",
    "LAYERS",
    "SCALED_DOT",
    "Additive",
    "Bilinear",
    "Cosine",
    "Dot",
    "Example",
    "Gaussian",
    "Score",
    "ScoreKind",
    "ScoreLayer",
    "additive",
    "bilinear",
    "cosine",
    "half_square",
    "score_layer",
]
