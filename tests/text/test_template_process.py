"""The processes in which chat templates run: they are shared by threads, not by forks, and end with the one who asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from firth.errors import DataError, FirthError
from firth.text import template_process
from firth.text.chat_template import ChatTemplate
from firth.text.conversation import Message
from firth.text.template_frames import MEMORY

ECHO = ChatTemplate("{% for message in messages %}{{ message.content }}{% endfor %}")
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    template_process._pool.close()
    yield
    template_process._pool.close()


def workers() -> list[int]:
    return [worker.process.pid for worker in template_process._pool.workers]


def said(text: str) -> str:
    return ECHO.render([Message("user", text)])


def gone(process: int) -> bool:
    for _ in range(600):
        if not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_one_process_serves_one_thread_and_knows_nothing_of_torch() -> None:
    assert [said(str(number)) for number in range(20)] == [str(number) for number in range(20)]
    [worker] = template_process._pool.workers
    assert worker.limits == {"AS": MEMORY, "DATA": MEMORY, "NOFILE": 3, "NPROC": 0, "FSIZE": 0, "CORE": 0}
    assert psutil.Process(worker.process.pid).memory_info().rss < 40 << 20


def test_what_comes_back_is_what_was_sent() -> None:
    for text in ("", "ä \U0001f600\x00\n", "\ud800", "a" * 3_000_000, '"\\'):
        assert said(text) == text


def test_threads_get_their_own_answers_beside_a_template_that_does_not_end() -> None:
    answers: dict[int, list[str]] = {}

    def ask(thread: int) -> None:
        answers[thread] = [said(f"{thread} {number}") for number in range(5)]

    def do_not_end() -> None:
        with pytest.raises(DataError, match="was stopped"):
            ChatTemplate(ENDLESS).render([])

    stopped = threading.Thread(target=do_not_end)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in (stopped, *threads):
        thread.start()
    for thread in (stopped, *threads):
        thread.join()
    assert answers == {thread: [f"{thread} {number}" for number in range(5)] for thread in range(4)}
    assert len(workers()) <= template_process.WORKERS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, as of DataLoader on Linux")
def test_a_fork_has_processes_of_its_own() -> None:
    before = (said("a"), workers())
    child = subprocess.run(
        [sys.executable, "-c", _FORKING], capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert child.stdout.split() == ["child", "other", "parent", "same"], child.stderr
    assert before[1] == workers()


_FORKING = """
import os
from firth.text import template_process
from firth.text.chat_template import ChatTemplate
from firth.text.conversation import Message
template = ChatTemplate("{{ messages[0].content }}")
def process():
    return [worker.process.pid for worker in template_process._pool.workers]
own = process()
if (child := os.fork()) == 0:
    print(template.render([Message("user", "child")]), "other" if process() != own else "same", flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(template.render([Message("user", "parent")]), "same" if process() == own else "other")
"""


def test_a_process_that_was_killed_is_replaced() -> None:
    said("a")
    [first] = workers()
    os.kill(first, signal.SIGKILL)
    assert gone(first)
    assert said("b") == "b"
    assert workers() != [first]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "by Ctrl-C"])
def test_no_process_outlives_the_one_that_started_it(end: signal.Signals) -> None:
    """Also not one that is busy."""
    program = (
        "import sys, threading\nfrom firth.text import template_process\nfrom firth.text.chat_template import ChatTemplate\n"
        f"ChatTemplate('a').render([])\nendless = ChatTemplate({ENDLESS!r})\n"
        "print(*(one.process.pid for one in template_process._pool.workers), flush=True)\nendless.render([])\n"
    )
    asking = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert asking.stdout is not None
    process = int(asking.stdout.readline())
    asking.send_signal(end)
    _, error = asking.communicate()
    assert end != signal.SIGINT or "KeyboardInterrupt" in error
    assert gone(process)


def test_a_process_that_does_not_start_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, message in (("/no/such/python", "No such file"), ("false", "its process ended with the code 1")):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(FirthError, match=f"the process for chat templates did not start: .*{message}"):
            said("a")


def test_an_error_has_nothing_that_a_terminal_obeys() -> None:
    with pytest.raises(DataError) as caught:
        ChatTemplate("{{ raise_exception('a\x1b[2J\nb\x07') }}").render([])
    assert str(caught.value) == "the chat template refuses this conversation: a?[2J b?"


def test_where_the_system_does_not_limit_memory_somebody_watches_it() -> None:
    hungry = f"import time; x = bytearray({2 * MEMORY}); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", hungry]) as process:
        watch = template_process._Watch(process, 600.0, looks=True)
        assert process.wait() != 0
        watch.end()
    assert watch.verdict == "it needs more than 200 MB of memory"
    assert template_process.resident_bytes(os.getpid()) > 10 << 20
