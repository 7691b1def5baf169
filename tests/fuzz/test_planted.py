"""What the fuzzers have found, each planted by hand: the damage hits itself, and nothing else."""

import pytest

from dpq import Push
from dpq.script.keys import key_of


@pytest.fixture
def key(queue_name):
    return lambda part: key_of(queue_name, part)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"junk",
        b"1 0 1 0 - 0 10 1 0 5 1700000000000 0 0 1000000000000001\t\t\t\t",
        b"1 0 1 0 - 0 f1700000000000 1000000000000001 10 nan 1 0 0 0\t\t\t\t",
        b"1 0 1 0 - 0 f1700000000000 1000000000000001 10 5 1 0 0 x@5\t\t\t\t",
        b"1 0 1 0 - 0 f1700000000000 2000000000000001 10 5 1 0 0 0\t\t\t\t",
        b"q18bcfe56800000000000000001 0\tg\t",
    ],
)
@pytest.mark.parametrize(
    ("state", "pad"), [("ready", ""), ("delayed", "x" * 600), ("invisible", "")]
)
def test_one_bad_record_takes_no_other_task_with_it(redis, q, key, clock, record, state, pad):
    """A record that cannot be read goes to the dead letters; those beside it come."""
    delay = 5 if state == "delayed" else 0
    ids = q.push_many([Push(f"{n}{pad}", -n, delay) for n in range(5)])
    if state == "invisible":
        q.pop_many(5)
    redis.hset(key("meta"), ids[2], record if pad else record + b'\n"2"')
    clock.advance(60)
    q.promote()
    got = q.pop_many(9)
    clock.advance(60)
    q.promote()
    assert [task.payload[0] for task in got if task.id != ids[2]] == ["0", "1", "3", "4"]
    [dead] = q.dead.list()
    assert (dead.id, dead.reason, dead.payload) == (ids[2], "bad record", f"2{pad}")
    assert q.check() == []
