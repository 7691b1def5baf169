"""The notes of a record, and the changes that the judge of pop makes to it."""

from typing import Any

import pytest
from redis import Redis

from dpq import DPQ
from dpq.protocol.keys import key_of
from dpq.protocol.records import LAPSES, OPTIONS, PIN, RUNS_AS, SPENT, live_note, split_notes
from dpq.protocol.scripts import Sources, sources

NOTES = """
local record, mark, text = ARGV[1], ARGV[2], ARGV[3]
{}
local task = read(record)
if text ~= '-' then
  set_note(task, mark, text ~= '' and text or nil)
end
return {{ write(task), note_of(task, mark) or '-', live_note(task, mark) or '-', task.error }}
"""

CHANGE = """
{}
local changes = {{ {{ 2, ARGV[2], {{ cost = '1,t~5', member = 'key' }} }} }}
local taken = {{ metas = {{ 'a', ARGV[1] }}, changes = changes }}
change(taken)
return taken.metas[2]
"""


def parts(*names: str) -> str:
    """The texts of shared Lua files, with all that they need."""
    text = f"-- Keys: meta\n\n-- Needs: {', '.join(names)}\n"
    return Sources({"parts": text}, sources().shared).script("parts").text


@pytest.fixture
def ask(redis: Redis) -> Any:
    text = NOTES.format(parts("record", "notes"))
    return lambda *args: [x.decode() for x in redis.eval(text, 0, *args)]


HEAD = "12 0 1 0 - 0 f1795362914968 1000000000000001 10 5 1 0 0 0\tg\tk\t\terror"


@pytest.mark.parametrize("inline", ["", "\n7"])
@pytest.mark.parametrize("schedule", ["", "\te 0 1763684707000 3600000"])
def test_notes_stand_in_their_order(ask: Any, inline: str, schedule: str) -> None:
    """Each is set, replaced and removed by itself, whatever was there first."""
    record = HEAD + schedule + inline
    for mark, text in (
        (RUNS_AS, "12 key"),
        (OPTIONS, "300 0"),
        (SPENT, "11 t=5"),
        (LAPSES, "3 0"),
        (PIN, "a b"),
    ):
        record, note, live, error = ask(record, mark, text)
        assert (note, error) == (text, "error")
        assert live == (text.partition(" ")[2] if text.startswith("12 ") else "-")
    whole = f"{OPTIONS}300 0{PIN}a b{LAPSES}3 0{SPENT}11 t=5{RUNS_AS}12 key"
    assert record == HEAD + whole + schedule + inline
    error, notes = split_notes("error" + whole)
    assert error == "error"
    assert notes == {
        **{OPTIONS: "300 0", PIN: "a b", LAPSES: "3 0", SPENT: "11 t=5", RUNS_AS: "12 key"}
    }
    assert (live_note(notes, RUNS_AS, "12"), live_note(notes, SPENT, "12")) == ("key", None)
    assert ask(record, PIN, "-")[1] == "a b"
    record = ask(record, SPENT, "12 t=6")[0]
    for mark in (OPTIONS, PIN, LAPSES, RUNS_AS, SPENT):
        record = ask(record, mark, "")[0]
    assert record == HEAD + schedule + inline


def test_a_change_of_the_judge(redis: Redis) -> None:
    """The cost and the member stand in the record afterwards, and a short one becomes full."""
    text = CHANGE.format(parts("change"))
    short = f"12 0 1 0 - 0 q{1795362914968:011x}000000000000001 5\tg\n7"
    changed = redis.eval(text, 0, short, "12")
    wanted = (
        f"12 0 1 0 - 0 f1795362914968 1000000000000001 10 5 1,t~5 0 0 0\tg\t\t\t{RUNS_AS}12 key\n7"
    )
    assert changed.decode() == wanted


def test_readers_know_notes(q: DPQ[Any], redis: Redis) -> None:
    """What was reserved is no cost of the task; notes are no part of the last error."""
    task_id = q.push("x", key="k", visibility=5, cost={"t": 3})
    meta = key_of(q.queue_name, "meta")
    raw = redis.hget(meta, task_id)
    whole = f"{OPTIONS}5000 0{PIN}a b{SPENT}11 t=5{RUNS_AS}12 key"
    changed = raw.replace(b"1,t=3", b"1,t=3,u~900").replace(
        f"{OPTIONS}5000 0".encode(), whole.encode()
    )
    redis.hset(meta, task_id, changed)
    task = q.get(task_id)
    assert (task.costs, task.visibility, task.last_error) == ({"t": 3}, 5, None)
    task = q.pop().task
    assert (task.costs, task.visibility, task.last_error) == ({"t": 3}, 5, None)
    assert q.fail(task, "broken", delay=0) is None
    assert q.get(task_id).last_error == "broken"
    assert whole.encode() in redis.hget(meta, task_id)
    assert q.check() == []
