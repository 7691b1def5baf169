"""The machine bites: faults planted in the scripts on purpose, each of which it must find."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from limit_machine import LEARNING, RESERVED, machine_on
from mutants.mutant import ROOT, Change, read_changes
from redis import Redis

from dpq import DPQError
from dpq.script import command
from dpq.script.assembly import Script, Sources, script, script_names, sources
from dpq.server import Server

MOST_EXAMPLES = 400

LUA = ROOT / "dpq" / "script" / "lua"


@dataclass(frozen=True, kw_only=True)
class Fault(Change):
    """A change of the scripts, and with which settings of a machine it is sought."""

    always: dict[str, Any]

    def changed_scripts(self) -> dict[str, Script]:
        """The scripts that the fault changes, with the fault in them."""
        path, sound = self.found()[0], sources()
        texts = {path.stem: self.changed()}
        if path.stem in sound.operations and path.parent == LUA:
            faulty = Sources(sound.operations | texts, sound.shared)
        else:
            faulty = Sources(sound.operations, sound.shared | texts)
        scripts = {name: faulty.script(name) for name in script_names()}
        return {name: each for name, each in scripts.items() if each.sha != script(name).sha}

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = self.changed_scripts()
        monkeypatch.setattr(command, "script", lambda name: changed.get(name) or script(name))


class RareFault(Fault):
    """One that is looked for with `make test-all` only."""


LIMITED = {"limited": True}
RESERVES = {"limited": True, "windows": RESERVED, "kind": {}}
LEARNS = {"limited": True, "windows": LEARNING}
FULL = {"limited": True, "windows": [[]], "concurrency": [1, 2]}
PLAIN = {"limited": False, "kind": {}}
RECURRING = {**PLAIN, "recurring": True}
BOUNDED = {**PLAIN, "bounds": {"max_tasks": 6}}
DROPPING = {**PLAIN, "bounds": {"max_waiting": 2, "when_full": "drop_worst"}}
IN_TURN = {"limited": False, "kind": {"fairness": "round_robin"}}


def faults(text: str) -> list[Fault]:
    """Read a list of faults; the words at the end say whether one is rare, and its settings."""
    found = []
    for change, words in read_changes(text):
        kind = RareFault if "rare" in words else Fault
        named = [globals()[word] for word in words.split() if word.isupper()]
        found.append(kind(**change, always=named[0] if named else {"limited": False}))
    return found


FAULTS = faults(r"""
take | a popped head has no heir | rare
-         crown(group, frame, i, shared)
enter | a better newcomer waits behind its group's head | rare
- best and (score < best or score == best and member < first)
+ false
release.lua | a release takes a new place | rare
- task.delivery = 'r'
- set_priority
+ task.delivery = 'r'
+ task.order = string.sub(task.order, 1, -16) .. '999999999999990'
+ set_priority
fence | any token will do | rare
- task.token ~= token
+ false
ack.lua | any token acks | rare
- token ~= claim and token ~= string.match(claim, '^%d+')
+ not token
next_due | a missed time is not passed over | rare RECURRING
- math.max(now, task.enqueued + task.wait)
+ task.enqueued + task.wait
fence | a settled delivery acts again | rare
- '[fblr]'
+ '[0]'
open_or_close | a closed group keeps its head in ready | rare
-     shut(group)
-     at = next_at(group)
+     at = next_at(group)
enter | a closed group lets newcomers lead |
- best or redis.call('ZSCORE', closed, group)
+ best
forget | a removed task keeps its key | rare
-     redis.call('HDEL', keys, task.key)
+
upkeep | an expired lease costs no attempt |
-           task.attempts = task.attempts + 1
+           task.attempts = task.attempts + 0
add_full | what a double loses is lost | rare PLAIN
- option.residual ..
+ '1' ..
leave | a cancelled head has no heir |
- redis.call('ZREM', ready, shown)
-       succeed(group)
+ redis.call('ZREM', ready, shown)
replay.lua | a replay keeps the spent attempts | rare
- task.attempts, task.expires, task.reason, task.again = 0
+ task.attempts, task.expires, task.reason, task.again = task.attempts
notice | the earliest event is forgotten | rare
- if not known or not (now + ms >= known) then
+ if not known then
pay_window | who pays late pays for the past | rare LIMITED
- (paid > at and paid or at) + time_of(units, window)
+ paid + time_of(units, window)
judge | the group is not paid | LIMITED
-       charge(gate, units, id, token, early.at[id])
pay_window | a task of any cost pays for one | rare LIMITED
- + time_of(units, window)
+ + time_of(1, window)
opens_at | only the shortest window counts | rare LIMITED
- in ipairs(gate.rules) do
+ in ipairs({ gate.rules[1] }) do
unreserved | a reserve is for all | rare RESERVES
- local grown = missing <= 0 and 0
+ local grown = 0 and 0
gate_of | no group has a limit of its own | rare LIMITED
- seen.count > (rules and 1 or 0) and rules_of
+ false and rules_of
full | one lease too many | LIMITED
- return most <= out
+ return most < out
ended | a failed task stays among those that run | rare FULL
- redis.call('ZREM', tracked, unpack(others)) == 0
+ false
meet | a 429 shortens a longer closing | rare
- math.max(gate.opens, now + ms)
+ now + ms
end_probe | one probe follows the other | rare
- again and 'p' or '-'
+ 'p'
lower | a 429 teaches nothing | rare LEARNS
- rules.floor, rate / 2
+ rules.floor, rate
charge | the rate never rises | rare LEARNS
- gate.used * 2 >= gate.rate
+ false
lead | who was served keeps its turn | rare IN_TURN
- turn = turn and turn ~= true and turn or string.format('%015.0f', draw(conf, 'turns', 1) + 1)
+ turn = turn and turn ~= true and turn or sequence_of(member)
no_room | a queue takes one task too many | rare BOUNDED
- size + fresh > most
+ size + fresh > most + 1
drop_worst | the best waiting task is dropped | rare DROPPING
- redis.call('ZREVRANGEBYLEX', waiting, from, to
+ redis.call('ZRANGEBYLEX', waiting, to, from
""")


def test_every_fault_can_be_planted() -> None:
    """What a fault changes stands in the scripts, also of those that are rarely looked for."""
    assert all(fault.changed() for fault in FAULTS)


def sought() -> list[Any]:
    """The faults that are looked for with these settings."""
    every = settings.get_current_profile_name() == "soak"
    return [
        pytest.param(fault, id=fault.name)
        for fault in FAULTS
        if every or not isinstance(fault, RareFault)
    ]


@pytest.mark.parametrize("fault", sought())
def test_the_machine_finds_a_planted_fault(
    fault: Fault, first_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script with this fault does not survive so many random sequences."""
    fault.plant(monkeypatch)
    with Redis.from_url(first_server.url) as redis:
        try:
            find(machine_on(redis, "planted", **fault.always))
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
