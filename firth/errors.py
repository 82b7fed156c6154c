"""The errors that firth raises for its users.

A message is at most two short sentences: what is wrong, with the value, and what to do. The command line prints it as one line
and exits with `exit_code`: 2 if the user can fix it, 1 if the run itself failed.

A message that names an argument says it with `option`, so that Python reads resume=True and the command line --resume.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator

_LONGEST = 2000  # characters of a message, which may quote a value of any length
_OPTION = re.compile("\x02([^\x02-\x04]*)\x03([^\x02-\x04]*)\x04")
_NO_MARKS = dict.fromkeys((2, 3, 4))  # a truncated message may contain half of a pair


def option(python: str, command: str | None = None) -> str:
    """Name an argument in a message: option("resume=True") is resume=True in Python and --resume on the command line.
    `command` replaces the latter."""
    if command is None:
        name, _, value = python.partition("=")
        command = f"--{name.replace('_', '-')}" + (f" {value}" if value not in ("", "True") else "")
    return f"\x02{python}\x03{command}\x04"


def setting(name: str, value: str) -> str:
    """The same for a setting of a recipe: setting("model.depth", "6") is model={"depth": 6} or --model.depth=6."""
    table, _, key = name.partition(".")
    shown = value if value.replace(".", "", 1).isdecimal() else f'"{value}"'
    return option(f'{table}={{"{key}": {shown}}}', f"--{name}={value}")


class FirthError(Exception):
    """The base class: something firth refuses to do, with the reason."""

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        cut = len(message) > _LONGEST
        super().__init__(f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}" if cut else message)

    def __str__(self) -> str:
        """The message with arguments as in Python."""
        return _OPTION.sub(r"\1", super().__str__()).translate(_NO_MARKS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def marked(self) -> str:
        """The message with its marks, for another message that quotes it."""
        return super().__str__()

    def for_command(self) -> str:
        """The message with arguments as on the command line."""
        return _OPTION.sub(r"\2", super().__str__()).translate(_NO_MARKS)


class ConfigError(FirthError):
    """An invalid recipe, override or argument."""


class DataError(FirthError):
    """Text that is missing, empty, unreadable or too short."""


class RunError(FirthError):
    """A folder that is not a run, has a newer format, or cannot be written."""


class CorruptFile(RunError):
    """A file whose content does not match its checksum."""


class Diverged(FirthError):
    """The loss exploded, or became nan or infinite."""

    exit_code = 1


class Pruned(FirthError):
    """A trial of a sweep that was stopped early, because others are better at the same step."""

    exit_code = 1


class OutOfMemory(FirthError):
    """More memory is needed than there is."""

    exit_code = 1


class Interrupted(FirthError):
    """Stopped by Ctrl-C or SIGTERM after everything was saved."""

    def __init__(self, message: str, signal_number: int, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number if exit_code is None else exit_code

    def __reduce__(self) -> tuple[type[Interrupted], tuple[str, int, int]]:
        """For another process, such as the one that started the training."""
        return type(self), (self.marked, 0, self.exit_code)


# Of torch and numpy, for sizes that cannot be allocated, or not even counted.
_NO_ROOM = (
    "can't allocate memory",
    "not enough memory",
    "Storage size calculation overflowed",
    "integer multiplication overflow",
    "Maximum allowed dimension exceeded",
    "array is too big",
    "Unable to allocate",
)


def is_out_of_memory(error: BaseException) -> bool:
    told = isinstance(error, RuntimeError | ValueError) and any(part in str(error) for part in _NO_ROOM)
    return told or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


@contextlib.contextmanager
def enough_memory(advice: str) -> Iterator[None]:
    """An allocation that fails in here becomes one line that ends in `advice`."""
    try:
        yield
    except FirthError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        first = (str(error).splitlines() or [""])[0][:200]
        raise OutOfMemory(f"this needs more memory than there is ({first or type(error).__name__}). {advice}") from error


def did_you_mean(given: str, known: Iterable[str], *, listed: bool = True) -> str:
    """' Did you mean "depth"?' if a similar name is known, otherwise the list of known names, if it is `listed`."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    if near:
        return f' Did you mean "{near[0]}"?'
    return f" Known: {', '.join(names)}." if names and listed else ""


def either(options: Iterable[str]) -> str:
    """The options in quotes: "a", "b" or "c"."""
    *most, last = (f'"{option}"' for option in options)
    return f"{', '.join(most)} or {last}" if most else last


def listed(options: Iterable[str]) -> str:
    """The options as they are: a, b and c."""
    *most, last = options
    return f"{', '.join(most)} and {last}" if most else last


def index_range(count: int) -> str:
    """The valid indices of `count` things, for a message: "0 to 5", or "0" if there is only one."""
    return f"0 to {count - 1}" if count > 1 else "0"
