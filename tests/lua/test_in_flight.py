"""in_flight: the groups of the tasks under a lease, a page at a time."""

from collections import Counter

import pytest
from kit.limits import LONG

from dpq import Push


def test_nothing(q, probe):
    """Without leases there is one empty page."""
    q.push("x", group="g")
    assert probe.call("in_flight", "0") == [b"0"]


def test_each_lease_once(q, probe):
    """One name for each lease, "" for a task without a group."""
    q.push_many(Push(payload=i, group=group) for i, group in enumerate(["a", "b", None, "a", "b"]))
    tasks = q.pop_many(4)
    cursor, *page = probe.call("in_flight", "0")
    assert sorted(page[::2]) == sorted(task.id.encode() for task in tasks)
    assert (cursor, sorted(page[1::2])) == (b"0", [b"", b"a", b"a", b"b"])
    q.ack(tasks[0])
    q.release(tasks[1])
    assert sorted(probe.call("in_flight", "0")[2::2]) == [b"", b"a"]


def test_pages(server, q, probe):
    """Many leases come in bounded pages, and `limits` and `group` add them up."""
    q.push_many(Push(payload=i, group="abc"[i % 3] if i % 4 else None) for i in range(3000))
    expected = Counter(
        task.group
        for task in [
            *q.pop_many(1000, 0, LONG),
            *q.pop_many(1000, 0, LONG),
            *q.pop_many(1000, 0, LONG),
        ]
    )
    found, cursor, calls = Counter(), b"0", 0
    while calls == 0 or cursor != b"0":
        cursor, *page = probe.call("in_flight", cursor)
        found.update(name.decode() or None for name in page[1::2])
        calls += 1
    assert found == expected
    assert calls > 1
    assert q.limits()[0].in_flight == 3000
    assert q.group("a").in_flight == expected["a"]


def test_names(q):
    """Group names with spaces, colons and Lua's pattern characters are counted as they are."""
    names = ["%a+", "a b", "a:b", "é'\"", "a\u2028b", "-"]
    q.push_many(Push(payload=1, group=name) for name in names)
    q.pop_many(99)
    assert [q.group(name).in_flight for name in names] == [1] * len(names)


@pytest.mark.damaged
def test_a_lease_without_a_record(q, probe):
    """A lease whose record is gone counts for the queue, and breaks nothing."""
    task_id = q.push("x", group="g")
    q.pop(visibility=LONG)
    probe.redis.hdel(probe.key("meta"), task_id)
    assert (q.limits()[0].in_flight, q.group("g").in_flight) == (1, 0)
