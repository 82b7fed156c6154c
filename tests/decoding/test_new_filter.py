"""A new filter is one file and its name in the class statement of DecodingConfig; everything else follows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_a_new_filter_is_seen_everywhere(char_run: Path) -> None:
    script = Path(__file__).with_name("with_only_filter.py")
    done = subprocess.run([sys.executable, str(script), str(char_run)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report.pop("engine") >= 3
    assert report == {
        "python": [2, 2, 2],
        "command": [2, 2, 2],
        "help": {"generate": True, "chat": True, "translate": True},
        "http": [True, True],
        "docs": True,
    }
