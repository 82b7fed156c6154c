"""Renders hostile chat templates and says, as JSON, how each ends and what they have cost.

    python tests/faults/attacks/template_attack.py NAME …

The peak of memory is that of all processes that templates had run in, and of this one."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from hostile_templates import hostile

from firth.errors import DataError
from firth.text import template_process
from firth.text.chat_template import ChatTemplate
from firth.text.conversation import Message

CHAT = (Message("user", "name 3"), Message("assistant", "three"), Message("user", "and 4"))


def ended(source: str) -> tuple[str, str]:
    """The outcome and what was said of it, or the text."""
    try:
        return "rendered", ChatTemplate(source).render(CHAT, answer_next=True)
    except DataError as error:
        for outcome in ("was stopped", "refuses this conversation", "is not valid Jinja", "has"):
            if f"the chat template {outcome}" in str(error):
                return outcome, str(error)
        raise


def main() -> None:
    templates = hostile()
    for name in sys.argv[1:]:
        began = time.monotonic()
        outcome, said = ended(templates[name])
        seconds = time.monotonic() - began
        print(json.dumps({"name": name, "outcome": outcome, "characters": len(said), "said": said[:400], "seconds": seconds}))
    limits = [worker.limits for worker in template_process._pool.workers]
    template_process._at_exit()  # their memory is known when they have ended
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"limits": limits, "peak": peak, "own": own_peak()}))


def own_peak() -> int:
    """Bytes. Linux counts in ru_maxrss also what the process was before its exec: a fork of the tests."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    main()
