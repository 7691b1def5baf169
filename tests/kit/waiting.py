"""What tests of waiting share: who waits at the server, and what ends a wait."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from support import PATIENCE_S, wait_for

from dpq.link import watches

PATIENCE = float(PATIENCE_S)
LONG = 150.0  # seconds of a wait that ends by itself when a test has given up


def wait_until(what: str, met: Callable[[], Any]) -> None:
    """Poll a named condition."""
    give_up = time.monotonic() + PATIENCE
    while not (seen := met()):
        assert time.monotonic() < give_up, f"{what}: not within {PATIENCE} s, last seen {seen!r}"
        time.sleep(0.005)


def blocked(redis: Redis) -> list[dict[str, Any]]:
    """The clients that wait for a marker."""
    return [c for c in redis.client_list() if c["cmd"] == "bzpopmin" and "b" in c["flags"]]


def wait_for_waiters(redis: Redis, count: int) -> None:
    """Until so many are blocked; fakeredis cannot say, and a waiter may come late there."""
    if type(redis) is Redis:
        wait_until(f"{count} blocked waiters", lambda: len(blocked(redis)) == count)


def wait_for_idle(redis: Redis, count: int = 1) -> None:
    wait_for(lambda: len(blocked(redis)) == count, lambda: blocked(redis))


def recheck(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let what waits, of either kind, look by itself after so many seconds."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", seconds)


def kill_all(redis: Redis) -> None:
    """CLIENT KILL of everything but this client."""
    mine = redis.client_id()
    for client in redis.client_list():
        if int(client["id"]) != mine:
            redis.client_kill_filter(_id=client["id"])
