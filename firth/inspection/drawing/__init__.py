"""Drawings of models from their settings, so that a drawing is of one's own model. One file per kind."""

from __future__ import annotations

from firth.inspection.drawing.drawing import KINDS, draw_model, kinds_of
from firth.inspection.drawing.parts import Ends
from firth.inspection.drawing.subject import Subject
from firth.inspection.drawing.wording import LANGUAGES, Language

__all__ = ["KINDS", "LANGUAGES", "Ends", "Language", "Subject", "draw_model", "kinds_of"]
