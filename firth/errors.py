"""What can go wrong, in a user's words.

Every message says what was given, what was expected, and what to do. The command line prints it as one line and exits
with `exit_code`: 2 when the user can mend it, 1 when the run itself failed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FirthError(Exception):
    """Anything firth refuses to do, with the reason."""

    exit_code = 2


class ConfigError(FirthError):
    """A recipe, an override or an argument that does not fit."""


class DataError(FirthError):
    """Text that is missing, empty, unreadable or too short."""


class RunError(FirthError):
    """A run folder that is not one, is of a newer format, or cannot be written."""


class CorruptFile(RunError):
    """A file whose content does not match its checksum."""


class Diverged(FirthError):
    """The loss is no longer a number."""

    exit_code = 1


class Interrupted(FirthError):
    """Stopped by Ctrl-C or SIGTERM after everything was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """' Did you mean "depth"?' when something near is known, otherwise the list of what is known."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    if near:
        return f' Did you mean "{near[0]}"?'
    return f" Known: {', '.join(names)}." if names else ""
