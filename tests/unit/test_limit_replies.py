"""limit_replies: what the scripts say about limits becomes data and sentences."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from dpq import LimitState, TaskState
from dpq.operations.limit_replies import Waiting, explain, read_limits

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
    ],
)
def test_sentences(task, sentence):
    """Why a task is not running, in every case."""
    assert told(**task) == sentence
