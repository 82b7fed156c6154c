"""What Gradescope's autograder runs, and the results that it reads.

https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firth.experiments.assignments.assignment import Assignment
from firth.experiments.assignments.report import EntryResult, StudentGrade
from firth.version import __version__

_SETUP = """#!/usr/bin/env bash
# Installs firth into the container: a wheel in the zip file if there is one, otherwise the version that made this assignment.
set -euo pipefail
apt-get update
apt-get install -y python3 python3-venv
python3 -m venv /autograder/venv
shopt -s nullglob
wheels=(/autograder/source/*.whl)
if [ ${{#wheels[@]}} -gt 0 ]; then
  /autograder/venv/bin/python -m pip install "${{wheels[@]}}"
else
  /autograder/venv/bin/python -m pip install "firth=={version}"
fi
"""
_RUN = """#!/usr/bin/env bash
# Grades one submission. Its code runs as the user nobody, who can read neither the keys nor the results.
set -euo pipefail
chmod 700 /autograder/source /autograder/results
cd /autograder
/autograder/venv/bin/python -m firth assignment grade submission --grader source --gradescope results/results.json
"""


def files(assignment: Assignment) -> dict[str, str]:
    """The scripts at the top of the autograder's zip file."""
    return {"setup.sh": _SETUP.format(version=__version__), "run_autograder": _RUN}


def results(grade: StudentGrade, entry: EntryResult | None, show_inputs: bool) -> dict[str, Any]:
    """The content of results.json for one submission."""
    tests = [
        {
            "name": one.exercise,
            "score": one.points,
            "max_score": one.of,
            "status": "passed" if one.passed else "failed",
            "output": one.text(show_inputs),
            "output_format": "text",
            "visibility": "visible",
        }
        for one in grade.answers
    ]
    told: dict[str, Any] = {
        "score": grade.points,
        "output": _overall(grade, entry),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }
    return told | ({} if entry is None else {"leaderboard": _leaderboard(entry)})


def _overall(grade: StudentGrade, entry: EntryResult | None) -> str:
    lines = [grade.problem] if grade.problem else []
    if grade.answers:
        lines.append(f"{grade.points:g} of {grade.of:g} points")
    if entry is not None:
        lines.append(entry.text())
    return "\n".join(lines)


def _leaderboard(entry: EntryResult) -> list[Mapping[str, Any]]:
    if entry.bits_per_character is None:
        return []
    return [
        {"name": "bits per character", "value": round(entry.bits_per_character, 4), "order": "asc"},
        {"name": "parameters", "value": entry.parameters, "order": "asc"},
    ]
