"""The arithmetic of limits, which stands in Lua and in `dpq/model/gates.py`: one against the other.

Each vector is made in the test run by the scripts themselves: the gate before, a moment and a cost;
then what pop decides, when it opens, and the gate after. The Python side computes the same from the
gate before. A change on one side alone fails, whichever it is.
"""

import math
import random
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import dpq
from dpq import DPQ, Adaptive, Quota, RateLimit, Reserve
from dpq.model.cost import read_cost, write_cost
from dpq.model.counted import Refilling
from dpq.model.forecast import View
from dpq.model.gates import Gate
from dpq.model.windows import MovingWindow
from dpq.protocol.foresight import read_view
from dpq.testing import Clock


class Rules(NamedTuple):
    """A limit, and what else its vectors have."""

    windows: list[RateLimit | Quota]
    more: Mapping[str, Any] = MappingProxyType({})
    gaps: tuple[float, ...] = (0, 0, 0.07, 0.4, 1.3, 11)  # seconds between two tasks
    budget: str = ""  # what stands behind the seconds of the reset that the host tells


LEARNS = Adaptive(floor=1, ceiling=9, step=0.5)
KEEPS = Reserve(2, 1)
RULES = {
    "a window": Rules([RateLimit(3, 1, slack=0)]),
    "burst": Rules([RateLimit(7, 3, 5, slack=0)]),
    "several windows": Rules([RateLimit(2, 1, 2, slack=0.1), RateLimit(5, 6, 3, slack=0)]),
    "units": Rules([RateLimit(2, 1, 2, slack=0), RateLimit(600, 7, 90, slack=0, unit="t")]),
    "many units": Rules([RateLimit(30_000_000, 60, 1000, unit="t")]),
    "reserve": Rules([RateLimit(4, 1, 5, KEEPS, slack=0), RateLimit(900, 60, 900, slack=0)]),
    "learned slack": Rules([RateLimit(2, 1, 2), RateLimit(9, 7, 4, slack=0)]),
    "adaptive": Rules([RateLimit(3, 1, 2, adaptive=LEARNS)], gaps=(0, 0, 0, 0.07, 0.4)),
    "moving": Rules([RateLimit(4, 2, moving=True, slack=0.125)]),
    "moving, in slots": Rules([RateLimit(90, 7, moving=True)], gaps=(0, 0.03, 0.08, 0.2)),
    "moving, with a reserve": Rules(
        [RateLimit(400, 7, reserve=Reserve(90, 1), moving=True, unit="t"), RateLimit(5, 1, 2)]
    ),
    "quota": Rules([Quota(40, "hour"), RateLimit(2, 1, 2, slack=0)]),
    "spread quota": Rules([Quota(900, "hour", spread=True)]),
    "quota with a reserve": Rules([Quota(60, "hour", unit="t", reserve=Reserve(20, 1))]),
    "concurrency": Rules([RateLimit(3, 1, 3, slack=0)], {"concurrency": 2}),
    "pool": Rules([RateLimit(1, 1, 2, slack=0)], {"members": ["x", "y", "z"]}),
    "a pool with a concurrency": Rules([], {"members": ["x", "y"], "concurrency": 1}),
    "budget": Rules([RateLimit(20, 1, 20, slack=0)], budget=" "),
    "budget that refills": Rules([RateLimit(20, 1, 20, slack=0)], budget="s"),
}
COSTS: list[int | dict[str, int]] = [1, 1, 1, 2, 5, {"t": 30}, {"": 0, "t": 170}, {"t": 2000}]
ARITHMETIC = [
    f"model/{name}.py" for name in ("gates", "windows", "counted", "priority", "forecasting")
]
COMPARED = {"dpq.model.gates", "dpq.model.counted", "dpq.model.windows"}
LEFT_OUT = {"_looked_at", "assumed", "probe_until", "permits", "rolled"}
"""Attributes that say nothing of what was granted, or that a client only assumes."""


def state(thing: Any, path: str = "") -> dict[str, Any]:
    """All that decides what a gate grants next, as plain values by their paths."""
    if isinstance(thing, list):
        thing = {str(i): each for i, each in enumerate(thing)}
    elif type(thing).__module__ in COMPARED and hasattr(thing, "__dict__"):
        left_out = LEFT_OUT
        if isinstance(thing, MovingWindow):
            left_out = LEFT_OUT | {"paid", "owed"}  # its slots say it
        elif isinstance(thing, Refilling):
            left_out = LEFT_OUT | {"left"}  # its end says it
        elif isinstance(thing, Gate) and not thing.concurrency:
            left_out = LEFT_OUT | {"out"}  # the server counts leases under a concurrency only
        thing = {name: each for name, each in vars(thing).items() if name not in left_out}
    if not isinstance(thing, dict):
        return {path: thing}
    parts = [state(each, f"{path}.{name}") for name, each in thing.items()]
    return {name: value for part in parts for name, value in part.items()}


class Vectors:
    """A group under a limit, its gate as the server has it, and tasks one after the other."""

    def __init__(self, q: DPQ[Any], clock: Clock, rules: Rules, seed: int) -> None:
        self.q, self.clock, self.rules, self.random = q, clock, rules, random.Random(seed)
        self.held: list[Any] = []
        q.set_limit(rules.windows or None, group="g", **rules.more)
        q.push("its group is always shown", group="g", delay=300_000_000)

    def look(self) -> View:
        """What the server has stored, and the moment."""
        report = self.q._operations.partitions[0].report
        return self.q._session.run(report, "forecast", [9, 9, 0], read_view)

    def gate(self) -> Gate:
        """The gate of the group, computed for now."""
        gate = self.look().gates["g"]
        gate.look(self.clock.ms)
        return gate

    def meet_something(self) -> None:
        """Let time pass; a lease may end, a task may meet a 429, the host may tell its limit."""
        self.clock.advance(self.random.choice(self.rules.gaps))
        what = self.random.random()
        if self.held and what < 0.3:
            task = self.held.pop(0)
            gate = self.gate()
            gate.ended(task.id, task.member or "")
            self.q.ack(task)
            self.compare(gate)
        elif self.held and what < 0.42:
            task = self.held.pop()
            self.q.rate_limited(task, self.random.choice([0.3, 4]))
            self.q.cancel(task.id)
        elif self.rules.budget and what < 0.7:
            left, reset = self.random.randrange(4), self.random.choice([2, 30])
            headers = {"X-RateLimit-Limit": "4", "X-RateLimit-Remaining": f"{left}"}
            reset_text = f"{reset}{self.rules.budget.strip()}"
            self.q.observe("g", headers=headers | {"X-RateLimit-Reset": reset_text})

    def compare(self, gate: Gate) -> None:
        """The gate that was computed is the one that the script has left."""
        after = self.gate()
        gate._looked_at = -1.0
        gate.look(self.clock.ms)
        computed, stored = state(gate), state(after)
        for name in computed.keys() & stored.keys():
            if name.endswith((".paid", ".owed")):  # a debt that is over is none
                computed[name], stored[name] = (
                    max(at, self.clock.ms) for at in (computed[name], stored[name])
                )
            elif name.endswith(".ends"):  # clients are told whole ms
                computed[name] = round(computed[name])
            elif name.endswith(".last") and not stored[name]:  # forgotten with the last debt
                computed[name] = stored[name]
        assert computed == stored

    def step(self) -> None:
        """One task: it starts at the moment that was computed, and no sooner."""
        cost, priority = self.random.choice(COSTS), self.random.choice([0, 0, 1, -1])
        units, others = read_cost(str(write_cost(cost)))
        task_id = self.q.push(0, priority, group="g", cost=cost)
        for _ in range(50):
            gate, now = self.gate(), self.clock.ms
            at = gate.opens_at({"": units, **(others or {})}, priority, now)
            task = self.q.pop(visibility=100_000).task
            assert (task is not None) == (at <= now and not gate.is_full)
            if task:
                self.held.append(task)
                taken = {"": units, **(others or {})}
                assert gate.charge(taken, now, task_id, priority) == (task.member or "")
                return self.compare(gate)
            until = self.look().closed["g"]
            if gate.is_full or at == math.inf:
                if not self.held:
                    return self.give_up(task_id)
                self.q.ack(self.held.pop(0))
            elif at == 0 or until - now > 40_000_000:
                return self.give_up(task_id)
            else:
                assert now < until <= at
                self.clock.ms = math.ceil(until)
        raise AssertionError("it does not start")

    def give_up(self, task_id: str) -> None:
        """A task that waits for a day is in the way."""
        self.q.cancel(task_id)


def test_each_side_points_to_the_other() -> None:
    """A module of the model names the scripts that compute the same, and they name the module."""
    root = Path(dpq.__file__).parent
    there, back = set(), set()
    for path in map(root.joinpath, ARITHMETIC):
        for script in re.findall(r"\blua/[\w/]+\.lua", path.read_text(encoding="utf-8")):
            there.add((path.name, script))
    for path in (root / "protocol" / "lua").rglob("*.lua"):
        for module in re.findall(r"dpq/(model/\w+\.py)", path.read_text(encoding="utf-8")):
            if module in ARITHMETIC:
                script = path.relative_to(root / "protocol").as_posix()
                back.add((module.removeprefix("model/"), script))
    assert there == back


@pytest.mark.many_calls
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RULES)
def test_both_sides_compute_the_same(q: DPQ[Any], clock: Clock, name: str, seed: int) -> None:
    """Verdict, next moment and new gate, of every kind of limit, exactly."""
    vectors = Vectors(q, clock, RULES[name], seed)
    for _ in range(40):
        vectors.meet_something()
        vectors.step()
