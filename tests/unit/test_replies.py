"""replies: raw replies of the scripts become results or errors."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dpq import (
    ConfigurationError,
    DeadTask,
    DuplicateTaskError,
    LeaseLostError,
    Problem,
    TaskNotFoundError,
    TaskState,
)
from dpq.model.payload import Codec
from dpq.model.schedule import Later
from dpq.model.task import TaskName
from dpq.protocol import refusals, remembered, replies

CODEC: Codec[Any] = Codec(Any, 1000)
EARLIER = b"12 1 3 2 - 0 10 1 500 2.5 1700000000000 0 0 1000000000000007\t\t\t\t"  # no letter
NUMBERS: Codec[int] = Codec(int, 1000)
START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)  # 1 700 000 000 000 ms
NAMES = b"\tgr\xc3\xbcn\tk\t\tbad page"
RECORD = b"12 1 3 2 - 0 f1700000000000 1000000000000007 10 2.5 1 500 0 0" + NAMES


@pytest.mark.parametrize("delivery", [b"-", b"d", b"x", b"X", b"f", b"r", b"b"])
def test_batch(delivery):
    """A batch of pop has the tasks with every field of their records."""
    record = RECORD.replace(b" - ", b" " + delivery + b" ")
    batch = replies.read_batch(CODEC, [1_700_000_030_000, b"id", record + b'\n{"a": 1}'])
    task = batch.tasks[0]
    assert (task.id, task.payload, task.priority) == ("id", {"a": 1}, 2.5)
    assert (task.group, task.key, task.last_error) == ("grün", "k", "bad page")
    assert (task.token, task.attempt, task.deliveries, task.deferrals) == (12, 2, 3, 2)
    assert (task.max_attempts, task.state) == (10, "invisible")
    assert (task.enqueued_at, task.visible_until) == (START, START + timedelta(seconds=30))
    assert (batch.unreadable, batch.again) == ([], False)


@pytest.mark.parametrize("group", ["", "gr\xfcn", "g q1 f2", "x" * 200])
@pytest.mark.parametrize("counts", [b"", b"12 1 3 2 - 0 ", b"12 1 3 2 f 0 "])
def test_plain_record(group, counts):
    """A plain record has four numbers and the group; what it does not say is as usual."""
    record = counts + b"q18bcfe56800000000000000007 -5\t" + group.encode()
    reply = [b"delayed", b"1700000000500", record, b'"\\n"', b""]
    [task] = replies.read_stored(CODEC, ["id"], reply)
    assert (task.id, task.payload, task.priority, task.group) == ("id", "\n", -5, group or None)
    expected = (12, 2, 3, 2) if counts else (0, 1, 0, 0)
    assert (task.token, task.attempt, task.deliveries, task.deferrals) == expected
    assert (task.max_attempts, task.enqueued_at) == (10, START)
    assert (task.key, task.last_error, task.cost, task.every, task.cron) == (None,) * 2 + (
        1,
        None,
        None,
    )
    assert (task.visibility, task.time_limit) == (None, None)
    assert task.visible_until == START + timedelta(milliseconds=500)


def test_tasks_share_nothing():
    """Records with the same counts are read once, but each task has its own fields."""
    record = b"9 0 1 0 - 0 q18bcfe56800000000000000007 %d\tg%d\n%d"
    reply = [5, *(text for n in range(3) for text in (b"id%d" % n, record % (n, n, n)))]
    tasks = replies.read_batch(CODEC, reply).tasks
    assert [(task.id, task.priority, task.group, task.payload) for task in tasks] == [
        (f"id{n}", n, f"g{n}", n) for n in range(3)
    ]


@pytest.mark.parametrize("body", [b'"\n\t q1"', b'"a"\n', b'"\\u001f"'])
def test_line_feeds_in_a_payload(body):
    """The payload is all that stands behind the first line feed."""
    codec = replies.Codec(Any, 1000)
    batch = replies.read_batch(codec, [5, b"id", RECORD + b"\n" + body])
    assert batch.size == len(body)
    if b"\n\t" not in body:  # JSON allows them between values alone
        assert batch.tasks[0].payload in ("a", "\x1f")
    else:
        assert batch.unreadable[0][0].id == "id"


@pytest.mark.parametrize(
    ("reply", "again", "event"),
    [([-5], True, None), ([0, -1, 5], False, None), ([0, 7000, 5], False, 7)],
)
def test_batch_of_nothing(reply, again, event):
    """Pop may have nothing: more upkeep first, nothing to come, or an event in so many ms."""
    batch = replies.read_batch(CODEC, reply)
    assert (batch.tasks, batch.again, batch.next_event_ms) == ([], again, event)


def test_batch_with_unreadable_payloads():
    """Tasks whose payloads do not validate are set apart with their errors; the others come."""
    reply = [1_700_000_030_000, b"one", RECORD + b'\n"x"', b"two", RECORD + b"\n2"]
    batch = replies.read_batch(NUMBERS, reply)
    assert [task.payload for task in batch.tasks] == [2]
    [(task, reason)] = batch.unreadable
    assert (task.id, task.token) == ("one", 12)
    assert reason.startswith("payload: the stored payload cannot be read")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"2.5", b"1-2"),
        (b"1700000000000", b"x"),
        (b"10 ", b""),
        (b"\tk", b""),
        (b" 1 3 2", b" 1 x 2"),
    ],
)
def test_batch_with_an_unreadable_record(old, new):
    """A task whose record cannot be read is set apart with its token; the others come."""
    bad = RECORD.replace(old, new)
    batch = replies.read_batch(CODEC, [5, b"one", bad + b"\n1", b"two", RECORD + b"\n2"])
    assert [task.payload for task in batch.tasks] == [2]
    [(task, reason)] = batch.unreadable
    assert (task.id, task.token, reason) == ("one", 12, "bad record")


@pytest.mark.parametrize(
    ("schedule", "every", "cron"),
    [
        ("e 0 1700000000500 60000", 60, None),
        ("e 5 1700000000500 1", 0.001, None),
        ("c 0 1 */5 * * * * UTC", None, "*/5 * * * * UTC"),
        ("somebody wrote this", None, None),
        ("e 0 1 " + "9" * 400, None, None),
    ],
)
def test_schedule(schedule, every, cron):
    """Behind the last error stands the schedule of a recurring task; one that is none is None."""
    reply = [1, b"id", RECORD + b"\t" + schedule.encode() + b"\n1"]
    task = replies.read_batch(CODEC, reply).tasks[0]
    assert (task.last_error, task.every, task.cron) == ("bad page", every, cron)
    assert task.scheduled_at == START + timedelta(milliseconds=500)


def test_stored_states():
    """A look shows the time that belongs to the state, and None for an unknown id."""
    reply: list[Any] = []
    for state in ("ready", "delayed", "invisible", "waiting"):
        reply += [state.encode(), b"1700000000500", RECORD, b"1", b""]
    *tasks, unknown = replies.read_stored(CODEC, list("abcde"), [*reply, b"", b"0", b"", b"", b""])
    assert unknown is None
    later = START + timedelta(milliseconds=500)
    assert [task.state for task in tasks] == ["ready", "delayed", "invisible", "waiting"]
    assert [task.visible_until for task in tasks] == [None, later, later, None]


def test_dead():
    """A dead task says why, when and after how many attempts, whatever its payload is."""
    record = RECORD.replace(b"\t\t", b"\texpired\t")
    reply = [b"id", b"1700000000500", record, b"not json"]
    [task] = replies.read_page(NUMBERS, TaskState.DEAD, reply)
    assert isinstance(task, DeadTask)
    assert (task.reason, task.attempts, task.payload) == ("expired", 1, "not json")
    assert (task.died_at, task.visible_until) == (START + timedelta(milliseconds=500), None)


@pytest.mark.parametrize("counts", [b"", b"9 0 1 0 b 0 "])
def test_dead_and_plain(counts):
    """A plain record says no reason, and none but zero attempts before the first delivery."""
    record = counts + b"q18bcfe56800000000000000007 5\tg"
    [task] = replies.read_page(NUMBERS, TaskState.DEAD, [b"id", b"1700000000500", record, b"1"])
    assert (task.reason, task.attempts, task.group, task.payload) == ("", 0, "g", 1)


@pytest.mark.parametrize(
    "record", [b"", b" ", b"q", b"f", b"\t", b"1 2", b"\xff", b"q1 2 3\tg", EARLIER]
)
def test_no_record_when_looked_at(record):
    """What is no record is shown as such, with what it has as its payload."""
    for state in TaskState:
        [task] = (
            replies.read_page(CODEC, state, [b"id", b"5 7", record, b"1"][:4])
            if state is TaskState.READY
            else replies.read_page(CODEC, state, [b"id", b"5", record, b"1"])
        )
        assert (task.id, task.payload, task.last_error) == ("id", 1, "bad record")


def test_unreadable_when_looked_at():
    """The payload of a live task that does not validate comes as its text."""
    [task] = replies.read_page(NUMBERS, TaskState.READY, [b"id", b"0", RECORD, b'"x"'])
    assert (task.id, task.payload) == ("id", '"x"')


def test_score_in_any_notation():
    """A time is read from a score however the server prints it."""
    [task] = replies.read_page(CODEC, TaskState.DELAYED, [b"id", b"1.7e+12", RECORD, b"1"])
    assert task.visible_until == START


def test_ids():
    """The ids of holders replace those of the pushes that met them."""
    ids = ["a", "b", "c"]
    assert replies.read_ids("q", ids, ["", "k", ""], [0, 2, b"holder"]) is False
    assert ids == ["a", "holder", "c"]
    assert replies.read_ids("q", ["a"], [""], [1]) is True


def test_ids_refused():
    """A refused push names the key and its holder."""
    with pytest.raises(DuplicateTaskError) as caught:
        replies.read_ids("q", ["a", "b"], ["j", "k"], [-3, 2, b"holder"])
    assert (caught.value.key, caught.value.task_id) == ("k", "holder")
    with pytest.raises(ConfigurationError, match="'j' belongs to task holder of another group"):
        replies.read_ids("q", ["a", "b"], ["j", "k"], [-4, 1, b"holder"])


def test_acks():
    """Each task has its code; of one task, a lost lease is an error."""
    assert replies.read_codes("ab", []) == [1, 1]
    assert replies.read_codes("abc", [1, 0, 3, -1]) == [0, 1, -1]
    assert [replies.read_ack("a", reply) for reply in ([], [1, 0])] == [True, False]
    with pytest.raises(LeaseLostError) as caught:
        replies.read_ack("a", [1, -1])
    assert (caught.value.task_id, caught.value.task_ids) == ("a", ("a",))


def test_later():
    """A cron task that wants a later time says after when, and its line."""
    text, later = b"1700000000000\tc 0 1 0 3 * * * UTC", Later(1_700_000_000_000, "0 3 * * * UTC")
    assert replies.read_codes("ab", [2, text]) == [1, later]
    assert replies.read_ack("a", [1, text]) == later
    read = replies.read_fail("a")
    assert (read(text), read(1), read(0)) == (later, 1, 0)
    with pytest.raises(LeaseLostError, match="cannot fail"):
        read(-1)
    with pytest.raises(ConfigurationError, match=r"cannot be read.*'c'"):
        replies.read_ack("a", [1, b"1\tc"])


def test_lease():
    """A lost lease is an error that names call and task; anything else passes."""
    read = replies.read_lease("extend", "id")
    assert [read(reply) for reply in (0, 1, 1_700_000_000_000)] == [0, 1, 1_700_000_000_000]
    with pytest.raises(LeaseLostError, match="cannot extend task id") as caught:
        read(-1)
    assert (caught.value.action, caught.value.task_id) == ("extend", "id")


def test_change():
    """A change of what is not live, or of what runs, is an error of its own."""
    read = replies.read_change("update", TaskName("id", ""), "queue")
    read(1)
    with pytest.raises(TaskNotFoundError, match=r"'id'.*'queue'") as caught:
        read(-2)
    assert (caught.value.task_id, caught.value.key) == ("id", None)
    with pytest.raises(ConfigurationError, match="task id is running"):
        read(-6)


def test_change_by_key():
    """A change of what is named by its key says the key."""
    read = replies.read_change("update", TaskName("", "nightly"), "queue")
    with pytest.raises(TaskNotFoundError, match=r"update the task with key 'nightly'") as caught:
        read(-2)
    assert (caught.value.task_id, caught.value.key) == ("", "nightly")
    with pytest.raises(ConfigurationError, match="the task with key 'nightly' is running"):
        read(-6)


def test_stats():
    """What is not counted is 0, an unknown name is left out, and an age is in seconds."""
    states = [b"ready", 1, b"delayed", 2, b"invisible", 3, b"waiting", 4, b"dead", 5]
    totals = [b"pushed", 9, b"of_a_later_program", 7, b"oldest_ready", 1500]
    stats = remembered.read_stats([b"w3", 2, b"w27", 1, b"r0", 4, *states, *totals])
    found = (stats.ready, stats.delayed, stats.invisible, stats.waiting, stats.dead)
    assert found == (1, 2, 3, 4, 5)
    assert (stats.pushed, stats.acked, stats.oldest_ready_seconds) == (9, 0, 1.5)
    assert stats.wait
    assert (stats.wait.count, stats.wait.buckets[2:4]) == (3, ((0.005, 0), (0.01, 2)))
    assert stats.run
    assert (stats.run.count, stats.run.p95) == (4, 0.00095)
    assert remembered.read_stats([]).oldest_ready_seconds is None
    assert remembered.read_stats([b"oldest_ready", 0]).oldest_ready_seconds == 0


def test_slots_of_other_programs():
    """A slot is read though it has a total that this program does not know, or lacks one."""
    names = [b"pushed", b"pu", b"popped", b"po", b"ready", b"rd", b"oldest_ready", b"or"]
    more, less = b"60000 pu 5 po 3 zz 7 or 250 w3 2 x9 1 ", b"120000 pu 6 "
    damaged = [b"", b"180000 pu", b"180000 pu x ", b"1 at 5 seconds y ", b"x pu 1 "]
    first, last = remembered.read_slots(60)([names, more, less, *damaged])
    assert (first.pushed, first.deliveries, first.oldest_due_seconds) == (5, 3, 0.25)
    assert first.wait
    assert first.wait.count == 2
    assert (last.pushed, last.deliveries, last.oldest_due_seconds, last.wait) == (6, 0, None, None)
    assert (first.at.timestamp(), last.at.timestamp(), last.seconds) == (60, 120, 60)


def test_problems():
    """Problems come in threes behind the cursor, in any bytes."""
    cursor, found = replies.read_problems([b"17", b"no record", b"id", b"\xff", b"k", b"s", b""])
    assert cursor == "17"
    assert found[0] == Problem(kind="no record", subject="id", detail="\ufffd")
    assert found[1] == Problem(kind="k", subject="s")


def test_settings():
    """The settings are a dict of texts."""
    assert refusals.read_settings([b"format", b"1", b"order", b"lifo"]) == {
        "format": "1",
        "order": "lifo",
    }


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
