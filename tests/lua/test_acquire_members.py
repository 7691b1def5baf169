"""acquire: callers who must be one member of a pool, and callers who cannot learn theirs."""

import pytest
from kit.askers import Asker
from kit.limits import fill, payloads, take

from dpq import ConfigurationError
from dpq.testing import Clock


def test_a_caller_gets_the_member_that_it_names(q, clock):
    """Only that member is charged, and only its windows hold the caller up."""
    q.set_limit(1, 1, group="g", members=["a", "b"])
    answers = [Asker(q, member="b").ask() for _ in range(3)]
    assert [answer.scope for answer in answers] == ["g\tb"] * 3
    assert [answer.wait for answer in answers] == [0, 1, 2]
    assert Asker(q, member="a").ask().wait == 0
    assert q.check() == []


def test_a_429_closes_the_member_that_was_named(q, clock):
    """Another member goes on, for named callers, for others, and for tasks."""
    q.set_limit(9, 1, 9, group="g", members=["a", "b"])
    met = Asker(q, member="b")
    met.ask()
    met.met(60)
    assert [state.open for state in q.admin.group("g").members] == [True, False]
    late = Asker(q, member="b")
    assert late.ask().code == 0
    assert Asker(q, member="a").ask().code == 1
    assert Asker(q).ask().scope == "g\ta"
    fill(q, 1)
    assert take(q).member == "a"
    clock.advance(60)
    assert late.ask().scope == "g\tb"
    assert q.check() == []


@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": 1, "per": 9}])
def test_a_caller_who_waits_for_its_member_holds_nobody_else_up(q, clock, limit):
    """It stands in the line of its member: whoever takes another one passes it by."""
    q.set_limit(**limit, group="g", members=["a", "b"])
    assert Asker(q, member="a").ask().code == 1
    first = Asker(q, member="a", timeout=60, priority=9)
    assert first.ask().code != 1 or first.caller.moment
    others = [Asker(q, member="b"), Asker(q, member="b")]
    assert others[0].ask().wait == 0
    assert q.check() == []


def test_a_line_of_a_member_is_served_in_order(q, clock):
    """The end of its lease calls the first caller who must be it; others keep behind."""
    q.set_limit(concurrency=1, group="g", members=["a", "b"])
    out = {name: Asker(q, member=name) for name in "ab"}
    for asker in out.values():
        asker.ask()
    line = [Asker(q, member="a") for _ in range(2)]
    for asker in line:
        assert asker.ask().code == 2
        clock.advance(0.001)
    newcomer = Asker(q)
    assert newcomer.ask().code == 2
    clock.advance(0.001)
    out["a"].end()
    assert newcomer.ask().code == 2  # the lease is kept for the caller who came first
    fill(q, 1)
    assert payloads(q) == []
    assert line[1].ask().code == 2
    assert line[0].ask().scope == "g\ta"
    out["b"].end()
    assert newcomer.ask().scope == "g\tb"
    assert q.check() == []
    line[0].end()
    assert line[1].ask().scope == "g\ta"
    line[1].end()
    newcomer.end()
    assert payloads(q) == [0]
    assert q.check() == []


def test_a_member_that_the_pool_lacks(q, clock: Clock):
    """It is refused at once, with the names that are there; nothing is charged."""
    q.set_limit(1, 60, group="g", members=["key-a", "key-b"])
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"has 'key-a', 'key-b'; did you mean 'key-"):
            Asker(q, member="key-1").ask()
    assert [member.units_left for member in q.admin.group("g").members] == [(1,), (1,)]
    q.set_limit(1, 60, group="g", members=[f"key-{n}" for n in range(64)])
    with pytest.raises(ConfigurationError, match="'key-4' and 59 more"):
        Asker(q, member="none").ask()
    assert q.check() == []


def test_a_caller_of_a_member_comes_before_lesser_tasks(q, clock):
    """The lease of its member is kept for it; the tasks go on when it has its permit."""
    q.set_limit(concurrency=2, group="g", members=["a"])
    out = [Asker(q, member="a") for _ in range(2)]
    for asker in out:
        asker.ask()
    waits = Asker(q, member="a", priority=5)
    assert waits.ask().code == 2
    fill(q, 2)
    out[0].end()
    assert payloads(q) == []
    assert waits.ask().code == 1
    out[1].end()
    assert payloads(q) == [0]
    assert q.check() == []
