"""The walk: a whole forward pass as plain data, from the model as boxes down to one dot product.

`walk(reading, token)` runs the model once and returns its stages; the matrices inside a stage, for one head, and the terms of
one cell are computed when they are asked for.
"""

from firth.inspection.walk.forward import walk
from firth.inspection.walk.matrix import Line, SourceLine, WalkMatrix
from firth.inspection.walk.stage import Stage, Walk

__all__ = ["Line", "SourceLine", "Stage", "Walk", "WalkMatrix", "walk"]
