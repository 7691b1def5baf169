"""A push and a limit are one value each: mypy refuses swapped arguments on the whole way."""

import re
from pathlib import Path
from typing import Any

import dpq
from dpq.script.portable import TaskLine
from dpq.verbs.base import Description
from dpq.verbs.pushing import PushChecker

PACKAGE = Path(dpq.__file__).parent


def test_the_help_of_push_says_each_option() -> None:
    """Its signature names only the first ones."""
    arguments = (dpq.DPQ.push.__doc__ or "").partition("Returns:")[0]
    said = re.findall(r"^ {12}(\w+): ", arguments, re.MULTILINE)
    assert said == [*dpq.Push._fields, "timeout"]


def test_both_sides_know_the_same_options() -> None:
    """The script reads each option that the client may send, and no other."""
    text = (PACKAGE / "script/lua/push/options.lua").read_text(encoding="utf-8")
    bounds = re.findall(r"^local (?:LONGEST|LARGEST|MOST) = \{(.*?)\}", text, re.M | re.S)
    read = {name for table in bounds for name in re.findall(r"(\w+) =", table)}
    many: dict[str, Any] = {
        "group": "g",
        "member": "m",
        "key": "k",
        "on_dead": "run",
        "after": ["a"],
        "delay": 1,
    }
    many |= {"expires_in": 1, "cost": 2, "max_attempts": 5, "visibility": 1, "time_limit": 1}
    many |= {"batch": "b", "backoff": [1], "unique_for": 1, "max_lapses": 1}
    checker = PushChecker[None](Description("q"))
    sent = {"seals", "first", "cron"}  # of a batch and of a cron line
    for push in (
        dpq.Push(None, 2**63 - 1, **many),
        dpq.Push(None, key="k", debounce=1, debounce_max=2),
        dpq.Push(None, every=1),
    ):
        sent |= checker.options(push, "trace").keys()
    assert read == sent


def test_an_export_has_each_option_that_is_stored() -> None:
    """A line has a field for each option of a push; `schedule`, `due_ms` and `wait_ms` say some."""
    names = {
        name.removesuffix("_ms").replace("expires", "expires_in") for name in TaskLine.model_fields
    }
    said = {"every", "cron", "timezone", "delay", "at", "debounce", "debounce_max"}
    assert set(dpq.Push._fields) - said - {"payload", "on_duplicate"} <= names
