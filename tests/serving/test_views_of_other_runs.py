"""Every view that asks for a run, over runs of every kind: a result, or one sentence that says why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captioned import caption_table, write_captions

from firth.api import compose, train_recipe
from firth.errors import FirthError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms import ROOMS

OLD_RUNS = Path(__file__).parents[1] / "old_runs"
TEXT = "the list"
GIVEN = {
    "text": TEXT, "prompt": TEXT, "question": TEXT, "context": TEXT, "query": TEXT, "word": "list", "target": TEXT,
    "sentences": "the list\na list", "messages": json.dumps([["user", TEXT]]), "stage": "1", "level": "0", "more": "2",
}  # fmt: skip
# Those of `compare` choose their runs by what they can do; `dynamics/path` and the other rooms need none.
QUICK = ("generate", "next")
ASKED = [
    pytest.param(room.name, view, marks=() if (room.name, view) == QUICK else pytest.mark.long)
    for room in ROOMS
    for view in room.views
    if room.name not in ("build", "compare", "describe", "playground", "words") and (room.name, view) != ("dynamics", "path")
]


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory, char_run: Path, transformer_run: Path) -> RunLibrary:
    folder = tmp_path_factory.mktemp("kinds")
    data = {"path": str(write_captions(folder / "data")), "size": 24, "valid": 0.0}
    captions = train_recipe(compose(caption_table(data, steps=1)), folder / "captions").path
    return RunLibrary([*(path for path in sorted(OLD_RUNS.iterdir()) if path.is_dir()), captions, char_run, transformer_run])


@pytest.mark.filterwarnings("ignore::UserWarning")  # words that a run has never seen
@pytest.mark.parametrize(("room", "view"), ASKED)
def test_a_view_of_a_run_of_another_kind_says_so_in_one_line(every_kind: RunLibrary, room: str, view: str) -> None:
    for run in every_kind.runs:
        said = told(every_kind, room, view, {"run": run, "runs": run, **GIVEN})
        assert "\n" not in said, (run, said)


def told(library: RunLibrary, room: str, view: str, given: dict[str, str]) -> str:
    """The error, if there is one. One that is not a FirthError would be called a bug."""
    try:
        ROOMS[room].views[view](ViewRequest(given), library, lambda what, done, total: None)
    except FirthError as error:
        return str(error)
    return ""
