"""Every option of every verb changes what the verb prints or writes, or is listed with the reason why it need not.

The options come from the command tree: a new one fails here until it has an example in option_examples.py. Options that would
change nothing beside another one are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import typer
from option_examples import BASES, FILES, LONG, NEUTRAL, NEUTRAL_IN_JSON, STDIN, Shelf
from shell import Firth

import firth.cli.verbs  # noqa: F401 (registers the verbs)
from firth.cli.app import app

_TIMES = re.compile(r'"(seconds|words_per_second|tokens_per_second)": [\d.e+-]+')
_WITH_TIMES = {"log.jsonl", "history.jsonl", "checkpoints"}  # of a run


def _verbs(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
    for name, within in getattr(command, "commands", {}).items():
        yield from _verbs(within, f"{path} {name}".strip())


VERBS: dict[str, Any] = dict(_verbs(typer.main.get_command(app)))
OPTIONS = {
    verb: [parameter.opts[0] for parameter in command.params if parameter.param_type_name == "option"]
    for verb, command in VERBS.items()
}


class Seen(NamedTuple):
    """The outcome of a call: the same for the same arguments."""

    code: int
    out: str
    files: tuple[tuple[str, str], ...]


class Caller:
    """Calls firth with the placeholders of an example filled in; the same call is made only once."""

    def __init__(self, firth: Firth, shelf: Shelf, folder: Path) -> None:
        self._firth, self._shelf, self._folder = firth, shelf, folder
        self._seen: dict[str, Seen] = {}
        self.calls, self.error = 0, ""

    def __call__(self, verb: str, arguments: str) -> Seen:
        if arguments not in self._seen:
            self._seen[arguments] = self.fresh(verb, arguments)
        return self._seen[arguments]

    def fresh(self, verb: str, arguments: str) -> Seen:
        self.calls += 1
        out = self._folder / str(self.calls)
        out.mkdir()
        for name, text in FILES.get(verb, {}).items():
            (out / name).write_text(text, encoding="utf-8")
        names = {name: self._shelf[name] for name in re.findall(r"{(\w+)}", arguments) if name != "out"}
        given = [part.format(out=out, **names) for part in shlex.split(arguments)]
        answer = self._firth(*verb.split(), *given, stdin=STDIN.get(verb, b"the list\n"))
        self.error = answer.err
        files = (path for path in sorted(out.rglob("*")) if path.is_file() and not _WITH_TIMES & set(path.parts[-2:]))
        kept = ((str(path.relative_to(out)), _digest(path)) for path in files)
        return Seen(answer.code, _TIMES.sub("", answer.out.replace(str(out), "OUT")), tuple(kept))


def _digest(path: Path) -> str:
    """The header of a safetensors file has its keys in any order."""
    content = path.read_bytes()
    return hashlib.sha256(bytes(sorted(content)) if path.suffix in (".safetensors", ".firth") else content).hexdigest()


@pytest.fixture(scope="session")
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(request, tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def call(firth: Firth, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    _print_instead_of_serving(monkeypatch)
    return Caller(firth, shelf, tmp_path)


def _print_instead_of_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server prints what it would be started with, and ends."""

    def listen(host: str, port: int) -> SimpleNamespace:
        print("listen", host, port)
        return SimpleNamespace(getsockname=lambda: (host, port), close=lambda: None)

    def load(*given: Any, **named: Any) -> list[Any]:
        print("load", given, named)
        return []

    def serve(models: Any, listener: Any, *, limits: Any, keys: Any, drain: float, processes: int = 1, **named: Any) -> None:
        print("serve", limits, bool(keys), drain, processes)

    def lab(library: Any, listener: Any, address: str, token: str, *, open_browser: bool) -> None:
        listener.close()
        print(library.runs, library.vectors, library.corpora, library.lessons, address.partition("?")[0])

    monkeypatch.setattr("firth.serving.http.server.listen", listen)
    monkeypatch.setattr("firth.serving.http.models.load_models", load)
    monkeypatch.setattr("firth.serving.http.server.serve", serve)
    monkeypatch.setattr("firth.serving.http.supervisor.serve_by_fronts", serve)
    monkeypatch.setattr("firth.cli.lab._serve", lab)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_an_example_or_a_reason(verb: str) -> None:
    shown = {option for examples in BASES.get(verb, {}).values() for option in examples}
    told = set(NEUTRAL.get(verb, {}))
    assert shown | told | {"--json"} >= set(OPTIONS[verb]), "add an example, or a reason, to option_examples.py"
    assert shown | told | set(NEUTRAL_IN_JSON.get(verb, {})) <= set(OPTIONS[verb]), "an option that is no longer there"
    assert not shown & told


def _examples(verb: str) -> Iterator[tuple[str, str, list[str]]]:
    """An option, how its output is read, and the arguments of each of its values."""
    modes = ("", "--json") if "--json" in OPTIONS[verb] else ("",)
    for base, examples in BASES[verb].items():
        for option, values in examples.items():
            for mode in modes if "--json" not in base else ("",):
                if mode and option in NEUTRAL_IN_JSON.get(verb, {}):
                    continue
                yield option, mode, [f"{base} {value} {mode}" for value in values]


def _walk(verb: str, call: Caller) -> None:
    wrong: list[str] = []
    first = next(arguments for _, _, arguments in _examples(verb))[0].replace("!", "")
    assert call(verb, first) == call.fresh(verb, first), "the same arguments must give the same bytes, or the walk shows nothing"
    for _, _, several in _examples(verb):
        seen: dict[Seen, str] = {}
        for arguments in several:
            outcome = call(verb, arguments.replace("!", ""))
            if outcome.code != (2 if "!" in arguments else 0):
                wrong.append(f"{verb} {arguments} ends with {outcome.code}: {call.error}")
            elif outcome in seen:
                wrong.append(f"{verb} {arguments} gives the same as {seen[outcome]}")
            seen[outcome] = arguments
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("verb", sorted(set(BASES) - LONG))
def test_every_option_changes_the_output(verb: str, call: Caller) -> None:
    _walk(verb, call)


@pytest.mark.long
@pytest.mark.parametrize("verb", sorted(LONG))
def test_every_option_of_a_verb_that_takes_time_changes_the_output(verb: str, call: Caller) -> None:
    _walk(verb, call)


@pytest.mark.parametrize("verb", [verb for verb in BASES if "--json" in OPTIONS[verb] and verb not in LONG])
def test_json_is_json(verb: str, call: Caller) -> None:
    arguments = next(several[0] for _, mode, several in _examples(verb) if mode)
    outcome = call(verb, arguments)
    assert outcome.code == 0, call.error
    assert json.loads(outcome.out) is not None


REFUSED = {
    "align {search} '1 2' 'one two' --beam 2": "--beam",
    "caption {captioner} {image} --penalty 1": "--penalty",
    "caption {captioner} {image} --sample --penalty 1": "--penalty",
    "complete {bpe} 'the __' --candidates list --proposals 3": "--proposals",
    "evaluate {rotary} --seed 1": "--seed",
    "evaluate {rotary} --rotary-scaling ntk": "rotary_scaling",
    "evaluate {rotary} --beside {char}": "--beside",
    "evaluate {swaps} --beside {swaps2}": "--save",
    "evaluate {translator} --target {names}": "--target",
    "generate {char} the --diversity 1 --beam 2": "--diversity",
    "generate {char} the --penalty 1": "--penalty",
    "inspect {char} the --what states --head 1": "--head",
    "playground 'the list' --limit 1": "--limit",
    "playground 'the list' --vectors {vectors} --width 6": "--width",
    "playground 'the list' --vectors {vectors} --seed 1": "--seed",
    "playground --example roles --width 6": "--width",
    "playground --seed 1": "--seed",
    "search {text2} the --layer 0": "--layer",
    "search {text2} the --lower": "--lower",
    "search {text2} the --strip-punctuation": "--strip-punctuation",
    "search {text2} the --vectors {vectors} --method tfidf": "--vectors",
    "search {text2} the --run {bpe} --method tfidf": "--run",
    "search {text2} the --field other": "field",
    "search --evaluate --field other": "--field",
    "senses {bpe} --wic --layer -1": "--layer",
    "tokenize {char} the --vocab 300": "--vocab",
    "tokenize {char} the --kind bpe": "--kind",
    "translate {translator} '1 2' --penalty 1": "--penalty",
    "translate {translator} '1 2' --sample --diversity 1": "--diversity",
    "translate {translator} '1 2' --beam 2 --diversity 1": "--diversity",
    "vectors axis {vectors} the is --words a --top 3": "--top",
    "vectors axis {vectors} the is --words a --restrict-vocab 3": "--restrict-vocab",
    "vectors contexts {text2} list --nearest 3": "--nearest",
    "vectors cooccur 'the list is' --format txt": "format",
    "vectors evaluate {vectors} --composition --restrict-vocab 3": "--restrict-vocab",
    "vectors evaluate {vectors} --composition --case-sensitive": "--case-sensitive",
    "vectors map {vectors} --out {out}/map.html --seed 1": "--seed",
    "vectors pairs 'the list is' --field other": "field",
    "vectors pairs {text2} --field other": "field",
    "vectors pairs - --field other": "field",
    "vectors train {text2} --out {out}/v.firth --loss hs --negatives 3": "--negatives",
}


@pytest.mark.parametrize("command", REFUSED)
def test_an_option_that_would_change_nothing_is_refused_by_name(command: str, call: Caller) -> None:
    outcome = call("", command)
    assert (outcome.code, outcome.out, outcome.files) == (2, "", ()), call.error
    assert REFUSED[command] in call.error
    assert call.error.count("\n") == 1
