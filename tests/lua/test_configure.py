"""configure: what belongs to the queue is agreed upon with its first client."""

import contextlib

import pytest

from dpq import DPQ, ConfigurationError


def open_queue(q, **settings):
    return DPQ(q.redis, q.queue_name, **settings)


SETTINGS = {
    "order": ("fifo", "min"),
    "aging": (0.5, 2.0),
    "fairness": ("round_robin", "none"),
    "payloads": ("apart", "inline"),
    "dead_max_tasks": (10, 11),
    "dead_max_age": (3600.0, 7200.0),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_first_client_names_it(q, name):
    """Who names a setting first writes it at once; who names none follows."""
    value = SETTINGS[name][0]
    open_queue(q, **{name: value})
    follower = open_queue(q)
    follower.stats()
    assert getattr(follower.settings, name) == value


@pytest.mark.parametrize("name", SETTINGS)
def test_second_client_agrees(q, probe, name):
    """Naming the same value again is fine and changes nothing."""
    value = SETTINGS[name][0]
    open_queue(q, **{name: value})
    before = probe.stored()["conf"]
    open_queue(q, **{name: value})
    assert probe.stored()["conf"] == before


@pytest.mark.parametrize("name", SETTINGS)
def test_second_client_contradicts(q, probe, name):
    """Another value is refused with an error that names both, and nothing is written."""
    first, second = SETTINGS[name]
    open_queue(q, **{name: first})
    before = probe.stored()
    stored = before["conf"][name.encode()].decode()
    with pytest.raises(ConfigurationError, match=f"{name} is .*{name} {stored}"):
        open_queue(q, **{name: second})
    assert probe.stored() == before


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"order": "lifo"}, {"aging": 1.0}),
        ({"aging": 1.0}, {"order": "lifo"}),
        ({}, {"order": "lifo", "aging": 1.0}),
    ],
)
def test_lifo_with_aging(q, probe, first, second):
    """LIFO and aging refuse each other, whoever comes first, and the second is not written."""
    if first:
        open_queue(q, **first)
    with pytest.raises(ConfigurationError, match=r"lifo.*aging|aging.*lifo"):
        open_queue(q, **second)
    named = set(probe.stored().get("conf", {})) - {b"format", b"aging_since"}
    assert named == {name.encode() for name in first}


def test_late_aging(q, probe):
    """Aging that is named when tasks are stored already is refused or holds for them, too."""
    ids = [q.push(i, group="g") for i in range(3)]
    with contextlib.suppress(ConfigurationError):
        open_queue(q, aging=1.0)
    assert q.check() == []
    q.update(ids[1], delay=60)
    assert probe.drain() == [0, 2]
