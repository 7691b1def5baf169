"""How well is a limit learned that nobody tells, on ten hosts, against a plain AIMD? A simulation.

Time goes by hand: five minutes of each host, three times, at other moments of its changes. Both
start at 10 a second, between 1 and 100, and know nothing but the 429s, which say Retry-After: 1. A
request reaches its host after 20 to 30 ms; an answer takes 30 to 50 ms, or what its row says.
"""

from collections.abc import Callable, Iterator
from math import pi, sin
from random import Random
from statistics import median
from typing import NamedTuple

from benchmarks._harness import SEED, Bench, Result, Target, run_one
from benchmarks._simulated import (
    START_MS,
    Bucket,
    Caller,
    Concurrent,
    Fixed,
    Host,
    Queued,
    Sliding,
    crawl,
)
from dpq import Adaptive

SECONDS = 300
ROUNDS = 3
SHIFT_S = 41  # a round begins so much later in the changes of a host than the one before
LEARN = Adaptive(floor=1, ceiling=100, step=1)
FIRST = 10  # a second


class Place(NamedTuple):
    """A host, and the conditions there.

    Attributes:
        kind: How it counts.
        limit: Its limit, by the time in seconds.
        answer_ms: The least and the most ms that an answer takes.
        foreigner: The requests in a second that somebody else sends, at random moments.
        consumers: Requests under way at once, at most.
    """

    kind: type[Host]
    limit: Callable[[float], float]
    answer_ms: tuple[float, float] = (30, 50)
    foreigner: float = 0
    consumers: int = 8

    def allowed(self, begin: int, taken: int) -> float:
        """Compute what it allows from a second on; it served `taken` requests of somebody else."""
        whole = sum(self.limit(begin + second) for second in range(SECONDS))
        if self.kind is Concurrent:
            whole *= 2000 / sum(self.answer_ms)
        return whole - taken


def _steps(each: float, *limits: float) -> Callable[[float], float]:
    return lambda second: limits[int(second // each) % len(limits)]


PLACES = {
    "bucket, flat": Place(Bucket, _steps(SECONDS, 20)),
    "bucket, a step each 30 s": Place(Bucket, _steps(30, 20, 5, 40, 10)),
    "bucket, a foreigner takes half": Place(Bucket, _steps(SECONDS, 20), foreigner=10),
    "sliding, flat": Place(Sliding, _steps(SECONDS, 20)),
    "sliding, a step each 30 s": Place(Sliding, _steps(30, 20, 5, 40, 10)),
    "sliding, a step each 100 s": Place(Sliding, _steps(100, 20, 5, 40)),
    "fixed, flat": Place(Fixed, _steps(SECONDS, 20)),
    "fixed, day and night": Place(Fixed, lambda second: int(20 + 15 * sin(second * pi / 75))),
    "4 at once, 100 to 300 ms, flat": Place(
        Concurrent, _steps(SECONDS, 4), (100, 300), consumers=16
    ),
    "4, 2 or 8 at once, a step each 60 s": Place(
        Concurrent, _steps(60, 4, 2, 8), (100, 300), consumers=16
    ),
}
"""The hosts: 20 in a second, or 20, 5, 40 and 10 in turn; a bucket holds what comes in a second."""


class Aimd:
    """A rate for all consumers: one more after each clean second that was used, half after a 429.

    Requests go evenly, none before the time of a 429 is over. Requests of before that halve
    nothing again.
    """

    def __init__(self, clock: list[int]) -> None:
        self._clock = clock
        self._rate = float(FIRST)
        self._paid = self._opens = 0.0
        self._since, self._used, self._cut = 0.0, 0, 0.0

    def take(self) -> float | None:
        now = float(self._clock[0])
        if now < max(self._paid, self._opens):
            return None
        if now >= self._since + 1000:
            if self._since and self._used * 2 >= self._rate:
                self._rate = min(LEARN.ceiling, self._rate + LEARN.step)
            self._since, self._used = now, 0
        self._used += 1
        self._paid = max(self._paid, now) + 1000 / self._rate
        return now

    def opens_in(self) -> float:
        return (max(self._paid, self._opens) - self._clock[0]) / 1000

    def done(self, taken: float) -> None:
        pass

    def refused(self, taken: float, seconds: float) -> None:
        now = float(self._clock[0])
        self._opens = max(self._opens, now + seconds * 1000)
        if taken > self._cut:
            self._rate = max(LEARN.floor, self._rate / 2)
            self._cut, self._since, self._used = now, self._opens, 0


def _poisson(chance: Random, rate: float) -> Iterator[float]:
    at = float(START_MS)
    while rate:
        at += chance.expovariate(rate / 1000)
        yield at


def run(caller: Caller, clock: list[int], place: Place, turn: int) -> tuple[float, int]:
    """Crawl a host: the share of what it allows, and its 429s."""
    chance, begin = Random(SEED + turn), SHIFT_S * turn

    def limit(ms: float) -> float:
        return place.limit(begin + (ms - START_MS) / 1000)

    host = place.kind(limit, _poisson(Random(turn), place.foreigner))
    crawl(
        caller,
        clock,
        host,
        ends=lambda: clock[0] >= START_MS + SECONDS * 1000,
        consumers=place.consumers,
        way_ms=lambda: chance.uniform(20, 30),
        answer_ms=lambda: chance.uniform(*place.answer_ms),
    )
    return len(host.served) / place.allowed(begin, host.taken), host.refused


def _learned(bench: Bench, place: Place, turn: int) -> tuple[float, int]:
    clock = [START_MS]
    queue = bench.queue(clock=lambda: clock[0])
    queue.set_limit(FIRST, 1, group="api", adaptive=LEARN)
    reached = run(Queued(queue), clock, place, turn)
    queue.admin.drop()
    return reached


def _plain(place: Place, turn: int) -> tuple[float, int]:
    clock = [START_MS]
    return run(Aimd(clock), clock, place, turn)


def measure(bench: Bench) -> Iterator[Result]:
    for name, place in PLACES.items():
        plain, plain_refused = zip(*(_plain(place, n) for n in range(ROUNDS)), strict=True)
        shares, refused = zip(*(_learned(bench, place, n) for n in range(ROUNDS)), strict=True)
        yield Result(
            f"{name}: share of the allowed",
            "",
            Target("at least", round(median(plain), 3)),
            shares,
            f"429s: {median(refused)}; of AIMD, whose share is the target: {median(plain_refused)}",
        )


if __name__ == "__main__":
    run_one("adaptive")
