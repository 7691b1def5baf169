"""check: every kind of damage is found, and a sound queue has none."""

from collections.abc import Callable

import pytest

from dpq import Problem

Found = tuple[str, str]  # kind and subject


def member(probe, task_id: str) -> str:
    return probe.record(task_id)["order"] + task_id


def bad_record(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("meta"), ids["ready"], "nonsense")
    return {("bad record", ids["ready"])}


def wrong_score(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("ready"), {member(probe, ids["ready"]): 4})
    return {("wrong score", ids["ready"])}


def not_the_head(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("groups"), "open", "-0 nobody")
    return {("not the head", ids["head"]), ("head not ready", "open")}


def in_no_state(probe, ids) -> set[Found]:
    probe.redis.zrem(probe.key("delayed"), ids["delayed"])
    return {("in 0 states", ids["delayed"])}


def in_two_states(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("delayed"), {ids["invisible"]: 1})  # due before all that is known
    return {("in 2 states", ids["invisible"]), ("event not noticed", ids["invisible"])}


def no_payload(probe, ids) -> set[Found]:
    probe.redis.hdel(probe.key("payload"), ids["dead"])
    return {("no payload", ids["dead"])}


def key_lost(probe, ids) -> set[Found]:
    probe.redis.hdel(probe.key("keys"), "k")
    return {("key lost", ids["delayed"])}


def head_not_ready(probe, ids) -> set[Found]:
    probe.redis.zrem(probe.key("ready"), member(probe, ids["head"]))
    return {("head not ready", "open"), ("in 0 states", ids["head"])}


def closed_group_with_a_head(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("closed"), {"open": 9e12})
    return {("closed group with a head", "open")}


def event_not_noticed(probe, ids) -> set[Found]:
    probe.redis.hdel(probe.key("conf"), "next_event")
    return {("event not noticed", ids[state]) for state in ("delayed", "invisible")} | {
        ("event not noticed", "shut")
    }


def no_record_in(part: str) -> Callable:
    def plant(probe, ids) -> set[Found]:
        if part in ("payload", "keys"):
            entry = {"payload": ("gone", "1"), "keys": ("gone's key", "gone")}[part]
            probe.redis.hset(probe.key(part), *entry)
        else:
            entry = {"ready": "1" + "0" * 15, "waiting": "open\t" + "8" * 18 + "1" + "0" * 15}
            probe.redis.zadd(probe.key(part), {entry.get(part, "") + "gone": 9e12})
        return {("no record", "gone")}

    plant.__name__ = f"no_record_in_{part}"
    return plant


def key_of_another_task(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("keys"), "other", ids["ready"])
    return {("key of another task", ids["ready"])}


def stale_place(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("ready"), {"1" + "0" * 15 + ids["invisible"]: 0})
    return {("stale place", ids["invisible"])}


def no_head(probe, ids) -> set[Found]:
    probe.redis.zrem(probe.key("closed"), "shut")
    return {("no head", ids["waiting"])}


DAMAGES = [
    bad_record,
    wrong_score,
    not_the_head,
    in_no_state,
    in_two_states,
    no_payload,
    key_lost,
    head_not_ready,
    closed_group_with_a_head,
    key_of_another_task,
    stale_place,
    no_head,
    event_not_noticed,
    *map(no_record_in, ["ready", "delayed", "invisible", "waiting", "dead", "payload", "keys"]),
]


@pytest.fixture
def ids(q) -> dict[str, str]:
    """The ids of a queue with a task in every state."""
    ids = {"dead": q.push("dead")}
    q.bury(q.pop().task, "r")
    ids["invisible"] = q.push("invisible")
    q.pop(visibility=1000)
    ids["ready"] = q.push("ready")
    ids["delayed"] = q.push("delayed", delay=60, key="k")
    ids["head"] = q.push("head", group="open")
    q.delay_group("shut", 60)
    ids["waiting"] = q.push("waiting", group="shut")
    assert q.check() == []
    return ids


@pytest.mark.damaged
@pytest.mark.parametrize("plant", DAMAGES, ids=lambda plant: plant.__name__)
def test_finds(q, probe, ids, plant):
    """Planted damage is reported with its kind and its subject, and nothing else is."""
    expected = plant(probe, ids)
    assert {(problem.kind, problem.subject) for problem in q.check()} == expected


@pytest.mark.damaged
def test_finds_damage_on_a_later_page(q, probe):
    """The cursor is followed to the end: damage among many tasks is found once."""
    for i in range(700):
        q.push(i, delay=i)
    last = q.peek(700, "delayed")[-1].id
    probe.redis.hdel(probe.key("payload"), last)
    assert q.check() == [Problem(kind="no payload", subject=last)]


def test_changes_nothing(q, probe, ids):
    """A check leaves everything as it was."""
    before = probe.stored()
    q.check()
    assert probe.stored() == before


def test_page_is_bounded(q, probe):
    """One call looks at about `count` entries and says where to go on."""
    for i in range(1000):
        q.push(i)
    cursor, *found = probe.call("check", "meta", "0", 10)
    assert cursor != b"0"
    assert found == []


def test_names_with_pattern_characters(q):
    """Group and key names with Lua's pattern characters, spaces and quotes are no damage."""
    for name in ("%a+", "a b", "^.*$", "[x]", "é'\"", "a\u2028b"):
        q.push(1, group=name, key=name)
        q.push(2, group=name)
    assert q.check() == []
