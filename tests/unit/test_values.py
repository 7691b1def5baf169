"""A push and a limit are one value each: mypy refuses swapped arguments on the whole way."""

import re
from inspect import Parameter, signature
from pathlib import Path

from mypy import api

import dpq
from dpq.operations.pushing import Options

PACKAGE = Path(dpq.__file__).parent

SWAPS = {
    "push": ("queue/queue_async.py", "cost=cost,", "cost=on_duplicate,"),
    "push back": ("queue/queue_async.py", "on_duplicate=on_duplicate,", "on_duplicate=cost,"),
    "limit": ("queue/queue_async.py", "concurrency=concurrency,", "concurrency=reserve,"),
    "check": ("operations/queue.py", "check(push, trace)", "check(trace, push)"),
    "option": ("operations/pushing.py", '["max_attempts"] = attempts', '["max_attempts"] = cost'),
    "times": ("operations/pushing.py", '["on_duplicate"] = push.on_', '["delay"] = push.on_'),
    "unknown": ("operations/pushing.py", '["trace"] = trace', '["traces"] = trace'),
    "sent": ("operations/queue.py", "self._push((checked,), ids=ids)", "self._push(checked)"),
    "limit sent": ("operations/limits.py", "self._set(rules.group,", "self._set(rules.units,"),
}
"""Files below dpq/, what stands there, and what a swap makes of it."""


def test_swaps_are_refused(tmp_path: Path) -> None:
    """Each swap is an error of types where it stands; a copy of its file without it is none."""
    for number, (name, (file, old, new)) in enumerate(SWAPS.items()):
        text = (PACKAGE / file).read_text(encoding="utf-8")
        assert old in text, f"{name}: {file} has no {old!r}"
        (tmp_path / f"swap_{number}.py").write_text(text.replace(old, new), encoding="utf-8")
        (tmp_path / f"kept_{Path(file).stem}.py").write_text(text, encoding="utf-8")
    output, errors, _ = api.run(["--strict", "--no-error-summary", str(tmp_path)])
    assert not errors
    wrong = set(re.findall(r"(\w+)\.py:\d+: error: ", output))
    assert wrong == {f"swap_{number}" for number in range(len(SWAPS))}


def test_a_push_has_the_arguments_of_the_verb() -> None:
    """`Push` and `DPQ.push` have the same names, order and defaults; the verb may wait, too."""
    verb = {name: each.default for name, each in signature(dpq.DPQ.push).parameters.items()}
    made = {name: each.default for name, each in signature(dpq.Push).parameters.items()}
    assert [("self", Parameter.empty), *made.items(), ("timeout", 0)] == list(verb.items())


def test_both_sides_know_the_same_options() -> None:
    """The script reads each option that the client may send, and no other."""
    text = (PACKAGE / "protocol/lua/push/options.lua").read_text(encoding="utf-8")
    bounds = re.findall(r"^local (?:LONGEST|LARGEST|MOST) = \{(.*?)\}", text, re.M | re.S)
    read = {name for table in bounds for name in re.findall(r"(\w+) =", table)}
    assert read == Options.__annotations__.keys() - {"at"}  # it is sent as a delay
