"""The log of `dpq worker` and `dpq scheduler`, as text and JSON: a record, a line, no forgery."""

import json
import logging
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import steers

from dpq.cli import _terminal
from dpq.cli._terminal import PIPE_BYTES, JsonLines
from dpq.limits.permit import HeldPermit
from dpq.model.display import CleanRecords
from dpq.model.log_fields import FIELDS, fields
from dpq.queue.life import Keeper

EVIL = "\x1b\x9b\x7f\u202e\u2028\u2029\x85\x0b\x0c\x1c\n\r\t\ud800{}\"'\\,é"
TEXTS = st.text(st.characters() | st.sampled_from(EVIL), max_size=60)
FORGED = st.sampled_from(["\n2026-01-01 00:00:00,000 INFO    forged", '\n{"event": "forged"}', ""])
REMOTE = st.builds(lambda a, b, c: a + b + c, TEXTS, FORGED, TEXTS)

BEGIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC (DEBUG|INFO|WARNING|ERROR) +")


def formatted(formatter: logging.Formatter, text: str, error: str, *, trace: bool) -> str:
    """What a record about remote texts becomes, as a handler at the root writes it."""
    exc_info: Any = None
    if trace:
        try:
            raise ValueError(error)  # noqa: TRY301 - to be logged
        except ValueError as raised:
            exc_info = (type(raised), raised, raised.__traceback__)
    args = ("queue", text)
    record = logging.LogRecord("dpq.worker.x", 20, "", 0, "%s: %s", args, exc_info)
    vars(record).update(fields("died", group=text, reason=error, task_id="id", count=3))
    CleanRecords().handle(record)
    return formatter.format(record)


@settings(deadline=None, max_examples=150)
@given(text=REMOTE, error=REMOTE, trace=st.booleans())
def test_a_record_as_text(text: str, error: str, trace: bool) -> None:
    """Its first line alone looks like a record; nothing in it steers a terminal."""
    line = formatted(_terminal.TEXT, text, error, trace=trace)
    first, *rest = line.split("\n")
    assert BEGIN.match(first)
    assert line.splitlines() == [first, *rest]
    assert not [each for each in rest if BEGIN.match(each) or each.startswith("{")]
    assert not steers(re.sub("[\t\n]", "", line))
    assert trace or not rest


@settings(deadline=None, max_examples=150)
@given(text=REMOTE, error=REMOTE, trace=st.booleans(), pipe=st.booleans())
def test_a_record_as_json(text: str, error: str, trace: bool, pipe: bool) -> None:
    """It is one ASCII line and one object, whose keys are those that are documented."""
    line = formatted(JsonLines(PIPE_BYTES if pipe else math.inf), text, error, trace=trace)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    said = json.loads(line)
    assert set(said) <= {"time", "level", "logger", "message", "traceback", *FIELDS}
    assert {name: said[name] for name in ("level", "logger", "event", "task_id", "count")} == {
        "level": "INFO",
        "logger": "dpq.worker.x",
        "event": "died",
        "task_id": "id",
        "count": 3,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said["time"])
    assert ("traceback" in said) == trace
    assert not [each for each in said.values() if steers(re.sub("[\t\n]", "", str(each)))]


@pytest.mark.parametrize("text", ["x" * 100_000, "\U0001f600" * 9000, "\u2028" * 9000])
def test_a_line_for_a_shared_pipe_is_bounded(text: str) -> None:
    """Several processes write to one pipe: what is longer than it takes whole is cut."""
    line = formatted(JsonLines(PIPE_BYTES), text, text, trace=True)
    assert len(line) < PIPE_BYTES
    assert json.loads(line)["event"] == "died"
    assert len(formatted(JsonLines(), text, text, trace=True)) > PIPE_BYTES


def test_the_lost_lease_of_a_permit_is_logged(caplog):
    """A permit has no attempts; the line about its lost lease does without."""
    keeper: Any = Keeper(lambda leases: [False] * len(leases), "q")
    permit: Any = HeldPermit("p", "g", "~p", "g")
    (lease,) = keeper.hold((permit,), 30.0)
    keeper.close()
    keeper._extended({("p", 0): lease}, [False])
    (record,) = caplog.records
    assert (record.event, record.group, record.task_id) == ("lease_lost", "g", "p")
