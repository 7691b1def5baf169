"""Bad input gets an error that names the value and the bound, and changes nothing."""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from dpq import (
    DPQ,
    ConfigurationError,
    TaskNotFoundError,
)
from dpq.cli import app


@pytest.fixture
def running(q: DPQ[Any]) -> Any:
    """A queue with a task in every state; the one that is running."""
    q.push("to be buried")
    q.bury(q.pop().task, "no good")
    q.push("running", priority=9, key="running")
    task = q.pop().task
    q.push("delayed", delay=60)
    q.push("ready", group="a")
    q.push("waiting", group="a")
    return task


@pytest.fixture
def unchanged(redis: Redis, queue_name: str, running: Any) -> Iterator[None]:
    """Every key of the queue holds at the end what it held before."""

    def dump() -> dict[bytes, Any]:
        read = {
            b"hash": redis.hgetall,
            b"stream": redis.xrange,
            b"zset": lambda key: redis.zrange(key, 0, -1, False, True),
        }
        return {
            key: read[redis.type(key)](key)  # not its DUMP: a hash has no order to rely on
            for key in redis.keys(f"dpq:{{{queue_name}}}:*")
        }

    before = dump()
    yield
    assert dump() == before


@pytest.mark.parametrize("action", ["get", "update", "cancel"])
def test_an_unknown_id_is_named(q: DPQ[Any], unchanged: None, action: str) -> None:
    """An id that nothing is stored under is a TaskNotFoundError with the id and the queue."""
    arguments = {"priority": 1} if action == "update" else {}
    with pytest.raises(TaskNotFoundError, match=f"cannot {action} task 'nobody'") as error:
        getattr(q, action)("nobody", **arguments)
    assert error.value.task_id == "nobody"
    assert q.queue_name in str(error.value)


def test_a_key_of_another_group_is_refused(q: DPQ[Any], running: Any, unchanged: None) -> None:
    """A push cannot carry a key into another group; `keep` changes nothing, and so may meet it."""
    assert q.push("x", key="running", group="other", on_duplicate="keep") == running.id
    for mode in ("update", "raise_priority", "rerun"):
        with pytest.raises(ConfigurationError, match=f"'running' belongs to task {running.id}"):
            q.push("x", key="running", group="other", on_duplicate=mode)


LONG = """x'" """ * 10_000


RIGHT_CALLS: list[tuple[Any, str]] = [
    (lambda q: q.set_limit("a", 10, 1), r"group is named as group='api'"),
    (lambda q: q.push(print), r"push data; Tasks push calls of functions"),
    (lambda q: q.push(1, delay=datetime.now(UTC)), r"a moment is `at=`"),
    (lambda q: DPQ(q.redis, "a", visibility=3), r"'visibility'; did you mean 'default_visibility'"),
    (lambda q: DPQ.from_url("localhost:6379", "a"), r"write redis:// before the host"),
    (lambda q: q.pop().payload, r"write popped.task.payload"),
    (lambda q: CliRunner().invoke(app, ["push", "1", "--delay", "5x"]).stderr, "write seconds"),
]


@pytest.mark.parametrize(("call", "said"), RIGHT_CALLS)
def test_an_error_says_the_right_call(q: DPQ[Any], call: Any, said: str) -> None:
    """What strangers write first is answered by what to write instead."""
    try:
        answer = call(q)
    except Exception as error:
        answer = str(error)
    assert re.search(said, answer)


def test_a_task_fits_a_line(q: DPQ[Any]) -> None:
    """Its `repr`, and that of a Popped, have a long payload and long names in short."""
    q.push({"text": "x" * 1000}, group="g", key="k" * 100)
    task, *_ = popped = q.pop()
    assert repr(popped) == f"Popped(task={task})"
    assert len(repr(task)) < 180
    assert repr(task).startswith(f"Task('{task.id}', payload={{'text': 'xxx")


AT_ONCE = """
import asyncio, sys
from dpq import AsyncDPQ
early = AsyncDPQ.from_url(sys.argv[1], "early")
def hear(event, given):
    if on and event == "open" and str(given[0]).endswith(".lua"): read.append(given[0])
on, read = False, []
sys.addaudithook(hear)
async def main():
    global on
    on = True
    async with AsyncDPQ.from_url(sys.argv[1], "in_the_loop") as q:
        await q.push(1)
        await (await q.pop()).on_success()
    print(len(read))
asyncio.run(main())
"""


def test_a_queue_made_before_the_loop_reads_the_scripts() -> None:
    """Later ones read no script from the disk while the loop runs."""
    command = [sys.executable, "-Wignore", "-c", AT_ONCE, "embedded:"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=True).stdout == b"0\n"
