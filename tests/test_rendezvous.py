"""Processes find each other, and not those of an earlier attempt, of which torchrun's store still holds everything."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from firth import rendezvous
from firth.rendezvous import RESTARTED, meet

WORLD, PATIENCE = 3, timedelta(seconds=30)
Step = Callable[[Store], Any]


@pytest.fixture
def store() -> Store:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)


def client(store: Any) -> Store:
    """Each process has its own connection; `get` keeps one busy while it waits."""
    return TCPStore("127.0.0.1", store.port, is_master=False, wait_for_workers=False, timeout=PATIENCE)


def attempt(store: Store, order: tuple[int, ...] = (0, 1, 2), before: Step = lambda store: None) -> list[Store]:
    """All ranks meet, started in `order`; `before` happens when all but the last of them are waiting."""
    with ThreadPoolExecutor(WORLD) as pool:
        meetings = {rank: pool.submit(meet, client(store), rank, WORLD, PATIENCE) for rank in order[:-1]}
        before(store)
        meetings[order[-1]] = pool.submit(meet, client(store), order[-1], WORLD, PATIENCE)
        return [meetings[rank].result(timeout=60) for rank in range(WORLD)]


def share_a_store(stores: list[Store], said: str) -> None:
    stores[0].set("said", said)
    assert [one.get("said").decode() for one in stores] == [said] * WORLD


def later_attempt(monkeypatch: pytest.MonkeyPatch, process: str = "another") -> None:
    monkeypatch.setattr(rendezvous, "_PROCESS", process)


def test_the_first_attempt_is_no_restart_and_the_second_one_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = attempt(store)
    assert [one.check([RESTARTED]) for one in first] == [False] * WORLD
    share_a_store(first, "first")
    later_attempt(monkeypatch)
    second = attempt(store)
    assert [one.check([RESTARTED]) for one in second] == [True] * WORLD
    assert not any(one.check(["said"]) for one in second), "keys of the first attempt"
    share_a_store(second, "second")


def test_a_process_that_is_early_does_not_take_the_last_attempt_for_this_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(store)
    later_attempt(monkeypatch)
    name = store.get(rendezvous._NAME)

    def answered(store: Store) -> None:
        """Rank 1 and 2 have read the old name, and answered to it."""
        for rank in (1, 2):
            while store.get(f"{name.decode()}/{rank}") == old[rank]:
                pass

    old = {rank: store.get(f"{name.decode()}/{rank}") for rank in (1, 2)}
    share_a_store(attempt(store, (1, 2, 0), answered), "second")


def test_two_trainings_of_the_same_processes_are_no_restart(store: Store) -> None:
    first, second = attempt(store), attempt(store)
    assert not any(one.check([RESTARTED]) for one in first + second)
    share_a_store(first, "first")
    assert not any(one.check(["said"]) for one in second)


def test_the_restarts_of_one_machine_are_those_of_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where torchrun makes a new store, and counts them on the machine of the process that failed."""

    def counted(store: Store) -> None:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")

    assert all(one.check([RESTARTED]) for one in attempt(store, (0, 1, 2), counted))


def test_whoever_is_not_met_gives_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(store)
    later_attempt(monkeypatch)
    alone, briefly = client(store), timedelta(seconds=0.2)
    alone.set_timeout(briefly)
    with pytest.raises(dist.DistStoreError, match=r"rank 1 was not met within 0\.2 seconds"):
        meet(alone, 1, WORLD, briefly)
    with pytest.raises(dist.DistError):
        meet(alone, 0, WORLD, briefly)
