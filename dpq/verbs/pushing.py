"""A push, checked once and written as the script push takes it. No I/O.

`QueueOperations` checks each `Push` here, before anything is sent, and sends the result:

    Push("a", 5)           -> ("-5", b' 5\t\n"a"')                   a plain task: its score
    Push("a", 5, key="k")  -> ({"priority": "5", "key": "k"}, b'"a"')  any other: its options
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, get_args

from dpq.limits.cost import warn_of_units, write_cost
from dpq.limits.pools import member_name
from dpq.model.errors import ConfigurationError
from dpq.model.priority import EXACT_INT, encode_priority
from dpq.model.schedule import moment_ms, next_times, require_schedule
from dpq.model.task import MOST_AFTER, OnDead, OnDuplicate, P, Push
from dpq.model.validation import (
    MAX_ATTEMPTS,
    MAX_SECONDS,
    attempt_bound,
    delay_milliseconds,
    label,
    listed_delays,
    milliseconds,
    whole_number,
)
from dpq.script.keys import INLINE_BYTES
from dpq.script.records import COMMON_ATTEMPTS, FOR_EVER_MS
from dpq.verbs.base import Description

Options = dict[str, Any]
"""The words of a task that is not plain; lua/push/options.lua reads them by these names.

They are the arguments of `push` as its record has them, times in ms; a name that is left out has
its usual value. Before the push is sent, `with_times` replaces `at` by `delay`, and adds `first`,
the first time of a cron line; `with_ids` replaces numbers in `after`, which stand for earlier
pushes of the call. `seals` is the batch that the task waits for, which its push seals."""

Checked = tuple[str | Options, bytes]
"""A checked push: the score of a plain task, or the options of another one; and its payload, which
has the record of a plain task before it."""

_NAMES = Push._fields[3:]

_USUAL = Push(None)[4:]
"""Most pushes say nothing behind their group."""

_OF_PLAIN = frozenset({"priority", "max_attempts", "group"})
"""The options that a short record has."""


def _duration(name: str, value: Any) -> int:
    return milliseconds(name, value, least=0.001)


def _unique_for(name: str, value: Any) -> int:
    return FOR_EVER_MS if value == math.inf else _duration(name, value)


def _backoff(_: str, value: Any) -> str:
    return ",".join(str(round(each * 1000)) for each in listed_delays(value))


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("expires_in", "visibility", "time_limit", "every"), _duration),
    **dict.fromkeys(("group", "key", "batch"), label),
    "backoff": _backoff,
    "at": lambda _, value: moment_ms(value),
    "member": lambda _, value: member_name(value),
    "max_attempts": attempt_bound,
    "unique_for": _unique_for,
    "max_lapses": lambda name, value: whole_number(name, value, 1, MAX_ATTEMPTS),
}
"""The checks of arguments that depend on no other one; each returns what is stored."""

_NEEDS = {
    "member": ("group", "a member belongs to the pool of a group"),
    "unique_for": ("key", "it is the key that stays taken"),
    "debounce_max": ("debounce", "it bounds how long pushes with debounce delay a task"),
    "debounce": ("key", "by the key a further push finds the task"),
}
"""The argument that another one needs, and why."""

_EXCLUDES = {
    "batch": (("every", "cron"), "a task that recurs is never done, so its batch would never end"),
    "unique_for": (("every", "cron"), "a task that recurs is never done, and keeps its key"),
    "at": (("delay", "cron"), "it says when the task is due"),
    "after": (
        ("every", "cron", "at"),
        "a task that waits for others is due once, when they have ended, or `delay` later",
    ),
    "debounce": (
        ("delay", "at", "every", "cron", "after", "unique_for", "on_duplicate"),
        "it says when the task is due, and what a further push of its key does",
    ),
}
"""The arguments that do not go with another one, and why."""

_AT_AN_END = (
    ("key", "batch", "after", "every", "cron", "at"),
    "this is the task at the end of a batch",
    "it runs once, is in no batch, and is due at the end of that batch, or `delay` later",
)
"""The arguments that do not go with the task at the end of a batch, and why."""

_CHOICES = ("on_duplicate", get_args(OnDuplicate)), ("on_dead", get_args(OnDead))


class PushChecker(Generic[P]):
    """Checks the pushes of one queue."""

    def __init__(self, queue: Description[P]) -> None:
        self._codec = queue.codec
        self._max_attempts = queue.max_attempts
        self._most = _text_of(self._max_attempts)

    def check(self, push: Push[P], trace: str = "", seals: str | None = None) -> Checked:
        """Check one push; `trace` is the traceparent that its task is to carry, or ""."""
        if not isinstance(push, Push):
            raise ConfigurationError(f"a push is {push!r}: it must be a Push(payload, ...)")
        payload, priority, delay, group = push[:4]
        if (
            trace
            or seals is not None
            or push[4:] != _USUAL
            or delay != 0
            or type(priority) is not int
            or type(push.cost) is not int
            or not -EXACT_INT <= priority <= EXACT_INT
        ):
            options = self.options(push, trace, seals)
            body = self._codec.encode(payload)
            text = options["priority"]
            plain = options.keys() <= _OF_PLAIN and text.lstrip("-").isdecimal()
            if not plain or len(body) > INLINE_BYTES:
                return options, body
            most = _text_of(options.get("max_attempts", COMMON_ATTEMPTS))
            head = f"{most} {text}\t{options.get('group', '')}\n"
            return str(-int(text)), head.encode() + body
        # What the lines above make of most tasks of most queues, in a third of the time.
        group = "" if group is None else label("group", group)
        body = self._codec.encode(payload)
        if len(body) > INLINE_BYTES:
            return self.options(push, ""), body
        return str(-priority), f"{self._most} {priority}\t{group}\n".encode() + body

    def options(self, push: Push[Any], trace: str = "", seals: str | None = None) -> Options:
        """Check a push without its payload, of the task at the end of the batch `seals`, if any."""
        text, residual = encode_priority(push.priority)
        options: Options = {"priority": text, "max_attempts": self._max_attempts}
        if seals is not None:
            options["seals"] = label("batch", seals)
            _refuse(push, *_AT_AN_END)
        for name, value in zip(_NAMES, push[3:], strict=True):
            if value is not None and (check := _CHECKS.get(name)):
                options[name] = check(name, value)
        for name, known in _CHOICES:
            if (choice := getattr(push, name)) not in known:
                must = ", ".join(known)
                raise ConfigurationError(f"{name} is {choice!r}: it must be one of {must}")
        if residual != "1":
            options["residual"] = residual
        if options["max_attempts"] == COMMON_ATTEMPTS:
            del options["max_attempts"]
        if push.delay != 0 and (delay_ms := delay_milliseconds(push.delay)):
            options["delay"] = delay_ms
        if push.key is not None and push.on_duplicate != "keep":
            options["on_duplicate"] = push.on_duplicate
        if push.cost != 1 or type(push.cost) is not int:
            cost = str(write_cost(push.cost))
            if cost != "1":
                options["cost"] = cost
        if isinstance(push.cost, Mapping):
            warn_of_units(push.cost)
        if push.every is not None or push.cron is not None or push.timezone != "UTC":
            delay_ms = options.get("delay", 0)
            line = require_schedule(push.every, push.cron, push.timezone, delay_ms)
            if line is not None:
                options["cron"] = line
        if trace:
            options["trace"] = trace
        for name, (needed, why) in _NEEDS.items():
            if getattr(push, name) is not None and getattr(push, needed) is None:
                raise ConfigurationError(
                    f"{name} is {getattr(push, name)!r:.200}, but the task has no {needed}: {why}, "
                    f"so give its {needed}"
                )
        for name, (others, why) in _EXCLUDES.items():
            if getattr(push, name):
                _refuse(push, others, f"{name} is given", why)
        if push.after is not None and (after := _after(push)):
            options["after"] = after
            if push.on_dead != "bury":
                options["on_dead"] = push.on_dead
        if push.debounce is not None or push.debounce_max is not None:
            options["delay"], options["debounce_max"] = _debounce(push)
            options["on_duplicate"] = "rerun"
        return options


def _refuse(push: Push[Any], names: Sequence[str], given: str, why: str) -> None:
    for name in names:
        if (value := getattr(push, name)) != Push._field_defaults[name]:
            raise ConfigurationError(
                f"{name} is {value!r:.200}, and {given}: {why}; leave {name} out"
            )


def _debounce(push: Push[Any]) -> tuple[int, int]:
    """Check the debounce of a task; return the ms of the debounce and of its bound."""
    debounce = _duration("debounce", push.debounce)
    if push.debounce_max is None:
        return debounce, FOR_EVER_MS
    bound = _duration("debounce_max", push.debounce_max)
    if bound < debounce:
        raise ConfigurationError(
            f"debounce_max is {push.debounce_max!r}: it must be at least debounce, which is "
            f"{push.debounce!r}; or leave it out, for no bound"
        )
    return debounce, bound


def _after(push: Push[Any]) -> list[str | int]:
    """Check the tasks that a task is to wait for."""
    if isinstance(push.after, str) or not isinstance(push.after, Sequence):
        raise ConfigurationError(
            f"after is {push.after!r}: it must be a list of ids, as push returns"
        )
    if len(push.after) > MOST_AFTER:
        raise ConfigurationError(
            f"after has {len(push.after)} ids: a task may wait for up to {MOST_AFTER}. Let it wait "
            "for a batch, which may have any number of tasks (seal_batch)"
        )
    if not push.after:
        return []
    if push.key is not None and push.on_duplicate in ("update", "rerun"):
        raise ConfigurationError(
            f"on_duplicate is {push.on_duplicate!r:.200}, and after is given: the tasks that a "
            "stored task waits for cannot change; use keep, raise_priority or error"
        )
    return [each if type(each) is int else label("after", each) for each in push.after]


def with_ids(options: Options, number: int, ids: Sequence[str]) -> Options:
    """Return options that name tasks by their ids alone."""
    named = options.copy()
    named["after"] = []
    for each in options["after"]:
        if isinstance(each, int) and not 0 <= each < number:
            raise ConfigurationError(
                f"after of push {number} has {each}: a number names an earlier push of the same "
                f"push_many, and must be from 0 to {number - 1}; or give the id of a stored task"
                if number
                else f"after of the first push has {each}: no push comes before it; give the id of "
                "a stored task"
            )
        named["after"].append(ids[each] if isinstance(each, int) else each)
    return named


def _text_of(max_attempts: int) -> str:
    """Write the attempts of a short record, which leaves the common number out."""
    return "" if max_attempts == COMMON_ATTEMPTS else str(max_attempts)


def with_times(options: Options, now_ms: int) -> Options:
    """Return options with the times that follow from the server's clock."""
    timed = options.copy()
    if "cron" in timed:
        timed["first"] = next_times(timed["cron"], now_ms, 1)[0]
    else:
        timed["delay"] = max(timed.pop("at") - now_ms, 0)
        if timed["delay"] > MAX_SECONDS * 1000:
            raise ConfigurationError(
                "at is more than 10 years from now: it must be within 315360000 seconds"
            )
    return timed
