"""Named tasks on a real server: pushed, popped, found and run."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dpq import DPQ, Task, Worker
from dpq.tasks import Tasks


@pytest.mark.parametrize(
    "name", ["os.system", "never_loaded:run", "__class__", "f.function", "\n" * 900]
)
def test_a_payload_calls_nothing_but_a_registered_function(
    q: DPQ[Any],
    tasks: Tasks,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A payload that names a module, an attribute or a parameter of the worker is dead at once, in
    a short line of the log; the worker goes on."""
    ran = []

    @tasks.task()
    def f(number: int, task: Task[Any]) -> None:
        ran.append(task.payload["args"]["number"])

    (tmp_path / "never_loaded.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    for payload in ({"task": name}, {"task": "f", "args": {"number": 1, "task": name}}):
        q.push(payload, priority=1)
    f.push(2)
    Worker(q, tasks).run(until_empty=True)

    assert (ran, len(q.dead.list())) == ([2], 2)
    assert "never_loaded" not in sys.modules
    assert max(len(record.getMessage()) for record in caplog.records) < 2000
