"""The users of docs/security.md are enough for the dashboard, and a reader's cannot write."""

from typing import Any

import pytest
from kit.web import Browser, furnish
from redis import Redis
from roles import words_of

from dpq import DPQ, TaskState
from dpq.link.connections import load_scripts
from dpq.server import Server
from dpq.web import Access, app
from dpq.web.routes import API, PAGES


@pytest.mark.parametrize("role", ["dpq-dashboard", "dpq-admin"])
def test_the_rights_of_the_page_suffice(server: Server, redis: Redis, q: DPQ, role: str) -> None:
    """With the dashboard's user all pages show; with the administrator's all actions work."""
    ids = furnish(q)
    load_scripts(redis)
    words = words_of(role, q.queue_name, server.binary.version)
    redis.execute_command("ACL", "SETUSER", role, "reset", "on", ">PASSWORD", *words)
    url = server.url.replace("unix://", f"unix://{role}:PASSWORD@")
    try:
        with DPQ.from_url(url, q.queue_name) as seen:
            site = app(seen, access=Access(write=role == "dpq-admin"))
            browser = Browser(site, base_url="http://127.0.0.1")
            named: Any = {"queue": q.queue_name, "id": ids["ready"], "group": "a"}
            for method, path, *_ in [*PAGES, *API]:
                if method == "GET" and "{job}" not in path:
                    asked = path.format(**named) + "?remove=1" * path.endswith("/change")
                    assert browser.get(asked).status_code == 200, path
            up = f'dpq_queue_up{{queue="{q.queue_name}",server="{server.url[7:]}"}} 1.0'
            assert up in browser.page("/metrics")
            for state in TaskState:
                browser.page(f"/q/{q.queue_name}/tasks?state={state}&text=x&least=0")
            for way in ("closed", "own", "name"):
                browser.page(f"/q/{q.queue_name}/limits?way={way}")
            if role == "dpq-admin":
                path = f"/q/{q.queue_name}"
                for action, state in (
                    ("update", "ready"),
                    ("run", "delayed"),
                    ("bury", "invisible"),
                    ("replay", "dead"),
                    ("cancel", "waiting"),
                    ("purge", "invisible"),
                ):
                    browser.submit(
                        f"{path}/tasks", 200, action=action, ids=ids[state], priority=1, sure=1
                    )
                browser.submit(f"{path}/workers/x/release", 200, sure=1)
                browser.submit(f"{path}/pause")
                browser.submit(f"{path}/resume")
                browser.submit(f"{path}/group", verb="close", group="a", seconds=5)
                stands = q.admin.group("a").rules
                browser.page(f"{path}/limit/change?group=a&windows=5/s")
                browser.submit(f"{path}/limits", group="a", rules="0|5 1000 1", expected=stands)
            browser.close()
    finally:
        redis.execute_command("ACL", "DELUSER", role)
