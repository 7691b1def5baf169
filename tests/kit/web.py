"""A dashboard of a queue `q`, and a browser without a window: starlette's TestClient."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from dpq import DPQ, Push
from dpq.web import Access, app

Open = Callable[..., "Browser"]


class Browser(TestClient):
    """A browser that knows the dashboard's pages."""

    def page(self, path: str, status: int = 200) -> str:
        """The text of a page."""
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def api(self, path: str) -> Any:
        """An answer of the API."""
        answer = self.get(f"/api{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def submit(self, path: str, status: int = 303, **fields: Any) -> Any:
        """Send a form, as a page of the dashboard does."""
        answer = self.post(
            path, data=fields, headers={"sec-fetch-site": "same-origin"}, follow_redirects=False
        )
        assert answer.status_code == status, answer.text
        return answer

    def call(self, path: str, body: Any = None, status: int = 200, method: str = "POST") -> Any:
        """Call the API, as a page of the dashboard does."""
        headers = {"sec-fetch-site": "same-origin"}
        answer = self.request(method, f"/api{path}", json=body or {}, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def dashboard(q: DPQ) -> Iterator[Open]:
    """Opens a dashboard with some rights: `dashboard(write=True)`."""
    opened: list[Browser] = []

    def make(*queues: DPQ, badge: str = "", **rights: Any) -> Browser:
        site = app(list(queues) or [q], access=Access(**rights), badge=badge)
        opened.append(Browser(site, base_url="http://127.0.0.1:8321"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def look(dashboard: Open) -> Browser:
    """A dashboard that only shows."""
    return dashboard()


@pytest.fixture
def change(dashboard: Open) -> Browser:
    """A dashboard that may change everything."""
    return dashboard(write=True)


@pytest.fixture
def path(q: DPQ) -> str:
    """The path of the queue's pages."""
    return f"/q/{q.queue_name}"


def furnish(q: DPQ) -> dict[str, str]:
    """Something of everything; ids by state."""
    q.push("to die", 99, key="dead one")
    q.bury(q.pop().task, "HTTP 404 for page 17")
    q.push_many([Push({"url": f"https://a.example/{n}"}, n, group="a") for n in range(5)])
    q.push({"n": 1}, 50)
    running = q.pop().task
    assert running
    ready = q.push({"word": "needle"}, 2**60 + 1, key="key/1")
    delayed = q.push("later", delay=60)
    q.push("again", every=30, delay=30, key="pulse")
    q.set_limit(10, 1, burst=5, group="a")
    q.set_limit(2, 1, group="*", concurrency=3)
    q.delay_group("b", 60)
    q.push("b1", group="b")
    waiting = q.push("b2", group="b")
    return {
        "ready": ready,
        "delayed": delayed,
        "invisible": running.id,
        "waiting": waiting,
        "dead": q.dead.list()[0].id,
    }


def rows(html: str) -> list[str]:
    """The ids of the tasks in a list."""
    return re.findall(r'name="ids" value="([^"]+)"', html) or re.findall(
        r'class="mono" href="[^"]*/tasks/([^"]+)" data-row', html
    )
