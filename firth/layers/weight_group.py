"""The parts that a model's weights are counted by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightGroup:
    """Matrices or vectors of one shape with the same role."""

    name: str
    shape: tuple[int, ...]  # of each
    count: int

    @property
    def weights(self) -> int:
        total = self.count
        for size in self.shape:
            total *= size
        return total

    @property
    def is_matrix(self) -> bool:
        return len(self.shape) > 1
