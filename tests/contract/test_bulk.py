"""Actions on many tasks at once: a filter chooses, each step is bounded, and it can be stopped."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kit.awaited import asyncio_queue
from redis import Redis
from typer.testing import CliRunner

from dpq import DPQ, ConfigurationError, Filter, Push, TaskState
from dpq.cli import app
from dpq.testing import Clock, QueueFactory
from dpq.types import BulkProgress
from dpq.verbs import bulk

Make = Callable[..., DPQ[Any]]


@pytest.fixture
def make(redis: Redis, queue_name: str, clock: Clock) -> Iterator[Make]:
    with QueueFactory(redis, clock) as factory:
        yield lambda **more: factory(queue_name, **more)


def furnish(q: DPQ[Any], clock: Clock) -> None:
    """Tasks 0 to 99 are old, 100 to 199 new; every fourth in group a, with keys, and delayed."""
    for part in range(2):
        q.push_many(
            [
                Push(
                    n,
                    n % 10,
                    delay=50 if n % 4 == 3 else 0,
                    group="a" if n % 4 == 0 else None,
                    key=f"k{n % 3}-{n}",
                )
                for n in range(100 * part, 100 * part + 100)
            ]
        )
        clock.advance(10)


def test_priorities_of_a_group(make, clock):
    """Update reaches ready, waiting, delayed and running tasks once each; a second call none."""
    q = make()
    furnish(q, clock)
    q.pop_many(3)
    made = q.admin.bulk("update", Filter(least=1), priority=-7.5)
    assert made.done == 180
    assert q.admin.bulk("update", Filter(least=1), priority=-7.5).count == 0
    assert q.admin.count(Filter(most=-7.5)) == 180
    assert q.check() == []


def test_dead_letters_by_age(make, clock, monkeypatch):
    """Of dead tasks the age counts from the death; replay keeps to its rate over its steps."""
    monkeypatch.setattr(bulk, "STEP", 2)
    q = make()
    q.push_many([Push(n, key=f"k{n}", max_attempts=1) for n in range(6)])
    for _ in range(2):
        for task in q.pop_many(3):
            q.fail(task, "no")
        clock.advance(100)
    assert q.admin.count(Filter(TaskState.DEAD, older_than=150)) == 3
    assert q.admin.bulk("replay", Filter(older_than=150), rate=1, by="ann").done == 3
    due = [(task.visible_until.timestamp() * 1000 - clock()) for task in q.peek(9, "delayed")]
    assert (q.stats().ready, due) == (1, [1000, 2000])
    clock.advance(2)
    assert q.admin.bulk("purge", Filter(key_prefix="k5")).done == 1
    assert (q.stats().ready, q.stats().dead) == (3, 2)
    told = [(event.detail, event.by) for event in q.admin.events() if event.kind == "by_hand"]
    assert told == [("replayed 3", "ann"), ("purged 1 dead", "")]


def test_running_tasks_are_given_back_or_buried(make):
    """Release and bury take running tasks only."""
    q = make()
    q.push_many([Push(n) for n in range(9)])
    q.pop_many(6)
    assert q.admin.bulk("bury", Filter(key_prefix="x")).count == 0
    assert q.admin.bulk("release").done == 6
    q.pop_many(2)
    assert q.admin.bulk("bury", reason="enough", by="ann@box7").done == 2
    assert {task.reason for task in q.dead.list()} == {"enough"}
    told = [(e.kind, e.detail, e.by) for e in q.admin.events()]
    assert told == [("by_hand", "buried 2 running: enough", "ann@box7")]
    assert q.admin.bulk("run").count == 0


def test_no_more_than_were_counted(make):
    """Tasks that come meanwhile do not keep it going; what was searched only grows."""
    q = make()
    q.push_many([Push(n, delay=n // 290) for n in range(300)])
    steps: list[int] = []

    def more(now: BulkProgress) -> None:
        assert now.searched >= sum(steps[-1:])
        steps.append(now.searched)
        if now.done and len(steps) < 6:
            q.push_many([Push(1, -9)] * 100)

    made = q.admin.bulk("cancel", progress=more)
    assert made.done == 300
    assert q.size() > 0


def test_the_command(live, redis):
    """`dpq bulk` counts, asks for --yes before it removes, and prints the number of changes."""
    where = redis.connection_pool.connection_kwargs
    url = f"unix://{where['path']}"

    def run(*words: object, code: int = 0) -> Any:
        common = ["admin", "bulk", *map(str, words), "--url", url, "--queue", live.queue_name]
        result = CliRunner().invoke(app, common)
        assert result.exit_code == code, result.stderr
        return result

    live.push_many([Push(n, n, key=f"k{n % 2}-{n}") for n in range(40)])
    assert run("cancel", "--key-prefix", "k1", "--dry-run").stdout == "20\n"
    assert "--yes" in run("cancel", "--key-prefix", "k1", code=2).stderr
    assert run("cancel", "--key-prefix", "k1", "--yes").stdout == "20\n"
    assert run("update", "--least", 10, "--most", 20, "--priority", -3).stdout == "6\n"
    assert run("update", "--least", 10, code=2).stdout == ""
    assert run("purge", "--dry-run").stdout == "0\n"
    assert live.admin.count(Filter(most=-3)) == 6


@pytest.mark.parametrize("name", ["group", "key_prefix", "text", "reason"])
@pytest.mark.parametrize("value", ["", None, 7, "\ud800", b"a"])
def test_a_filter_that_is_empty_or_no_text_is_refused(name, value):
    """An unset variable may not choose every task."""
    with pytest.raises(ConfigurationError, match=rf"{name} is .*must be"):
        Filter(**{name: value})


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
@pytest.mark.parametrize("wrong", ["", {}, 0, b"a"])
def test_what_is_no_filter_chooses_nothing(redis, queue_name, live, face, wrong):
    """An unset variable in the place of a filter, a worker or a group changes nothing."""

    def calls(q: Any) -> list[Any]:
        return [
            lambda: q.admin.bulk("cancel", wrong),
            lambda: q.admin.bulk("cancel", reason="expired"),
            lambda: q.admin.count(wrong),
            lambda: q.admin.held(worker=wrong),
            lambda: q.admin.release_held(7),
            lambda: q.clear_limit(wrong),
            lambda: q.purge(wrong),
            lambda: q.dead.replay(group=wrong),
            lambda: q.dead.purge(reason=wrong),
        ]

    async def main() -> None:
        async with asyncio_queue(redis, queue_name) as q:
            for call in calls(q):
                with pytest.raises(ConfigurationError):
                    await call()
            assert (live.size(), len(live.admin.limits())) == (1, 1)

    live.push(1)
    live.set_limit(1000, 1)
    if face == "asyncio":
        asyncio.run(main())
        return
    for call in calls(live):
        with pytest.raises(ConfigurationError):
            call()
    assert (live.size(), len(live.admin.limits())) == (1, 1)
