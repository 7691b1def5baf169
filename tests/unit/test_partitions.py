"""The names of partitions, which one a task belongs to, and that no operation forgets one."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

import dpq
from dpq import ConfigurationError
from dpq.model.validation import queue_label
from dpq.operations.partition import Partition
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import all_of, together
from dpq.protocol.keys import key_of
from dpq.protocol.placement import MAX_PARTITIONS, home_of, mark_of, partition_of, tags_of


@pytest.mark.parametrize("count", [1, 2, 3, 6, 16, 100, MAX_PARTITIONS])
def test_partitions_are_spread_evenly(count: int) -> None:
    """Each lies in another of as many equal ranges of slots; the first has the queue's own keys."""
    tags = tags_of("emails", count)
    slots = [key_slot(key_of(tag, "ready").encode()) for tag in tags]
    assert tags[0] == "emails"
    assert sorted(slot * count // 16384 for slot in slots) == list(range(count))
    assert {key_slot(key_of(tag, "meta").encode()) for tag in tags} == set(slots)


def test_no_queue_has_the_name_of_a_partition() -> None:
    """What a partition is called is no queue's name, so nobody else can have its keys."""
    for tag in tags_of("emails", 8)[1:]:
        with pytest.raises(ConfigurationError):
            queue_label(tag)


def test_an_id_names_its_partition() -> None:
    """The first has ids as every queue; of the others they begin with the partition."""
    ids = [mark_of(place) + "n3BSGvfeYtxa" for place in range(MAX_PARTITIONS)]
    assert [partition_of(id_, MAX_PARTITIONS) for id_ in ids] == list(range(MAX_PARTITIONS))
    assert len(set(ids)) == MAX_PARTITIONS
    assert [partition_of(id_, 4) for id_ in ("", "x", "\u00e9" * 14, ids[9], "no id of this")] == [
        0
    ] * 5


def test_what_is_stored_stays_where_it_is() -> None:
    """Names, homes and marks are what they were: a stored queue depends on them."""
    assert tags_of("emails", 4) == ("emails", "emails{1", "emails{2", "emails{3")
    assert [home_of("api.example", None, n) for n in (4, 16, 64)] == [2, 6, 54]
    assert home_of(None, "key", 16) == home_of("key", None, 16)
    assert home_of("group", "key", 16) == home_of("group", None, 16)
    assert home_of(None, None, 16) is None
    assert (mark_of(1), mark_of(64), mark_of(1023)) == ("AB", "BA", "P_")


def face(cls: type) -> dict[str, Any]:
    return {
        name: member
        for base in reversed(cls.__mro__)
        for name, member in vars(base).items()
        if inspect.isfunction(member) and name[0] != "_"
    }


OF_ONE_PARTITION = {
    "belong",
    *("configure", "stored_settings", "enter", "unregister", "close", "look", "ranked"),
    *("push_all", "push_one", "dead_replay_spaced", "lease_ms", "report", "extend_permit"),
    *("all_leases", "told", "waiting", "names", "standing", "task_trail"),
    *("seal", "check_batches", "mend_followers", "learn_kin", "report_of_kin"),
    *("now", "raw", "server_time"),
}
"""What `QueueOperations` asks of each."""

PACKAGE = Path(dpq.__file__).parent
QUEUES = [
    *("queue/base.py", "queue/queue.py", "queue/queue_async.py", "queue/dead.py"),
    *("queue/dead_async.py", "queue/lease_loops.py", "testing.py", "tasks.py"),
    *(
        f"{room}/{path.name}"
        for room in ("scheduler", "worker")
        for path in sorted((PACKAGE / room).glob("*.py"))
    ),
]


def test_partitions_have_every_operation() -> None:
    """No operation reaches the first partition alone because somebody has forgotten the others."""
    assert face(Partition).keys() - face(QueueOperations).keys() == OF_ONE_PARTITION


@pytest.mark.parametrize("name", sorted(face(Partition).keys() & face(QueueOperations).keys()))
def test_operations_take_the_same(name: str) -> None:
    """The arguments of an operation are the same for one partition and for the queue."""
    ours = inspect.signature(face(Partition)[name]).parameters
    theirs = inspect.signature(face(QueueOperations)[name]).parameters
    if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in theirs.values()):
        shown = [(p.kind, p.default) for p in ours.values()]
        assert [(p.kind, p.default) for p in theirs.values()] == shown[: len(theirs)]


@pytest.mark.parametrize("path", QUEUES)
def test_nobody_else_asks_one_partition(path: str) -> None:
    """What is outside of the operations asks queues, never a partition of them."""
    tree = ast.parse((PACKAGE / path).read_text())
    assert not [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(".partitions")
    ]
    asked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.fullmatch(r"(self|queue)\._(session\.)?operations", ast.unparse(node.value))
    }
    assert not {name for name in asked if not hasattr(QueueOperations, name)} - ATTRIBUTES


ATTRIBUTES = {"description", "settings", "partitions", "ask"}


@pytest.mark.parametrize("found", [None, "1", "3"])
def test_an_operation_asks_all_partitions_there_are(
    operations: QueueOperations[Any], found: str | None
) -> None:
    """Once the settings are known, an operation asks all of them; before that, the first one."""
    if found:
        operations.agree({"format": "03", "partition_count": found})
    sent = next(operations.stats())
    sent = sent if isinstance(sent, list) else [sent]
    assert [command.script.name for command in sent] == ["stats"] * int(found or 1)


def test_who_has_not_seen_a_queue_says_no_number(operations: QueueOperations[Any]) -> None:
    """So a pop that is under way while somebody makes the queue is not refused."""
    assert next(operations.pop(1, None)).args[-1] == 0
    operations.agree({"format": "03"})
    assert next(operations.pop(1, None)).args[-1] == 1
    operations.forget()
    assert next(operations.pop(1, None)).args[-1] == 0


def test_what_a_queue_is_stays(operations: QueueOperations[Any]) -> None:
    """A queue that is known stays divided as it is until it is forgotten, whatever is read."""
    operations.agree({})
    assert operations.settings is None
    operations.agree({"format": "03", "partition_count": "3"})
    parts = operations.partitions
    operations.agree({"format": "03", "partition_count": "2"})
    assert operations.partitions is parts


@pytest.mark.parametrize("stored", ["", "0", "x", "1025", "-1", "9" * 30, "\u0663"])
def test_a_damaged_count_is_told(operations: QueueOperations[Any], stored: str) -> None:
    """A number of partitions that cannot be one is an error that says so."""
    with pytest.raises(ConfigurationError, match="partition_count is stored as"):
        operations.agree({"format": "03", "partition_count": stored})


def test_operations_inside_of_an_operation(operations: QueueOperations[Any]) -> None:
    """Those that are run together travel together, beside those of others, each to its end."""

    def both() -> Any:
        return (
            yield from all_of(
                [operations.partitions[0].resume(), operations.partitions[0].next_event()]
            )
        )

    driver = together([both(), operations.partitions[0].pause(1), both()])
    sent = next(driver)
    assert [c.script.name for c in sent] == [
        *("pause", "next_event", "pause", "pause", "next_event")
    ]  # fmt: skip
    refused = ConnectionError("away")
    with pytest.raises(StopIteration) as end:
        driver.send([1, 5, 1, 1, refused])
    assert end.value.value == [[1, 5], 1, refused]
