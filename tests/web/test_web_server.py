"""The pages over all queues: what is wrong, workers, events, recurring tasks, running actions."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kit.web import Browser, Open
from redis import Redis
from support import wait_for

from dpq import DPQ, Push
from dpq.script.command import Steps
from dpq.verbs.bulk import Bulk
from dpq.verbs.workers import Doing


def wrong(html: str) -> list[str]:
    """The queues that need a person, as the front page lists them."""
    return re.findall(r'class="lead" href="[^"]*">([^<]+)<', html)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request reads anew."""
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)


@pytest.fixture
def second(redis: Redis, queue_name: str) -> Iterator[DPQ]:
    """Another queue."""
    with DPQ[Any](redis, f"{queue_name}-2") as queue:
        yield queue
        queue.admin.drop()


def test_the_worst_stands_first(dashboard: Open, redis: Redis, queue_name: str) -> None:
    """No consumer stands before a group closed by hand, a pause, and dead letters."""
    names = [f"{queue_name}-{end}" for end in ("dead", "pause", "hand", "idle", "good")]
    few = [DPQ(redis, name) for name in names]
    died, paused, by_hand, idle, good = few
    try:
        died.push("x")
        died.bury(died.pop().task, "HTTP 404")
        paused.push("x")
        paused.pause(by="ann")
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
        ):
            assert re.search(rf'action="{action}">.*?<button class="main">{label}<', shown, re.S)
        assert f'href="/q/{names[0]}/dead' in shown.split('id="queues"')[0]
        assert f'href="/q/{names[3]}/workers">Go to its workers' in shown
        assert "<bdi>paused: by ann, until it is resumed</bdi>" in shown.split('id="queues"')[0]
        assert "a<b" not in shown
        assert "<code>dpq group open &#39;a&lt;b&#39; " in shown
        seen = dashboard(*few).page("/")
        assert wrong(seen) == wrong(shown)
        assert "<form class" not in seen.split('id="queues"')[0].split('id="wrong"')[1]
        only = dashboard(
            *few, write=True, allow=lambda _, action, name: (action, name) == ("resume", names[1])
        ).page("/")
        assert only.split('id="queues"')[0].count('class="line"') == 1
    finally:
        for each in few:
            each.admin.drop()
            each.close()


def test_the_gauge_of_memory(look: Browser, q: DPQ) -> None:
    """The page of the server has the used part of its memory, if that has a bound."""
    assert "<meter" not in look.page("/server")
    q.push("x")
    q.redis.config_set("maxmemory", 4 * q.redis.info()["used_memory"])
    try:
        [share] = re.findall(r'<meter [^>]*value="([0-9.]+)"', look.page("/server"))
    finally:
        q.redis.config_set("maxmemory", 0)
    assert 0.1 < float(share) < 0.5


@pytest.mark.parametrize("facts", [{}, {"valkey_version": "9.1", "aof_enabled": 1}])
def test_each_server_shows_what_it_knows(
    look: Browser, q: DPQ, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is not Valkey, and a hosted server may leave fields of INFO out."""
    q.push("x")
    info = {"redis_version": "7.2", "maxmemory_human": "0B", "used_memory_human": "1M", **facts}
    monkeypatch.setattr(Redis, "info", lambda _: info)
    assert ("Valkey 9.1, as Redis 7.2" if facts else "<dd>Redis 7.2") in look.page("/server")


def beat(q: DPQ, worker: str, name: str, running: int, doing: Any = None) -> None:
    """A heartbeat of a worker."""
    more = () if doing is None else (doing,)
    q._session.run(q._operations.beat, worker, name, "host<7", 11, "0.1", running, 3, 4.0, *more)


def leased(q: DPQ, held: int) -> list[Any]:
    """Tasks that a worker `w1` holds, by its heartbeat, and one that nobody reports."""
    q.push_many([Push(n, group="a") for n in range(held + 1)])
    tasks = [q.pop().task for _ in range(held + 1)]
    doing = Doing([(each.id, each.token) for each in tasks[:held]], 400_000, tasks[0].id)
    beat(q, "w1", "crawler<", 1, doing)
    return tasks


def test_a_lease_is_given_back_after_a_question(change: Browser, q: DPQ, path: str) -> None:
    """One lease, or all of a worker: the first click asks, the second gives back."""
    one, two, other = leased(q, 2)
    asked = change.submit(f"{path}/tasks", 200, action="release", ids=other.id)
    assert "may run twice" in asked.text
    assert q.stats().invisible == 3
    change.submit(f"{path}/tasks", 200, action="release", ids=other.id, sure=1)
    assert [lease.id for lease in q.admin.held()] == [one.id, two.id]
    asked = change.submit(f"{path}/workers/w1/release", 200, name="crawler<")
    assert "crawler&lt; holds" in asked.text
    assert q.stats().invisible == 2
    assert "2 done" in change.submit(f"{path}/workers/w1/release", 200, sure=1).text
    assert (q.admin.held(), q.get(one.id).attempt) == ([], 1)


def test_a_running_action_is_on_every_page(
    dashboard: Open, q: DPQ, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its progress stands on all pages; its stop button, for users with its right, stops it."""

    def endless(_: Bulk) -> Steps[bool]:
        time.sleep(0.01)
        yield from ()
        return True

    monkeypatch.setattr(Bulk, "step", endless)
    q.push_many([Push(n) for n in range(3)])
    for _ in range(3):
        q.bury(q.pop().task, "no")
    rights = {"replay"}
    browser = dashboard(write=True, allow=lambda request, action, queue: action in rights)
    begun = browser.submit(
        f"{path}/tasks", action="replay", all=1, rate="0.001", **{"f.state": "dead"}
    )
    url = begun.headers["location"]
    wait_for(lambda: "3 tasks match" in browser.page(url), lambda: "?")
    assert "data-live" not in browser.page("/recurring").split('id="doing"')[1].split(">")[0]
    browser.submit(url, expected=3)
    pages = ["/", "/workers", "/events", "/recurring", "/server", path, f"{path}/tasks"]
    for page in pages:
        doing = browser.page(page).split('id="doing"')[1].split("</section>")[0]
        assert "data-live" in doing.split(">")[0], page
        assert f'href="{url}"' in doing, page
        assert re.search(r"[0-3] of 3", doing), page
        assert "Stop" in doing, page
    rights.clear()
    assert "Stop" not in browser.page("/").split('id="doing"')[1].split("</section>")[0]
    browser.submit(url, 403, stop=1)
    rights.add("replay")
    browser.submit(url, stop=1)
    wait_for(lambda: "Stopped" in browser.page(url), lambda: "?")
    assert f'href="{url}"' not in browser.page("/")


@pytest.mark.parametrize("page", ["/", "/workers", "/events", "/recurring"])
def test_a_server_that_is_away(
    look: Browser, q: DPQ, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page over all queues says so, and none says that nothing is wrong."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise ConnectionError("refused")

    assert look.page(page)
    with monkeypatch.context() as gone:
        gone.setattr("dpq.link.session.Session.send_all", refuse)
        assert "does not answer" in look.page(page, 503)
    assert look.page(page)
