"""The names of partitions, which one a task belongs to, and the face of their commands."""

import inspect
from typing import Any

import pytest
from redis.crc import key_slot

from dpq import ConfigurationError
from dpq.model.validation import queue_label
from dpq.operations.following import Following
from dpq.operations.partition import Commands
from dpq.operations.partitions import PartitionedCommands
from dpq.protocol.command import all_of, once, together
from dpq.protocol.keys import key_of
from dpq.protocol.placement import MAX_PARTITIONS, home_of, mark_of, place_of, tags_of


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
    assert [place_of(id_, MAX_PARTITIONS) for id_ in ids] == list(range(MAX_PARTITIONS))
    assert len(set(ids)) == MAX_PARTITIONS
    assert [place_of(id_, 4) for id_ in ("", "x", "\u00e9" * 14, ids[9], "no id of this")] == [
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
    *("partition", "configure", "register", "close", "look", "ranked", "checked"),
    *("push_checked", "dead_replay_spaced", "entered", "lease_ms", "undivided"),
}
"""What `PartitionedCommands` asks of each."""


def test_partitions_have_every_operation() -> None:
    """No operation reaches the first partition alone because somebody has forgotten the others."""
    assert face(Commands).keys() - face(PartitionedCommands).keys() - {"pop"} == OF_ONE_PARTITION


@pytest.mark.parametrize("name", sorted(face(Commands).keys() & face(PartitionedCommands).keys()))
def test_operations_take_the_same(name: str) -> None:
    """The arguments of an operation are the same for one partition and for many."""
    ours = inspect.signature(face(Commands)[name]).parameters
    theirs = inspect.signature(face(PartitionedCommands)[name]).parameters
    if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in theirs.values()):
        assert [(p.kind, p.default) for p in theirs.values()] == [
            (p.kind, p.default) for p in ours.values()
        ]


def test_nothing_is_sent_before_the_queue_is_seen(commands: Commands[Any]) -> None:
    """An operation on an unknown queue begins with nothing, its arguments checked."""
    following: Any = Following(commands, ask=2)
    assert next(following.stats()) == []
    with pytest.raises(ConfigurationError, match="seconds"):
        following.pause(-1)
    with pytest.raises(ConfigurationError, match="max_tasks"):
        next(following.pop(0, None))


@pytest.mark.parametrize("found", ["1", "3"])
def test_an_operation_goes_on_with_what_is_found(commands: Commands[Any], found: str) -> None:
    """Once the settings are known, an operation asks all the partitions there are."""
    following: Any = Following(commands, ask=2)
    steps = following.stats()
    assert next(steps) == []
    following.settled({"format": "3", "partitions": found})
    sent = next(steps)
    sent = sent if isinstance(sent, list) else [sent]
    assert [command.script.name for command in sent] == ["stats"] * int(found) or found == "1"
    assert sent[0].script.name == "stats"


def test_who_has_not_seen_a_queue_says_no_number(commands: Commands[Any]) -> None:
    """So a pop that is under way while somebody makes the queue is not refused."""
    following: Any = Following(commands, ask=2)
    steps = following.pop(1, None)
    assert next(steps) == []
    assert next(steps).args[-1] == 0
    known = following.settled({"format": "3"})
    assert next(known.pop(1, None)).args[-1] == 1


@pytest.mark.parametrize("stored", ["", "0", "x", "1025", "-1", "9" * 30, "\u0663"])
def test_a_damaged_count_is_told(commands: Commands[Any], stored: str) -> None:
    """A number of partitions that cannot be one is an error that says so."""
    with pytest.raises(ConfigurationError, match="partitions is stored as"):
        Following(commands, ask=2).settled({"format": "3", "partitions": stored})


def test_operations_inside_of_an_operation(commands: Commands[Any]) -> None:
    """Those that are run together travel together, beside those of others, each to its end."""

    def both() -> Any:
        return (yield from all_of([commands.resume(), commands.next_event()]))

    driver = together([both(), once(commands.pause(1)), both()])
    sent = next(driver)
    assert [c.script.name for c in sent] == [
        *("pause", "next_event", "pause", "pause", "next_event")
    ]  # fmt: skip
    refused = ConnectionError("away")
    with pytest.raises(StopIteration) as end:
        driver.send([1, 5, 1, 1, refused])
    assert end.value.value == [[1, 5], 1, refused]
