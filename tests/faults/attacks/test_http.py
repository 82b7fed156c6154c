"""`firth serve` attacked over loopback, by clients without a key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from attack import report
from http_servers import serving


def test_deep_json_is_a_400(char_run: Path) -> None:
    seen: Counter[str] = Counter()
    with serving(char_run) as served:
        for deep in (b"[" * 100_000, b'{"prompt":' * 100_000, b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"):
            seen[f"status {served.post('/v1/completions', raw=deep).status}"] += 1
        assert served.get("/health").status == 200
    report("deep JSON", seen)
    assert seen == {"status 400": 3}
