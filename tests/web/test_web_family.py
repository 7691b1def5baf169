"""A family on the dashboard and the command line: whose limits these are, and who takes of them."""

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from kit.web import Open, furnish
from redis import Redis

from dpq import DPQ
from dpq.metrics import Exporter
from dpq.views.sampler import Named


@pytest.fixture
def family(redis: Redis, queue_name: str) -> Iterator[list[DPQ[Any]]]:
    """The head, and two queues with something of everything."""
    queues: list[DPQ[Any]] = [
        DPQ(redis, name) for name in (queue_name, f"{{{queue_name}}}a b", f"{{{queue_name}}}web")
    ]
    for q in queues:
        q.push(1)
    furnish(queues[1])
    yield queues
    for q in reversed(queues):
        q.drop()
        q.close()


def test_each_link_of_a_family_leads_to_its_page(dashboard: Open, family: list[DPQ[Any]]) -> None:
    """Braces and blanks of a name stand in each address, form and link, and come back whole."""
    site = dashboard(*family, write=True)
    todo, seen = ["/"], set[str]()
    while todo:
        page = todo.pop()
        for link in map(html.unescape, re.findall(r'<a [^>]*href="(/q/[^"]*)"', site.page(page))):
            path = urlsplit(link).path
            assert not set("{} ") & set(link)
            if path not in seen and len(seen) < 80:
                seen.add(path)
                todo.append(link)
    name = family[1].queue_name
    pages = {path.removeprefix("/q/").partition("/") for path in seen}
    assert {"", "tasks", "limits", "limit", "dead", "events", "next"} <= {
        rest for _, _, rest in pages
    }
    path = next(path for path in seen if "a~20b" in path).split("/")[2]
    assert name in html.unescape(site.page(f"/q/{path}"))
    site.submit(f"/q/{path}/group", verb="close", group="b", seconds="60")
    site.submit(f"/q/{path}/pause")
    assert [q.why().state for q in family[:2]] == ["moving", "paused"]
    assert site.api(f"/queues/{path}")["queue"] == name
    assert name in html.unescape(site.page(f"/q/{path}/tasks?text=needle&state=all"))


def test_the_limits_page_says_who_follows_them(dashboard: Open, family: list[DPQ[Any]]) -> None:
    """Each queue of the family stands there with what it holds; all leases count for a limit."""
    family[0].set_limit(concurrency=5)
    assert family[0].pop().task
    site = dashboard(*family)
    for q in family:
        path = next(link for link in re.findall(r'href="(/q/[^"]*/limits)', site.page("/")) or [])
        text = html.unescape(site.page(f"/q/{path.split('/')[2]}/limits"))
        assert all(each.queue_name in text for each in family), q
        assert "the head, which has the limits" in text
    part = site.page(f"/q/{family[0].queue_name}/limits")
    rows = re.findall(r'data-label="in flight">(\d+)', part)
    assert rows[0] == "2"  # one here, one in another queue
    assert sorted(rows[-3:]) == ["0", "1", "1"]
    assert "not shown here" in dashboard(family[0]).page(f"/q/{family[0].queue_name}/limits")


def test_a_queue_without_a_family_shows_none(dashboard: Open, q: DPQ[Any]) -> None:
    """Nothing more stands on its page."""
    q.push(1)
    assert "family" not in dashboard().page(f"/q/{q.queue_name}/limits")


def test_metrics_of_a_family_have_its_names(family: list[DPQ[Any]]) -> None:
    """Each queue is a label of its own, as it is written."""
    text = Exporter(Named(family)).text().decode()
    for q in family:
        assert f'dpq_queue_up{{queue="{q.queue_name}",server=""}} 1.0' in text
