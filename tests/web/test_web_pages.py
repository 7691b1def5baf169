"""The pages that show: what they say, how they page, and what they share."""

import re
from functools import partial
from html import unescape
from typing import Any

import pytest
from kit.web import Browser, Open, furnish, rows
from support import wait_for

from dpq import DPQ, Push, TaskState
from dpq.testing import Clock
from dpq.views.shared import Shared
from dpq.web.routes import API
from dpq.web.routes import PAGES as ROUTES

PAGES = ("", "/tasks", "/limits", "/limit", "/dead", "/batches", "/workers", "/events")


def test_every_page_of_a_full_and_of_an_empty_queue(look: Browser, q: DPQ, path: str) -> None:
    """Each page answers, for a queue without anything and for one with something of everything."""
    for full in (False, True):
        if full:
            furnish(q)
        for page in ("/", "/server", "/api", "/login", *(f"{path}{each}" for each in PAGES)):
            html = look.page(page)
            assert "<!doctype html>" in html, page
            assert not re.search(r'\sstyle="|<script>|\son\w+="', html), page


def test_a_batch_has_the_time_that_is_left(look: Browser, q: DPQ, path: str, clock: Clock) -> None:
    """Two of three tasks took a minute, so the third takes half of one."""
    q.push_many([Push(n, batch="run-7") for n in range(3)])
    clock.advance(60)
    q.ack_many(q.pop_many(2))
    html = look.page(f"{path}/batches")
    assert re.search(r">run-7</td>.*about 30 s left", html, re.S)
    assert "1 left of 3: 2 done" in html


@pytest.mark.parametrize("state", list(TaskState))
def test_a_list_has_the_tasks_of_its_state(look: Browser, q: DPQ, path: str, state: Any) -> None:
    """The list of each state has its tasks, and leads to them; the state has its one name."""
    ids = furnish(q)
    html = look.page(f"{path}/tasks?state={state}")
    assert ids[state] in rows(html)
    task = look.page(f"{path}/tasks/{ids[state]}")
    assert ids[state] in task
    assert f">{state}</span>" in task
    assert f">{state}<" in look.page("/")
    assert {"ready": "needle", "dead": "HTTP 404 for page 17"}.get(state, "") in task


def test_pages_of_50_go_on_behind_the_last_task(look: Browser, q: DPQ, path: str) -> None:
    """Following `next` shows each task once, best first, though the last one shown has gone."""
    q.push_many([Push(n, n % 7) for n in range(120)])
    wanted = [task.id for task in q.peek(200)]
    seen: list[str] = []
    link = f"{path}/tasks"
    while link:
        html = look.page(link)
        seen += rows(html)
        if seen[-1] in wanted:
            q.cancel(seen[-1])
        found = re.search(r'href="([^"]*after=[^"]*)"', html)
        link = found[1].replace("&amp;", "&") if found else ""
    assert seen == wanted


def test_one_box_finds_an_id_a_key_or_a_text(look: Browser, q: DPQ, path: str) -> None:
    """It goes to the task of an id or a key, else it lists what has the text, in each state."""
    ids = furnish(q)
    for page in PAGES:
        assert look.page(f"{path}{page}").count('name="find"') == 1, page
    for name in (ids["ready"], "key/1", f" {ids['dead']} "):
        answer = look.get(f"{path}/tasks", params={"find": name}, follow_redirects=False)
        to = ids["dead"] if ids["dead"] in name else ids["ready"]
        assert answer.headers["location"] == f"{path}/tasks/{to}"
    q.push("needle", delay=60, group="d")
    q.push("needle", group="b")
    html = look.page(f"{path}/tasks?find=needle")
    assert len(rows(html)) == 3
    assert ids["ready"] in rows(html)
    for state, count in {"ready": 1, "delayed": 1, "waiting": 1, "dead": 0}.items():
        shown = re.search(rf'state={state}&[^"]*"[^>]*>.*?(\d+) found', html)
        assert shown, state
        assert int(shown[1]) == count
    assert len(rows(look.page(f"{path}/tasks?find=needle&group=d&state=ready"))) == 1
    assert rows(look.page(f"{path}/tasks?find={ids['waiting'][:-1]}")) == [ids["waiting"]]
    assert rows(look.page(f"{path}/tasks?find={ids['waiting'][1:12]}")) == []
    assert rows(look.page(f"{path}/tasks?find={ids['waiting'][:7]}")) == []
    assert "Nothing found" in look.page(f"{path}/tasks?find=nobody")
    assert "gone" in look.page(f"{path}/tasks/nobody", 404)


def following(html: str) -> str:
    """The link with which a list goes on."""
    return unescape(re.findall(r'href="([^"]*after=[^"]*)"', html)[0])


def test_what_is_closed_comes_first(look: Browser, q: DPQ, path: str) -> None:
    """Groups that a 429 or a hand has closed, then spent ones, then the largest; 50 on the page."""
    q.push_many([Push(n, group=f"large {n % 60:02}") for n in range(240)])
    q.set_limit(1, 3600, group="spent")
    q.push_many([Push(n, 9, group="spent") for n in range(2)])
    assert q.pop().task.group == "spent"
    for n in range(52):
        q.push(n, group=f"closed {n:02}")
        q.delay_group(f"closed {n:02}", 60 + n)
    q.push("more", group="closed 51")
    said = [each["group"] for each in look.api(f"/queues/{q.queue_name}/limits")["limits"][2:]]
    assert said[0] == "closed 51"
    assert set(said[1:48]) == {f"closed {n:02}" for n in range(4, 51)}  # the last to open
    assert said[48] == "spent"
    assert said[49].startswith("large")
    names = re.findall(r'data-key="((?:closed|large|spent)[^"]*)"', look.page(f"{path}/limits"))
    assert names == said[:50]


def test_all_own_limits_are_listed(look: Browser, q: DPQ) -> None:
    """A list that is longer than a page goes on to its end, though Redis returns it whole."""
    for n in range(120):
        q.set_limit(5, 1, group=f"{n}")
    query, seen = {"way": "own"}, set()
    while query:
        told = look.get(f"/api/queues/{q.queue_name}/limits", params=query).json()
        seen |= {each["group"] for each in told["limits"][2:]}
        query = told["next"]
    assert len(seen) == 120


def test_remote_text_is_shown_and_not_run(look: Browser, q: DPQ, path: str) -> None:
    """Payloads, groups, keys, errors and names stand escaped on every page."""
    evil = '"><script>alert(1)</script>'
    q.push({evil: [evil]}, group=evil, key=evil)
    q.push({evil: evil}, group=evil)
    task = q.pop().task
    assert task
    q.fail(task, evil, delay=60)
    q.push(evil, 99)
    q.bury(q.pop().task, evil)
    q.set_limit(1, 1, group=evil)
    q._session.run(q._operations.beat, evil, evil, evil, 1, "0.1", 2, 3, 4.0)
    pages = [f"{path}{each}" for each in PAGES] + [f"{path}/tasks/{task.id}"]
    pages += [f"{path}/tasks?state={state}&text=alert" for state in TaskState]
    for page in pages:
        html = look.page(page)
        assert "<script>alert" not in html, page
    assert "&lt;script&gt;" in look.page(f"{path}/tasks/{task.id}")


def test_payloads_can_be_left_out(dashboard: Open, q: DPQ, path: str) -> None:
    """Neither with `?payload=0` nor without the right is a payload sent, by no page and no API."""
    ids = furnish(q)
    q.push({"word": "needle"}, 2**62)
    running = q.pop().task
    assert running
    q.push({"word": "needle"}, every=60, key="pulse/2")
    hidden = dashboard(payloads=False)
    for browser, more in ((dashboard(), "payload=0"), (hidden, "")):
        for page in (f"{path}/tasks?{more}", f"{path}/tasks/{ids['ready']}?{more}"):
            assert "needle" not in browser.page(page)
    for _, route, *_ in (each for each in [*ROUTES, *API] if each[0] == "GET"):
        for id_ in (ids["ready"], running.id):
            url = route.format(queue=q.queue_name, id=id_, group="a", job="x")
            assert "needle" not in hidden.get(url).text


def is_counted(site: Browser, job: str) -> bool:
    return bool(site.api(f"/actions/{job}")["state"] == "counted")


def test_no_search_reads_what_is_not_shown(dashboard: Open, q: DPQ, path: str) -> None:
    """Without the right to see payloads no search tells what is in one: no list, no API, no job."""
    ids = furnish(q)
    secret, api = '{"word":"needle', f"/queues{path[2:]}/tasks"
    for payloads in (True, False):
        site = dashboard(write=True, payloads=payloads)

        def found(text: str, site: Browser = site) -> list[int]:
            listed = site.get(f"{path}/tasks", params={"text": text}).text
            told = site.get(f"/api{api}", params={"text": text, "payloads": "1"}).json()
            chosen = {"state": "ready", "text": text}
            asked = site.call(f"{api}:action", {"action": "cancel", "filter": chosen}, 202)
            more = {"action": "cancel", "filter": chosen | {"payloads": True}}
            site.call(f"{api}:action", more, 400)
            fields = {"action": "cancel", "all": 1, "f.text": text}
            sent = site.submit(f"{path}/tasks", **fields).headers["location"]
            counts = []
            for job in (asked["id"], sent.rpartition("/")[2]):
                wait_for(partial(is_counted, site, job), lambda: "not counted")
                counts.append(site.api(f"/actions/{job}")["count"])
            return [len(rows(listed)), len(told["tasks"]), *counts]

        assert found(secret) == [payloads] * 4
        assert found("key/1") == [1] * 4
        html = site.page(f"{path}/tasks")
        assert ("in payload, group" in html) == payloads
        assert "(counted first)" not in html  # all tasks of the state are known without a search
    assert q.get(ids["ready"])


# What tabs share


def test_a_hundred_tabs_cost_one_read_a_second(q: DPQ) -> None:
    """Within a second all requests get one reading; without a request nothing is read."""
    now = [0.0]
    shared, reads = Shared(lambda: now[0]), []
    for second in range(3):
        now[0] = float(second)
        for _ in range(100):
            shared.get("queue", lambda: reads.append(now[0]))
    assert reads == [0.0, 1.0, 2.0]


def test_a_page_that_is_the_same_is_not_sent_again(
    look: Browser, q: DPQ, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tab that asks again with the ETag gets 304, until something has changed."""
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 1e9)
    first = look.get(path)
    tag = {"if-none-match": first.headers["etag"]}
    again = look.get(path, headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert look.get("/static/dpq.css", headers=tag).status_code == 200
    furnish(q)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)
    assert look.get(path, headers=tag).status_code == 200
