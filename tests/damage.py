"""Damage to plant in the stored data of a queue, by raw commands: each kind that `check` names.

A plant takes a `Probe` and the ids of a filled queue, and returns what `check` then finds.
"""

from collections.abc import Callable
from typing import Any

from dpq import DPQ, Adaptive, RateLimit

Found = tuple[str, str]  # kind and subject
LONG = 10**8  # seconds of a lease that does not end by itself


def fill(q: Any, pad: str = "") -> dict[str, str]:
    """A task in every state, their payloads as long as the pad and more; their ids."""
    ids = {"dead": q.push("dead" + pad)}
    q.bury(q.pop().task, "r")
    ids["invisible"] = q.push("invisible" + pad)
    q.pop(visibility=1000)
    ids["ready"] = q.push("ready" + pad)
    ids["delayed"] = q.push("delayed" + pad, delay=60, key="k")
    ids["head"] = q.push("head" + pad, group="open")
    q.delay_group("shut", 60)
    ids["waiting"] = q.push("waiting" + pad, group="shut")
    return ids


def fill_limits(q: Any, clock: Any) -> dict[str, str]:
    """Running tasks, of a counted group, of a group's probe, and of the queue's; their ids."""
    ids = {}
    for name in ("probe", "counted", "free"):
        ids[name] = q.push(name, group=None if name == "free" else name)
    q.set_limit([RateLimit(3, 1, burst=2), RateLimit(5, 10, burst=2)], group="probe")
    q.set_limit(2, 1, 9, concurrency=7, adaptive=Adaptive(1, 5))
    q.set_limit(concurrency=2, group="counted")
    q.rate_limited(q.pop().task, 1)
    clock.advance(1)
    assert len(q.pop_many(3, visibility=LONG)) == 3
    q.push("x", group="closed")
    q.delay_group("closed", 60)
    return ids


def member(probe, task_id: str) -> str:
    return probe.record(task_id)["order"] + task_id


def bad_record(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("meta"), ids["ready"], "nonsense")
    return {("bad record", ids["ready"])}


def order_too_long(probe, ids) -> set[Found]:
    """A digit more: where its member is cut, the id would begin with it."""
    probe.damage(ids["waiting"], "order", probe.record(ids["waiting"])["order"] + "4")
    return {("bad record", ids["waiting"])}


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
    probe.lose_body(ids["dead"])
    return {("no payload", ids["dead"])}


def key_lost(probe, ids) -> set[Found]:
    probe.redis.hdel(probe.key("keys"), "k")
    return {("key lost", ids["delayed"])}


def head_not_ready(probe, ids) -> set[Found]:
    probe.redis.zrem(probe.key("ready"), member(probe, ids["head"]))
    return {("head not ready", "open"), ("in 0 states", ids["head"])}


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
    *(bad_record, order_too_long, not_the_head, in_no_state, in_two_states),
    *(no_payload, key_lost, head_not_ready, key_of_another_task, stale_place),
    *(no_head, event_not_noticed),
    *map(no_record_in, ["ready", "delayed", "invisible", "waiting", "dead", "payload", "keys"]),
]


Told = tuple[str, str, str]  # kind, subject and detail


def counted(name: str, entry: str) -> Callable:
    """An entry too many among the leases that are counted; `{counted}` is one that runs."""

    def plant(probe, ids) -> set[Told]:
        member = entry.format(**ids)
        probe.redis.zadd(probe.key("tracked"), {member: 0})
        return {("lease that has ended", member, "in tracked")}

    plant.__name__ = name
    return plant


def counted_but_not_running(probe, ids) -> set[Told]:
    task_id = probe.q.push("delayed", group="counted", delay=60)
    return counted("", f"counted\t{task_id}")(probe, ids)


def lease_not_counted(probe, ids) -> set[Told]:
    probe.redis.zrem(probe.key("tracked"), f"counted\t{ids['counted']}")
    return {("lease not counted", ids["counted"], "counted")}


LIMIT_DAMAGES = [
    counted("lease_that_has_ended", "counted\tgone"),
    counted_but_not_running,
    counted("counted_for_another_group", "other\t{counted}"),
    counted("no_member_at_all", "nonsense"),
    lease_not_counted,
]


def fill_settings(probe: Any, clock: Any) -> dict[str, str]:
    """A task, settings of each kind, limits of the queue, of a group and of all; its id."""
    more = {"order": "fifo", "aging": 0.5, "dead_max_tasks": 50, "clock": clock}
    with DPQ(probe.redis, probe.q.queue_name, **more) as named:
        task_id = named.push("x", group="g")
    probe.q.set_limit(2, 60, 2)
    probe.q.set_limit(3, 60, 3, group="*")
    probe.q.set_limit(1, 60, group="g")
    probe.q.pause(1000)
    return {"waiting": task_id}


def setting_lost(name: str) -> Callable:
    def plant(probe, ids) -> set[Found]:
        probe.redis.hdel(probe.key("stats" if name == "pushed" else "conf"), name)
        return {("limits not in force" if name == "gated" else "settings lost", name)}

    plant.__name__ = f"lost_{name}"
    return plant


def all_settings_lost(probe, ids) -> set[Found]:
    probe.redis.delete(probe.key("conf"))
    return {("settings lost", "format"), ("limits not in force", "gated")}


def unreadable(field: str, text: str) -> Callable:
    def plant(probe, ids) -> set[Found]:
        part = "conf" if field == "queue_rules" else "limits"
        probe.redis.hset(probe.key(part), field, text)
        return {("limit cannot be read", {"queue_rules": "", "groups": "*"}.get(field, field[6:]))}

    plant.__name__ = f"unreadable_{field}_{text}"
    return plant


SETTINGS_DAMAGES = [
    *map(setting_lost, ["format", "gated", "pushed"]),
    all_settings_lost,
    unreadable("queue_rules", "junk"),
    unreadable("groups", "0"),
    unreadable("group:g", "0|nan 1000 1"),
]
