"""The pages of docs/move: what they show of DPQ runs, and does what the page says."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from daemon.test_docs import ROOT, blocks

from dpq import DPQ


def page(name: str) -> str:
    return (ROOT / "docs" / "move" / name).read_text(encoding="utf-8")


@pytest.fixture
def names(url: str) -> Iterator[dict[str, Any]]:
    """What a reader's session has; its queues are dropped."""
    names: dict[str, Any] = {}
    yield names
    for queue in [each for each in names.values() if isinstance(each, DPQ)]:
        assert queue.check() == []
        queue.admin.drop()
        queue.close()


def run_all(name: str, names: dict[str, Any], url: str) -> None:
    """Run each block of a page, one after the other."""
    for code in blocks(page(name), "python"):
        exec(compile(code.replace("redis://localhost", url), name, "exec"), names)  # noqa: S102 - our own


def busy_once(names: dict[str, Any]) -> list[str]:
    """Put a host in the place of `requests`, whose first answer is a 429; what it is asked."""
    asked: list[str] = []

    def get(url: str, timeout: float) -> SimpleNamespace:
        asked.append(url)
        answer = SimpleNamespace(status_code=200, headers={"Retry-After": "1"})
        answer.raise_for_status = lambda: None
        if len(asked) == 1:
            answer.status_code = 429
            answer.raise_for_status = Mock(
                side_effect=httpx.HTTPStatusError("429", request=None, response=answer)
            )
        return answer

    names["get"] = get
    return asked


def now_due(q: DPQ[Any]) -> None:
    """Delayed tasks need not be waited for."""
    for task in q.peek(10, state="delayed"):
        q.update(task.id, delay=0)


def test_rq(url, names):
    """All three tasks run, and what they return is kept."""
    run_all("rq.md", names, url)
    q = names["q"]
    now_due(q)
    names["worker"].drain()
    assert sorted(result.value.rpartition("/")[2] for result in q.results()) == [
        *("best", "limited", "rest")
    ]


def test_celery(url, names, capsys):
    """A 429 costs no attempt; the batch of the page ends with its report."""
    run_all("celery.md", names, url)
    asked, q = busy_once(names), names["q"]
    now_due(q)
    names["worker"].drain()
    assert (len(asked), q.stats().failed, q.stats().rate_limited) == (4, 0, 1)
    assert capsys.readouterr().out == "2\nall pages of run-7 are done or dead\n"


def test_bullmq(url, names, capsys):
    """A 429 costs no attempt; a queue with order="min" hands out the smallest number first."""
    run_all("bullmq.md", names, url)
    assert capsys.readouterr().out == "first\n"
    asked, q = busy_once(names), names["q"]
    now_due(q)
    names["worker"].drain()
    assert (asked, q.stats().failed) == (["https://api.example/best"] * 2, 0)


def test_limits(url, names, capsys, monkeypatch):
    """Both ways take a unit of the same limit."""
    monkeypatch.setattr(
        httpx.HTTPTransport, "handle_request", lambda _, request: httpx.Response(200)
    )
    run_all("limits.md", names, url)
    assert capsys.readouterr().out == "200\ngranted api.example\n"
    [state] = [state for state in names["q"].admin.limits() if state.group == "api.example"]
    assert state.granted == (2,)
