"""Warming up: what the first views would wait for is imported while the browser opens the page."""

from __future__ import annotations

import torch

from firth.progress import silent
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms import describe


def warm_up() -> None:
    """Draws a figure, and makes a tensor on the meta device, where models are counted: both import hundreds of modules."""
    describe.count(ViewRequest({}), RunLibrary(), silent)
    torch.arange(2, device="meta")
