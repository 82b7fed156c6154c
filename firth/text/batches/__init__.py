"""Token ids on disk, and batches of them whose position is one integer."""

from __future__ import annotations


class Seekable:
    """Batches that are functions of their position, so that a resumed run continues where it stopped."""

    position = 0

    def seek(self, position: int) -> None:
        self.position = position
