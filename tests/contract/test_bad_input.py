"""Bad input gets an error that names the value and the bound, and changes nothing."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from dpq import DPQ
from dpq.cli import app

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
