"""in_flight: the groups of the tasks under a lease, a page at a time."""

from collections import Counter

from kit.limits import LONG

from dpq import Push


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
