"""A push and a limit are one value each: mypy refuses swapped arguments on the whole way."""

import re
from inspect import Parameter, signature
from pathlib import Path

import dpq
from dpq.script.portable import TaskLine
from dpq.verbs.pushing import Options

PACKAGE = Path(dpq.__file__).parent


def test_a_push_has_the_arguments_of_the_verb() -> None:
    """`Push` and `DPQ.push` have the same names, order and defaults; the verb may wait, too."""
    verb = {name: each.default for name, each in signature(dpq.DPQ.push).parameters.items()}
    made = {name: each.default for name, each in signature(dpq.Push).parameters.items()}
    assert [("self", Parameter.empty), *made.items(), ("timeout", 0)] == list(verb.items())


def test_both_sides_know_the_same_options() -> None:
    """The script reads each option that the client may send, and no other."""
    text = (PACKAGE / "script/lua/push/options.lua").read_text(encoding="utf-8")
    bounds = re.findall(r"^local (?:LONGEST|LARGEST|MOST) = \{(.*?)\}", text, re.M | re.S)
    read = {name for table in bounds for name in re.findall(r"(\w+) =", table)}
    assert read == Options.__annotations__.keys() - {"at"}  # it is sent as a delay


def test_an_export_has_each_option_that_is_stored() -> None:
    """A line has a field for each option of a push; `schedule`, `due_ms` and `wait_ms` say some."""
    names = {
        name.removesuffix("_ms").replace("expires", "expires_in") for name in TaskLine.model_fields
    }
    said = {"every", "cron", "timezone", "delay", "at", "debounce", "debounce_max"}
    assert set(dpq.Push._fields) - said - {"payload", "on_duplicate"} <= names
