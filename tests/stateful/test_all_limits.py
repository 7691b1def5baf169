"""Limits of all kinds at once: no bound is broken, no task is lost, and nothing starves."""

import pytest
from all_limits import WEIGHTS, Limit, World
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from dpq import Quota, RateLimit
from dpq.server import Server

NUMBERS = st.integers(0, 999)
RULES = st.lists(st.tuples(st.just("set_limit"), NUMBERS, NUMBERS), min_size=1, max_size=3)
NAMES = st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)])
STEPS = st.lists(st.tuples(NAMES, NUMBERS, NUMBERS), min_size=5, max_size=80)


def test_whatever_is_done_the_limits_hold(first_server: Server) -> None:
    """Random rules, work, permits, answers of hosts, lost replies, dead processes and damage."""
    with Redis.from_url(first_server.url) as redis:

        @settings(max_examples=max(20, settings().max_examples * 4 - 220))
        @given(rules=RULES, steps=STEPS, seed=st.integers(0, 99))
        def run(rules: list[tuple[str, int, int]], steps: list[tuple[str, int, int]], seed: int):
            world = World(redis, seed)
            try:
                world.run(rules + steps)
            finally:
                world.close()

        run()


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        (Limit([RateLimit(1, 30)], None, None, None), "units in a window"),
        (Limit([Quota(2, "day")], None, None, None), "units in a period"),
        (Limit([], 1, None, None), "at once"),
    ],
)
def test_the_judge_bites(first_server: Server, limit: Limit, found: str) -> None:
    """It finds out that a server does not know of a limit."""
    with Redis.from_url(first_server.url) as redis:
        world = World(redis)
        world.limits[None] = limit
        try:
            with pytest.raises(AssertionError, match=found):
                world.run([("push", 3, 0), ("push", 3, 0), ("advance", 7, 0), ("pop", 9, 2)])
        finally:
            world.close()
