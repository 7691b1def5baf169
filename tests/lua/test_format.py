"""The storage format: another one is refused by every call, and one that is no number is lost."""

from collections.abc import Callable
from typing import Any

import pytest
from kit.limits import fill

from dpq import DPQ, ConfigurationError, Push, Task
from dpq.script.keys import STORAGE_FORMAT
from dpq.verbs.batches import CHECKED_PARTS

pytestmark = pytest.mark.damaged

REFUSED: dict[str, Callable[[DPQ[Any]], object]] = {
    "push": lambda q: q.push("y"),
    "push update": lambda q: q.push("y", key="k", on_duplicate="update"),
    "push_many": lambda q: q.push_many([Push("y", group="g"), Push("z", delay=1)]),
    "pop": lambda q: q.pop(),
    "waiting pop": lambda q: q.pop(timeout=1),
    "promote": lambda q: q.promote(),
    "check": lambda q: q.check(),
    "set_limit": lambda q: q.set_limit(3, 1, group="g"),
    "update": lambda q: q.update(key="k", priority=3),
    "update of no task": lambda q: q.update("unknown", priority=3),
    "observe": lambda q: q.observe(
        "g", headers={"x-ratelimit-remaining": "5", "x-ratelimit-reset": "9"}
    ),
    "acquire": lambda q: q.acquire(timeout=0).__enter__(),
    "a setting": lambda q: DPQ(q.redis, q.queue_name, order="lifo"),
}


@pytest.mark.parametrize("text", ["1", "2", "3", "4", "01", "002", "0", "99999999999999999999"])
def test_another_number_is_another_format(server, q, clock, probe, redis, text):
    """Both numbers are named, by who has the queue open and by who opens it; nothing is changed."""
    q.set_limit(2, 60, 2, group="g")
    q.push_many([Push("x", key="k"), Push("due", delay=1)])
    clock.advance(2)
    probe.redis.hset(probe.key("conf"), "format", text)
    before = probe.stored()
    message = f"in format {text}, and this DPQ knows format {STORAGE_FORMAT}: run"
    with DPQ(redis, q.queue_name, clock=clock) as late:
        for client in (q, late):
            for name, call in REFUSED.items():
                with pytest.raises(ConfigurationError, match=message):
                    call(client)
                assert probe.stored() == before, name


def test_each_step_of_a_check_compares_the_format(q, probe, clock):
    """Also when the queue is taken over in the middle of a check."""
    q.push("x")
    probe.redis.hset(probe.key("conf"), "format", "5")
    probe.redis.hset(probe.key("meta"), "new", "a record of another form")
    before = probe.stored()
    for part in CHECKED_PARTS:
        assert probe.call("check", clock(), part, "0", 100)[0] == -8
    assert probe.call("types", clock(), 1, 1)[0] == -8
    assert probe.stored() == before


def test_a_holder_may_end_its_work_in_a_newer_queue(q, probe, clock):
    """What was popped before is extended and ended, and the queue can be paused and dropped."""
    q.push_many(map(Push, range(6)))
    held: list[Task[Any]] = q.pop_many(6)
    probe.redis.hset(probe.key("conf"), "format", "5")
    q.extend(held[0], 60)
    q.ack(held[0])
    q.fail(held[1], "error")
    q.bury(held[2], "reason")
    q.release(held[3])
    q.set_visibility(held[4], 5)
    q.rate_limited(held[5], 5, "task")
    q.pause()
    stats = q.stats()
    assert (stats.acked, stats.failed, stats.buried, stats.deferred) == (1, 1, 1, 2)
    q.admin.drop()
    assert probe.stored() == {}


REFUSAL = """
local conf = KEYS[1]
local format = redis.call('HGET', conf, 'format')
if format ~= FORMAT then
  format = format and string.match(format, '^%d+$') or false
end
if format and format ~= FORMAT then
  return { -8, format, FORMAT, conf }
end
"""

EARLIER = {
    "a92f6d3": f"local FORMAT = '02'\n{REFUSAL}",
    "f8c136f": f"local FORMAT = '01'\n{REFUSAL}",
    "63d07c0": """
local conf, partitions = KEYS[1], ARGV[1]
local stored = redis.call('HGET', conf, 'partitions')
if partitions ~= '0' and (stored or '1') ~= (partitions or '1')
  and (stored or redis.call('HGET', conf, 'format')) then
  return { -7, stored or '1', partitions or '1', conf }
end
""",
    "294155f": """
local conf = KEYS[1]
local format = redis.call('HGET', conf, 'format')
if format ~= '4' then
  format = format and string.match(format, '^%d+$') or false
end
if format and format ~= '4' and format ~= '3' then
  return { -8, format, '4', conf }
end
""",
}
"""What push, pop and promote of earlier programs compare, by their commits."""


@pytest.mark.parametrize("text", ["", "junk", "1.0", " 01", "01 ", "-1", "01\n", "٣", "²", "0x1"])
def test_a_format_that_is_no_number_is_lost(server, q, clock, probe, redis, text):
    """For every reader: it is named, and opens no limit; nobody is refused."""
    q.set_limit(2, 60, 2, group="g")
    fill(q, 20)
    probe.redis.hset(probe.key("conf"), "format", text)
    with DPQ(redis, q.queue_name, clock=clock) as late:
        assert late.stats().ready + late.stats().waiting == 20
        assert [(p.kind, p.subject) for p in late.check()] == [("settings lost", "format")]
        q.push("x", group="other")
        q.promote()
        assert sorted(task.group for task in late.pop_many(20)) == ["g", "g", "other"]
