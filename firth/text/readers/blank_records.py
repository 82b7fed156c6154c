"""Records whose text is blank: counted while a table is read, then skipped with one warning or refused with one error."""

from __future__ import annotations

import warnings
from typing import Literal

from firth.errors import DataError

Empty = Literal["skip", "refuse"]
_NAMED = 3  # records named in a message


class BlankRecords:
    def __init__(self, noun: str = "records") -> None:
        self.noun = noun
        self.count = 0
        self.first: list[str] = []  # file and line of the first few

    def add(self, where: str) -> None:
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(where)

    def settle(self, empty: Empty, name: str, total: int, lack: str = "no text") -> None:
        """Warn, or raise if `empty` is "refuse". `total` counts all records, those with text included."""
        if empty == "refuse":
            self.refuse(name, total, lack, 'Complete or remove them, or set data.empty = "skip".')
        if self.count:
            are = "is" if self.count == 1 else "are"
            warnings.warn(f"{self._found(name, total, lack)} and {are} skipped: {self._places()}", stacklevel=4)

    def refuse(self, name: str, total: int, lack: str, remedy: str) -> None:
        """Raise if there are any."""
        if self.count:
            raise DataError(f"{self._found(name, total, lack)}: {self._places()}. {remedy}")

    def _found(self, name: str, total: int, lack: str) -> str:
        return f"{self.count:,} of {total:,} {self.noun} of {name} {'has' if self.count == 1 else 'have'} {lack}"

    def _places(self) -> str:
        return ", ".join(self.first) + (", …" if self.count > len(self.first) else "")
