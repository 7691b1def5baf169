"""Bounds that hold on the server, whoever calls the scripts."""

import json
from typing import Any

import pytest
from redis.exceptions import ResponseError

from dpq import DPQ
from dpq.script.command import same

LONG = "x" * 201


def call(q: DPQ[Any], script: str, *args: Any) -> Any:
    return q._session.send(q._operations._ask(script, ["", *args], same))


def spec(group: str = "", key: str = "") -> str:
    names = {name: text for name, text in (("group", group), ("key", key)) if text}
    return json.dumps({"priority": "0", "max_attempts": 3} | names)


def plain(group: str = "", body: bytes = b"1") -> tuple[str, bytes]:
    """The score of a plain task, and its record: what stands behind its place."""
    return "0", f"3 0\t{group}\n".encode() + body


@pytest.mark.parametrize(
    ("option", "wrong", "rule"),
    [
        ({"priority": "x"}, "priority", "a finite number"),
        ({"priority": 5}, "priority", "a finite number"),
        ({"priority": None}, "priority", "a finite number"),
        ({"priority": "1-2"}, "priority", "a finite number"),
        ({"priority": "1e+999"}, "priority", "a finite number"),
        ({"priority": "1e-999"}, "priority", "a finite number"),
        ({"priority": "0x10"}, "priority", "a finite number"),
        ({"residual": "3000"}, "residual", "0 or 2, and three digits"),
        ({"residual": "12"}, "residual", "0 or 2, and three digits"),
        ({"cost": 2}, "cost", "a number of requests"),
        ({"cost": ""}, "cost", "a number of requests"),
        ({"cost": "1 2"}, "cost", "a number of requests"),
        ({"cost": "tokens=5"}, "cost", "a number of requests"),
        ({"cost": "-1"}, "cost", "a number of requests"),
        ({"cost": "1,tokens=5\n"}, "cost", "a number of requests"),
        ({"cost": "1" * 201}, "cost", "as text of at most 200 bytes"),
        ({"group": "a\nb"}, "group", "a name without control characters"),
        ({"key": 5}, "key", "a name without control characters"),
        ({"member": "a\tb"}, "member", "a name without control characters"),
        ({"member": "~a"}, "member", "without a ~ in front"),
        ({"member": ""}, "member", "as text of at most 100 bytes"),
        (
            {"on_duplicate": "upsert"},
            "on_duplicate",
            "keep, update, raise_priority, rerun or error",
        ),
        ({"on_duplicate": True}, "on_duplicate", "keep, update, raise_priority, rerun or error"),
        ({"cron": "* * * * *", "first": 1}, "cron", "five or six fields and a zone"),
        ({"cron": "* * * * *\t* UTC\n", "first": 1}, "cron", "five or six fields and a zone"),
        ({"cron": "* * * * * UTC"}, "first", "from 0 to 99999999999999"),
        ({"trace": "00-ab cd-ef-01"}, "trace", "a W3C traceparent"),
        ({"delay": "5"}, "delay", "from 0 to 315360000000"),
        ({"delay": -1}, "delay", "from 0 to 315360000000"),
        ({"visibility": 315_360_000_001}, "visibility", "from 0 to 315360000000"),
        ({"every": 0.5}, "every", "a whole number from 1 to 315360000000"),
        ({"every": 0}, "every", "a whole number from 1 to 315360000000"),
        ({"max_attempts": 0}, "max_attempts", "from 1 to 1000000"),
        ({"max_attempts": 1_000_001}, "max_attempts", "from 1 to 1000000, or 1000000000000 for no"),
        ({"max_lapses": 10**12}, "max_lapses", "from 1 to 1000000"),
        ({"max_attempts": 10**12 + 1}, "max_attempts", "from 1 to 1000000"),
        ({"urgent": True}, "urgent", "is not known"),
        ({"notes": "\x1fx"}, "notes", "is not known"),
    ],
)
def test_options(q: DPQ[Any], option: dict[str, Any], wrong: str, rule: str) -> None:
    """A wrong or unknown option is named with its form, and nothing of its batch is stored."""
    q.push("before")
    options = json.dumps({"priority": "0"} | option)
    with pytest.raises(ResponseError, match=f"the option {wrong} .*{rule}"):
        call(q, "push", "good", spec(), b"1", "a", options, b"1")
    assert (q.size(), q.stats().pushed) == (1, 1)
    assert not q.check()
