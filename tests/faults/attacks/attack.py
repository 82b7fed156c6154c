"""Common parts of the attacks: their size, and the line that each prints at its end."""

from __future__ import annotations

import os
from collections.abc import Mapping

INPUTS = int(os.environ.get("FIRTH_ATTACK_INPUTS", "20"))  # of each kind in the long tests; 300 in `make attack`


def report(attack: str, outcomes: Mapping[str, int]) -> None:
    """Print the outcomes of the attempts, for `make attack` (pytest shows them with -s)."""
    told = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(outcomes.items()))
    print(f"\n{attack}: {told}", flush=True)
