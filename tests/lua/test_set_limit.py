"""set_limit: what the queue, a group or every group may do, set, changed and removed."""

import pytest
from kit.limits import LONG, SCOPES, fill, payloads, take

from dpq import Adaptive, Quota, RateLimit


def walk(probe, clock, field, rules, heavy=0):
    """All calls of one set_limit: what each says."""
    said = [[b"set", b"0"]]
    while said[-1][0] != b"done":
        said.append(probe.call("set_limit", clock(), field, rules, heavy, *said[-1]))
    return said[1:]


# What is stored


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((10, 1), b"0|10 1000 1"),
        ((2.5, 0.5, 3), b"0|2.5 500 3"),
        (([RateLimit(5000, 3600), RateLimit(10, 1, 2)],), b"0|10 1000 2|5000 3600000 1"),
    ],
)
def test_text(q, probe, given, text):
    """A limit is stored as one line, the shortest window first: the queue's own in conf."""
    q.set_limit(*given)
    q.set_limit(*given, group="g")
    q.set_limit(*given, group="*")
    assert probe.stored()["conf"][b"queue_rules"] == text
    assert probe.stored()["limits"] == {b"group:g": text, b"groups": text}


# For whom, and from when


@pytest.mark.parametrize("scope", SCOPES)
def test_said_again(q, clock, scope):
    """A limit that each process says at its start gives nothing away: what was granted counts."""
    fill(q, 4)
    for _ in range(3):
        q.set_limit(1, 10, burst=2, group=scope)
        payloads(q)
    assert q.stats().popped == 2
    clock.advance(9.999)
    q.set_limit(1, 10, burst=2, group=scope)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [2]


# Groups that are closed already, and heads that are ready


@pytest.mark.parametrize("scope", ["g", "*"])
def test_a_spent_group_opens_for_a_looser_limit(q, scope):
    """A group that is spent is open at once when its new limit lets it run."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    assert payloads(q) == [0]
    q.set_limit(concurrency=5, group=scope)
    assert [task.payload for task in q.peek()] == [1]


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_closed_otherwise_stays_closed(q, clock, scope):
    """Neither a new limit nor its end opens the groups that a 429 or a hand has closed."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    fill(q, 3, group="h")
    q.rate_limited(q.pop().task, 60)
    q.delay_group("h", 60)
    q.set_limit(5, 1, group=scope)
    assert payloads(q) == []
    q.clear_limit(scope)
    assert payloads(q) == []
    clock.advance(59.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert sorted(payloads(q)) == [0, 0, 1, 2]


# Leases that are out


@pytest.mark.parametrize("scope", SCOPES)
def test_concurrency_counts_the_leases_that_are_out(q, scope):
    """A concurrency that is set while leases are out counts them, more than it allows included."""
    fill(q, 9)
    tasks = q.pop_many(4, visibility=LONG)
    q.set_limit(concurrency=2, group=scope)
    assert (q.peek() == []) is (scope == "g")
    for task in tasks[:2]:
        assert payloads(q) == []
        q.ack(task)
    assert payloads(q) == []
    q.ack(tasks[2])
    assert payloads(q) == [4]
    assert payloads(q) == []
    q.set_limit(concurrency=4, group=scope)
    assert payloads(q) == [5, 6]


@pytest.mark.parametrize("scope", ["g", "*"])
def test_concurrency_counts_more_leases_than_a_call_looks_at(server, q, clock, probe, scope):
    """With 2500 leases out each of them is counted, in bounded steps."""
    fill(q, 2503)
    tasks = [task for _ in range(5) for task in q.pop_many(500, visibility=LONG)]
    field = "groups" if scope == "*" else "group:g"
    said = walk(probe, clock, field, "2501")
    assert [step for step, _ in said].count(b"leases") >= 1
    assert payloads(q) == [2500]
    assert payloads(q) == []
    q.ack_many(tasks[:2])
    assert payloads(q) == [2501, 2502]


def test_pops_between_the_calls(server, q, clock, probe):
    """What is popped while the leases are still being counted counts too, and twice for nobody."""
    fill(q, 2503)
    for _ in range(5):
        q.pop_many(500, visibility=LONG)
    said = probe.call("set_limit", clock(), "group:g", "2502", 0, "set", "0")
    assert said[0] == b"leases"
    assert payloads(q, 1) == [2500]
    while said[0] != b"done":
        said = probe.call("set_limit", clock(), "group:g", "2502", 0, *said)
    assert payloads(q) == [2501]
    assert payloads(q) == []


# Who is told


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("change", ["looser", "clear"])
def test_wakes(q, clock, probe, scope, change):
    """Whoever sleeps by the old limit is told to look, and pushes wake again."""
    q.set_limit(1, 10, group=scope)
    fill(q, 3)
    assert payloads(q) == [0]
    q._session.run(q._operations.pop, 1, None, "-")
    probe.woken()
    if change == "clear":
        q.clear_limit(scope)
    else:
        q.set_limit(1, 10, 3, group=scope)
    assert probe.woken()
    assert not {b"shut_until", b"watched"} & set(probe.stored()["conf"])
    q.push("new")
    assert probe.woken()


# Begun anew


def reset(q, scope, *limit, **more):
    """Set a limit, which begins anew."""
    q.set_limit(*limit, group=scope, reset=True, **more)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "limit", [RateLimit(2, 60, 2), RateLimit(2, 60, moving=True), Quota(2, "day")]
)
def test_reset(q, clock, scope, limit):
    """What was granted counts no more; without `reset` it does."""
    q.set_limit([limit], group=scope)
    fill(q, 9)
    assert payloads(q) == [0, 1]
    if not isinstance(limit, Quota):
        q.clear_limit(scope)
    q.set_limit([limit], group=scope)
    assert payloads(q) == []
    reset(q, scope, [limit])
    assert payloads(q) == [2, 3]
    assert payloads(q) == []
    assert q.check() == []


@pytest.mark.parametrize("scope", [None, "g"])
def test_what_was_learned_is_forgotten(q, clock, scope):
    """The rate, the slack, the estimates, and what the host has said; totals go on."""
    q.set_limit(
        [RateLimit(8, 1, adaptive=Adaptive(1, 20)), RateLimit(900, 1, 900, unit="t")], group=scope
    )

    def state():
        return q.admin.limits()[0] if scope is None else q.admin.group(scope)

    fill(q, 9, scope)
    q.ack(take(q), cost={"t": 700})
    clock.advance(1)
    q.rate_limited(take(q), 0)
    q.observe(scope, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"})
    clock.advance(1)
    assert state().rate < 8
    assert state().budgets
    reset(q, scope, [RateLimit(8, 1, adaptive=Adaptive(1, 20)), RateLimit(900, 1, 900, unit="t")])
    assert state().rate == 8
    assert not state().budgets
    assert state().units_left == (1, 900)
    assert state().granted[0] == 2
    take(q)
    assert state().units_left[1] == 900


@pytest.mark.parametrize("field", ["queue", "group:g", "groups"])
def test_a_reset_that_is_sent_again_resets_once(q, probe, clock, field):
    """What was granted between the two calls counts, however long the first answer took."""
    scope = {"queue": None, "groups": "*"}.get(field, "g")
    q.set_limit(2, 60, 2, group=scope)
    fill(q, 9)
    assert payloads(q) == [0, 1]

    def send(number):
        said = [b"set", b"0"]
        while said[0] != b"done":
            said = probe.call("set_limit", clock(), field, "0|2 60000 2", 0, *said, number)

    send(77)
    assert payloads(q) == [2, 3]
    clock.advance(1)
    send(77)
    assert payloads(q) == []
    send(78)
    assert payloads(q) == [4, 5]
