from __future__ import annotations

import json
from pathlib import Path

from shell import Firth

from firth.inspection.positions import sinusoid_and_binary


def test_positions_in_the_terminal_as_json_and_as_a_page(firth: Firth, tmp_path: Path) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in firth("positions", "--length", 8).out.splitlines()[1:9]}
    assert rows["3"][0] == "011"
    chosen = ("--length", 6, "--width", 4, "--base", 100)
    told = json.loads(firth("positions", *chosen, "--json", "--save", tmp_path / "page.html").out)
    assert told == json.loads(json.dumps(sinusoid_and_binary(6, 4, 100).facts()))
    assert "Sinusoid and binary numbers" in (tmp_path / "page.html").read_text(encoding="utf-8")
    refused = firth("positions", "--width", 5)
    assert (refused.code, refused.out) == (2, "")
