"""limit_replies: what the scripts say about limits becomes data and sentences."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from dpq import Adaptive, LimitState, RateLimit, TaskState
from dpq.operations.limit_replies import Waiting, explain, read_limits, read_waiting

NOW = 1_700_000_000_000
START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
NOBODY: Counter[str] = Counter()


def text(rules="", opens="0", why="", rate="0", left="", waiting="0", now=str(NOW), lines=""):
    """One scope of a reply of view."""
    return [
        rules,
        opens,
        why,
        rate,
        left if "\t" in left else f"{left}\t\t\t0",
        waiting if " " in waiting else f"{waiting or 0} 0",
        now,
        lines,
    ]


def test_no_limit():
    """A scope without a limit is open, and says nothing else."""
    assert read_limits([None, "g"], NOBODY, text() * 2) == [
        LimitState(group=None, windows=(), concurrency=None),
        LimitState(group="g", windows=(), concurrency=None),
    ]


def test_nothing_asked():
    """No scopes, no states."""
    assert read_limits([], NOBODY, []) == []


def test_every_field():
    """A state has every field of the reply; leases are counted for the group."""
    rules = "group:g\t3~1 20 0.5|2.5 60000 2|9 3600000 9"
    opens = f"{NOW + 250}.25"
    reply = text(rules, opens, "s", "4.25", "-0.500000 3.250000\t\t\t7 5 6", "17")
    [state] = read_limits(["g"], Counter({"g": 2, "h": 5, "": 1}), reply)
    assert state.group == "g"
    assert state.windows == (
        RateLimit(2.5, 60, 2, adaptive=Adaptive(1, 20, 0.5)),
        RateLimit(9, 3600, 9),
    )
    assert (state.concurrency, state.default, state.rate) == (3, False, 4.25)
    assert state.units_left == (-0.5, 3.25)
    assert (state.rate_limited, state.granted) == (7, (5, 6))
    assert (state.open, state.reason) == (False, "spent")
    assert state.opens_at == START + timedelta(milliseconds=250.25)
    assert (state.waiting, state.in_flight) == (17, 2)


def test_the_queue():
    """The queue has all leases, those without a group too."""
    [state] = read_limits([None], Counter({"g": 2, "": 1}), text("queue\t5", waiting="4"))
    assert (state.concurrency, state.in_flight, state.waiting) == (5, 3, 4)
    assert state.default is False


def test_the_default():
    """What a group has from `*` is marked; `*` itself has settings and no state."""
    rules = "groups\t0~1 9 1.0|5 1000 1"
    reply = text(rules, str(NOW + 9), "s", "4", "0.5", "3")
    default, group = read_limits(["*", "g"], Counter({"g": 1, "*": 7}), reply * 2)
    assert (default.default, group.default) == (False, True)
    assert default.windows == group.windows
    assert (default.open, default.reason, default.opens_at, default.rate) == (
        True,
        None,
        None,
        None,
    )
    assert (default.units_left, default.waiting) == ((), 0)
    assert (group.open, group.rate, group.waiting) == (False, 4, 3)


@pytest.mark.parametrize(
    ("letter", "reason"),
    [
        ("l", "rate limited"),
        ("h", "closed by hand"),
        ("p", "probe"),
        ("c", "concurrency"),
        ("s", "spent"),
        ("u", "unreadable"),
        ("-", None),  # no letter that is known
    ],
)
def test_closed(letter, reason):
    """Each letter of the script view closes and has its words; a moment is said only where the
    clock knows one."""
    [state] = read_limits(["g"], NOBODY, text(why=letter))
    assert (state.open, state.reason, state.opens_at) == (False, reason, None)


def test_no_learned_rate_without_learning():
    """A rate that a gate keeps from before is not that of a limit that learns nothing."""
    [state] = read_limits(["g"], NOBODY, text("group:g\t0|5 1000 1", rate="7"))
    assert state.rate is None


def test_waiting():
    """The reply of why has its fields; an unknown id has none."""
    reply = [
        b"waiting",
        b"0",
        "é".encode(),
        b"4",
        b"2",
        b"inf",
        b"0",
        b"key",
        b"",
        b"",
        b"",
        b"9",
        b"1",
    ]
    assert read_waiting(reply) == Waiting(
        TaskState.WAITING, 0, "é", 4, 2, "inf", 0, "key", about_ms=9, more=True
    )
    assert read_waiting([]) is None


def test_members():
    """Each line is a member; the windows and the concurrency are those of the pool."""
    lines = (
        f"a\t{NOW + 250}.25\tl\t4 1500\t-1.5 3\t\t\t6 4 5\t1\n"
        "b \u2028\t90000000000000\th\t0 0\t\t\t\t0\t0"
    )
    running = Counter({"g\ta": 2, "g": 1, "h\ta": 9})
    rules = "group:g\t3*2.5~1 20 0.5|2 60000 2\ta\tb \u2028"
    [state] = read_limits(
        ["g"], running, text(rules, "90000000000000", "h", waiting="0 1", lines=lines)
    )
    first, second = state.members
    assert (state.concurrency, state.weight, state.in_flight, state.opens_at) == (3, 2.5, 4, None)
    assert first.model_dump() == {
        "name": "a",
        "open": False,
        "opens_at": START + timedelta(milliseconds=250.25),
        "reason": "rate limited",
        "rate": 4,
        "slack": 1.5,
        "units_left": (-1.5, 3),
        "quotas": (),
        "budgets": (),
        "in_flight": 3,
        "granted": (4, 5),
        "rate_limited": 6,
    }
    assert (second.name, second.opens_at, second.units_left) == ("b \u2028", None, ())


# Sentences

QUEUE = LimitState(group=None, windows=(), concurrency=None)
GROUP = LimitState(group="g", windows=(), concurrency=None)
IN_2_S = START + timedelta(seconds=2.04)


def shut(state, reason, opens_at=None):
    return state.model_copy(update={"open": False, "reason": reason, "opens_at": opens_at})


def told(state="ready", until=0, ahead=0, in_group=0, paused="", held=0, limits=(QUEUE, GROUP)):
    found = Waiting(TaskState(state), until, "g", ahead, in_group, paused, held)
    return explain(found, limits, NOW)


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ({"state": "dead"}, "it is in the dead letters, until it is replayed"),
        (
            {"state": "invisible", "until": NOW + 1500},
            "it is running: its lease ends in 1.5 s",
        ),
        ({"state": "invisible", "until": NOW - 9}, "it is running: its lease ends in 0.0 s"),
        ({"state": "delayed", "until": NOW + 61_000}, "it is delayed: due in 61.0 s"),
        ({"state": "delayed", "until": NOW - 1}, "it is delayed: due in 0.0 s"),
        ({}, "it is ready: next"),
        ({"ahead": 1}, "it is ready: behind 1 ready task"),
        ({"ahead": 2}, "it is ready: behind 2 ready tasks"),
        ({"state": "waiting", "in_group": 1}, "it is waiting: behind 1 task of its group"),
        (
            {"state": "waiting", "in_group": 3, "ahead": 1},
            "it is waiting: behind 3 tasks of its group and 1 other ready task",
        ),
        (
            {"state": "waiting", "in_group": 1, "ahead": 7},
            "it is waiting: behind 1 task of its group and 7 other ready tasks",
        ),
        ({"state": "waiting"}, "it is waiting: next"),
        (
            {"paused": "inf"},
            "the queue is paused until it is resumed, and it is first then",
        ),
        (
            {"paused": str(NOW + 2500), "ahead": 2},
            "the queue is paused for another 2.5 s, and it is behind 2 ready tasks then",
        ),
        (
            {"held": NOW + 4000},
            "it waits for units of the queue's limit, for another 4.0 s",
        ),
        ({"held": NOW}, "it is ready: next"),
        ({"held": NOW + 4000, "ahead": 1}, "it is ready: behind 1 ready task"),
        (
            {"limits": [QUEUE, shut(GROUP, "closed by hand", IN_2_S)]},
            "its group 'g' is closed (by hand) for another 2.0 s, and it is first then",
        ),
        (
            {"limits": [QUEUE, shut(GROUP, "rate limited", IN_2_S)], "in_group": 2},
            "its group 'g' is closed (rate limited by its host) for another 2.0 s, and it is "
            "behind 2 tasks of its "
            "group then",
        ),
        (
            {"limits": [QUEUE, shut(GROUP, "spent", IN_2_S)]},
            "its group 'g' is closed (its rate is spent) for another 2.0 s, and it is first then",
        ),
        (
            {"limits": [QUEUE, shut(GROUP, "probe")]},
            "its group 'g' is closed (the first task after a rate limit is still running), and "
            "it is first then",
        ),
        (
            {"limits": [QUEUE, shut(GROUP, "concurrency")]},
            "its group 'g' is closed (as many tasks run as may), and it is first then",
        ),
        (
            {"limits": [shut(QUEUE, "spent", IN_2_S), GROUP], "ahead": 1},
            "the queue is closed (its rate is spent) for another 2.0 s, and it is behind 1 ready "
            "task then",
        ),
        (
            {"limits": [shut(QUEUE, "probe")]},
            "the queue is closed (the first task after a rate limit is still running), and it is "
            "first then",
        ),
        (
            {"limits": [shut(QUEUE, "spent", IN_2_S), shut(GROUP, "concurrency")]},
            "its group 'g' is closed (as many tasks run as may), and it is first then",
        ),
        (
            {"limits": [shut(QUEUE, "spent"), shut(GROUP, "probe")], "paused": "inf"},
            "the queue is paused until it is resumed, and it is first then",
        ),
        (
            {"state": "delayed", "until": NOW + 1000, "limits": [shut(QUEUE, "spent"), GROUP]},
            "it is delayed: due in 1.0 s",
        ),
        (
            {"state": "delayed", "until": NOW + 1000, "paused": str(NOW + 9000)},
            "it is delayed: due in 1.0 s, but the queue is paused for another 9.0 s",
        ),
        (
            {"state": "delayed", "until": NOW + 1000, "paused": str(NOW + 500)},
            "it is delayed: due in 1.0 s",
        ),
    ],
)
def test_sentences(task, sentence):
    """Why a task is not running, in every case."""
    assert told(**task) == sentence
