"""What can be said of a push, in its help and in an export."""

import re

import dpq
from dpq.script.portable import TaskLine


def test_the_help_of_push_says_each_option() -> None:
    """Its signature names only the first ones."""
    arguments = (dpq.DPQ.push.__doc__ or "").partition("Returns:")[0]
    said = re.findall(r"^ {12}(\w+): ", arguments, re.MULTILINE)
    assert said == [*dpq.Push._fields, "timeout"]


def test_an_export_has_each_option_that_is_stored() -> None:
    """A line has a field for each option of a push; `schedule`, `due_ms` and `wait_ms` say some."""
    names = {
        name.removesuffix("_ms").replace("expires", "expires_in") for name in TaskLine.model_fields
    }
    said = {"every", "cron", "timezone", "delay", "at", "debounce", "debounce_max"}
    assert set(dpq.Push._fields) - said - {"payload", "on_duplicate"} <= names
