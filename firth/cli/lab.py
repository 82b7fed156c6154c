"""firth lab"""

from __future__ import annotations

import contextlib
import errno
import math
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import complain, debugging, verb
from firth.errors import ConfigError, RunError, did_you_mean
from firth.files import exists, is_file, is_folder

if TYPE_CHECKING:
    from firth.serving.lab.library import RunLibrary

_PORT = 8421
_OWN_RUNS = Path("runs")  # where README and the docs put runs
_ATTEMPTS = 20  # ports to try, one after the other
_GRACE = 2  # seconds that the lab waits for unfinished responses when it closes


@verb()
def lab(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]…",
            help="Run folders, folders that contain runs, or files of word vectors. [default: ./tour and ./runs]",
            show_default=False,
        ),
    ] = None,
    vectors: Annotated[list[Path] | None, typer.Option(help="File of word vectors. Repeat the option for several files.")] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="Text in which to look up words: a file, or a data set such as wiki8. Repeatable.")
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port of the page. If it is taken, the next free one is used.", min=0, max=65535)
    ] = _PORT,
    lesson: Annotated[list[Path] | None, typer.Option(help="Lesson of your own, a TOML file. Repeatable.")] = None,
    classroom: Annotated[
        bool, typer.Option("--classroom", help="Let students on the local network answer the questions of lessons.")
    ] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
) -> None:
    """Explore your runs in a web page on this machine.

    Its rooms show word vectors, text generation, attention, translations, attention dynamics, model sizes and learning curves.
    The address contains a token, without which other users of this machine cannot use the lab. Press Ctrl-C to close the lab.
    """
    library = _library(runs or [], vectors or [], corpus or [], _lessons(lesson or []))
    listener = _listener(port)
    token = secrets.token_urlsafe(24)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}"
    if not library.runs and not library.vectors:
        complain("note: there is no run in ./tour or ./runs; the page explains how to train one")
    with _classroom(library, port and port + 1) if classroom else contextlib.nullcontext():
        _serve(library, listener, address, token, open_browser=not no_open)


def _lessons(files: list[Path]) -> tuple[Path, ...]:
    """The files. Each is read once, so that a mistake in it is reported before the page opens."""
    from firth.serving.lab.lab_lesson import read_lesson

    for path in files:
        read_lesson(path)
    return tuple(files)


@contextlib.contextmanager
def _classroom(library: RunLibrary, port: int) -> Iterator[None]:
    """While the block runs, students can join on the local network."""
    import uvicorn

    from firth.serving.bounded_protocol import Connections
    from firth.serving.lab.app import refusal
    from firth.serving.lab.classroom import LIMITS, Classroom, build_classroom

    listener = _listener(port, "0.0.0.0")
    library.classroom = room = Classroom()
    room.address = f"http://{_own_address()}:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        build_classroom(room), http=Connections(LIMITS, refusal).protocol(), ws="none", log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    print(f"Students join at {room.address} with the code {room.code}", flush=True)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_GRACE)
        listener.close()


def _own_address() -> str:
    """The address of this machine on the local network. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation, which only chooses the interface
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _library(runs: list[Path], vectors: list[Path], corpora: list[str], lessons: tuple[Path, ...]) -> RunLibrary:
    from firth.serving.lab.library import RunLibrary, tour_library

    vectors = [*(path for path in runs if is_file(path)), *vectors]
    runs = [path for path in runs if not is_file(path)]
    for path in runs:
        if not is_folder(path):
            raise RunError(f"{path} is not a folder; give a run made with `firth train RECIPE --out {path}`, or a folder of runs")
        if not RunLibrary([path]).runs:
            raise RunError(f"{path} contains no run; give a folder made with `firth train RECIPE --out RUN`")
    for path in vectors:
        if not is_file(path):
            raise ConfigError(f"{path} is not a file; give word vectors made with `firth vectors train`")
        if not path.stat().st_size:
            raise ConfigError(f"{path} is empty; give word vectors made with `firth vectors train`")
    for name in corpora:
        _check_corpus(name)
    if runs or vectors:
        return RunLibrary(runs, vectors, corpora, lessons)
    tour = tour_library()
    own = [_OWN_RUNS] if _OWN_RUNS.is_dir() else []
    return RunLibrary([*tour.places, *own], list(tour.vectors.values()), corpora, lessons)


def _check_corpus(name: str) -> None:
    from firth.text.data.running_text import has_files
    from firth.text.data_set import DATA_SETS

    if not has_files(name) and not exists(Path(name).expanduser()) and not set(name) & set("*?["):
        raise ConfigError(f'there is no file or data set "{name}".{did_you_mean(name, DATA_SETS.kinds)}')


def _listener(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A socket at `port` or the next free one."""
    for number in range(port, min(port + _ATTEMPTS, 65536)):
        try:
            listener = socket.create_server((host, number))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            complain(f"note: port {number} is taken; trying the next")
        else:
            return listener
    raise ConfigError(f"no port from {port} to {number} is free; choose another with --port")


def _serve(library: RunLibrary, listener: socket.socket, address: str, token: str, *, open_browser: bool) -> None:
    import uvicorn

    from firth.serving.bounded_protocol import Connections
    from firth.serving.lab.app import LIMITS, build, refusal
    from firth.serving.lab.streaming import warnings_as_notes
    from firth.serving.lab.warm import warm_up

    class LabServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"The lab is open at {address} (Ctrl-C closes it)", flush=True)
            if open_browser:
                import webbrowser

                webbrowser.open(address)
            threading.Thread(target=warm_up, name="warm up").start()  # no daemon: torch aborts a process that ends meanwhile

    level = "info" if debugging() else "error"
    connections = Connections(LIMITS, refusal)
    config = uvicorn.Config(
        build(library, token=token),
        http=connections.protocol(),
        ws="none",
        lifespan="off",
        log_level=level,
        timeout_keep_alive=math.ceil(LIMITS.idle_seconds),
        timeout_graceful_shutdown=_GRACE,
    )
    try:
        with warnings_as_notes():
            LabServer(config).run(sockets=[listener])
    except KeyboardInterrupt:  # some versions of uvicorn raise it after a clean shutdown by Ctrl-C
        pass
    finally:
        listener.close()
    print("The lab is closed.")
