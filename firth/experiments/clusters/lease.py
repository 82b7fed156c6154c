"""One process at a time for each run, whichever machine it is on."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from firth import files
from firth.experiments.clusters.pulse import Pulse, Watched

_LOOK_EVERY = 0.5  # seconds


@contextlib.contextmanager
def leased(folder: Path) -> Iterator[None]:
    """Wait until nobody else works on the run in `folder`, and keep others out. A machine that was cut off may come back and find
    that another process has taken over: it ends at once."""
    place = folder.with_name(f"{folder.name}.lease")

    def lost() -> None:
        print(f"firth: another process has taken over {folder}, because this one was silent for too long", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)

    with files.writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        pulse = _taken(place, lost)
    try:
        yield
    finally:
        pulse.end()


def _taken(place: Path, lost: Callable[[], object]) -> Pulse:
    watched = Watched(place)
    while True:
        try:
            return Pulse(place, lost)
        except FileExistsError:
            if watched.is_dead():
                watched.remove()
            else:
                time.sleep(_LOOK_EVERY)
