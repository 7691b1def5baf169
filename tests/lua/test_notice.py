"""notice: who waits, and a daemon, are told of what comes soon, and of nothing later."""

import pytest

from dpq import Push

CALLS = {
    "push": lambda q, task, seconds: q.push("x", delay=seconds),
    "push update": lambda q, task, seconds: q.push(
        "x", delay=seconds, key="k", on_duplicate="update"
    ),
    "update": lambda q, task, seconds: q.update(key="k", delay=seconds),
    "release": lambda q, task, seconds: q.release(task, seconds),
    "fail": lambda q, task, seconds: q.fail(task, "no", seconds),
    "set_visibility": lambda q, task, seconds: q.set_visibility(task, seconds),
    "extend": lambda q, task, seconds: q.extend(task, seconds),
    "rate_limited": lambda q, task, seconds: q.rate_limited(task, seconds),
    "delay_group": lambda q, task, seconds: q.delay_group("g", seconds),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("seconds", "told"), [(4.999, {"wake", "tick"}), (9.999, {"wake"}), (10, set())]
)
def test_notice(q, probe, call, seconds, told):
    """Whatever brings it about: a task that is due, the end of a lease, the opening of a group."""
    q.push_many(Push(n, group="g") for n in range(2))
    task = probe.pop()
    q.push("later", delay=60, key="k")
    probe.redis.delete(probe.key("wake"), probe.key("tick"))
    CALLS[call](q, task, seconds)
    assert {"wake", "tick"} & set(probe.stored()) == told
