"""The page of one task: when it begins, the worker that runs it, what has happened to it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from kit.web import Browser
from markupsafe import escape

from dpq import DPQ, Push
from dpq.testing import Clock
from dpq.verbs.workers import Doing


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)


def beat(q: DPQ, running: int = 0, doing: Doing | None = None) -> None:
    """A worker with 3 handlers reports."""
    beats = q._operations.beat
    q._session.run(beats, "w", "crawler", "host7", 11, "0.1", running, 3, 4.0, doing or Doing())


def told(look: Browser, q: DPQ, id_: str) -> Any:
    """What the API says of a task."""
    return look.api(f"/queues/{q.queue_name}/tasks/{id_}")


def paced(q: DPQ) -> list[str]:
    q.set_limit(1, 10, group="a")
    return q.push_many([Push(n, group="a") for n in range(200)])


def paused(q: DPQ) -> str:
    q.pause()
    return q.push("x")


def shut(q: DPQ) -> str:
    q.delay_group("a", None)
    return q.push("x", group="a")


def beside_others(q: DPQ) -> str:
    ids = paced(q)
    q.set_limit(1, 1, group="b")
    q.push_many([Push(n, group="b") for n in range(9)])
    return ids[150]


def stuck(q: DPQ) -> str:
    beat(q, 3, Doing(longest_ms=3_600_000, longest_task="T"))
    return q.push("x")


BEGINS: dict[str, tuple[Callable[[DPQ], str], float | None, str]] = {
    "next": (lambda q: q.push("x"), None, "it is ready: next"),
    "all handlers hang": (stuck, None, "the longest for 1 h: task T in crawler"),
    "delayed": (lambda q: q.push("x", delay=60), 60, "it is delayed: due in 60.0 s"),
    "paced": (lambda q: paced(q)[2], 20, "it may run after about 20 s"),
    "others wait": (beside_others, 1500, "it may run after about 25 m"),
    "paused": (paused, None, "the queue is paused until it is resumed"),
    "closed by hand": (shut, None, "until it is opened"),
}
"""What is planted, and what is said: seconds from now, and why."""


@pytest.mark.parametrize("name", BEGINS)
def test_when_a_task_begins(look: Browser, q: DPQ, path: str, clock: Clock, name: str) -> None:
    """The page and the API say the sentence of `why`, and the moment of which it speaks."""
    plant, seconds, because = BEGINS[name]
    beat(q)
    id_ = plant(q)
    said = told(look, q, id_)["why"]
    assert because in said["sentence"] == q.why(id_)
    html = look.page(f"{path}/tasks/{id_}")
    assert str(escape(said["sentence"][1:])) in html
    moment = re.search(r'data-at="(\d+)" data-about', html)
    assert (moment is None) is (seconds is None)
    if moment and seconds:
        assert int(moment[1]) == pytest.approx(clock.ms + seconds * 1000, abs=1000)


def test_a_running_task_has_its_worker(look: Browser, q: DPQ, path: str, clock: Clock) -> None:
    """Its worker, host and process stand there, with its begin and the end of its lease."""
    q.push("x")
    task = q.pop(visibility=90).task
    clock.advance(20)
    assert "No worker reports this lease" in look.page(f"{path}/tasks/{task.id}")
    beat(q, 1, Doing([(task.id, task.token)]))
    html = look.page(f"{path}/tasks/{task.id}")
    assert re.search("<dt>worker</dt><dd><a [^>]*>crawler</a></dd>", html)
    assert "<dd>host7, process 11</dd>" in html
    said = told(look, q, task.id)
    assert '<p class="lead">Began <time datetime="2023-11-14T22:13:20' in html
    assert (said["holder"]["worker"], said["holder"]["pid"]) == ("crawler", 11)
    assert said["holder"]["token"] == str(task.token)
    assert f'data-at="{clock.ms + 70_000}"' in html
    assert told(look, q, q.push("y"))["holder"] is None


def test_the_life_of_a_task(look: Browser, q: DPQ, path: str, clock: Clock) -> None:
    """The task says its push and last delivery; its events say how each attempt has failed."""
    id_ = q.push("x", 7)
    for error in ("HTTP 500", "<HTTP 503>"):
        clock.advance(4)
        q.fail(q.pop().task, error, delay=0)
    html = look.page(f"{path}/tasks/{id_}")
    steps = re.findall(r'<span class="tag (\w*)">([^<]*)</span>(.*?)</li>', html)
    assert [kind for _, kind, _ in steps if kind != "delivered"] == ["pushed", "failed", "failed"]
    assert ("bad", "failed", " <bdi>&lt;HTTP 503&gt;</bdi>") in steps
    events = told(look, q, id_)["events"]
    assert [(each["attempt"], each["detail"]) for each in events] == [
        (1, "HTTP 500"),
        (2, "<HTTP 503>"),
    ]
    q.ack(q.pop().task)
    gone = look.page(f"{path}/tasks/{id_}", 404)
    assert "HTTP 500" in gone
    assert "nothing else is stored of it" in gone
