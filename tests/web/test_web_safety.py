"""The safety: hosts, tokens, origins, rights, headers, the audit log, and Redis users."""

import logging
from typing import Any

import pytest
from kit.web import Browser, Open, furnish
from starlette.applications import Starlette
from starlette.routing import Mount

from dpq import DPQ, TaskState
from dpq.web import Access, app
from dpq.web.access import HEADERS, Guard, same_host
from dpq.web.routes import API, PAGES

TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - for tests
OWN = "http://127.0.0.1:8321"
BROKEN = [b"{", b"[1]", b"null", b"\xff\xfe", b'{"a":"\xff"}', b'{"a":"\\ud800"}']
BROKEN += [b"[" * 200_000, b'{"a":' * 200_000, b'{"a":%b}' % (b"9" * 5000)]
POSTS = [(method, path) for method, path, *_ in [*PAGES, *API] if method != "GET"]


def filled(path: str, q: DPQ) -> str:
    """A path with a queue, a task, a group and a job in it."""
    named = {"queue": q.queue_name, "id": "x", "group": "a", "job": "x"}
    named["action"] = "quiet"
    return path.format(**named)


@pytest.mark.parametrize(("method", "path"), POSTS, ids=" ".join)
def test_nothing_unsafe_without_same_origin(
    change: Browser, q: DPQ, method: str, path: str
) -> None:
    """Each unsafe route refuses another site, and a request that does not say where it is from."""
    url = filled(path, q)
    for headers in (
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
        {"origin": "http://127.0.0.1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "origin": OWN},
        {"authorization": "Bearer "},
    ):
        assert change.request(method, url, headers=headers).status_code == 403, headers
    for own in ({"sec-fetch-site": "same-origin"}, {"origin": OWN}):
        assert change.request(method, url, headers=own).status_code != 403


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://10.0.0.5:8321", "10.0.0.5:8321", True),
        ("https://queues.example", "queues.example", True),
        ("https://queues.example", "queues.example:443", True),
        ("http://queues.example:80", "Queues.Example", True),
        ("http://[::1]:8321", "[::1]:8321", True),
        ("http://[::1]", "[::1]:80", True),
        ("http://10.0.0.5:9999", "10.0.0.5:8321", False),
        ("http://10.0.0.5", "10.0.0.5:8321", False),
        ("https://queues.example", "queues.example:80", False),
        ("http://queues.example.evil.example", "queues.example", False),
        ("http://evil.example", "queues.example", False),
        ("ftp://queues.example", "queues.example", False),
        ("queues.example", "queues.example", False),
        ("null", "null", False),
        ("http://", "", False),
        ("", "", False),
    ],
)
def test_an_origin_is_compared_with_its_port(origin: str, host: str, same: bool) -> None:
    """Another port of the same machine, and a longer name, are other sites."""
    assert same_host(origin, host) is same


@pytest.mark.parametrize(("method", "path"), POSTS, ids=" ".join)
def test_a_dashboard_that_only_shows_changes_nothing(
    look: Browser, q: DPQ, method: str, path: str
) -> None:
    """Without `write` each route that changes something is refused, whatever the form says."""
    ids = furnish(q)
    before = {s: [t.id for t in q.peek(99, s)] for s in TaskState}, q.admin.limits()
    url = filled(path, q).replace("/x", f"/{ids['ready']}")
    form = {"action": "cancel", "ids": ids["ready"], "sure": 1, "state": "ready", "group": "a"}
    form |= {"verb": "close", "seconds": "9", "rules": "", "expected": ""}
    json = {"action": "cancel", "ids": [ids["ready"]], "seconds": 9, "windows": ["1/s"]}
    bodies: list[dict[str, Any]] = [{"data": form}, {"json": json | {"expected": 1}}]
    for body in bodies:
        if method == "DELETE":
            body = {}
        answer = look.request(method, url, headers={"sec-fetch-site": "same-origin"}, **body)
        as_form = "data" in body and url.startswith("/api/")
        assert answer.status_code == (415 if as_form else 403), answer.text
    assert ({s: [t.id for t in q.peek(99, s)] for s in TaskState}, q.admin.limits()) == before


def test_rights_of_an_application(
    dashboard: Open, q: DPQ, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`allow` is asked for each action, with its name and its queue; a refused one is logged."""
    asked: list[tuple[str, str]] = []

    def allow(request: Any, action: str, queue: str) -> bool:
        asked.append((action, queue))
        return action == "pause"

    site = dashboard(write=True, allow=allow, user=lambda request: "ann\nbob")
    with caplog.at_level(logging.INFO, "dpq.web.audit"):
        site.submit(f"{path}/pause")
        site.submit(f"{path}/pause", 400, seconds="soon")
        site.submit(f"{path}/group", 403, verb="open", group="a")
        site.call(f"/queues{path[2:]}/limits", {"windows": ["1/s"]}, 403)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" ")[0] for line in lines] == ["pause", "pause", "refused:", "refused:"]
    assert lines[2].startswith(
        f"refused: open queue={q.queue_name!r} group='a' member=None seconds=0 user='ann"
    )
    assert "\n" not in lines[1]
    assert not any(state.windows for state in q.admin.limits())
    assert ("pause", q.queue_name) in asked
    assert ("open", q.queue_name) in asked
    html = site.page(path)
    assert f'action="{path}/pause"' in html
    assert f'action="{path}/resume"' in html


def test_each_action_writes_a_line(
    change: Browser, look: Browser, q: DPQ, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The audit log says the action, the queue, and from where; a refused one too, in one line."""
    ids = furnish(q)
    with caplog.at_level(logging.INFO, "dpq.web.audit"):
        change.submit(f"{path}/tasks", 200, action="run", ids=ids["delayed"])
        change.submit(
            f"{path}/group", verb="close", group="a\nforged line", seconds="1", status=400
        )
        look.submit(f"{path}/pause", 403)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(f"run queue={q.queue_name!r} ids={ids['delayed']} count=1")
    assert "from=testclient" in lines[0]
    assert "\n" not in lines[1]
    assert lines[-1].startswith("refused: POST ")


def test_headers_of_every_answer(look: Browser, path: str) -> None:
    """Pages, files, errors and the API have the content-security policy, exactly."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    assert HEADERS["content-security-policy"] == policy
    for url in ("/", path, "/static/dpq.js", "/nothing", "/api/queues", "/api/nothing", "/login"):
        answer = look.get(url)
        assert answer.headers["content-security-policy"] == policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert look.get("/", headers={"host": "evil.example"}).headers["content-security-policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:9000", 200),
        ("[::1]:8321", 200),
        ("LOCALHOST", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("127.0.0.1@evil.example", 400),
        ("", 400),
    ],
)
def test_other_hosts_are_refused(look: Browser, host: str, status: int) -> None:
    """A name that somebody else has pointed at this machine gets nothing (DNS rebinding)."""
    assert look.get("/", headers={"host": host}).status_code == status


def test_a_token_is_asked_for(dashboard: Open, q: DPQ, path: str) -> None:
    """Without it there is only the page to log in; a wrong one does not help; a session ends."""
    site = dashboard(write=True, token=TOKEN)
    answer = site.get(path, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert site.get("/api/queues").status_code == 401
    same = {"sec-fetch-site": "same-origin"}
    assert site.post("/login", data={"token": TOKEN}).status_code == 403
    foreign = {"origin": "http://127.0.0.1"}
    assert site.post("/login", data={"token": TOKEN}, headers=foreign).status_code == 403
    assert site.get(path, follow_redirects=False).status_code == 303
    assert site.post("/login", data={"token": "x" * 32}, headers=same).status_code == 401
    assert site.get(path, follow_redirects=False).status_code == 303
    over_http = {"origin": OWN}  # to another machine a browser says no more
    for own in (over_http, same):
        logged = site.post("/login", data={"token": TOKEN}, headers=own, follow_redirects=False)
        assert logged.status_code == 303
    cookie = logged.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert site.page(path)
    site.submit(f"{path}/pause")
    forged = site.cookies["dpq_session"].replace(".", ".9", 1)
    site.cookies.clear()
    answer = site.get("/api/queues", headers={"cookie": f"dpq_session={forged}"})
    assert answer.status_code == 401


def test_sessions_end(q: DPQ) -> None:
    """A session is good for 12 hours, and no other process or token makes one."""
    now = [1000.0]
    guard = Guard(Access(token=TOKEN), lambda: now[0])

    class Request:
        cookies = {"dpq_session": guard.new_session()}  # noqa: RUF012

    assert guard.is_logged_in(Request)  # type: ignore[arg-type]
    assert not Guard(Access()).is_logged_in(Request)  # type: ignore[arg-type]
    now[0] += 12 * 3600 + 1
    assert not guard.is_logged_in(Request)  # type: ignore[arg-type]


def test_long_bodies_and_broken_ones(change: Browser, dashboard: Open, q: DPQ) -> None:
    """A body over a megabyte, broken or deep JSON, and what is no JSON are refused: no fault."""
    url, form = f"/api/queues/{q.queue_name}:pause", f"/q/{q.queue_name}/tasks"
    own = {"sec-fetch-site": "same-origin"}
    headers = own | {"content-type": "application/json"}
    assert change.post(url, content=b" " * 2_000_000, headers=headers).status_code == 413
    pieces = (b" " * 70_000 for _ in range(20))
    assert change.post(url, content=pieces, headers=headers).status_code == 413
    for body in BROKEN:
        assert change.post(url, content=body, headers=headers).status_code == 400, body[:20]
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        said = b'{"seconds":5}'  # a pause without an end, if it were not read
        answer = change.post(url, content=said, headers=own | {"content-type": kind})
        assert answer.status_code == 415
    assert change.api(f"/queues/{q.queue_name}")["paused"] is False
    many = {"content-type": "application/x-www-form-urlencoded"} | own
    assert change.post(form, content=b"ids=1&" * 6000, headers=many).status_code == 400
    assert change.post(form, content=b"%ff=%ff&action=\xff", headers=many).status_code == 400
    locked = dashboard(token=TOKEN)
    assert locked.post("/login", content=b"token=" + b"x" * 5000).status_code == 413


def test_mounted_below_a_path(q: DPQ) -> None:
    """All links, forms, files and cookies stay below the path of the mount."""
    q.push("x")
    access = Access(write=True, hosts=("Ops.Example",))
    site = Starlette(routes=[Mount("/ops/queues", app(q, access=access))])
    browser = Browser(site, base_url="http://ops.example/ops/queues")
    html = browser.page(f"/q/{q.queue_name}/tasks")
    links = [part.split('"')[0] for part in html.split('href="')[1:] + html.split('action="')[1:]]
    assert all(link.startswith(("/ops/queues/", "#")) for link in links if link)
    browser.submit(f"/q/{q.queue_name}/pause")
    assert q.pop().task is None
