"""The page of one task: when it begins, the worker that runs it, what has happened to it."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from kit.web import Browser

from dpq import DPQ, Push
from dpq.operations.workers import Doing
from dpq.protocol.keys import key_of
from dpq.testing import Clock
from dpq.views.one_task import STEPS_SHOWN, life, shown_steps


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)


def beat(q: DPQ, running: int = 0, doing: Doing | None = None) -> None:
    """A worker with 3 handlers reports."""
    beats = q._operations.beat
    q._session.run(beats, "w", "crawler", "host7", 11, running, 3, 4.0, doing or Doing())


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


def busy(q: DPQ) -> str:
    beat(q, 3)
    return q.push("x")


def stuck(q: DPQ) -> str:
    beat(q, 3, Doing(longest_ms=3_600_000, longest_task="T"))
    return q.push("x")


BEGINS: dict[str, tuple[Callable[[DPQ], str], str, float | None, str]] = {
    "next": (lambda q: q.push("x"), "about", 0, ""),
    "all handlers are busy": (busy, "unknown", None, "one of 3 busy handlers is free"),
    "all handlers hang": (stuck, "unknown", None, "the longest for 1 h: task T in crawler"),
    "delayed": (lambda q: q.push("x", delay=60), "earliest", 60, ""),
    "paced": (lambda q: paced(q)[2], "about", 20, ""),
    "others wait": (beside_others, "earliest", 1500, "other groups may come before it"),
    "paused": (paused, "unknown", None, "paused until somebody resumes it"),
    "closed by hand": (shut, "unknown", None, "until it is opened"),
}
"""What is planted, and what is said: its kind, seconds from now, and why."""


@pytest.mark.parametrize("name", BEGINS)
def test_when_a_task_begins(look: Browser, q: DPQ, path: str, clock: Clock, name: str) -> None:
    """The page and the API say the same moment, how sure it is, and why."""
    plant, kind, seconds, because = BEGINS[name]
    beat(q)
    id_ = plant(q)
    said = told(look, q, id_)["begins"]
    assert (said["kind"], because in said["because"]) == (kind, True), said
    html = look.page(f"{path}/tasks/{id_}")
    if seconds is None:
        assert said["at_ms"] is None
        assert '<p class="lead">Not known</p>' in html
    elif seconds == 0:
        assert '<p class="lead">At the next pop</p>' in html
    else:
        assert said["at_ms"] == pytest.approx(clock.ms + seconds * 1000, abs=2)
        word = {"about": "About", "earliest": "Not before"}[kind]
        at = f'<p class="lead">{word} <time datetime="[^"]*" data-at="{round(said["at_ms"])}" '
        assert re.search(f"{at}data-about>2023-11-14 [0-9:]* UTC</time></p>", html)
    if name == "others wait":
        assert said["latest_ms"] == pytest.approx(clock.ms + 1_990_000, abs=2000)


def test_what_a_task_waits_for(look: Browser, q: DPQ, path: str) -> None:
    """Its page names the tasks, with a link to each, and no moment; so says the API."""
    beat(q)
    first, second = q.push("x"), q.push("y")
    late = q.push("z", after=[first, second])
    html = look.page(f"{path}/tasks/{late}")
    for each in (first, second):
        assert f'<a class="mono" href="{path}/tasks/{each}">{each}</a>' in html
    said = told(look, q, late)
    assert said["after"] == [first, second]
    assert (said["begins"]["kind"], said["begins"]["at_ms"]) == ("unknown", None)
    assert said["begins"]["because"] == f"it waits for 2 tasks to end: {first}, {second}"


def test_batches(look: Browser, q: DPQ, path: str) -> None:
    """The page says what has become of each batch, and leads to the task that waits for its end."""
    assert "No batch" in look.page(f"{path}/batches")
    q.push_many([Push(n, batch="run-7") for n in range(3)])
    end = q.seal_batch("run-7", on_finish=Push("end")).callback
    q.ack(q.pop().task)
    html = look.page(f"{path}/batches")
    assert "2 left of 3: 1 done; sealed; " in html
    assert f'<a href="{path}/tasks/{end}">a task waits for its end</a>' in html
    assert '<progress max="3" value="1" aria-label="of run-7, not left">' in html
    (told_of,) = look.api(f"/queues/{q.queue_name}/batches")["batches"]
    assert (told_of["name"], told_of["left"], told_of["done"]) == ("run-7", 2, 1)
    task = q.pop().task
    assert f'<a href="{path}/batches">run-7</a>' in look.page(f"{path}/tasks/{task.id}")
    q.ack_many([task, q.pop().task])
    html = look.page(f"{path}/batches")
    assert "0 left of 3: 3 done; finished; " in html
    assert "its last task</a>" in html


def test_nobody_is_there(look: Browser, q: DPQ, path: str, clock: Clock) -> None:
    """Without a consumer the moment is not known, and what limits allow is no promise."""
    id_ = q.push("x", delay=60)
    html = look.page(f"{path}/tasks/{id_}")
    assert '<p class="lead">Not known: not before <time' in html
    assert "No consumer is seen: no worker reports" in html
    html = look.page(f"{path}/tasks/{q.push('y')}")
    assert "1 task is due, and no consumer has ever asked for one" in html
    q.pop()
    clock.advance(5)
    html = look.page(f"{path}/tasks/{q.push('y')}")
    assert '<p class="lead">At the next pop</p>' in html


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
    assert said["begins"]["kind"] == "running"
    assert said["begins"]["at_ms"] == pytest.approx(clock.ms - 20_000, abs=1)
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
    assert html.count('<line class="bad"') == 2
    events = told(look, q, id_)["events"]
    assert [(each["attempt"], each["detail"]) for each in events] == [
        (1, "HTTP 500"),
        (2, "<HTTP 503>"),
    ]
    q.ack(q.pop().task)
    gone = look.page(f"{path}/tasks/{id_}", 404)
    assert "HTTP 500" in gone
    assert "nothing else is stored of it" in gone


def test_a_dead_letter_says_why(look: Browser, q: DPQ, path: str, redis: Any) -> None:
    """It has its push, last delivery, death and last error, when its events are gone, too."""
    id_ = q.push("x", max_attempts=1)
    q.fail(q.pop().task, "HTTP 404 for page 17")
    redis.delete(key_of(q.queue_name, "events"))
    html = look.page(f"{path}/tasks/{id_}")
    kinds = re.findall(r'<li>.*?<span class="tag \w*">([^<]*)</span>', html)
    assert kinds == ["pushed", "delivered", "dead"]
    assert "attempts spent" in html
    assert "HTTP 404 for page 17" in html


def test_a_long_life_is_cut(q: DPQ) -> None:
    """Its first step and its newest ones are shown, and the others are counted."""
    steps = life(q.get(q.push("x")), []) * 100
    steps = [step._replace(at_ms=float(n)) for n, step in enumerate(steps)]
    shown, left_out = shown_steps(steps)
    assert (len(shown), left_out) == (STEPS_SHOWN, 60)
    assert [step.at_ms for step in shown] == [0, *range(61, 100)]
    assert shown_steps(steps[:3]) == (steps[:3], 0)


def test_progress_and_result(look: Browser, q: DPQ) -> None:
    """The page shows how far a running task is, and what a finished one has returned."""
    id_ = q.push({"n": 1})
    task = q.pop().task
    assert task
    q.progress(task, 40, 100, "page <4>")
    page = look.get(f"/q/{q.queue_name}/tasks/{id_}").text
    assert '<progress max="100.0" value="40.0"' in page
    assert "40 of 100 (40%): page &lt;4&gt;" in page
    assert told(look, q, id_)["progress"]["done"] == 40
    q.ack(task, result={"links": ["<b>"]})
    answer = look.get(f"/q/{q.queue_name}/tasks/{id_}")
    assert answer.status_code == 200
    assert "Result" in answer.text
    assert "&lt;b&gt;" in answer.text
    assert "finished" in answer.text


def fail_with(text: str) -> None:
    raise ValueError(text)


def test_what_a_push_has_named(look: Browser, q: DPQ) -> None:
    """A page names the delays of a task, says if its attempts have no limit, and counts bytes."""
    id_ = q.push("data:;base64,AP8=", backoff=[1, 90], max_attempts=math.inf)
    page = look.get(f"/q/{q.queue_name}/tasks/{id_}").text
    assert "<dd>1 s, 1 m 30 s; the last one repeats</dd>" in page
    assert "<dd>1, no limit</dd>" in page
    assert "2 bytes, base64" in page
    tasks = look.get(f"/q/{q.queue_name}/tasks").text
    assert "1, no limit" in tasks
    assert "2 bytes, base64" in tasks


def test_errors(look: Browser, q: DPQ) -> None:
    """The page has each failed attempt with its worker, and its frames folded."""
    id_ = q.push("x", max_lapses=3)
    for text in ("<old>", "new"):
        task = q.pop().task
        with pytest.raises(ValueError, match=text) as met:
            fail_with(text)
        q._session.run(q._operations.finish, task, met.value, worker="w <1>")
        q.update(id_, delay=0)
    page = look.get(f"/q/{q.queue_name}/tasks/{id_}").text
    assert "ValueError: new, w &lt;1&gt;" in page
    assert "ValueError: &lt;old&gt;" in page
    assert page.count("<details><summary>tests/web/test_web_task.py:") == 2
    assert "0 of 3 leases have run out" in page


def test_the_last_result_of_a_task_that_comes_back(look: Browser, q: DPQ) -> None:
    """A recurring task shows what its last run has returned."""
    id_ = q.push(1, every=60)
    q.ack(q.pop().task, result="last")
    assert "<h2>Result</h2>" in look.get(f"/q/{q.queue_name}/tasks/{id_}").text
    assert told(look, q, id_)["result"]["value"] == "last"


def test_a_key_that_stays_taken(look: Browser, q: DPQ, path: str) -> None:
    """The page and the API say for how long the key stays taken after the ack."""
    for seconds, words in ((90, "stays taken for"), (math.inf, "stays taken for ever")):
        id_ = q.push("x", key=f"{seconds}", unique_for=seconds)
        assert words in look.page(f"{path}/tasks/{id_}")
        assert told(look, q, id_)
