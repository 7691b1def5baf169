"""Room for the way to a host: said as `slack`, or learned from 429s of a limit that was kept."""

import pytest
from kit.limits import LONG, SCOPES
from kit.moments import first_after_429

from dpq import Adaptive, ConfigurationError, Push, RateLimit, Reserve


@pytest.fixture
def fill(q):
    q.push_many(Push(payload=i, group="g") for i in range(100))


def take(q):
    return q.pop(visibility=LONG).task


def learned(q, scope="g"):
    return (q.group("g") if scope else q.limits()[0]).slack


def interval(q, clock):
    """Seconds until the next unit, to the millisecond; it is taken then, and acked."""
    for ms in range(1, 100_000):
        clock.advance(0.001)
        if task := take(q):
            q.ack(task)
            return ms / 1000
    raise AssertionError("nothing came")


def refuse(q, clock, scope="g", seconds=1.0, pause=0.2):
    """A 429 of a task that is popped after a pause, its closing, and the probe after that."""
    clock.advance(pause)
    q.ack(first_after_429(q, clock, "group" if scope else "queue", seconds))


@pytest.mark.parametrize("scope", SCOPES)
def test_said(q, clock, fill, scope):
    """The window is so much longer: 4 units go in 1.2 s, one each 300 ms."""
    q.set_limit(4, 1, group=scope, slack=0.2)
    q.ack(take(q))
    assert [interval(q, clock) for _ in range(4)] == [0.3] * 4


def test_said_with_all_else(q, clock, probe):
    """Slack stands beside burst, reserve and learning, in each window for itself, and is shown."""
    windows = (
        RateLimit(4, 1, 5, adaptive=Adaptive(1, 8), slack=0.05),
        RateLimit(9, 60, 5, slack=0),
        RateLimit(50, 3600),
    )
    q.set_limit(windows, group="g", concurrency=3)
    assert probe.stored()["limits"][b"group:g"] == (
        b"3~1 8 1.0|4 1000 5 +50|9 60000 5 +0|50 3600000 1"
    )
    assert q.group("g").windows == windows


@pytest.mark.parametrize("priority", [7.5, 9e18])
def test_said_with_a_reserve(q, clock, probe, priority):
    """A reserve keeps its units and its priority beside a slack, and without one."""
    for slack in (0.1, None):
        limit = RateLimit(1, 100, 4, Reserve(2, priority), slack=slack)
        q.set_limit(limit, group="g")
        assert q.group("g").windows == (limit,)
        q.push_many(Push(payload=i, group="g") for i in range(5))
        assert len(q.pop_many(9, visibility=LONG)) == 2
        clock.advance(10_000)


@pytest.mark.parametrize("slack", [-0.001, 3600.001, "1", True, float("nan")])
def test_refused(q, probe, slack):
    """A slack that is none is refused by name, and nothing is stored."""
    with pytest.raises(ConfigurationError, match=r"^slack is .* from 0 to 3600$"):
        q.set_limit(1, 1, slack=slack)
    assert "limits" not in probe.stored()


@pytest.mark.parametrize("scope", SCOPES)
def test_learned(q, clock, fill, scope):
    """A 429 of a limit that was kept gives it a twentieth of its window, in every scope."""
    q.set_limit(10, 1, group=scope)
    assert learned(q, scope) == 0
    refuse(q, clock, scope)
    assert learned(q, scope) == 0.05
    assert [interval(q, clock) for _ in range(3)] == [0.105] * 3


def test_twice_as_much_when_that_was_too_little(q, clock, fill):
    """Another 429 within five windows doubles it; the window itself is the most."""
    q.set_limit(10, 1, group="g")
    seen = []
    for _ in range(6):
        refuse(q, clock)
        seen.append(learned(q))
    assert seen == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


def test_an_eighth_more_later(q, clock, fill):
    """When it was enough for a while, little is missing."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    refuse(q, clock, pause=10)
    assert learned(q) == pytest.approx(0.05 * 1.125, abs=0.0015)


def test_a_long_window(q, clock, fill):
    """The way is as long whatever the window's length: 50 ms at first, and at most an hour."""
    q.set_limit(100, 86400, group="g")
    seen = []
    for _ in range(18):
        refuse(q, clock, seconds=1000, pause=1000)
        seen.append(learned(q))
    assert (seen[0], seen[-1]) == (0.05, 3600.0)
    assert seen[1] == pytest.approx(0.1, abs=0.001)


def test_it_is_forgotten_slowly(q, clock, fill):
    """Half of it is left after 20 minutes, without a word in between, and nothing at last."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    for left in (0.025, 0.013):
        clock.advance(1200)
        q.ack(take(q))
        assert learned(q) == pytest.approx(left, abs=0.001)
    clock.advance(8 * 1200)
    assert learned(q) == 0
    q.ack(take(q))
    assert interval(q, clock) == 0.1


def test_it_stays_when_the_limit_is_said_again(q, clock, fill, probe):
    """Each process says its limit at its start: what was learned stays."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    q.set_limit(10, 1, group="g")
    assert learned(q) == 0.05


def test_it_outlives_the_tasks(q, clock, fill):
    """A group that has run empty finds it again, minutes later, though gates are forgotten."""
    q.set_limit(10, 1, group="*")
    refuse(q, clock)
    q.purge()
    clock.advance(60)
    q.push_many(Push(payload=1, group=f"other {i}") for i in range(20))
    q.ack_many(q.pop_many(20, visibility=LONG))
    for _ in range(10):
        q.promote()
        clock.advance(10)
    assert learned(q) > 0.04


def test_said_after_learned(q, clock, fill):
    """A slack that is said takes the place of what was learned, also in what is shown."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    assert q.group("g").slack == 0.05
    q.set_limit(10, 1, group="g", slack=0)
    assert q.group("g").slack == 0


@pytest.mark.many_calls
def test_a_rate_is_learned_after_a_slack(q, clock):
    """A limit that learns its rate takes no slack for a rate at which it met a 429."""
    seen = []
    for group in ("fresh", "g"):
        q.push_many(Push(n, group=group) for n in range(200))
        if group == "g":
            q.set_limit(10, 1, group=group)
            refuse(q, clock)
        q.set_limit(2, 1, group=group, adaptive=Adaptive(1, 500))
        clock.advance(1000)
        rates = []
        for _ in range(60):
            q.ack_many(q.pop_many(9, visibility=LONG))
            clock.advance(0.25)
            rates.append(q.group(group).rate)
        q.purge()
        seen.append(rates)
    assert seen[0] == seen[1]


def test_a_clock_that_steps_back(q, clock, fill):
    """A moment of learning that is still to come is taken for now: it is forgotten from then on."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    clock.advance(-86400)
    q.delay_group("g", 0)
    clock.advance(2)
    q.ack(q.pop().task)
    clock.advance(2 * 3600)
    assert q.group("g").slack < 0.005


# What teaches nothing


def test_a_probe(q, clock, fill):
    """Nothing came close to a probe: that the host still refuses says nothing of the way."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    clock.advance(0.2)
    q.rate_limited(take(q), 1)  # soon after: it doubles
    for _ in range(3):
        clock.advance(1)
        q.rate_limited(take(q), 1)
    assert learned(q) == 0.1


def test_the_same_incident(q, clock, fill):
    """What was on its way when the limit was hit counts once, whenever its 429 comes."""
    q.set_limit(10, 1, burst=5, group="g")
    tasks = q.pop_many(5, visibility=LONG)
    for task in tasks[:3]:
        q.rate_limited(task, 1)
        clock.advance(0.1)
    clock.advance(5)
    q.ack(take(q))
    q.rate_limited(tasks[3], 1)
    assert learned(q) == 0.05


def test_the_same_call_again(q, clock, fill):
    """A delivery that says it again adds nothing."""
    q.set_limit(10, 1, group="g")
    task = take(q)
    q.rate_limited(task, 1)
    clock.advance(3)
    q.rate_limited(task, 1)
    assert learned(q) == 0.05


@pytest.mark.parametrize(
    "settings",
    [{"slack": 0}, {"slack": 0.2}, {"adaptive": Adaptive(1, 20)}],
    ids=["none", "said", "a rate"],
)
def test_where_it_is_not_learned(q, clock, fill, settings):
    """A slack that was said stays what it is; a limit that learns its rate needs none."""
    q.set_limit(10, 1, group="g", **settings)
    refuse(q, clock)
    assert learned(q) == 0


def test_a_task_alone(q, clock, fill):
    """A 429 for one task alone says nothing of the group."""
    q.set_limit(10, 1, group="g")
    q.rate_limited(take(q), 1, "task")
    assert learned(q) == 0


def test_without_a_limit(q, clock, fill):
    """A closing of a group without a limit learns nothing, and stores nothing more than itself."""
    q.rate_limited(take(q), 1)
    assert learned(q) == 0


@pytest.mark.many_calls
def test_the_bound_holds_meanwhile(q, clock, fill):
    """Whatever is learned and forgotten: never more than the rate in any window."""
    q.set_limit(10, 1, group="g")
    granted = []
    for step in range(3000):
        if task := take(q):
            granted.append(clock())
            if step % 700 == 600:
                q.rate_limited(task, 0.2)
            else:
                q.ack(task)
                q.push("more", group="g")
        clock.advance(0.01)
    assert len(granted) > 200
    assert all(later - first >= 1000 for first, later in zip(granted, granted[10:], strict=False))


# What is stored


def test_a_gate_of_before(q, clock, fill, probe):
    """A gate that knows of no slack is read as it was; what it grants still counts."""
    q.set_limit(10, 1, group="g")
    probe.redis.hset(probe.key("gates"), "g", f"- 1000:{clock() + 70} ")
    assert take(q) is None
    clock.advance(0.07)
    assert take(q) is not None
    assert q.check() == []
    assert learned(q) == 0


def test_what_is_learned_is_sound(q, clock, fill):
    """Check finds nothing to say of it, and leaves it."""
    q.set_limit(10, 1, group="g")
    q.set_limit(10, 1)
    for scope in ("g", None):
        refuse(q, clock, scope)
    assert q.check() == []
    assert (learned(q), learned(q, None)) == (0.05, 0.05)


@pytest.mark.damaged
@pytest.mark.parametrize("text", ["0:9e99:1", "0:99999999999999999999:99999999999999", "0:1.2.3:."])
def test_damaged(q, clock, fill, probe, text):
    """A slack that nobody has learned holds no queue up for more than a second a window.

    What cannot be read at all counts as a window that is spent.
    """
    q.set_limit(10, 1, group="g")
    q.ack(take(q))
    probe.redis.hset(probe.key("gates"), "g", f"- {text} 1000:{clock()} ")
    clock.advance(2)
    took = take(q) is not None
    clock.advance(1)
    assert took or take(q) is not None
    clock.advance(1)
    assert take(q) is not None
