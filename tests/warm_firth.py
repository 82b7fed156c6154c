"""A `firth` for shell scripts that starts in milliseconds: its processes are forked from one that has imported torch.

The command itself is a few lines that hand its arguments, folder, environment and streams to that process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_SERVER = """
import json, os, signal, socket, sys, traceback
import torch._dynamo, safetensors.torch, rich.progress
import firth.api, firth.cli.verbs, firth.cli.train, firth.progress.display, firth.vectors.trainer
from firth.cli import main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with socket.socket(socket.AF_UNIX) as door:
    door.bind(sys.argv[1])
    door.listen()
    print("ready", flush=True)
    while True:
        caller, _ = door.accept()
        if not os.fork():
            break
        caller.close()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
size = int.from_bytes(caller.recv(4, socket.MSG_WAITALL), "big")
message, streams, _, _ = socket.recv_fds(caller, size, 3)
while len(message) < size:
    message += caller.recv(size - len(message))
for place, stream in enumerate(streams):
    os.dup2(stream, place)
order = json.loads(message)
os.chdir(order["folder"])
os.environ.clear()
os.environ.update(order["environment"])
sys.argv = ["firth", *order["arguments"]]
code = 1
try:
    main()
except SystemExit as end:
    code = end.code or 0
except BaseException:
    traceback.print_exc()
sys.stdout.flush()
sys.stderr.flush()
caller.sendall(bytes([code]))
os._exit(0)  # not through Python's own clearing up, which takes a second where so much is imported
"""

_COMMAND = """#!{python} -IS
import json, os, socket, sys
order = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
message = json.dumps(order).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({door!r})
    server.sendall(len(message).to_bytes(4, "big"))
    sent = socket.send_fds(server, [message], [0, 1, 2])
    server.sendall(message[sent:])
    sys.exit((server.recv(1) or bytes([1]))[0])
"""


@contextlib.contextmanager
def warm_firth(folder: Path) -> Iterator[Path]:
    """A folder for PATH, with the command in it."""
    door, commands = folder / "door", folder / "bin"
    commands.mkdir(parents=True)
    command = commands / "firth"
    command.write_text(_COMMAND.format(python=sys.executable, door=str(door)), encoding="utf-8")
    command.chmod(0o755)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", _SERVER, str(door)], stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield commands
        server.kill()
