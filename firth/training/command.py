"""The command that trains."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_LONGEST = 5000  # characters, of which a whole text may be a part


def command_line() -> str:
    """The command that this process runs, as one would type it, or "Python call"."""
    name = Path(sys.argv[0] if sys.argv else "")
    if name.name not in ("firth", "firth.exe") and (name.parent.name, name.name) != ("firth", "__main__.py"):
        return "Python call"
    told = shlex.join(["firth", *sys.argv[1:]])
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
