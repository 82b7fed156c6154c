"""Run with a run folder: firth with one more filter, Only, in the place where DecodingConfig lists them. Prints what can be seen
of it as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests"))


def add_only() -> None:
    path = ROOT / "firth" / "decoding" / "config.py"
    source = path.read_text(encoding="utf-8")
    changed = source.replace("    Mirostat,\n", "    Mirostat,\n    Only,\n")
    assert changed != source
    changed = changed.replace("from firth.errors", "from only_filter import Only\nfrom firth.errors", 1)
    module = ModuleType("firth.decoding.config")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(changed, str(path), "exec"), module.__dict__)


def main() -> None:
    add_only()
    from docs_scripts import docs_script
    from typer.testing import CliRunner

    import firth
    import firth.cli.verbs
    from firth.cli.app import app
    from firth.decoding.config import DecodingConfig
    from firth.decoding.engine.engine import Engine, Job
    from firth.serving.http.schemas import ChatBody, CompletionBody

    model = firth.load(sys.argv[1], "cpu")
    told = CliRunner().invoke(app, ["generate", sys.argv[1], "the", "--tokens", "3", "--only", "2", "--json"]).output
    helped = {verb: "--only" in CliRunner().invoke(app, [verb, "--help"]).output for verb in ("generate", "chat", "translate")}
    engine, written = Engine(model.network, slots=2), []
    for only in (1, -1):
        engine.submit(Job((3,), DecodingConfig(tokens=3, only=only)), written.append)  # type: ignore[call-arg]
    engine.close()
    maker = docs_script("make_settings")
    report = {
        "python": [*model.tokenizer.encode(model.generate("the", tokens=3, only=2))],
        "command": [*model.tokenizer.encode(json.loads(told)["continuation"])],
        "help": helped,
        "http": ["only" in body.model_fields for body in (CompletionBody, ChatBody)],
        "docs": "| `only` | integer | `-1` |" in maker.settings_page() and "    only: int | None" in maker.keywords(),
        "engine": [one.id for events in written for one in events if hasattr(one, "id")].count(1),
    }
    print(json.dumps(report, default=int))


if __name__ == "__main__":
    main()
