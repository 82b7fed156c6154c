"""firth lab"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import complain, debugging, verb
from firth.errors import ConfigError, RunError

if TYPE_CHECKING:
    from firth.serving.lab.shelf import Shelf

_PORT = 8421
_TRIED = 20  # ports, one after the other
_PATIENCE = 2  # seconds that an answer under way is waited for when the lab closes


@verb()
def lab(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]…", help="Run folders, or folders that hold runs; what `firth tour` left, if none.", show_default=False
        ),
    ] = None,
    vectors: Annotated[list[Path] | None, typer.Option(help="A file of word vectors; may be given several times.")] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="A text to look up contexts of words in: a file, or a named data set such as wiki8.")
    ] = None,
    port: Annotated[
        int, typer.Option(help="Where the page is; the next that is free, if it is taken.", min=0, max=65535)
    ] = _PORT,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
) -> None:
    """Open a page that looks into models: words, attention, generation, dynamics, training curves. Ctrl-C closes it."""
    shelf = _shelf(runs or [], vectors or [], corpus or [])
    listening = _listening(port)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    if not shelf.runs and not shelf.vectors:
        complain("note: no runs given and none of `firth tour` in this folder; the page says how to make some")
    _serve(shelf, listening, address, opening=not no_open)


def _shelf(runs: list[Path], vectors: list[Path], corpora: list[str]) -> Shelf:
    from firth.serving.lab.shelf import Shelf, from_tour

    for path in runs:
        if not path.is_dir():
            raise RunError(
                f"{path} is not a folder; expected a run made by `firth train RECIPE --out {path}`, or a folder of runs"
            )
        if not Shelf([path]).runs:
            raise RunError(f"{path} holds no run; expected a folder made by `firth train RECIPE --out RUN`, or a folder of those")
    for path in vectors:
        if not path.is_file():
            raise ConfigError(f"{path} is not a file; expected word vectors, as `firth vectors train` writes them")
        if not path.stat().st_size:
            raise ConfigError(f"{path} is empty; expected word vectors, as `firth vectors train` writes them")
    for name in corpora:
        _check_corpus(name)
    if runs or vectors:
        return Shelf(runs, vectors, corpora)
    tour = from_tour()
    return Shelf(tour.places, list(tour.vectors.values()), corpora)


def _check_corpus(name: str) -> None:
    from firth.errors import did_you_mean
    from firth.text.datasets.catalog import CATALOG

    if name not in CATALOG and not Path(name).expanduser().exists() and not set(name) & set("*?["):
        raise ConfigError(f'there is neither a file nor a data set "{name}" to look words up in.{did_you_mean(name, CATALOG)}')


def _listening(port: int) -> socket.socket:
    """A socket on this machine's own address, at `port` or the next that is free."""
    for number in range(port, min(port + _TRIED, 65536)):
        try:
            listening = socket.create_server(("127.0.0.1", number))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            complain(f"note: port {number} is taken; trying the next")
        else:
            return listening
    raise ConfigError(f"no port from {port} to {number} is free; give another with --port")


def _serve(shelf: Shelf, listening: socket.socket, address: str, *, opening: bool) -> None:
    import uvicorn

    from firth.serving.lab.app import build
    from firth.serving.lab.streaming import notices

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"The lab is open at {address} (Ctrl-C closes it)", flush=True)
            if opening:
                import webbrowser

                webbrowser.open(address)

    level = "info" if debugging() else "error"
    config = uvicorn.Config(build(shelf), log_level=level, timeout_graceful_shutdown=_PATIENCE)
    try:
        with notices():
            Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # some versions of uvicorn tell so of Ctrl-C, which is how a lab ends, after closing everything
        pass
    finally:
        listening.close()
    print("The lab is closed.")
