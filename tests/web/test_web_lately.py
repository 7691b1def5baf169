"""What a page says beside the verdict: what has changed, where attempts fail, dead letters."""

import re

import pytest
from kit.web import Browser, rows

from dpq import DPQ, Push, RateLimit, TaskState
from dpq.limits.rules import LimitRules
from dpq.testing import Clock
from dpq.verbs.workers import Doing
from dpq.views.limits import make


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)


def test_what_operators_did_is_not_pushed_out_by_failures(
    change: Browser, q: DPQ, path: str, clock: Clock
) -> None:
    """Limits, pauses and bulk actions of the last day stand there, with undo; older ones do not."""
    q.set_limit(99, 1, group="old")
    clock.advance(90_000)
    for rate in (20, 10):
        make(q, "a", LimitRules.checked([RateLimit(rate, 1)], group="a"), "ann", None)
    q.pause(by="bob")
    q.resume(by="bob")
    q.push_many([Push(n, max_attempts=99) for n in range(30)])
    q.redis.xtrim(f"dpq:{{{q.queue_name}}}:events", 0)
    q._session.run(q._operations.beat, "w", "crawler", "host7", 11, "1.5+abc", 0, 3, 4.0, Doing())
    html = change.page(path)
    said = re.findall(
        r"<bdi>([^<]*)</bdi>", html.partition("What changed")[2].partition("</ul>")[0]
    )
    assert sorted(said) == [
        "1 of 1 worker began, with DPQ 1.5+abc",
        "limit set of group &#39;a&#39;: 10/s (was 20/s), by ann",
        "limit set of group &#39;a&#39;: 20/s, by ann",
        "paused: by bob, until it is resumed",
        "resumed: by bob",
    ]
    undo = re.search(r'href="([^"]*undo=[^"]*)"', change.page(f"{path}/limit?group=a"))
    assert undo
    assert "20/s" in change.page(undo[1].replace("&amp;", "&")).partition("Will be")[2]


def test_failures_have_their_worker_group_and_member(look: Browser, q: DPQ, path: str) -> None:
    """The failed attempts of the last hour are counted by error, worker, group and member."""
    assert "Failed attempts" not in look.page(path)
    q.set_limit(60, 60, 9, group="g", members=["key-a", "key-b"])
    q.push_many([Push(n, group="g", member="key-b", max_attempts=9) for n in range(3)])
    for task in q.pop_many(3):
        q.fail(task, "HTTP 401", delay=99)
    html = look.page(path).partition("Failed attempts")[2]
    for said in ("HTTP 401", "not told", "g", "g: key-b"):
        assert f"<span>3</span><bdi>{said}</bdi>" in html


def test_dead_letters_come_newest_first(look: Browser, q: DPQ, path: str, clock: Clock) -> None:
    """The list begins with the newest and goes on page by page; kinds keep their status code."""
    q.push_many([Push(n) for n in range(120)])
    for n in range(120):
        q.bury(q.pop().task, f"HTTP {404 if n % 2 else 503} for page {n}")
        clock.advance(1 if n % 3 else 0)  # some die in the same ms
    wanted = [task.id for task in q.peek(200, TaskState.DEAD)][::-1]
    seen, link = [], f"{path}/tasks?state=dead"
    while link:
        html = look.page(link)
        seen += rows(html)
        if seen[-1] in wanted:
            q.dead.purge([seen[-1]])
        found = re.search(r'href="([^"]*after=[^"]*)"', html)
        link = found[1].replace("&amp;", "&") if found else ""
    assert seen == wanted
    kinds = look.api(f"/queues{path[2:]}/dead")["kinds"]
    assert {kind["reason"] for kind in kinds} == {"HTTP 404 for page #", "HTTP 503 for page #"}
    assert kinds[0]["newest"] in wanted[:3]
    for kind in kinds:
        page = look.get(f"{path}/tasks", params={"state": "dead", "reason": kind["reason"]})
        assert len(rows(page.text)) == 50
