"""The pages that show: what they say, how they page, and what they share."""

import re
from functools import partial
from html import unescape
from typing import Any

import pytest
from kit.web import Browser, Open, furnish, rows
from support import wait_for

from dpq import DPQ, Push, TaskState
from dpq.model.rates import span
from dpq.views.sampler import Snapshot, Watch
from dpq.views.shared import Shared
from dpq.views.verdict import say_state
from dpq.web.routes import API
from dpq.web.routes import PAGES as ROUTES

PAGES = ("", "/tasks", "/limits", "/limit", "/dead", "/recurring", "/workers", "/events")


def test_every_page_of_a_full_and_of_an_empty_queue(look: Browser, q: DPQ, path: str) -> None:
    """Each page answers, for a queue without anything and for one with something of everything."""
    for full in (False, True):
        if full:
            furnish(q)
        for page in ("/", "/server", "/api", "/login", *(f"{path}{each}" for each in PAGES)):
            html = look.page(page)
            assert "<!doctype html>" in html, page
            assert not re.search(r'\sstyle="|<script>|\son\w+="', html), page


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


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("state=waiting&group=a", 4),
        ("state=waiting&group=none", 0),
        ("state=waiting&text=a.example/1", 1),
        ("state=ready&text=needle", 1),
        ("state=ready&text=key/1", 1),
        ("state=ready&least=100", 1),
        ("state=dead&reason=HTTP %23 for page %23&fault=", 1),
        ("state=dead&reason=HTTP 404", 0),
    ],
)
def test_a_search_finds_what_it_names(
    look: Browser, q: DPQ, path: str, query: str, count: int
) -> None:
    """Group, text, priority, reason and error each narrow a list."""
    furnish(q)
    assert len(rows(look.page(f"{path}/tasks?{query}"))) == count


def test_a_search_says_how_much_it_has_searched(look: Browser, q: DPQ, path: str) -> None:
    """A search ends after a bounded number of tasks, says so, and goes on from there."""
    q.push_many([Push({"n": n}, -n) for n in range(40)])
    html = look.page(f'{path}/tasks?text="n":35&look=10')
    assert "Looked at 10 of 40 tasks: 0 found" in html
    assert "Nothing among the tasks that were looked at so far" in html
    html = look.page(following(html))
    assert len(rows(html)) == 1
    assert "Looked at all 40 tasks: 1 found" in html


def following(html: str) -> str:
    """The link with which a list goes on."""
    return unescape(re.findall(r'href="([^"]*after=[^"]*)"', html)[0])


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


def test_a_box_that_was_not_changed_keeps_the_state(look: Browser, q: DPQ, path: str) -> None:
    """In the list of a state a group narrows the same search, and an empty box ends it."""
    furnish(q)
    wanted = f"{path}/tasks?state=waiting&text=a.example"
    assert len(rows(look.page(wanted))) == 4
    assert len(rows(look.page(f"{wanted}&find=a.example&group=a"))) == 4
    assert len(rows(look.page(f"{wanted}&find=a.example&group=b"))) == 0
    assert len(rows(look.page(f"{wanted}&find="))) == 6


def test_a_search_goes_through_the_states(look: Browser, q: DPQ, path: str) -> None:
    """It begins with the smallest state, keeps to its bound, and finds each task once."""
    q.push_many([Push({"n": n}, -n) for n in range(60)])
    q.push_many([Push({"n": n}, delay=60 + n) for n in range(30)])
    for n in range(10):
        q.push({"n": n}, max_attempts=1, priority=9)
        q.fail(q.pop().task, "no")
    seen: list[str] = []
    link, looked = f"{path}/tasks?state=all&text=%22n%22:7&look=25", list[str]()
    while link:
        html = look.page(link)
        seen += rows(html)
        looked += re.findall(r"Looked at (all \d+|\d+ of \d+) tasks", html)
        link = following(html) if "after=" in html else ""
        link = link.replace("look=10000", "look=25")
    assert looked == ["25 of 100", "50 of 100", "75 of 100", "all 100"]
    states = [q.get(id_).state for id_ in seen]
    assert states == [TaskState.DEAD, TaskState.DELAYED, TaskState.READY]
    said = look.api(f"/queues/{q.queue_name}/tasks?state=all&text=%22n%22:7")
    assert [task["id"] for task in said["tasks"]] == seen
    assert said["found"] == {"invisible": 0, "waiting": 0, "dead": 1, "delayed": 1, "ready": 1}
    assert (said["searched"], said["left"], said["after"]) == (100, 0, None)


def test_groups_are_suggested(look: Browser, q: DPQ, path: str) -> None:
    """At most 20: those with most tasks, or those that begin with what is typed."""
    q.push_many([Push(n, group=f"g{n // 3:03}") for n in range(90)])
    q.push_many([Push(n, group="large") for n in range(9)])
    names = re.findall('<option value="([^"]*)"', look.page(f"{path}/tasks"))
    assert len(names) == 20
    assert names[0] == "large"
    api = f"/queues/{q.queue_name}/groups"
    assert look.api(api)["groups"] == names
    assert look.api(f"{api}?q=g02")["groups"] == [f"g{n:03}" for n in range(20, 30)]


def test_a_task_says_its_trace(look: Browser, q: DPQ, path: str) -> None:
    """Its id is what the tool that keeps the traces searches for."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    pushed = q._operations.push_many([Push(1)], f"00-{trace}-00f067aa0ba902b7-01")
    (task_id,) = q._session.send(pushed)
    assert f'<dt>trace</dt><dd class="mono">{trace}</dd>' in look.page(f"{path}/tasks/{task_id}")
    assert "<dt>trace</dt>" not in look.page(f"{path}/tasks/{q.push(2)}")


def test_a_task_says_why_it_waits_and_until_when(look: Browser, q: DPQ, path: str) -> None:
    """A closed group is named, with the moment when it opens as a countdown."""
    ids = furnish(q)
    html = look.page(f"{path}/tasks/{ids['waiting']}")
    assert "is closed (by hand)" in html
    until = look.api(f"/queues/{q.queue_name}/tasks/{ids['waiting']}")["why"]["until_ms"]
    assert f'data-at="{round(until)}"' in html
    group = q.group("b")
    assert group.opens_at
    assert abs(until - group.opens_at.timestamp() * 1000) < 2


def test_limits_show_each_scope(look: Browser, q: DPQ, path: str) -> None:
    """Open and closed groups stand with their windows, units left, and what waits."""
    furnish(q)
    html = look.page(f"{path}/limits")
    assert "closed by hand" in html
    assert 'data-burst="5"' in html
    assert "10 in 1 s" in html
    for way, group in (("closed", "b"), ("own", "a"), ("name", "a")):
        assert f'data-key="{group}"' in look.page(f"{path}/limits?way={way}")
    assert 'data-key="nobody"' in look.page(f"{path}/limits?q=nobody")


def test_groups_by_name_go_on_behind_the_last(look: Browser, q: DPQ, path: str) -> None:
    """The list by name shows each group of a page of 50 once."""
    q.push_many([Push(n, group=f"g{n // 2:03}") for n in range(240)])
    names = re.findall(r'data-key="(g\d+)"', look.page(f"{path}/limits?way=name"))
    assert names == [f"g{n:03}" for n in range(50)]
    following = look.api(f"/queues/{q.queue_name}/limits?way=name")["next"]
    more = look.api(f"/queues/{q.queue_name}/limits?way=name&behind={following['behind']}")
    assert [each["group"] for each in more["limits"][2:]] == [f"g{n:03}" for n in range(50, 100)]


def test_the_largest_groups_come_first(look: Browser, q: DPQ, path: str) -> None:
    """No group with more than a 200th of what waits is overlooked."""
    q.push_many([Push(n, group=f"small {n % 300}") for n in range(900)])
    q.push_many(
        [Push(n, group="big") for n in range(40)] + [Push(n, group="bigger") for n in range(60)]
    )
    found = look.api(f"/queues/{q.queue_name}/limits")["limits"][2:]
    assert [(each["group"], each["waiting"]) for each in found[:2]] == [("bigger", 60), ("big", 40)]


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


def test_dead_letters_stand_by_reason_and_error(look: Browser, q: DPQ, path: str) -> None:
    """Errors that differ by numbers only are one kind; its link finds exactly those."""
    for n in range(3):
        q.push(n, max_attempts=1)
        q.fail(q.pop().task, f"HTTP 404 for /{n}")
    q.push("x")
    q.bury(q.pop().task, "no")
    html = look.page(f"{path}/dead")
    assert "HTTP # for /#" in html
    kinds = look.api(f"/queues/{q.queue_name}/dead")["kinds"]
    assert [(kind["reason"], kind["number"]) for kind in kinds] == [
        ("attempts spent", 3),
        ("no", 1),
    ]
    link = re.search(r'href="([^"]*fault=HTTP[^"]*)"', html)
    assert link
    assert len(rows(look.page(link[1].replace("&amp;", "&")))) == 3


def test_a_queue_that_cannot_be_read_hides_no_other(
    dashboard: Open, q: DPQ, redis: Any, queue_name: str
) -> None:
    """On the overview each queue has its row; one that is damaged says so."""
    with DPQ(redis, f"{queue_name}-2") as other:
        other.push("x")
        redis.set(f"dpq:{{{queue_name}-2}}:stats", "text")
        html = dashboard(q, other).page("/")
        assert "cannot be read" in html
        assert f'data-key="{queue_name}"' in html
        redis.delete(f"dpq:{{{queue_name}-2}}:stats")
        other.drop()


def test_recurring_tasks_have_their_schedule(look: Browser, q: DPQ, path: str) -> None:
    """Only recurring tasks are listed, with their schedule and their next time."""
    furnish(q)
    q.push("report", cron="0 6 * * *", timezone="Europe/Berlin", key="report")
    html = look.page(f"{path}/recurring")
    assert "every 30 s" in html
    assert "at 06:00 every day (Europe/Berlin)" in html
    assert "0 6 * * *<" in html
    assert len(rows(html)) == 2


def test_workers_and_what_is_leased(
    look: Browser, q: DPQ, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is shown with its handlers, a lease with when it began."""
    ids = furnish(q)
    assert "No worker reports" in look.page(f"{path}/workers")
    q._session.run(q._operations.beat, "w", "crawler", "host7", 11, 2, 3, 4.0)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0)
    html = look.page(f"{path}/workers")
    assert ids["invisible"] in html
    assert "crawler" in html
    assert "2 of 3" in html


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
    q._session.run(q._operations.beat, evil, evil, evil, 1, 2, 3, 4.0)
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


def test_a_huge_payload_is_cut(look: Browser, q: DPQ, path: str) -> None:
    """A payload of a megabyte makes a small page, which says that it was cut."""
    task = q.push({"rows": [{"n": n, "text": "x" * 50} for n in range(12_000)]})
    html = look.page(f"{path}/tasks/{task}")
    assert "Only the first 500 values" in html
    assert len(html) < 200_000
    assert len(look.page(f"{path}/tasks")) < 20_000


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


def test_a_failed_read_is_shared_too() -> None:
    """A server that does not answer is asked once a second, and again after that."""
    now, asked = [0.0], []
    shared = Shared(lambda: now[0])

    def fail() -> None:
        asked.append(now[0])
        if now[0] < 1:
            raise ConnectionError("refused")

    for _ in range(5):
        with pytest.raises(ConnectionError):
            shared.get("queue", fail)
    now[0] = 1.0
    shared.get("queue", fail)
    assert asked == [0.0, 1.0]


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


def test_what_is_closed_longest_stands_on_the_page_of_the_queue(
    look: Browser, q: DPQ, path: str
) -> None:
    """Groups that a 429 or a hand has closed, the last to open first; not one at its limit."""
    for group, seconds in (("short", 60), ("long", 600), ("for ever", None)):
        q.push(1, group=group)
        q.delay_group(group, seconds)
    q.set_limit(1, 5, group="spent")
    q.push_many([Push(n, group="spent") for n in range(2)])
    assert q.pop().task.group == "spent"
    html = look.page(path)
    facts = html[html.index("closed longest") : html.index("next delayed task")]
    assert re.findall('group=([^"]*)', facts) == ["for+ever", "long", "short"]
    assert facts.count("by hand") == 3


def test_pace_of_a_watch(q: DPQ) -> None:
    """What comes and ends between looks is a rate, and the rest of the backlog a range."""
    now = [100.0]
    watch = Watch(q, lambda: now[0])

    def said(snapshot: Snapshot) -> str:
        return say_state(snapshot, snapshot.survey.now_ms)

    q.push_many([Push(n) for n in range(50)])
    assert said(watch.read()) == "no consumer"
    q.ack_many(q.pop_many(20))
    now[0] += 10
    snapshot = watch.read()
    assert snapshot.pace.done == 2.0
    assert snapshot.a_second("pushed") == 0
    assert said(snapshot) == "done in 7 to 30 s"
    now[0] += 5
    q.push_many([Push(n) for n in range(100)])
    assert said(watch.read()).startswith("growing by ")
    now[0] += 400
    assert len(watch.read().samples) == 1
    now[0] += 25
    assert said(watch.read()) == "moving"  # a consumer has asked a moment ago


def test_spans() -> None:
    """A duration has its two largest units."""
    shown = [span(s) for s in (0.25, 59, 60, 3700, 90_000)]
    assert shown == ["250 ms", "59 s", "1 m", "1 h 1 m", "1 d 1 h"]
