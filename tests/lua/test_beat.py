"""beat: a worker says that it lives, or that it ends; those not seen for long are forgotten."""

import pytest


@pytest.fixture
def beat(q):
    """Tells of a worker: how many handlers run, and for how long it has been there."""

    def tell(worker="w", name="name", running=2, age=4.0, version="0.1"):
        q._session.run(q._operations.beat, worker, name, "host", 77, version, running, 8, age)

    return tell


def names(probe):
    return set(probe.stored().get("workers", ()))


def test_what_is_stored(q, clock, probe, beat):
    """One line for each worker: when it was seen, since when it runs, and what it said."""
    beat()
    line = f"{clock.ms} {clock.ms - 4000} 2 8 77 0.1\thost\tname"
    assert probe.stored()["workers"] == {b"w": line.encode()}


def test_a_new_version_of_its_program(q, beat):
    """An event says so when a worker begins with another version than the one before, once."""
    for worker, version in ("a", "a1/b2"), ("b", "a1/b2"), ("c", "c3"), ("c", "c3"), ("d", ""):
        beat(worker, version=f"0.1+g77/{version}" if version else "0.1")
    told = [event.detail for event in q.admin.events() if event.kind == "deployed"]
    assert told == ["version a1/b2", "version a1/b2 -> c3"]
    known = {each.id: (each.version, each.program) for each in q.admin.workers()}
    assert (known["a"], known["d"]) == (("0.1+g77", "a1/b2"), ("0.1", ""))


def test_forgotten(q, clock, probe, beat):
    """A worker that was not seen for 60 s is forgotten when another one tells of itself."""
    beat("dead")
    clock.advance(59.999)
    beat("late")
    assert names(probe) == {b"dead", b"late"}
    clock.advance(0.001)
    beat("alive")
    assert names(probe) == {b"late", b"alive"}


def test_forgotten_in_bounded_steps(q, clock, probe, beat):
    """One call forgets at most ten, so a crowd that died holds nobody up; in the end all go."""
    for i in range(95):
        beat(f"dead {i}")
    clock.advance(60)
    left = [95]
    while left[-1]:
        beat("alive")
        left.append(len(names(probe)) - 1)
        assert left[-2] - 10 <= left[-1] <= left[-2]
    assert len(left) < 500  # by chance: some draws meet those that live


def test_the_last_one_dies(q, probe, beat):
    """The key has a time to live, renewed with each beat: nothing of dead workers stays."""
    beat()
    assert 55_000 < probe.redis.pttl(probe.key("workers")) <= 60_000
    probe.redis.pexpire(probe.key("workers"), 5000)
    beat()
    assert probe.redis.pttl(probe.key("workers")) > 55_000
