"""What a signal handler raises is known as that, whatever kind of handler it is."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from dpq import DPQ
from dpq.model.interrupts import expected, interruption

NUMBER = signal.SIGUSR1


class TimeLimit(ValueError):
    """Of a kind that damaged data raise too."""


def limit(*_: object) -> None:
    raise TimeLimit


class Limiter:
    def limit(self, *_: object) -> None:
        raise TimeLimit

    def __call__(self, *_: object) -> None:
        raise TimeLimit


HANDLERS: dict[str, Callable[..., Any]] = {
    "function": limit,
    "method": Limiter().limit,
    "object": Limiter(),
    "partial": partial(limit, 1),
    "partial of a partial": partial(partial(Limiter().limit, 1), 2),
    "partial of an object": partial(Limiter(), 1),
}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(NUMBER)
    yield
    signal.signal(NUMBER, before)


@pytest.mark.parametrize("kind", HANDLERS)
def test_any_handler_interrupts(kind: str) -> None:
    """Its error is an interruption; one of the same type that a call has met is none."""
    signal.signal(NUMBER, HANDLERS[kind])
    with pytest.raises(TimeLimit) as caught:
        signal.raise_signal(NUMBER)
    assert interruption(caught.value) is caught.value
    assert not expected(caught.value)
    with pytest.raises(TimeLimit) as met:
        raise TimeLimit
    assert interruption(met.value) is None
    assert expected(met.value)


def test_what_a_program_deals_with_interrupts_no_call() -> None:
    """Who calls DPQ after a time limit, to say so, gets the error of that call."""
    signal.signal(NUMBER, limit)
    with DPQ(Redis(unix_socket_path="/nowhere/socket", retry=None), "name") as q:
        try:
            signal.raise_signal(NUMBER)
        except TimeLimit:
            with pytest.raises(RedisConnectionError):
                q.push("too late")
