"""Events in words: what scripts tell is said as people would say it, whatever it is."""

import pytest

from dpq import Quota, RateLimit
from dpq.model.history import Event
from dpq.views.event_text import event_text

LIMITED = dict.fromkeys(("group", "member", "task_id"), "")


def said(kind, detail):
    event = Event(id="1-0", at="2026-01-01T00:00:00Z", kind=kind, detail=detail, **LIMITED)
    return tuple(event_text(event))


@pytest.mark.parametrize(
    ("kind", "detail", "words"),
    [
        ("rate_limited", "closed until 1795428288138", ("429", "closed until", 1795428288138)),
        ("rate_limited", "7500 ms, this task alone", ("429", "7 s, this task alone", None)),
        ("rate_limited", "503, closed until 1795428288138", ("503", "closed until", 1795428288138)),
        ("rate_limited", "529, 7500 ms, this task alone", ("529", "7 s, this task alone", None)),
        ("rate_limited", "503", ("429", "503", None)),  # of another version
        ("closed", "until it is opened", ("closed", "until it is opened", None)),
        ("released", "0 ms", ("released", "at once", None)),
        ("pushed", "priority 5, in 90000 ms", ("pushed", "priority 5, in 1 m 30 s", None)),
        ("learned", "4.5, was 9", ("learned", "a rate of 4.5, was 9", None)),
        ("dead", "it took 100 ms", ("dead", "it took 100 ms", None)),  # the handler's own words
        ("limit_set", "removed", ("limit set", "removed", None)),
        ("limit_set", "0|a b", ("limit set", "0|a b", None)),  # of a later DPQ, or cut
        ("of_later", "1 2 3", ("of later", "1 2 3", None)),
    ],
)
def test_words(kind, detail, words):
    assert said(kind, detail) == words


def test_a_limit(q):
    """The event of a limit names all that was set, and is short whatever its time zone."""
    windows = (RateLimit(500, 60), RateLimit(200_000, 60, 20_000, unit="tokens"))
    q.set_limit((*windows, Quota(900, "day", timezone="Europe/Berlin")), group="gpt", concurrency=4)
    q.set_limit(1, 0.5, group="*")
    q.set_limit(60, 60, group="p", members=["a", "b", "c", "d", "e"], weight=2)
    assert [event_text(event).detail.split(", by ")[0] for event in q.events()] == [
        "500/min; tokens=200000/min,burst=20000; 900/day@Europe/Berlin; 4 at once",
        "1/500ms",
        "60/min; weight 2; for each of a, b, c and 2 more",
    ]
