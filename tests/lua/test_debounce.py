"""debounce: a task that waits until its key has not been pushed for a time."""

import pytest

from dpq import ConfigurationError


def push(q, payload, debounce=5, debounce_max=None, **options):
    """Push one more time with the same key."""
    return q.push(payload, key="k", debounce=debounce, debounce_max=debounce_max, **options)


def test_bound(q, clock, probe):
    """No push delays the task beyond debounce_max after the first one; the newest bound counts."""
    push(q, 1, 5, 60)
    for payload in (2, 3):
        clock.advance(4)
        push(q, payload, 5, 10)
    clock.advance(1.999)
    assert q.pop().task is None
    clock.advance(0.001)
    assert probe.drain() == [3]


def test_running(q, clock, probe):
    """A task that runs runs once more: after its ack, and `debounce` after the newest push."""
    task_id = push(q, 1, 5, 6)
    clock.advance(5)
    task = probe.pop(100)
    for payload in (2, 3):
        clock.advance(4)
        assert push(q, payload, 5, 6) == task_id
    clock.advance(3)
    q.ack(task)
    assert q.pop().task is None
    clock.advance(1)
    push(q, 4, 5, 6)  # at most 6 seconds after the ack
    clock.advance(4.999)
    assert q.pop().task is None
    clock.advance(0.001)
    assert probe.drain() == [4]
    assert q.size() == 0


def test_refused(q):
    """What has no meaning is refused, and nothing is stored."""
    for message, options in {
        "no key: .* give its key": {"key": None},
        "debounce is 0: .* 0.001 to 315360000": {"debounce": 0},
        "debounce_max is 4: it must be at least debounce, which is 5": {"debounce_max": 4},
        "no debounce": {"debounce": None, "debounce_max": 9},
        "delay is 1, .* leave delay out": {"delay": 1},
        "every is 5": {"every": 5},
        "after is ": {"after": ["x"]},
        "unique_for is 9": {"unique_for": 9},
        "on_duplicate is 'update'": {"on_duplicate": "update"},
    }.items():
        with pytest.raises(ConfigurationError, match=message):
            q.push("x", **({"key": "k", "debounce": 5} | options))
    assert q.size() == 0
