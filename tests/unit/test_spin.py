"""Looking for a reply before sleeping: how long, and when it is given up."""

import socket
from itertools import count, pairwise

import pytest
from redis.exceptions import ConnectionError

from dpq.transport import spin as spinning
from dpq.transport.spin import (
    HITS_FOR_A_MISS,
    LOOKS,
    LOOKS_AT_ONCE,
    LOOKS_OF_REDIS_PY,
    LOST_SECONDS,
    MOST_MISSES,
    MOST_SCRIPTS,
    Spin,
)


@pytest.fixture(autouse=True)
def never_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks take no time: a busy machine would else hold them up."""
    monkeypatch.setattr(spinning, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(spinning, "thread_time", lambda: 0.0)


class Connection:
    """Has something to read after so many looks."""

    def __init__(self, after: float) -> None:
        self.after = after
        self.looks = 0

    def can_read(self, timeout: float) -> bool:
        assert timeout == 0
        self.looks += 1
        return self.looks > self.after


NEAR, FAR = 2, float("inf")


def looks(spin: Spin, after: float, scripts: int = 1) -> int:
    connection = Connection(after)
    spin.until_readable(connection, scripts)
    return connection.looks


def test_a_reply_that_is_nearly_here_is_looked_for_until_it_is_here() -> None:
    """It returns at the first look that finds something."""
    assert looks(Spin(), NEAR) == 3


def test_a_reply_that_takes_long_is_not_looked_for_any_more() -> None:
    """After a moment, for each script that was sent, it is left to the thread's sleep."""
    most = LOOKS / LOOKS_OF_REDIS_PY
    assert looks(Spin(), FAR) == most
    assert looks(Spin(), FAR, scripts=3) == 2 * most
    assert looks(Spin(), FAR, scripts=0) == 0
    assert looks(Spin(), FAR, scripts=99) == looks(Spin(), FAR, scripts=MOST_SCRIPTS)


def test_of_a_far_server_hardly_any_reply_is_looked_for() -> None:
    """Each miss doubles the replies that are not looked for, up to 1024."""
    spin = Spin()
    looked = [n for n in range(10_000) if looks(spin, FAR)]
    gaps = [after - before - 1 for before, after in pairwise(looked)]
    assert gaps[:9] == [2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert set(gaps[9:]) == {2**MOST_MISSES}


def test_a_server_that_is_near_again_is_looked_for_again() -> None:
    """A number of replies found in time takes one doubling back."""
    spin = Spin()
    while spin._misses < MOST_MISSES:
        looks(spin, FAR)
    found = [n for n in range(30_000) if looks(spin, NEAR)]
    assert len(found) > 28_000
    for _ in range(HITS_FOR_A_MISS * MOST_MISSES):
        looks(spin, NEAR)
    assert looks(spin, FAR)
    assert [bool(looks(spin, NEAR)) for _ in range(3)] == [False, False, True]


def test_a_reply_that_comes_in_time_every_other_time_is_not_worth_it() -> None:
    """What half the lookings cost in vain is more than what the others save."""
    spin = Spin()
    tried = [looks(spin, FAR if n % 2 else NEAR) for n in range(10_000)]
    assert sum(map(bool, tried)) < 500


def test_who_was_held_up_looks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that was found late, since others wanted the processor, counts as one in vain."""
    ticks = count()
    monkeypatch.setattr(spinning, "perf_counter", lambda: next(ticks) * 2 * LOST_SECONDS)
    spin = Spin()
    assert [looks(spin, NEAR) for _ in range(8)] == [3, 0, 0, 3, 0, 0, 0, 0]


def test_looks_that_take_long_by_themselves_are_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a slow machine a look takes longer; what counts is the time without the processor."""
    ticks, turns = count(), count()
    monkeypatch.setattr(spinning, "perf_counter", lambda: next(ticks) * 0.001)
    monkeypatch.setattr(spinning, "thread_time", lambda: next(turns) * 0.001)
    spin = Spin()
    assert [looks(spin, NEAR) for _ in range(8)] == [3] * 8


def test_who_looks_offers_the_processor_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so before the first look, and again after some looks; and not if it sleeps."""
    offers: list[None] = []
    monkeypatch.setattr(spinning, "_offer_processor", lambda: offers.append(None))
    spin = Spin()
    looks(spin, NEAR)
    assert len(offers) == 1
    looks(spin, FAR)
    assert len(offers) == 1 + LOOKS / LOOKS_AT_ONCE
    looks(spin, NEAR)  # asleep
    assert len(offers) == 1 + LOOKS / LOOKS_AT_ONCE


def test_a_connection_that_was_cut_says_so() -> None:
    """The fault goes to whoever reads."""

    class Cut:
        def can_read(self, timeout: float) -> bool:
            raise ConnectionError("closed")

    with pytest.raises(ConnectionError, match="closed"):
        Spin().until_readable(Cut(), 1)


def test_of_a_socket_the_looks_are_its_own() -> None:
    """A plain socket is looked at without redis-py; what is at its end is left to the reader."""

    class Plain:
        def __init__(self, own: socket.socket) -> None:
            self._sock = own

    near, far = socket.socketpair()
    with near, far:
        spin = Spin()
        spin.until_readable(Plain(near), 1)
        assert spin._misses == 1
        for last_word in (lambda: far.send(b"+OK\r\n"), far.close):
            last_word()
            found = Spin()
            found.until_readable(Plain(near), 1)
            assert not found._misses
