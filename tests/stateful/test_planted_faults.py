"""The machine bites: faults planted in the scripts on purpose, each of which it must find."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from limit_machine import LEARNING, RESERVED, machine_on
from partition_machine import parted_on
from redis import Redis

from dpq import DPQError, RateLimit
from dpq.operations import pop as pop_module
from dpq.operations import queue as queue_module
from dpq.operations.pop import PartitionPop
from dpq.protocol import command
from dpq.protocol.scripts import Script, script, script_names
from dpq.server import Server

MOST_EXAMPLES = 400


@dataclass(frozen=True)
class Fault:
    """A text of the scripts and what stands there instead."""

    name: str
    text: str
    instead: str
    scripts: tuple[str, ...] = ()  # none: every script that has the text
    always: dict[str, Any] = field(default_factory=lambda: {"limited": False})  # where it is sought

    def changed(self) -> dict[str, Script]:
        """The scripts that have the fault's text, with the fault in them."""
        changed = {}
        for name in self.scripts or script_names():
            sound = script(name)
            if self.text in sound.text:
                text = sound.text.replace(self.text, self.instead)
                changed[name] = Script(name, text, sound.parts)
            else:
                assert not self.scripts, f"{name}.lua no longer says {self.text!r}"
        assert changed, f"no script says {self.text!r} any more"
        return changed

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = self.changed()
        monkeypatch.setattr(command, "script", lambda name: changed.get(name) or script(name))


class RareFault(Fault):
    """One that takes the machine 1 to 60 s to find: with `make test-all` only."""


@dataclass(frozen=True)
class Patch:
    """A fault of the client."""

    name: str
    where: Any
    attribute: str
    instead: Any
    always: ClassVar = {"limited": False}

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.where, self.attribute, self.instead)


class RarePatch(Patch):
    """One that takes as long as a `RareFault`."""


LIMITED = {"limited": True}
RESERVES = {"limited": True, "windows": RESERVED, "kind": {}}
AGING = {**RESERVES, "kind": {"aging": 0.5}}
LEARNS = {"limited": True, "windows": LEARNING}
FULL = {"limited": True, "windows": [[]], "concurrency": [1, 2]}
PLAIN = {"limited": False, "kind": {}}
RECURRING = {**PLAIN, "recurring": True}
IN_TURN = {"limited": False, "kind": {"fairness": "round_robin"}}

FAULTS = [
    RareFault("a popped head has no heir", "\n        crown(group, frame, i)", "", ("pop",)),
    RareFault(
        "a better newcomer waits behind its group's head",
        "best and (score < best or score == best and member < first)",
        "false",
    ),
    RareFault("among equals of a group the newcomer leads", "member < first", "member > first"),
    RareFault(
        "a release takes a new place",
        "task.delivery = 'r'\nif priority",
        "task.delivery = 'r'\n"
        "task.order = string.sub(task.order, 1, -16) .. '999999999999990'\nif priority",
        ("release",),
    ),
    RareFault(
        "fail counts what the end of the lease has counted",
        "local counts = task.delivery == '-' or task.delivery == 'd'",
        "local counts = true",
        ("fail",),
    ),
    RareFault("any token will do", "task.token ~= token", "false"),
    RareFault(
        "any token acks",
        "token ~= claim and token ~= string.match(claim, '^%d+')",
        "not token",
        ("ack",),
    ),
    RareFault(
        "a missed time is not passed over",
        "math.max(now, task.enqueued + task.wait)",
        "task.enqueued + task.wait",
        always=RECURRING,
    ),
    RareFault(
        "times drift",
        "math.max(first + math.floor((after - first) / period + 1) * period, first)",
        "after + period",
        always=RECURRING,
    ),
    RareFault(
        "a run that fails for good has no next one",
        "if spent and task.schedule ~= '' then",
        "if false then",
        ("fail",),
        RECURRING,
    ),
    RareFault(
        "a lease of its own counts for nothing",
        "own > 0 and own <=",
        "own < 0 and own <=",
        ("pop",),
    ),
    RareFault(
        "an update leaves the options as they were",
        "task.options = options ..",
        "task.options = task.options or",
        ("push",),
    ),
    RareFault("a settled delivery acts again", "'[fbr]'", "'[0]'"),
    RareFault(
        "a closed group keeps its head in ready",
        "      shut(group)\n      at = next_at(group)",
        "      at = next_at(group)",
        ("delay_group",),
    ),
    Fault(
        "a closed group lets newcomers lead", "best or redis.call('ZSCORE', closed, group)", "best"
    ),
    RareFault(
        "a purged task keeps its key",
        "    if task.key ~= '' then\n      redis.call('HDEL', keys, task.key)\n    end\n",
        "",
        ("purge",),
    ),
    Fault(
        "LIFO is FIFO",
        "lifo and 999999999999999 - place or place",
        "place",
        ("push",),
        always={"limited": False, "kind": {"order": "lifo"}},
    ),
    Fault(
        "an expired lease costs no attempt",
        "task.attempts = task.attempts + 1\n        task",
        "task",
    ),
    RareFault(
        "negative scores wait in the wrong order",
        "'7', 4095 - high, 2 ^ 53 - low",
        "'7', high, low",
    ),
    RareFault(
        "what a double loses is lost",
        "local order = residual ..",
        "local order = '1' ..",
        ("push",),
        always=PLAIN,
    ),
    RareFault(
        "a due task waits one millisecond more",
        "string.format('%.17g', instant) or stamp",
        "string.format('%.17g', instant) or '(' .. stamp",
    ),
    Fault(
        "a cancelled head has no heir",
        "redis.call('ZREM', ready, shown)\n      succeed(group)",
        "redis.call('ZREM', ready, shown)",
    ),
    RareFault(
        "each deferral of a delivery counts",
        "task.delivery == '-' or task.delivery == 'x' then",
        "true then",
        ("set_visibility",),
    ),
    RareFault(
        "a replay keeps the spent attempts",
        "task.attempts, task.expires, task.reason, task.again = 0",
        "task.attempts, task.expires, task.reason, task.again = task.attempts",
        ("replay",),
    ),
    RareFault(
        "a rerun keeps its old place",
        "string.format('%015.0f', place)\n",
        "string.sub(task.order, -15)\n",
        ("ack",),
    ),
    Fault(
        "the earliest event is forgotten",
        "if not known or not (now + ms >= known) then",
        "if not known then",
    ),
    RareFault(
        "the end of a lease ignores the bound on attempts",
        "tonumber(task.attempts) >= tonumber(task.max)",
        "false",
    ),
]

FAULTS += [
    Fault(
        "who pays late pays for the past",
        "moment or instant) + time_of(units, window)",
        "0) + time_of(units, window)",
        always=LIMITED,
    ),
    Fault(
        "the queue is not paid for a task of a group",
        "local may = judge_queue(score, member, id, cost, group, token, raw, units)",
        "local all = gate_of('')\n"
        "local may = opens_at(all, units, -score) <= instant and not full(all) or nil",
        always=LIMITED,
    ),
    Fault("the group is not paid", "      charge(gate, units, id, token)\n", "", always=LIMITED),
    RareFault(
        "a task of any cost pays for one",
        "+ time_of(units, window)",
        "+ time_of(1, window)",
        always=LIMITED,
    ),
    Fault(
        "only the shortest window counts",
        "in ipairs(gate.rules) do",
        "in ipairs({ gate.rules[1] }) do",
        always=LIMITED,
    ),
    RareFault(
        "an interval is rounded down",
        "or math.ceil(interval * 4096)",
        "or math.floor(interval * 4096)",
        always={"limited": True, "windows": [[RateLimit(3, 1, 3, slack=0)]], "kind": {}},
    ),
    RareFault(
        "a group opens one millisecond late",
        "closed and string.format('%.17g', instant)",
        "closed and string.format('%.17g', instant - 1)",
        always=LIMITED,
    ),
    RareFault("a reserve is for all", "grown > 0", "false", always=RESERVES),
    RareFault(
        "aging does not count for a reserve",
        "rule.rank - rank - aged.rate * (instant - aged.since) / 1000",
        "rule.rank - rank",
        always=AGING,
    ),
    Fault(
        "no group has a limit of its own",
        "seen.count > (rules and 1 or 0) and rules_of",
        "false and rules_of",
        always=LIMITED,
    ),
    Fault("one lease too many", "return most <= out", "return most < out", always=LIMITED),
    RareFault(
        "who runs already does not count",
        "redis.call('ZADD', tracked, '0', entry)",
        "",
        ("set_limit",),
        always=LIMITED,
    ),
    RareFault(
        "a failed task stays among those that run",
        "redis.call('ZREM', tracked, group .. '\\t' .. id) > 0",
        "true",
        ("fail",),
        always=FULL,
    ),
    RareFault(
        "the end of a lease opens nothing",
        "    stirred[scope] = held or stirred[scope]\n",
        "",
        always=FULL,
    ),
    RareFault("a 429 shortens a longer closing", "math.max(gate.opens, now + ms)", "now + ms"),
    RareFault("nobody is a probe", "gate.probe == '-' and 'p' or gate.probe", "gate.probe"),
    RareFault("one probe follows the other", "again and 'p' or '-'", "'p'"),
    RareFault("a probe whose lease ran out was good", "lapsed or gate.why", "gate.why"),
    RareFault(
        "a 429 teaches nothing",
        "rules.floor, rate / 2",
        "rules.floor, rate",
        always=LEARNS,
    ),
    Fault(
        "the rate never rises",
        "gate.used * 2 >= gate.rate",
        "false",
        always=LEARNS,
    ),
    RareFault(
        "who closes by hand cannot shorten",
        "UNTIL_OPENED or now + ms, 'h'",
        "UNTIL_OPENED or math.max(gate.opens, now + ms), 'h'",
        always=PLAIN,
    ),
    RareFault(
        "opening by hand leaves the probe",
        "gate.probe == 'p' and '-' or gate.probe",
        "gate.probe",
        always=PLAIN,
    ),
    Fault(
        "who was served keeps its turn",
        "turn = turn or string.format('%015.0f', reached)",
        "turn = turn or string.sub(member, cut + 1, cut + 15)",
        always=IN_TURN,
    ),
    RareFault(
        "a better task costs its group the turn",
        "best, turn = nil, shut(group)",
        "best = nil, shut(group)",
        always=IN_TURN,
    ),
]


PARTED = [
    Fault(
        "places of one moment are equal",
        "if timed and reached - count < math.floor(instant * 100) then",
        "if timed then",
    ),
    RareFault(
        "a 429 of the queue closes its own partition only",
        "opens = math.max(now + ms, tonumber(opens or 0) or 0)",
        "opens = tonumber(opens or 0) or 0",
        ("close",),
    ),
    RareFault(
        "a look shows nothing",
        "if first then\n    return first",
        "if false then\n    return first",
    ),
    RareFault(
        "a better newcomer waits behind its group's head",
        "best and (score < best or score == best and member < first)",
        "false",
    ),
    RareFault(
        "one lease too many of a group in one partition",
        "return most <= out",
        "return most < out",
        always={"limited": True},
    ),
    RareFault("a popped head has no heir", "\n        crown(group, frame, i)", "", ("pop",)),
]
"""Of a queue with partitions."""

CLIENTS = [
    Patch("a group is in all partitions", queue_module, "home_of", lambda *_: None),
    RarePatch("any partition's head will do", pop_module, "_best", lambda f, _, n: sorted(f)[:n]),
    RarePatch("not all are asked", PartitionPop, "_take_all", lambda *_, **__: iter(())),
]
"""Of a queue with partitions too."""


def test_every_fault_can_be_planted() -> None:
    """What a fault changes stands in the scripts, also of those that are rarely looked for."""
    assert all(fault.changed() for fault in (*FAULTS, *PARTED))


def sought(machine: Any, *faults: Any) -> list[Any]:
    """Those that are looked for with these settings, each with the machine that is to find it."""
    every = settings.get_current_profile_name() == "soak"
    kind = "" if machine is machine_on else "partitions: "
    return [
        pytest.param(machine, fault, id=kind + fault.name)
        for fault in faults
        if every or not isinstance(fault, RareFault | RarePatch)
    ]


@pytest.mark.parametrize(
    ("machine", "fault"),
    [*sought(machine_on, *FAULTS), *sought(parted_on, *PARTED, *CLIENTS)],
)
def test_the_machine_finds_a_planted_fault(
    machine: Any, fault: Fault | Patch, first_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script, or a client, with this fault does not survive so many random sequences.

    With partitions each has a model of its own; there the client decides as well where a task goes,
    and which partitions a pop asks.
    """
    fault.plant(monkeypatch)
    with Redis.from_url(first_server.url) as redis:
        try:
            find(machine(redis, "planted", **fault.always))
        finally:
            if left := list(redis.scan_iter("dpq:{planted-*")):
                redis.delete(*left)


def find(machine: Any) -> None:
    """Run a machine that must find something, and not just run out of time."""
    with pytest.raises((AssertionError, DPQError, Flaky)) as found:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=MOST_EXAMPLES,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                print_blob=False,
            ),
        )
    assert not any(isinstance(each, pytest.fail.Exception) for each in causes(found.value))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what has led to it: pytest-timeout fails a test in the middle of an example."""
    while error is not None:
        yield error
        for each in getattr(error, "exceptions", ()):
            yield from causes(each)
        error = error.__cause__ or error.__context__
