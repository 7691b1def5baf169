"""replies: raw replies of the scripts become results or errors."""

from typing import Any

import pytest

from dpq import ConfigurationError, TaskState
from dpq.model.payload import Codec
from dpq.script import replies
from dpq.script.records import stored_task

CODEC: Codec[Any] = Codec(Any, 1000)
EARLIER = b"12 1 3 2 - 0 10 1 500 2.5 1700000000000 0 0 1000000000000007\t\t\t\t"  # no letter
NUMBERS: Codec[int] = Codec(int, 1000)
NAMES = b"\tgr\xc3\xbcn\tk\t\tbad page"
RECORD = b"12 1 3 2 - 0 f1700000000000 1000000000000007 10 2.5 1 500 0 0" + NAMES


@pytest.mark.parametrize(
    "record", [b"", b" ", b"q", b"f", b"\t", b"1 2", b"\xff", b"q1 2 3\tg", EARLIER]
)
def test_no_record_when_looked_at(record):
    """What is no record is shown as such, with what it has as its payload."""
    for state in TaskState:
        task = stored_task(CODEC, "id", state, b"5", record, b"1")
        assert (task.id, task.payload, task.last_error) == ("id", 1, "bad record")


def test_unreadable_when_looked_at():
    """The payload of a live task that does not validate comes as its text."""
    task = stored_task(NUMBERS, "id", TaskState.READY, b"0", RECORD, b'"x"')
    assert (task.id, task.payload) == ("id", '"x"')


@pytest.mark.parametrize("version", ["6.2.0", "6.2.14", "7.0.15", "9.1.2", "10.0", "7"])
def test_new_enough(version):
    """Redis 6.2 and everything newer is taken."""
    replies.require_version({"redis_version": version})
    replies.require_version({})


@pytest.mark.parametrize("version", ["6.0.16", "5.0.14", "2.8.0", "6.1.240"])
def test_too_old(version):
    """An older server is refused with its version and the oldest that works."""
    with pytest.raises(ConfigurationError, match=rf"{version}.*6\.2 or newer"):
        replies.require_version({"redis_version": version})
