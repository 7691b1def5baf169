"""The pages over all queues: what is wrong, workers, events, recurring tasks, running actions."""

import re
from typing import Any

import pytest
from kit.web import Browser, Open
from redis import Redis

from dpq import DPQ, Verdict, VerdictState
from dpq.model.rates import span
from dpq.operations.workers import Doing
from dpq.views.verdict import WORST_FIRST, worst_first


def wrong(html: str) -> list[str]:
    """The queues that need a person, as the front page lists them."""
    return re.findall(r'class="lead" href="[^"]*">([^<]+)<', html)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request reads anew."""
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)


def test_each_state_has_its_place() -> None:
    """Every state has one rank, and only verdicts that need a person are listed."""
    assert sorted(WORST_FIRST) == sorted(VerdictState)
    said = [
        Verdict(queue=state, state=state, because="", needs_person=state != VerdictState.MOVING)
        for state in VerdictState
    ]
    assert [each.state for each in worst_first(said)] == [
        state for state in WORST_FIRST if state != VerdictState.MOVING
    ]


def test_the_worst_stands_first(dashboard: Open, redis: Redis, queue_name: str) -> None:
    """No consumer stands before a group closed by hand, a pause, and dead letters."""
    names = [f"{queue_name}-{end}" for end in ("dead", "pause", "hand", "idle", "good")]
    few = [DPQ(redis, name) for name in names]
    died, paused, by_hand, idle, good = few
    try:
        died.push("x")
        died.bury(died.pop().task, "HTTP 404")
        paused.push("x")
        paused.pause()
        by_hand.push("x", group="a<b")
        by_hand.delay_group("a<b", 315_360_000)
        by_hand.pop()
        idle.push("x")
        good.push("x", delay=60)
        shown = dashboard(*few, write=True).page("/")
        assert wrong(shown) == [names[3], names[2], names[1], names[0]]
        assert str(idle.why()) in shown
        for action, label in (
            (f"/q/{names[1]}/resume", "Resume"),
            (f"/q/{names[2]}/group", "Open the group"),
            (f"/q/{names[0]}/tasks", "Replay the dead…"),
        ):
            assert re.search(rf'action="{action}">.*?<button class="main">{label}<', shown, re.S)
        assert f'href="/q/{names[3]}/workers">Go to its workers' in shown
        assert "a<b" not in shown
        seen = dashboard(*few).page("/")
        assert wrong(seen) == wrong(shown)
        assert "<form class" not in seen.split('id="queues"')[0].split('id="wrong"')[1]
        only = dashboard(
            *few, write=True, allow=lambda _, action, name: (action, name) == ("resume", names[1])
        ).page("/")
        assert only.split('id="queues"')[0].count('class="line"') == 1
    finally:
        for each in few:
            each.drop()
            each.close()


def test_the_buttons_of_the_night_do_what_they_say(change: Browser, q: DPQ, path: str) -> None:
    """Each button of the front page is a form that works as it stands."""
    q.push("x", group="a")
    q.delay_group("a", 315_360_000)
    q.pop()
    for _ in range(2):
        found = re.search(
            r'<form class="line" method="post" action="([^"]+)">(.*?)</form>',
            change.page("/"),
            re.S,
        )
        if found is None:
            break
        fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', found[2]))
        change.submit(found[1], **fields)
    assert q.group("a").open
    q.pause()
    assert wrong(change.page("/")) == [q.queue_name]
    change.submit(f"{path}/resume")
    assert "paused" not in change.page("/")


def test_nothing_is_wrong(look: Browser, q: DPQ) -> None:
    """The front page says so, and still lists the queues."""
    q.push("x", delay=60)
    html = look.page("/")
    assert "Nothing is wrong" in html
    assert f'data-key="{q.queue_name}"' in html


def test_the_front_page_is_bounded(
    dashboard: Open, q: DPQ, redis: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the first queues, says so, and shows the others on their pages."""
    monkeypatch.setattr("dpq.web.server_pages.QUEUES", 1)
    with DPQ(redis, f"{queue_name}-2") as other:
        other.push("x")
        browser = dashboard(q, other)
        for page in ("/", "/workers", "/events", "/recurring"):
            assert "the first 1 of 2 queues" in browser.page(page)
        html = browser.page("/")
        assert wrong(html) == [q.queue_name]
        assert f'data-key="{other.queue_name}"' in html
        other.drop()


def test_a_queue_that_cannot_be_read_is_wrong(
    dashboard: Open, q: DPQ, redis: Redis, queue_name: str
) -> None:
    """A damaged queue stands on top, and all pages show the others."""
    q.push("x", every=30, delay=30, key="pulse<")
    with DPQ(redis, f"{queue_name}-2") as other:
        other.push("x")
        redis.set(f"dpq:{{{queue_name}-2}}:stats", "text")
        redis.set(f"dpq:{{{queue_name}-2}}:workers", "text")
        browser = dashboard(q, other)
        assert wrong(browser.page("/")) == [other.queue_name]
        assert f"{other.queue_name} cannot be read" in browser.page("/workers")
        assert "pulse&lt;" in browser.page("/recurring")
        redis.delete(*(f"dpq:{{{queue_name}-2}}:{key}" for key in ("stats", "workers")))
        other.drop()


def beat(q: DPQ, worker: str, name: str, running: int, doing: Any = None) -> None:
    """A heartbeat of a worker."""
    more = () if doing is None else (doing,)
    q._session.run(q._operations.beat, worker, name, "host<7", 11, running, 3, 4.0, *more)


def test_workers_of_all_queues(dashboard: Open, q: DPQ, redis: Redis, queue_name: str) -> None:
    """A worker of two queues has one row; those that hang stand first, with a mark."""

    with DPQ(redis, f"{queue_name}-2") as other:
        q.push("x")
        other.push("x")
        beat(q, "w1", "a-crawler", 1)
        beat(q, "w2", "mailer", 1)
        beat(other, "w2", "mailer", 1, Doing([("x", 1)], 400_000, "x"))
        html = dashboard(q, other).page("/workers")
        names = re.findall(r'<tr><td class="name">([^<]+)<', html)
        assert names == ["mailer", "a-crawler"]
        assert html.count(", hangs") == 1
        assert f"{span(400)}, hangs" in html
        assert "2 of 3" in html
        assert "host&lt;7" in html
        for each in (q, other):
            assert f'href="/q/{each.queue_name}/workers"' in html
        other.drop()


def test_events_of_all_queues(dashboard: Open, q: DPQ, redis: Redis, queue_name: str) -> None:
    """The newest come first, whatever queue they belong to, and can be chosen by kind."""
    with DPQ(redis, f"{queue_name}-2") as other:
        q.pause()
        other.push("x", group="<g>")
        other.rate_limited(other.pop().task, 30)
        browser = dashboard(q, other)
        html = browser.page("/events")
        of = r'data-row data-key="[^"]*">([^<]+)<'
        assert re.findall(of, html) == [other.queue_name, q.queue_name]
        assert "&lt;g&gt;" in html
        only = browser.page("/events?kind=rate_limited")
        assert 'class="tag bad">429' in only
        assert re.findall(of, only) == [other.queue_name]
        other.drop()


def test_schedules_of_all_queues(dashboard: Open, q: DPQ, redis: Redis, queue_name: str) -> None:
    """Each schedule has its last and its next run, the next one first, and a button to run it."""
    with DPQ(redis, f"{queue_name}-2") as other:
        late = q.push("report", cron="0 6 * * *", key="report")
        other.push("pulse", every=30, key="pulse")
        other.ack(other.pop().task)
        soon = other.peek(1, "delayed")[0].id
        browser = dashboard(q, other, write=True)
        html = browser.page("/recurring")
        assert re.findall(r'class="mono" href="[^"]*/tasks/([^"]+)"', html)[0] in (soon, late)
        assert "every 30 s" in html
        assert "0 6 * * *" in html
        assert html.count("Run now") == 2
        path = f"/q/{other.queue_name}/tasks"
        done = browser.submit(path, 200, action="run", ids=soon, back="/recurring").text
        assert 'href="/recurring" autofocus' in done
        assert other.stats().ready == 1
        assert dashboard(q, other).page("/recurring").count("Run now") == 0
        other.drop()
