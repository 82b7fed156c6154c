"""The typer application, and what every verb shares: one-line errors, exit codes, JSON output."""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import importlib
import inspect
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, cast, get_type_hints

import typer

from firth.cli.suggestions import Verbs, asked_for_help
from firth.errors import ConfigError, FirthError, is_out_of_memory
from firth.version import __version__

if TYPE_CHECKING:
    from firth.api import Watcher

F = TypeVar("F", bound=Callable[..., Any])

app = typer.Typer(
    name="firth",
    cls=Verbs,
    help="Train, run and inspect word vectors, recurrent language models, attention and Transformers on your own text.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Latex = Annotated[bool, typer.Option("--latex", help="Print the table for a paper.")]
Seed = Annotated[int | None, typer.Option(help="Random seed for sampling. [default: the recipe's]")]


def _print_version(requested: bool) -> None:
    if requested:
        print(f"firth {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error; may appear anywhere.")] = False,
    use: Annotated[
        list[str] | None,
        typer.Option("--use", metavar="FILE", help="Python file with ideas of your own; may appear anywhere, and several times."),
    ] = None,
) -> None:
    """Options before the verb; main() removes --debug and --use."""


def verb(takes_settings: bool = False, within: typer.Typer = app) -> Callable[[F], F]:
    """Register a function as `firth NAME`, or as NAME in a group. A FirthError becomes one line on stderr and an exit code."""

    def register(function: F) -> F:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
            except FirthError as error:
                if debugging():
                    raise
                complain(error.for_command())
                raise typer.Exit(error.exit_code) from None
            except KeyboardInterrupt:
                complain("interrupted")
                raise typer.Exit(128 + signal.SIGINT) from None

        settings = {"allow_extra_args": True, "ignore_unknown_options": True} if takes_settings else {}
        within.command(name=function.__name__.rstrip("_"), context_settings=settings)(guarded)
        return function

    return register


def takes_options(place: str, options: Mapping[str, tuple[Any, Any]]) -> Callable[[F], F]:
    """Give a verb these options, each with its annotation and default, in the place of its argument `place`, where it finds the
    table of what was given; an option that may be repeated is None if it was not."""

    def changed(function: F) -> F:
        @functools.wraps(function)
        def wrapper(**given: Any) -> Any:
            table = {name: given.pop(name) for name in options}
            table = {name: value or None if isinstance(value, list) else value for name, value in table.items()}
            return function(**given, **{place: table})

        hints = get_type_hints(function, include_extras=True)
        own, parameters = inspect.Parameter.KEYWORD_ONLY, []
        for one in inspect.signature(function).parameters.values():
            if one.name == place:
                parameters += [
                    inspect.Parameter(name, own, default=usual, annotation=kind) for name, (kind, usual) in options.items()
                ]
            else:
                parameters.append(one.replace(annotation=hints[one.name], kind=own))
        del wrapper.__wrapped__  # typer would look there for the arguments
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
        return cast("F", wrapper)

    return changed


_SHOWN = 200  # characters of a file name in a message
# Errors of the operating system, which are not bugs in firth.
_OF_THE_SYSTEM = frozenset(
    number
    for name in ("ENAMETOOLONG", "EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ELOOP", "EMFILE", "ENFILE", "EIO", "ESTALE")
    if (number := getattr(errno, name, None)) is not None
)
# click's UsageError. Since 0.2x typer bundles its own click, so there is no single name to import it by.
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])


def main() -> None:
    """The entry point of `firth`."""
    if "--debug" in sys.argv[1:]:
        sys.argv = [sys.argv[0], *(argument for argument in sys.argv[1:] if argument != "--debug")]
        os.environ["FIRTH_DEBUG"] = "1"
    _use_utf8()
    warnings.showwarning = _Notes().show
    try:
        command = without_use(sys.argv[1:])
        importlib.import_module("firth.cli.verbs")
        if "firth.tasks.ability" in sys.modules:  # only a file or package with ideas has imported it, and may have added some
            importlib.import_module("firth.cli.own_verbs").add()
        groups = {group.name for group in app.registered_groups if group.name is not None}
        sys.exit(app(asked_for_help(command, groups) or ["--help"], prog_name="firth", standalone_mode=False))
    except _UsageError as error:
        if debugging():
            raise
        name = error.ctx.command_path if error.ctx else "firth"
        message = error.format_message().rstrip(".")
        complain(f"{message} See `{name} --help`" if message.endswith("?") else f"{message}; see `{name} --help`")
        sys.exit(2)
    except FirthError as error:  # from an option that is checked before its verb begins
        if debugging():
            raise
        complain(error.for_command())
        sys.exit(error.exit_code)
    except BrokenPipeError:  # `firth generate … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + 13)
    except Exception as error:
        if debugging():
            raise
        if type(error).__name__ == "OutOfMemoryError":  # torch's, by its name: torch may not be imported
            complain("the GPU ran out of memory. Lower training.batch or training.context, or raise training.accumulate.")
            sys.exit(1)
        if is_out_of_memory(error):
            complain(
                "there is not enough memory for this. Use a smaller model, fewer or shorter texts at once, or a smaller beam."
            )
            sys.exit(1)
        if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
            name = f"{str(error.filename)[:_SHOWN]}: " if error.filename else ""
            complain(f"{name}{error.strerror}")
            sys.exit(2)
        complain(f"internal error: {type(error).__name__}: {error}. This is a bug in firth; run again with --debug to see where")
        sys.exit(1)


def _use_utf8() -> None:
    """Pipes and redirected files are UTF-8, as the files are that firth writes; on Windows, Python would choose another encoding.
    A terminal keeps its own, and shows ? for what that lacks."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or codecs.lookup(stream.encoding).name == "utf-8":
            continue
        if stream.isatty() or "PYTHONIOENCODING" in os.environ:
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def without_use(command: Sequence[str]) -> list[str]:
    """The command without every --use FILE; the files are used, so that the options of the verbs know their ideas."""
    from firth import ideas

    ideas.use_installed()
    left: list[str] = []
    arguments = iter(command)
    for argument in arguments:
        if argument == "--":
            return [*left, argument, *arguments]
        name, equals, value = argument.partition("=")
        if name != "--use":
            left.append(argument)
        elif file := value if equals else next(arguments, ""):
            ideas.use(file)
        else:
            raise ConfigError("--use needs a file. Write --use FILE.")
    return left


def debugging() -> bool:
    return bool(os.environ.get("FIRTH_DEBUG"))


def complain(message: str) -> None:
    print(f"firth: {' '.join(message.split())}", file=sys.stderr)


@contextlib.contextmanager
def watching(label: str = "training") -> Iterator[Watcher]:
    """A Watcher that shows the training on stderr while the context lasts."""
    from firth.api import Watcher
    from firth.progress.display import Display

    with Display(label) as display:
        yield Watcher(work=display.work, begin=display.begin, step=display.step, notice=complain)


def refuse_given(options: Mapping[str, Any], reason: str) -> None:
    """Refuse the first of these options that is set: an option without effect is an error, never ignored."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"--{name.replace('_', '-')} {reason}")


def destination(given: Path | None, out: Path | None, name: str) -> Path:
    """The output path: --out, or the argument `name`, which older versions required."""
    if out is None and given is None:
        raise ConfigError("no output was given. Add --out.")
    if out is not None and given is not None:
        raise ConfigError(f"{name} is {given}, but --out is {out}. Remove one of them.")
    return cast(Path, given if out is None else out)


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


class PrintedReport(Protocol):
    """What several runs gave, in every form that a verb prints."""

    def text(self) -> str: ...
    def csv(self) -> str: ...
    def latex(self) -> str: ...
    def facts(self) -> Any: ...


def expect_one_form(as_csv: bool, as_latex: bool, as_json: bool) -> None:
    if as_csv + as_latex + as_json > 1:
        raise ConfigError("give one of --csv, --latex and --json")


def print_report(report: PrintedReport, figures: Path | str, *, as_csv: bool, as_latex: bool, as_json: bool) -> None:
    """The report in the form that was asked for; as text with the path of its figures, if there are any."""
    if as_json:
        print_json(report.facts())
    elif as_csv or as_latex:
        print(report.csv() if as_csv else report.latex(), end="")
    else:
        print(report.text() + (f"\n\nFigures: {figures}" if figures else ""))


class _Notes:
    """Print warnings as notes on stderr, each only once: the evaluation after training reads the same data again."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def show(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        # On a processor without bfloat16, torch prints many lines about the kernel it uses instead.
        told = issubclass(category, UserWarning) and not str(message).startswith("mkldnn_matmul failed, switching to BLAS")
        if (told or debugging()) and str(message) not in self._told:
            self._told.add(str(message))
            complain(f"note: {message}")
