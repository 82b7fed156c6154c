"""A model that writes what a test says: everything but the engine is as it is served."""

from __future__ import annotations

import shutil
import threading
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w
from chat_lines import chat, chat_table, write_chats
from chat_templates import CHATML
from http_servers import Served, serving

from firth.api import compose, train_recipe
from firth.decoding.engine.jobs import Deliver, Event, Finished, GeneratedToken, Job, JobLimits, Ticket
from firth.decoding.sampling.rows import TextSoFar
from firth.text.tokenizers.tokenizer import Tokenizer

SPECIAL = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|header|>", "<|close|>", "<|eot|>"]


def chat_models(folder: Path, templates: Mapping[str, str]) -> list[Path]:
    """A run for each of these chat templates. They have learned nothing, and differ in the template alone."""
    lines = [chat(("the weather in Paris", "it is cold: 3 degrees"))] * 12
    table = chat_table(write_chats(folder / "chats.jsonl", lines), "gru", steps=1, context=256, batch=2)
    names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    table |= {
        "tokenizer": {"kind": "bpe", "vocab": 300},
        "model": {"family": "language", "kind": "gru", "width": 8, "depth": 1},
        "objective": {"kind": "conversation", "template": CHATML, "special_tokens": SPECIAL, **names},
        "decoding": {"tokens": 200, "temperature": 0.0},
    }
    first = train_recipe(compose(table), folder / "first").path
    recipe = tomllib.loads((first / "recipe.toml").read_text(encoding="utf-8"))
    folders = []
    for name, source in templates.items():
        folders.append(Path(shutil.copytree(first, folder / name)))
        recipe["objective"]["template"] = source
        (folders[-1] / "recipe.toml").write_text(tomli_w.dumps(recipe), encoding="utf-8")
    return folders


class ScriptedEngine:
    """Writes the texts of `script`, one after another, one token at a time; then it ends as its model would."""

    ready = True

    def __init__(self, tokenizer: Tokenizer, special: dict[str, int]) -> None:
        self.script: deque[str] = deque()
        self.jobs: list[Job] = []
        self._tokenizer, self._special = tokenizer, special

    def start(self) -> None: ...
    def close(self, *, drain: bool = True) -> None: ...

    def facts(self) -> dict[str, int | float]:
        return {"running": 0, "waiting": 0, "slots": 1}

    def submit(self, job: Job, deliver: Deliver) -> Ticket:
        JobLimits(10**6, None, None).check(job)
        self.jobs.append(job)
        ids = self._ids(self.script.popleft())
        events: list[Event] = [GeneratedToken(id, -1.0) for id in ids[: job.config.tokens]]
        end = Finished("stop" if len(ids) < job.config.tokens else "length")
        ticket = Ticket(job, TextSoFar(job.config), deliver, threading.Condition())
        threading.Thread(target=lambda: [deliver([event]) for event in (*events, end)], daemon=True).start()
        return ticket

    def _ids(self, text: str) -> list[int]:
        for name, id in self._special.items():
            before, mark, after = text.partition(name)
            if mark:
                return [*self._ids(before), id, *self._ids(after)]
        return [int(id) for id in self._tokenizer.encode(text)] if text else []


@contextmanager
def scripted(*runs: Path, **settings: Any) -> Iterator[tuple[Served, dict[str, ScriptedEngine]]]:
    with serving(*runs, **settings) as served:
        engines = {}
        for model in served.models:
            model.engine.close()
            engines[model.name] = model.engine = ScriptedEngine(model.run.tokenizer, model.language.format.special)
        yield served, engines
