"""Write known.json: what every case gives today. Only for a case that is new, or whose numbers are meant to change.

    python tests/same_numbers/record.py                 adds the cases that have no record, and removes those that are gone
    python tests/same_numbers/record.py NAME…           records these cases again; --all records every one

A text is only recorded if it does not hang on a rounding: with weights that are off by up to a millionth it has to be the same,
and the first seed for which it is counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from same_numbers.case import Numbers
from same_numbers.known import RECORD, cases, discrete, known

NOISE = 1e-6  # more than ten times what float32 rounds
DIGITS = 12


def main() -> None:
    asked = sys.argv[1:]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        computed, old = cases(Path(folder)), known() if RECORD.exists() else {}
        if unknown := set(asked) - set(computed) - {"--all"}:
            sys.exit(f"there are no such cases: {', '.join(sorted(unknown))}")
        recorded = {}
        for name, compute in computed.items():
            if name in old and name not in asked and "--all" not in asked:
                recorded[name] = old[name]
                continue
            recorded[name] = sure(name, compute)
            print(name, flush=True)
    RECORD.write_text(as_json(recorded), encoding="utf-8")


def sure(name: str, compute: Any) -> Numbers:
    """The numbers of the first seed whose texts do not hang on a rounding."""
    for seed in range(20):
        numbers = compute(seed, 0.0)
        if discrete(numbers) == discrete(compute(seed, NOISE)) == discrete(compute(seed, -NOISE)):
            return {"seed": seed, **rounded(numbers)}
    sys.exit(f"{name}: its texts hang on a rounding with every seed")


def rounded(numbers: Any) -> Any:
    if isinstance(numbers, dict):
        return {key: rounded(value) for key, value in numbers.items()}
    if isinstance(numbers, list | tuple):
        return [rounded(value) for value in numbers]
    return float(f"{numbers:.{DIGITS}g}") if isinstance(numbers, float) else numbers


def as_json(numbers_of: dict[str, Numbers]) -> str:
    """A line for each quantity of a case."""
    cases = []
    for name, numbers in numbers_of.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in numbers.items()]
        cases.append(f" {json.dumps(name, ensure_ascii=False)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(cases) + "\n}\n"


if __name__ == "__main__":
    main()
