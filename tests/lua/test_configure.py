"""configure: what belongs to the queue is agreed upon with its first client."""

import contextlib

import pytest

from dpq import DPQ, ConfigurationError
from dpq.protocol.keys import STORAGE_FORMAT


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
    assert getattr(follower, name) == value


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


def test_contradiction_in_one_writes_none(q, probe):
    """When one of two named settings is refused, the other is not written either."""
    open_queue(q, order="fifo")
    before = probe.stored()
    with pytest.raises(ConfigurationError):
        open_queue(q, dead_max_tasks=5, order="lifo")
    assert probe.stored() == before


def test_late_setting(q):
    """A setting that nobody has named yet may be named on a queue that is in use."""
    q.push("x")
    open_queue(q, dead_max_tasks=7)
    follower = open_queue(q)
    follower.stats()
    assert follower.dead_max_tasks == 7


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


def test_lifo_with_no_aging(q):
    """An aging of 0 goes with LIFO."""
    assert open_queue(q, order="lifo", aging=0).order == "lifo"


@pytest.mark.parametrize("other", [{"order": "lifo"}, {"aging": 1.0}])
@pytest.mark.parametrize("first", ["round_robin", "other", "both"])
def test_round_robin_with_lifo_or_aging(q, probe, other, first):
    """Taking turns refuses LIFO and aging, whoever comes first, and the second is not written."""
    turns = {"fairness": "round_robin"}
    said = {"round_robin": [turns, other], "other": [other, turns], "both": [turns | other]}[first]
    for settings in said[:-1]:
        open_queue(q, **settings)
    before = probe.stored()
    with pytest.raises(ConfigurationError, match="fairness is round_robin"):
        open_queue(q, **said[-1])
    assert probe.stored() == before


def test_round_robin_with_what_it_goes_with(q):
    """FIFO, an aging of 0 and no fairness go with everything."""
    assert open_queue(q, fairness="round_robin", order="fifo", aging=0).fairness == "round_robin"
    other = DPQ(q.redis, q.queue_name + "-2", fairness="none", order="lifo", aging=0)
    assert (other.fairness, other.order) == ("none", "lifo")
    other.drop()


def test_late_round_robin(q, probe):
    """Turns that are named on a queue in use go on from the places given so far."""
    for i in range(7):
        q.push(i, group="g")
    open_queue(q, fairness="round_robin")
    assert probe.stored()["conf"][b"turns"] == b"7"
    open_queue(q, fairness="round_robin")
    q.push(7, group="h")
    open_queue(q, fairness="round_robin")
    assert probe.stored()["conf"][b"turns"] == b"9"
    assert q.check() == []


def test_late_aging(q, probe):
    """Aging that is named when tasks are stored already is refused or holds for them, too."""
    ids = [q.push(i, group="g") for i in range(3)]
    with contextlib.suppress(ConfigurationError):
        open_queue(q, aging=1.0)
    assert q.check() == []
    q.update(ids[1], delay=60)
    assert probe.drain() == [0, 2]


def test_aging_that_cannot_be_read(q, probe):
    """A new client says so and how to mend it; one that knew the queue goes on without aging."""
    old = open_queue(q, aging=1.0)
    old.push("x")
    for junk in ("", "x", " 1", "nan", "1e17"):
        probe.redis.hset(probe.key("conf"), "aging", junk)
        for settings in ({}, {"order": "lifo"}, {"aging": 1.0}):
            with pytest.raises(
                ConfigurationError,
                match=f"aging is stored as '{junk}'.*store the number",
            ):
                open_queue(q, **settings).push("y")
        old.push("z")
        assert old.check() == []
    probe.redis.hset(probe.key("conf"), "aging", "1.0")
    assert len(q.pop_many(9)) == 6


def test_reply(q, probe):
    """The script answers all that is stored."""
    probe.call("configure", "", STORAGE_FORMAT, 0, "order", "fifo")
    reply = probe.call("configure", "", STORAGE_FORMAT, 0, "aging", "2.0")
    pairs = dict(zip(reply[::2], reply[1::2], strict=True))
    assert int(pairs.pop(b"aging_since")) > 0
    assert pairs == {b"format": STORAGE_FORMAT.encode(), b"order": b"fifo", b"aging": b"2.0"}
