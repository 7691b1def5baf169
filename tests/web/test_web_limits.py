"""Limits on the dashboard: each kind filled in and edited, asked, refused, undone."""

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
from kit.web import Browser

from dpq import DPQ, Adaptive, Push, Quota, RateLimit, Reserve


class Form(HTMLParser):
    """The fields of one form of a page, as a browser would send them."""

    def __init__(self, html: str, action: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._action, self._inside, self._area = action, False, ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        said = dict(attrs)
        if tag == "form":
            self._inside = said.get("action", "").endswith(self._action)
        box = said.get("type") == "checkbox"
        if tag == "input" and self._inside and not (box and "checked" not in said):
            self.fields[said["name"]] = said.get("value", "on" if box else "") or ""
        self._area = said["name"] if tag == "textarea" and self._inside else ""

    def handle_endtag(self, tag: str) -> None:
        self._area = ""
        self._inside = self._inside and tag != "form"

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] = data


def filled(site: Browser, path: str, group: str) -> dict[str, str]:
    """What the form of a limit's page has."""
    return Form(site.page(f"{path}/limit?{urlencode({'group': group})}"), "/limit/change").fields


def ask(site: Browser, path: str, status: int = 200, **fields: str) -> str:
    """The page of the question."""
    return site.page(f"{path}/limit/change?{urlencode(fields)}", status)


def agree(site: Browser, path: str, html: str, status: int = 303) -> Any:
    """Press the button of a question."""
    fields = Form(html, "/limits").fields
    return site.submit(f"{path}/limits", status, **fields)


KINDS: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, Any]]] = {
    "a window": ({"rate": 10, "per": 1}, {"windows": "300/15m"}, {"rate": "300/15m"}),
    "moving": ({"rate": 10, "per": 1}, {"windows": "10/s,moving"}, {"rate": "10/s,moving"}),
    "one more window": (
        {"rate": RateLimit(10, 1, 3, Reserve(2, -1.5))},
        {"windows": "10/s,burst=3,reserve=2:-1.5\r\n\r\ntokens=9/m,burst=4,estimate=3\r\n"},
        {
            "rate": [
                RateLimit(10, 1, 3, Reserve(2, -1.5)),
                RateLimit(9, 60, 4, unit="tokens", estimate=3),
            ]
        },
    ),
    "learned": (
        {"rate": 5, "per": 1, "adaptive": Adaptive(1, 20), "slack": 0.25},
        {"windows": "5/s,adaptive=1:30:0.5"},
        {"rate": 5, "per": 1, "adaptive": Adaptive(1, 30, 0.5)},
    ),
    "quota": (
        {"rate": [RateLimit(5, 1), Quota(900, "day", "Europe/Berlin", spread=True)]},
        {"windows": "5/s\n800/week@Europe/Berlin,spread,reserve=9:5"},
        {"rate": [RateLimit(5, 1), Quota(800, "week", "Europe/Berlin", "", Reserve(9, 5), True)]},
    ),
    "a member": (
        {"rate": 60, "per": 60, "members": ["key-a", "eu 1:8080"], "weight": 2.5},
        {"members": "key-a\r\neu 1:8080\r\nkey-c\r\n", "weight": "0.5"},
        {"rate": 60, "per": 60, "members": ["key-a", "eu 1:8080", "key-c"], "weight": 0.5},
    ),
    "concurrency": ({"concurrency": 3}, {"concurrency": "5"}, {"concurrency": 5}),
    "in order": (
        {"rate": 10, "per": 1},
        {"in_order": "on"},
        {"rate": 10, "per": 1, "in_order": True},
    ),
    "in order as before": (
        {"rate": 10, "per": 1, "in_order": True},
        {"windows": "5/s"},
        {"rate": 5, "per": 1, "in_order": True},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_filled_in_and_edited(change: Browser, q: DPQ, path: str, kind: str) -> None:
    """The form has what stands: as it is, it would change nothing; one field changes one thing."""
    before, edit, after = KINDS[kind]
    q.set_limit(group="wanted", **after)
    q.set_limit(group="g", **before)
    stood = q.admin.group("g").rules
    fields = filled(change, path, "g")
    assert "stands like that already" in ask(change, path, **fields)
    html = ask(change, path, **fields | edit)
    assert q.admin.group("g").rules == stood
    agree(change, path, html)
    assert q.admin.group("g").rules == q.admin.group("wanted").rules
    changed = q.admin.events()[-1]
    assert (changed.before, changed.by) == (stood, "testclient (dashboard)")


def test_the_question_shows_both_sides(look: Browser, q: DPQ, path: str) -> None:
    """Words, promises and times of both; a dashboard that only shows has it without a button."""
    q.set_limit(1, 1, group="a")
    q.set_limit(2, 1, group="*")
    q.push_many([Push(n, group="a") for n in range(401)])
    before = q.admin.limits(), q.admin.events()
    html = ask(look, path, group="a", windows="300/15m,burst=50", concurrency="3")
    was, will_be = html.split("Will be")
    assert "Never more than 1 request in any 1 s." in was
    assert "401 due tasks: all begun in 6 m" in was
    assert "300/15min, burst=50" in will_be
    assert "Never more than 349 requests in any 15 m." in will_be
    assert "Never more than 3 at once." in will_be
    faster = ask(look, path, group="a", windows="20/s")
    [then, now] = reversed(re.findall(r'data-at="(\d+)" data-utc', faster))
    assert int(now) - int(then) == pytest.approx(380_000, abs=1500)
    [begun] = re.findall(r'begun"><time[^>]*data-at="(\d+)"', look.page(f"{path}/limits"))
    assert int(begun) == pytest.approx(int(now), abs=1500)
    removed = ask(look, path, group="a", remove="1")
    assert "no limit of its own" in removed
    assert "of every group: 2/s" in removed
    for page in (html, faster, removed):
        assert 'method="post"' not in page
        assert "On paper" in page
    assert "write a rate as" in ask(look, path, 400, group="a", windows="fast")
    assert (q.admin.limits(), q.admin.events()) == before


def test_each_group_says_when_all_have_begun(
    look: Browser, q: DPQ, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also groups that the drain time leaves out; none does while the queue is paused."""
    monkeypatch.setattr("dpq.explain.operations.LARGEST", 2)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("dpq.views.sampler.LIMITS_SECONDS", 0.0)
    q.set_limit(2, 1, group="*")
    q.push_many([Push(n, group=f"{n % 9}") for n in range(90)])
    begun = [
        int(at) for at in re.findall(r'begun"><time[^>]*at="(\d+)"', look.page(f"{path}/limits"))
    ]
    assert len(begun) == 9
    assert max(begun) - min(begun) < 2000
    q.pause()
    assert not re.findall('begun"><time', look.page(f"{path}/limits"))


def test_a_change_meanwhile_is_refused(change: Browser, q: DPQ, path: str) -> None:
    """The form and the question carry what stood; another change is shown, and nothing is done."""
    q.set_limit(10, 1, group="g")
    fields = filled(change, path, "g") | {"windows": "5/s"}
    html = ask(change, path, **fields)
    assert "has changed" not in html
    q.set_limit(3, 1, group="g")
    late = ask(change, path, **fields)
    assert "Somebody has changed this limit since you looked at it. You saw: 10/s" in late
    refused = agree(change, path, html, 409).text
    assert "Nothing was changed: somebody has changed this limit" in refused
    assert "<b>3/s</b>" in refused
    assert q.admin.group("g").windows == (RateLimit(3, 1),)
    assert len(q.admin.events()) == 2
    agree(change, path, refused)
    assert q.admin.group("g").windows == (RateLimit(5, 1),)
    agree(change, path, refused, 303)  # sent twice: it stands already
