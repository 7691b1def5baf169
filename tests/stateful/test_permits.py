"""Tasks and permits together never break the bound of a limit, whatever happens in between."""

import math
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpq import DPQ, LimitTimeoutError, RateLimit, RateLimited
from dpq.model.permit import Caller, PermitRequest
from dpq.testing import Clock, QueueFactory

Grant = tuple[float, str | None, dict[str, int]]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.05, 0.3, 0.9, 1.2, 3, 7, 30])),
        st.tuples(st.just("ask"), st.sampled_from(["a", "b", None])),
        st.tuples(st.just("ask"), st.sampled_from(["a", "b", None])),
        st.tuples(st.just("ask"), st.sampled_from(["p", "p/x", "p/y"])),
        st.tuples(st.just("pop"), st.integers(1, 4)),
        st.tuples(st.just("429"), st.sampled_from([0.5, 2.0, 9.0])),
        st.tuples(st.just("close"), st.sampled_from([0.0, 4.0])),
    ),
    min_size=5,
    max_size=60,
)


class World:
    """A queue, its callers, and each grant with its moment."""

    def __init__(self, q: DPQ[Any], clock: Clock) -> None:
        self.q, self.clock = q, clock
        self.callers: list[tuple[float, Caller]] = []
        self.grants: list[Grant] = []
        self.of_members: list[Grant] = []

    def ask(self, caller: Caller) -> None:
        """One call of a caller; it sleeps until its answer's moment, and goes or asks again."""
        try:
            run, operations = self.q._session.run, self.q._operations
            answer = run(operations.acquire, caller, 0.0)
            pause = caller.receive(answer, 0.0)
        except LimitTimeoutError:
            return
        due = self.clock() + math.ceil(pause * 1000 - 1e-6)  # the clock has whole ms
        self.callers.append((due, caller))

    def wait(self, seconds: float) -> None:
        """Move the clock from event to event: who has slept goes, or asks again."""
        end = self.clock() + seconds * 1000
        while self.callers and (due := min(at for at, _ in self.callers)) <= end:
            self.clock.advance(max(0.0, (due - self.clock()) / 1000))
            now = [pair for pair in self.callers if pair[0] <= self.clock()]
            self.callers = [pair for pair in self.callers if pair not in now]
            for _, caller in now:
                if caller.granted:
                    cost = {"": 1, "tokens": int(caller.request.cost.partition("=")[2] or 0)}
                    self.grants.append((self.clock(), caller.request.group, cost))
                    if wanted := caller.request.member:
                        assert caller.scope == f"p\t{wanted}"
                    if caller.request.group == "p":
                        self.of_members.append((self.clock(), caller.scope, cost))
                    if caller.held:
                        close = self.q._operations.end_permit
                        self.q._session.run(close, caller, caller.held, "")
                else:
                    self.ask(caller)
        self.clock.advance(max(0.0, (end - self.clock()) / 1000))

    def pop(self, most: int) -> None:
        """Take tasks and finish them."""
        for task in self.q.pop_many(most):
            tokens = (task.costs or {}).get("tokens", 0)
            cost = {"": 1, "tokens": tokens}
            self.grants.append((self.clock(), task.group, cost))
            if task.member:
                self.of_members.append((self.clock(), f"p\t{task.member}", cost))
            self.q.ack(task)

    def most_in(self, unit: str, group: str | None, seconds: float) -> int:
        """The most units in any window of that length."""
        mine = [
            (at, cost[unit])
            for at, of, cost in (*self.grants, *self.of_members)
            if (of == group or (group is None and "\t" not in str(of))) and cost[unit]
        ]
        return max(
            (sum(u for at, u in mine if start <= at < start + seconds * 1000) for start, _ in mine),
            default=0,
        )


@pytest.mark.many_calls
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, timeout=st.sampled_from([None, 0, 2.5]))
def test_the_bound_holds(redis, steps, timeout):
    """In no window tasks and permits together are granted more than rate + burst - 1 units."""
    clock = Clock(1_700_000_000_000)
    with QueueFactory(redis, clock) as make:
        run_steps(make(uuid4().hex), clock, steps, timeout)


def run_steps(q: DPQ[Any], clock: Clock, steps: list[Any], timeout: float | None) -> None:
    """Run the steps, then look at every window."""
    q.set_limit(
        [RateLimit(4, 2, 2, slack=0), RateLimit(9, 3, 4, unit="tokens", slack=0)], group="a"
    )
    q.set_limit(3, 1, group="b", slack=0)
    q.set_limit(2, 2, group="p", members=["x", "y"], slack=0)
    q.set_limit(10, 2, burst=3, slack=0)
    for n in range(40):
        q.push(n, priority=n % 3, group=["a", "b", None, "p"][n % 4], cost={"tokens": n % 4})
    world = World(q, clock)
    for n, (step, value) in enumerate(steps):
        if step == "wait":
            world.wait(value)
        elif step == "ask":
            cost = {"tokens": n % 5} if n % 2 else 1
            group, _, member = (value or "").partition("/")
            request = PermitRequest.checked(
                group or None, cost, timeout, n % 3, 60.0, member or None
            )
            world.ask(Caller(request, 0.0))
        elif step == "pop":
            world.pop(value)
        elif step == "429":
            stranger = Caller(PermitRequest.checked("a", 1, None, 0, 60.0), 0.0)
            stranger.moment = str(clock())
            q._session.run(
                q._operations.met_limit, stranger, RateLimited(value, scope="group"), "", ""
            )
        else:
            q.delay_group("b", value)
    world.wait(60)
    assert q.check() == []
    if timeout is None:
        assert not world.callers, "each caller goes in the end"
    assert world.most_in("", "a", 2) <= 4 + 2 - 1
    assert world.most_in("tokens", "a", 3) <= 9 + 4 - 1
    assert world.most_in("", "b", 1) <= 3
    for member in ("x", "y"):
        assert world.most_in("", f"p\t{member}", 2) <= 2
    assert world.most_in("", None, 2) <= 10 + 3 - 1
