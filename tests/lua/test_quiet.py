"""quiet: workers are told to take no new tasks, and hear it as the answer to their heartbeat."""

import pytest


@pytest.fixture
def beat(q):
    """Sends a heartbeat; returns 1 if the worker is to be quiet."""

    def send(worker="w", name="name", quiet=False):
        about = (worker, name, "host", 77, "0.1", 1, 2, 3.0)
        return q._session.run(q._operations.beat, *about, quiet=quiet).quiet

    return send


def seen(q):
    """Which workers are quiet, and who has said so."""
    return {each.id: each.quiet_by for each in q.admin.workers() if each.quiet_since}


def told(q):
    return [(each.kind, each.detail) for each in q.admin.events() if "quiet" in each.kind]


def test_until_it_is_told_to_go_on(q, clock, beat):
    """Each heartbeat is answered so until `unquiet`; the list says since when, and by whom."""
    assert beat() == 0
    since = clock.ms
    assert q.admin.quiet("name", by="ann") == 1
    for _ in range(3):
        clock.advance(10)
        assert beat(quiet=True) == 1
        [worker] = q.admin.workers()
        assert (worker.quiet_since.timestamp() * 1000, worker.quiet_by) == (since, "ann")
    assert q.admin.unquiet("name") == 1
    assert seen(q) == {}
    assert [beat(quiet=True), beat()] == [0, 0]
    assert told(q) == [("quieted", "worker name, by ann"), ("unquieted", "worker name")]


def test_all_runs_of_a_name_or_one_by_its_id(q, beat):
    """A name stands for all its runs, in one event; an id for one."""
    for id_, name in {"1": "a", "2": "a", "3": "b"}.items():
        beat(id_, name)
    assert q.admin.quiet("a") == 2
    assert seen(q).keys() == {"1", "2"}
    assert q.admin.unquiet("2", by="bob") == 1
    assert seen(q).keys() == {"1"}
    assert told(q) == [("quieted", "2 workers, the last is a"), ("unquieted", "worker a, by bob")]


@pytest.mark.parametrize("how", ["dropped", "silent"])
def test_what_the_queue_forgets_the_worker_knows(q, clock, beat, how):
    """After a drop of its queue, or a minute without a heartbeat, a quiet worker stays quiet."""
    beat()
    q.admin.quiet("w")
    assert beat() == 1
    if how == "dropped":
        q.admin.drop()
    else:
        clock.advance(60)
        beat("other")
    assert beat(quiet=True) == 1
    assert seen(q) == {"w": ""}
    assert q.admin.unquiet("w") == 1
    assert beat(quiet=True) == 0
