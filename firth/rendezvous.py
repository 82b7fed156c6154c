"""Rendezvous of the processes that torchrun started, also after a failure.

torchrun keeps one store of keys and values for all attempts at a training. After a restart it still holds the addresses of
processes that are gone, and whoever reads one of these connects to nobody. The count of restarts does not tell the attempts
apart: each machine has its own. So each attempt gets a name of its own, under which all its keys lie:

    rank 0    writes the name, which nobody has used before
    rank r    reads the name and answers with a token of its own; it starts again whenever the name changes
    rank 0    when all have answered, writes their tokens
    rank r    has met the others if its token is among them. If not, the name is that of processes that are gone.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import torch.distributed as dist

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

RESTARTED = "restarted"  # a key that the store of an attempt has if there was one before
_PAUSE = 0.02  # seconds between two looks at the store
_NAME, _MARK = "firth/attempt", "firth/first"
_PROCESS = uuid4().hex  # this one


def join(backends: str, timeout: timedelta) -> None:
    """Make one group of the processes. They wait for each other for `timeout`, now and in each later exchange."""
    from torch.distributed.rendezvous import rendezvous

    store, rank, world = next(rendezvous("env://", timeout=timeout))
    store.set_timeout(timeout)
    own = meet(store, rank, world, timeout)
    dist.init_process_group(backends, store=own, rank=rank, world_size=world, timeout=timeout)


def meet(store: Store, rank: int, world: int, timeout: timedelta) -> Store:
    """The store of this attempt, once all its processes have come."""
    from torch._C._distributed_c10d import PrefixStore

    token = json.dumps({"of": uuid4().hex, "restarts": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))})
    return PrefixStore(_invite(store, world, token) if rank == 0 else _answer(store, rank, token, timeout), store)


def _invite(store: Store, world: int, token: str) -> str:
    first = store.compare_set(_MARK, "", _PROCESS).decode()  # the rank 0 of the first attempt leaves its mark
    name = f"firth/{uuid4().hex}"
    store.set(_NAME, name)
    tokens = [token, *(store.get(f"{name}/{rank}").decode() for rank in range(1, world))]  # `get` waits
    if first != _PROCESS or any(json.loads(one)["restarts"] for one in tokens):
        store.set(f"{name}/{RESTARTED}", "1")
    store.set(f"{name}/met", json.dumps(tokens))
    return name


def _answer(store: Store, rank: int, token: str, timeout: timedelta) -> str:
    answered, until = "", time.monotonic() + timeout.total_seconds()
    while time.monotonic() < until:
        name = store.get(_NAME).decode()
        if name != answered:
            store.set(f"{name}/{rank}", token)
            answered = name
        if store.check([f"{name}/met"]) and token in json.loads(store.get(f"{name}/met")):
            return name
        time.sleep(_PAUSE)
    raise dist.DistStoreError(f"rank {rank} was not met within {timeout.total_seconds():g} seconds")
