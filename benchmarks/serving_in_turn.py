"""Versions of firth in turn: what HTTP costs in each of them, by benchmarks/serving.py.

    git worktree add ../before COMMIT
    python benchmarks/serving_in_turn.py ../before . --repeat 5 -- --device cuda --dtype bf16 --clients 64 200 --tokens 128
    python benchmarks/serving_in_turn.py ../before . --repeat 2 -- --depth 1 --width 16 --vocab 500 --tokens 32 --fronts 2

What follows `--` goes to serving.py, which is this checkout's for all versions; `--plain-clients 0` is added. The order changes
with each repetition. The columns are those of each run, and last their median.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

LINES = {
    "the engine alone, tokens/s": r"^the engine alone +([\d,]+)",
    "firth serve, tokens/s": r"^firth serve +([\d,]+)",
    "HTTP costs, %": r"^HTTP costs (-?\d+)%",
    "processor time of the first process, µs/token": r"^processor time per token: ([\d.]+) ",
    "of the busiest other": r"^processor time per token: [\d.]+ \+ ([\d.]+) ",
    "of the rest": r"^processor time per token: [\d.]+ \+ [\d.]+ \+ ([\d.]+) ",
}


def main() -> None:
    own, passed_on = sys.argv[1:], list[str]()
    if "--" in own:
        own, passed_on = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(own)
    found: defaultdict[tuple[str, str, Path], list[float]] = defaultdict(list)
    for turn in range(options.repeat):
        for checkout in options.checkouts[:: 1 if turn % 2 == 0 else -1]:
            print(f"{turn + 1} of {options.repeat}: {checkout}", file=sys.stderr, flush=True)
            for load, name, value in measured(checkout.resolve(), passed_on):
                found[load, name, checkout].append(value)
                print(f"    {load}: {name}: {value:,g}", file=sys.stderr, flush=True)
    for (load, name, checkout), values in found.items():
        print(f"{load:<12}{name:<48}{str(checkout)[-24:]:<26}{' '.join(f'{one:>8,g}' for one in values)}  | {median(values):,g}")


def measured(checkout: Path, passed_on: list[str]) -> list[tuple[str, str, float]]:
    """(clients, name, value) of one run."""
    script = Path(__file__).resolve().with_name("serving.py")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
    }
    command = [sys.executable, str(script), "--plain-clients", "0", *passed_on]
    ran = subprocess.run(command, check=False, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise SystemExit(f"serving.py ended with {ran.returncode} for {checkout}: {ran.stdout[-2000:]}")
    parts = re.split(r"^(\d+ clients) .*$", ran.stdout, flags=re.MULTILINE)[1:]
    return [
        (load, name, float(value[1].replace(",", "")))
        for load, text in zip(parts[::2], parts[1::2], strict=True)
        for name, pattern in LINES.items()
        if (value := re.search(pattern, text, re.MULTILINE))
    ]


if __name__ == "__main__":
    main()
