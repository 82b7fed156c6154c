"""Drawings of models from their settings, so that a drawing is of one's own model. One file per part of a model."""

from __future__ import annotations

from firth.inspection.drawing.drawing import KINDS, draw_model, kinds_of
from firth.inspection.drawing.parts import Ends

__all__ = ["KINDS", "Ends", "draw_model", "kinds_of"]
