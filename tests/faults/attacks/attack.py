"""What the attacks share: their size, and the line that each prints at its end."""

from __future__ import annotations

import os
from collections.abc import Mapping

INPUTS = int(os.environ.get("FIRTH_ATTACK_INPUTS", "20"))  # of each kind in the long tests; 300 in `make attack`


def report(attack: str, outcomes: Mapping[str, int]) -> None:
    """What became of the attempts, for whoever runs `make attack` (pytest shows it with -s)."""
    told = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(outcomes.items()))
    print(f"\n{attack}: {told}", flush=True)
