"""The drain time of large queues: what limits are said to allow, against a run of all tasks."""

import random
from copy import copy
from itertools import cycle
from typing import Any

import pytest

from dpq import Quota, RateLimit, Reserve
from dpq.model.clearing import Joined, Line, Need, Periods, Rounds, Share, Steady, Wanted, fitting
from dpq.model.counted import PERIOD_MS, Counted, Refilling, Told, Whole
from dpq.model.gates import Gate

BEGIN = 1_700_000_000_000

LIMITS: list[list[Any]] = [
    [RateLimit(20, 10, 5, slack=0)],
    [RateLimit(5, 1, 5, Reserve(4, 1), slack=0)],
    [RateLimit(20, 60, moving=True)],
    [
        RateLimit(20, 60, reserve=Reserve(4, 1), moving=True),
        RateLimit(900, 600, moving=True, unit="t"),
    ],
    [RateLimit(50, 600, moving=True), RateLimit(1, 5), Quota(150, "hour")],
    [RateLimit(2000, 61, 20, slack=0, unit="t")],
    [Quota(50, "hour", reserve=Reserve(2, 1))],
    [Quota(70, "hour", spread=True)],
    [RateLimit(1, 60, 1, slack=0), Quota(70, "hour", spread=True)],
    [Quota(50, "hour"), Quota(70, "day")],
    [Quota(500, "hour", unit="t"), Quota(200, "day", spread=True)],
    [RateLimit(200, 1.5, 100, slack=0, unit="t"), Quota(3000, "hour", unit="t", spread=True)],
    [RateLimit(20, 1, 5, slack=0), Told("", 30, BEGIN + 500_000)],
    [Refilling("t", 100, BEGIN + 540_000, 1000, 600.0)],
]
COSTS: list[list[dict[str, int]]] = [
    [{"": 1}],
    [{"": 1}, {"": 1}, {"": 7}],
    [{"": 1, "t": 3}, {"": 1, "t": 40}, {"": 1, "t": 200}],
    [{"": 2}, {"": 1, "t": 60}],
]


def gate_of(limit: list[Any], left: float, used: float) -> Gate:
    """A limit whose quotas have so much of their periods left, and have counted so much."""
    windows = [one for one in limit if isinstance(one, RateLimit)]
    gate = Gate(windows, paid=[0.0] * len(windows))
    gate.told = [copy(one) for one in limit if isinstance(one, Told)]
    for quota in limit:
        if isinstance(quota, Quota):
            count, rest = int(quota.amount * used), PERIOD_MS[quota.period] * left
            after = BEGIN + rest / (quota.amount - count) if count and quota.spread else 0.0
            gate.counted.append(Counted(quota, count, BEGIN + rest, after))
    gate.look(BEGIN)
    return gate


def run(gate: Gate, tasks: list[Wanted]) -> float:
    """Start all tasks in their order; return when the last one starts."""
    at = float(BEGIN)
    for task in tasks:
        gate.look(at)
        while (opens := gate.opens_at(task.units, task.rank, at)) > at:
            gate.look(at := opens)
        gate.charge(task.units, at, "")
    return at


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: str(len(limit)))
@pytest.mark.parametrize("costs", COSTS, ids=lambda costs: str(len(costs)))
def test_a_hundred_tasks_stand_for_a_thousand(limit: list[Any], costs: list[Any]) -> None:
    """The last start is said within a factor of 1.4, by what some of the tasks need."""
    chance = random.Random(7)
    for left, used, number in [(0.01, 0.5, 400), (0.3, 0.0, 1000), (0.9, 0.9, 201)]:
        tasks = [Wanted(chance.choice(costs), chance.choice([0, 0, 1])) for _ in range(number)]
        some = chance.sample(tasks, 100)
        tasks.sort(key=lambda task: -task.rank)
        true = run(gate_of(limit, left, used), tasks) - BEGIN + 1000
        said = gate_of(limit, left, used).clears_at(number, some, BEGIN)[0] - BEGIN + 1000
        assert said / 1.4 <= true <= said * 1.4


def test_what_each_part_of_a_course_counts() -> None:
    """To the task, where the test above allows a factor."""
    line = Line(first=5, each=10)
    assert [line.count(ms) for ms in (5, 6, 15, 16)] == [0, 1, 1, 2]
    assert line.start(3) == 25
    rounds = Rounds([(0, 4), (30, 10)], length=60, tasks=4, units=2, keeps=2, words="")
    assert [rounds.start(n) for n in (1, 2, 4, 5)] == [0, 30, 30, 60]
    assert [rounds.count(ms) for ms in (1, 31, 61)] == [1, 4, 5]
    joined = Joined([(0, Steady([Line(0, 10)])), (100, Steady([Line(0, 10)]))])
    assert [joined.count(ms) for ms in (50, 105, 111)] == [5, 12, 14]
    assert joined.start(12) == pytest.approx(100, abs=1)
    share = Share(5)
    periods = Periods(Steady([Line(0, 1000)]), Steady([Line(0, 1)]), 10, share, share, 10, "")
    assert periods.start(7) == 6000, "what holds now holds later, too"
    assert [fitting(10, 0, cycle([Need(3, keeps)])) for keeps in (0, 4, 8)] == [3, 2, 1]
    assert fitting(10, 9, cycle([Need(3)])) == 0


@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("whole", [None, Whole(10, 60_000, BEGIN + 60_000)])
def test_what_a_host_has_left_serves_no_task_more(left: int, whole: Whole | None) -> None:
    """The first task, too, waits for the reset if nothing is left."""
    gate = Gate()
    gate.told = [Told("", left, BEGIN + 60_000, whole=whole)]
    wanted = [Wanted({"": 1}, 0)]
    said = [gate.clears_at(tasks, wanted, BEGIN)[0] for tasks in (left, left + 1) if tasks]
    assert said == [BEGIN, BEGIN + 60_000][-len(said) :]


@pytest.mark.parametrize(("smallest_first", "kept"), [(False, [4.5, -9]), (True, [5.5, 9])])
def test_for_whom_a_reserve_is_not(smallest_first: bool, kept: list[float]) -> None:
    """For tasks of a worse priority than its own: a smaller one, or, with "min", a bigger one."""
    sign = -1 if smallest_first else 1
    tasks = [Wanted({"": 1}, sign * n, "", smallest_first) for n in (*kept, 5, 5 + sign)]
    assert [task.leaves(Reserve(1, 5)) for task in tasks] == [True, True, False, False]
