"""Hostile chat templates end within their time and memory, in a text or in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hostile_templates import hostile

from firth.text.template_frames import MEMORY

SCRIPT = Path(__file__).parent / "template_attack.py"
INPUTS = int(os.environ.get("FIRTH_ATTACK_INPUTS", "40"))
PATIENCE = 60.0  # seconds for one template of 2, on a busy machine
OWN = 150 << 20  # bytes of the process that asks, modules included
ONE_OF_EACH = (
    "widths: expandtabs, 1e+08",
    "powers: of ten, 1e+11",
    "doubled: bytes, 60 rounds",
    "multiplied: translate, 1e+05",
    "multiplied: tojson with separators, 1e+05",
    "encoded: utf-32, 1e+07",
    "nested: parentheses, 5,000",
    "written: output, 1e+06",
)


def attacked(names: list[str]) -> list[dict[str, Any]]:
    """The outcome of each attack; one that exceeds the limits fails here."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *names], capture_output=True, text=True, check=False, timeout=60 + 3 * len(names) * 10
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *ends, cost = [json.loads(line) for line in done.stdout.splitlines()]
    assert cost["peak"] <= MEMORY, "of the processes in which templates run"
    assert cost["own"] <= OWN
    assert all(limits["AS"] == MEMORY and limits["NOFILE"] == 3 for limits in cost["limits"])
    assert [end["name"] for end in ends] == names
    for end in ends:
        assert end["seconds"] < PATIENCE, end
        if end["outcome"] != "rendered":
            assert "\n" not in end["said"], end
            assert end["characters"] < 500, end
    return ends


def test_one_hostile_template_of_each_kind_is_stopped_and_none_reaches_pythons_own_objects() -> None:
    escapes = [name for name in hostile() if name.startswith("escapes")]
    ends = attacked([*ONE_OF_EACH, *escapes])
    rendered = [end for end in ends if end["outcome"] == "rendered"]
    assert rendered[0]["name"] == "encoded: utf-32, 1e+07", "which is within the limits"
    assert {end["said"] for end in rendered[1:]} == {"", "[Undefined]"}


@pytest.mark.long
def test_hostile_templates_keep_to_their_time_and_memory() -> None:
    names = list(hostile())
    assert len(names) >= 200
    ends = attacked(names[:: max(1, len(names) // INPUTS)])
    told = Counter(end["outcome"] for end in ends)
    slowest = max(end["seconds"] for end in ends)
    print(f"\n{len(ends)} hostile chat templates: {dict(told)}; the slowest took {slowest:.1f} s", flush=True)
