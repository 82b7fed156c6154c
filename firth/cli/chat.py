"""firth chat"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import complain, verb
from firth.cli.decoding_options import Draft, Quantise, Settings, check_beam, quantisation, takes_decoding, tell_quantised
from firth.cli.lines import given
from firth.errors import FirthError

if TYPE_CHECKING:
    from firth.decoding.config import DecodingConfig
    from firth.tasks.next_token import LanguageModelRun
    from firth.text.conversation import Message

_PROMPT = "> "
_COMMANDS = "/reset forgets the conversation, /exit or Ctrl-D ends it, Ctrl-C stops an answer"


@verb()
@takes_decoding()
def chat(
    run: Annotated[
        Path, typer.Argument(help="Run folder of a model trained on conversations, or public model with a chat template.")
    ],
    decoding: Settings,
    system: Annotated[str | None, typer.Option(help="System message. [default: none]")] = None,
    quantise: Quantise = None,
    draft: Draft = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, one for each answer.")] = False,
) -> None:
    """Talk to a model; it remembers the conversation."""
    from firth.api import load
    from firth.tasks.abilities.drafting import check_draft
    from firth.tasks.ability import CHAT, GENERATE

    model: LanguageModelRun = load(run, kind=CHAT, quantise=quantisation(quantise))
    tell_quantised(model)
    _ = model.format  # a chat template with a mistake is refused now
    config = model.generation(decoding)
    check_beam(config, 1, decoding)
    drafting = None if draft is None else load(draft, kind=GENERATE)
    check_draft(model, drafting, config)
    by_hand = sys.stdin.isatty() and not as_json
    if by_hand:
        print(_COMMANDS, file=sys.stderr)
    lines = _typed() if by_hand else given(None, None, forgiving=True)
    _converse(model, config, lines, system, as_json, drafting)


def _converse(
    model: LanguageModelRun,
    config: DecodingConfig,
    lines: Iterable[str],
    system: str | None,
    as_json: bool,
    draft: LanguageModelRun | None = None,
) -> None:
    from firth.text.conversation import Message

    system_messages = [] if system is None else [Message("system", system)]
    history: list[Message] = list(system_messages)
    for line in lines:
        match line.strip():
            case "":
                continue
            case "/exit":
                return
            case "/reset":
                history = list(system_messages)
                continue
            case command if command.startswith("/"):
                complain(f'unknown command "{command.split()[0]}"; {_COMMANDS}')
                continue
            case question:
                asked = [*history, Message("user", question)]
        try:
            answer = _answer(model, config, draft, asked, as_json)
        except FirthError as error:  # such as a question longer than the context: ask another one
            complain(error.for_command())
            continue
        # an answer that was stopped before its first word leaves no round behind
        history = [*asked, Message("assistant", answer)] if answer.strip() else history


def _answer(
    model: LanguageModelRun, config: DecodingConfig, draft: LanguageModelRun | None, messages: list[Message], as_json: bool
) -> str:
    """Print the answer while it is generated and return it; after Ctrl-C, the part generated so far."""
    from firth.decoding.search.speculative import Acceptance

    pieces: list[str] = []
    counts = Acceptance()
    stopped = False
    try:
        for piece in model.reply(messages, config, draft, counts):
            pieces.append(piece)
            if not as_json:
                print(piece, end="", flush=True)
    except KeyboardInterrupt:
        stopped = True
    answer = "".join(pieces)
    if as_json:
        reply = {"prompt": messages[-1].content, "answer": answer, "stopped": stopped}
        reply |= {} if draft is None else dataclasses.asdict(counts)
        print(json.dumps(reply, ensure_ascii=False), flush=True)
    else:
        print(" [stopped]" if stopped else "", flush=True)
    return answer


def _typed() -> Iterator[str]:
    """Lines typed in a terminal, until Ctrl-D; Ctrl-C abandons a line."""
    import contextlib

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # input() then has a history and arrow keys
    while True:
        try:
            yield input(_PROMPT)
        except KeyboardInterrupt:
            print(file=sys.stderr)
        except EOFError:
            print(file=sys.stderr)
            return
