"""The scripts of the dashboard: search, find_groups, dead_kinds, survey, names. They only look."""

from typing import Any

import pytest

from dpq import Push, TaskState


def search(probe: Any, state: str = "ready", **said: Any) -> tuple[list[Any], list[str]]:
    """The head of the reply of search, and the ids that it found."""
    names = ("score", "member", "most", "look", "max_bytes", "group", "least", "text")
    names = (*names, "reason", "fault", "recurs", "blind", "highest", "prefix", "age", "time")
    given = {"score": "", "member": "", "most": 50, "look": 100, "max_bytes": 10**6, "group": ""}
    given |= {"least": "", "text": "", "reason": "", "fault": "-", "recurs": 0}
    given |= {"blind": 0, "highest": "", "prefix": "", "age": "", "time": ""} | said
    reply = probe.call("search", state, *(given[name] for name in names))
    assert len(reply[5:]) % 4 == 0
    return reply[:5], [id_.decode() for id_ in reply[5::4]]


@pytest.mark.parametrize("state", list(TaskState))
def test_search_is_peek(q, probe, state):
    """Without a filter it finds the same tasks in the same order as peek, a page after another."""
    q.push_many([Push(n, n % 3, group="abc"[n % 3]) for n in range(20)])
    q.push_many([Push(n, delay=n % 4 + 1) for n in range(20)])
    q.push_many([Push(n, n % 3 + 9) for n in range(20)])
    for n, task in enumerate(q.pop_many(12)):
        if n % 2:
            q.bury(task, "no")
    q.push_many([Push(n, n % 3 + 9) for n in range(20)])
    before = probe.stored()
    wanted = [task.id for task in q.peek(100, state)]
    found, head = [], [0, 0, 1, "", ""]
    while head[2]:
        head, ids = search(probe, state.value, score=head[3], member=head[4], most=3)
        assert head[0] == head[1] == len(ids)
        found += ids
        assert head[2] == len(wanted) - len(found)
    assert found == wanted
    assert probe.stored() == before


def test_bytes_bound(q, probe):
    """One call answers at most so many bytes of payloads, but the first task in any case."""
    q.push_many([Push("x" * 98)] * 3)  # 100 bytes of JSON
    assert [len(search(probe, max_bytes=most)[1]) for most in (250, 1)] == [2, 1]


def test_search_by_group(q, probe):
    """In waiting it looks at the tasks of the group only; names that begin alike are others."""
    q.push_many([Push(n, group=g) for n in range(5) for g in ("a", "ab", "a.b", "b")])
    head, ids = search(probe, "waiting", group="a")
    assert head[:3] == [4, 4, 0]
    assert {q.get(id_).group for id_ in ids} == {"a"}
    head, _ = search(probe, "waiting", group="a", most=3)
    assert head[2] == 1
    assert len(search(probe, "waiting", group="a", score=head[3], member=head[4])[1]) == 1
    assert search(probe, "waiting", group="none")[0][:3] == [0, 0, 0]
    assert len(search(probe, group="ab")[1]) == 1


def test_search_by_text(q, probe):
    """It finds group, key, error and payload, in the record or apart; and no number before them."""
    inline = q.push({"word": "needle"}, 7654321)
    apart = q.push({"word": "needle", "long": "x" * 600})
    keyed = q.push(1, key="needle key")
    q.push(2)
    grouped = q.push(3, group="needle")
    failed = q.push(4, 10**9)
    q.fail(q.pop().task, "needle in the hay", delay=0)
    assert set(search(probe, text="needle")[1]) == {inline, apart, keyed, grouped, failed}
    assert search(probe, text="7654321")[1] == []
    assert search(probe, text="need.e")[1] == []
    assert set(search(probe, text="needle", blind=1)[1]) == {keyed, grouped, failed}
    for text in ('"word"', "\n", '\n{"word":"needle"'):
        assert search(probe, text=text, blind=1)[1] == []


def test_find_groups(q, probe):
    """By name in byte order and behind a name; closed ones by opening; the largest all."""
    q.push_many([Push(n, group=f"g{n % 12:02}") for n in range(48)])
    q.push_many([Push(n, group="ä") for n in range(3)])
    q.delay_group("g03", 60)
    q.delay_group("g01", 90)

    def named(*args: Any) -> list[Any]:
        texts = [text.decode() for text in probe.call("find_groups", *args)]
        return list(zip(texts[::2], map(int, texts[1::2]), strict=True))

    assert named("name", "", "", 3) == [("g00", 3), ("g01", 4), ("g02", 3)]
    assert named("name", "g1", "g10", 3) == [("g11", 3)]
    assert named("name", "", "g11", 9) == [("ä", 2)]
    assert named("name", "h", "", 9) == []
    assert named("closed", 0, "", 9) == [("g03", 4), ("g01", 4)]
    assert named("closed", 1, "", 9) == [("g01", 4)]
    assert dict(named("largest", "", "", 50)) == dict(named("name", "", "", 50))


def survey(probe, now):
    """The values of the script survey, its groups, and its events, as texts."""
    lists = [[text.decode() for text in texts] for texts in probe.call("survey", now)]
    return lists[0], lists[1], lists[4]


def test_survey(q, probe, clock):
    """It says the pause, closed groups, limits, and what comes next, and nothing of no queue."""
    values, held, _ = survey(probe, clock())
    assert values[1:9] == ["", "0", "", "0", "", "fifo", "none", "0"]
    assert held == []
    q.push("x", group="a")
    q.push("x", delay=9)
    q.delay_group("b", 60)
    q.set_limit(1, 1, group="c")
    q.pause(30)
    now = clock()
    values, held, events = survey(probe, now)
    assert values[:6] == [
        str(now), str(now + 30_000), "1", str(now + 60_000), "1", str(now + 9000),
    ]  # fmt: skip
    assert held == ["", "1"]  # no task of the closed group is due
    assert events == ["paused", "", str(now), f"until {now + 30_000}"]
    assert survey(probe, now + 30_000)[0][1] == ""
    q.pause()
    assert survey(probe, now)[0][1] == "inf"


def test_survey_counts_closings_while_they_last(q, probe, clock):
    """Closings, leases and delays that are over count as over, before any upkeep has moved them."""
    for n in range(9):
        q.push("x", group=f"g{n}")
        q.delay_group(f"g{n}", n + 1)
        q.push("x", delay=n + 1)
    for n in range(9):
        q.push("x")
        q.pop(visibility=n + 1)
    now = clock()
    for passed in range(11):
        values, held, _ = survey(probe, now + 1000 * passed)
        left = max(0, 9 - passed)
        assert values[2] == str(left)
        assert values[3] == (str(now + 1000 * (passed + 1)) if left else "")
        assert (values[9], values[10]) == (str(left), str(9 - left))
        assert held[2::2] == [f"g{n}" for n in range(passed, min(passed + 8, 9))]


@pytest.mark.damaged
def test_a_lost_record(q, probe):
    """It is read as a bad one, so that its dead letter is listed, and can be purged."""
    q.push("x")
    q.bury(q.pop().task, "no use")
    probe.redis.delete(probe.key("meta"))
    assert [task.reason for task in q.dead.list()] == ["bad record"]
    assert (q.dead.purge(), q.stats().dead) == (1, 0)
