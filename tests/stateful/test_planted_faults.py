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

from dpq import DPQError, RateLimit
from dpq.protocol import command
from dpq.protocol.scripts import Script, Sources, script, script_names, sources
from dpq.server import Server

MOST_EXAMPLES = 400

LUA = ROOT / "dpq" / "protocol" / "lua"


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
    """One that takes the machine 1 to 60 s to find: with `make test-all` only."""


LIMITED = {"limited": True}
RESERVES = {"limited": True, "windows": RESERVED, "kind": {}}
AGING = {**RESERVES, "kind": {"aging": 0.5}}
LEARNS = {"limited": True, "windows": LEARNING}
FULL = {"limited": True, "windows": [[]], "concurrency": [1, 2]}
PLAIN = {"limited": False, "kind": {}}
RECURRING = {**PLAIN, "recurring": True}
BOUNDED = {**PLAIN, "bounds": {"max_tasks": 6}}
WAITING = {**PLAIN, "bounds": {"max_waiting": 2}}
DROPPING = {**PLAIN, "bounds": {"max_waiting": 2, "when_full": "drop_worst"}}
IN_TURN = {"limited": False, "kind": {"fairness": "round_robin"}}

LIFO = {"limited": False, "kind": {"order": "lifo"}}
SMALLEST_RESERVES = {**RESERVES, "kind": {"order": "min"}}
SMALLEST = {"limited": False, "kind": {"order": "min"}}
THIRDS = {"limited": True, "windows": [[RateLimit(3, 1, 3, slack=0)]], "kind": {}}


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
enter | among equals of a group the newcomer leads | rare
- member < first
+ member > first
release.lua | a release takes a new place | rare
- task.delivery = 'r'
- set_priority
+ task.delivery = 'r'
+ task.order = string.sub(task.order, 1, -16) .. '999999999999990'
+ set_priority
fail.lua | fail counts what the end of the lease has counted | rare
- local counts = task.delivery == '-' or task.delivery == 'd'
+ local counts = true
fence | any token will do | rare
- task.token ~= token
+ false
ack.lua | any token acks | rare
- token ~= claim and token ~= string.match(claim, '^%d+')
+ not token
next_due | a missed time is not passed over | rare RECURRING
- math.max(now, task.enqueued + task.wait)
+ task.enqueued + task.wait
next_due | times drift | rare RECURRING
- math.max(first + math.floor((after - first) / period + 1) * period, first)
+ after + period
fail.lua | a run that fails for good has no next one | rare RECURRING
- if spent and task.schedule ~= '' and
+ if false then
lease | a lease of its own counts for nothing | rare
- own > 0 and own <=
+ own < 0 and own <=
merge | an update leaves the options as they were | rare
- task.options = option.notes ..
+ task.options = task.options or
fence | a settled delivery acts again | rare
- '[fbr]'
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
set_priority | a new priority forgets that the smallest runs first | SMALLEST
- string.find(task.priority, '^%-?0%d')
+ false
push.lua | LIFO is FIFO | LIFO
- lifo and 999999999999999 - place or place
+ place
upkeep | an expired lease costs no attempt |
-           task.attempts = task.attempts + 1
+           task.attempts = task.attempts + 0
behind | negative scores wait in the wrong order | rare
- '7', 4095 - high, 2 ^ 53 - low
+ '7', high, low
add_full | what a double loses is lost | rare PLAIN
- option.residual ..
+ '1' ..
due | a due task waits one millisecond more | rare
- string.format('%.17g', instant) or stamp
+ string.format('%.17g', instant) or '(' .. stamp
leave | a cancelled head has no heir |
- redis.call('ZREM', ready, shown)
-       succeed(group)
+ redis.call('ZREM', ready, shown)
set_visibility.lua | each deferral of a delivery counts | rare
- task.delivery == '-' or task.delivery == 'x' then
+ true then
replay.lua | a replay keeps the spent attempts | rare
- task.attempts, task.expires, task.reason, task.again = 0
+ task.attempts, task.expires, task.reason, task.again = task.attempts
anew | a rerun keeps its old place | rare
- string.format('%015.0f', place)
+ string.sub(task.order, -15)
notice | the earliest event is forgotten |
- if not known or not (now + ms >= known) then
+ if not known then
upkeep | the end of a lease ignores the bound on attempts | rare
- tonumber(task.attempts) >= tonumber(task.max)
+ false
pay_window | who pays late pays for the past | LIMITED
- (paid > at and paid or at) + time_of(units, window)
+ paid + time_of(units, window)
judge | the queue is not paid for a task of a group | LIMITED
- local may = judge_queue(score, member, id, cost, group, token, raw, units)
+ local all = gate_of('')
+ local may = opens_at(all, units, -score) <= instant and not full(all) or nil
judge | the group is not paid | LIMITED
-       charge(gate, units, id, token)
pay_window | a task of any cost pays for one | rare LIMITED
- + time_of(units, window)
+ + time_of(1, window)
opens_at | only the shortest window counts | LIMITED
- in ipairs(gate.rules) do
+ in ipairs({ gate.rules[1] }) do
pace | an interval is rounded down | rare THIRDS
- or math.ceil(interval * 4096)
+ or math.floor(interval * 4096)
due | a group opens one millisecond late | rare LIMITED
- closed and string.format('%.17g', instant)
+ closed and string.format('%.17g', instant - 1)
unreserved | a reserve is for all | rare RESERVES
- local grown = missing <= 0 and 0
+ local grown = 0 and 0
unreserved | aging does not count for a reserve | rare AGING
- rank - aged.rate * (instant - aged.since) / 1000
+ rank
unreserved | a reserve is for big priorities where the smallest runs first | rare SMALLEST_RESERVES
- aged.min and -rule.rank or rule.rank
+ rule.rank
gate_of | no group has a limit of its own | LIMITED
- seen.count > (rules and 1 or 0) and rules_of
+ false and rules_of
full | one lease too many | LIMITED
- return most <= out
+ return most < out
count_anew | who runs already does not count | rare LIMITED
- redis.call('ZADD', tracked, '0', entry)
ended | a failed task stays among those that run | rare FULL
- redis.call('ZREM', tracked, unpack(others)) == 0
+ false
ended | the end of a lease opens nothing | rare FULL
- stirred[group] = more or stirred[group] or redis.call('ZSCORE', closed, group) and true
+ stirred[group] = stirred[group]
meet | a 429 shortens a longer closing | rare
- math.max(gate.opens, now + ms)
+ now + ms
meet | nobody is a probe | rare
- gate.probe == '-' and 'p' or gate.probe
+ gate.probe
end_probe | one probe follows the other | rare
- again and 'p' or '-'
+ 'p'
end_probe | a probe whose lease ran out was good | rare
- lapsed or gate.why
+ gate.why
lower | a 429 teaches nothing | rare LEARNS
- rules.floor, rate / 2
+ rules.floor, rate
charge | the rate never rises | LEARNS
- gate.used * 2 >= gate.rate
+ false
delay_group.lua | who closes by hand cannot shorten | rare PLAIN
- UNTIL_OPENED or now + ms, 'h'
+ UNTIL_OPENED or math.max(gate.opens, now + ms), 'h'
delay_group.lua | opening by hand leaves the probe | rare PLAIN
- gate.probe == 'p' and '-' or gate.probe
+ gate.probe
lead | who was served keeps its turn | IN_TURN
- turn = turn and turn ~= true and turn or next_turn()
+ turn = turn and turn ~= true and turn or sequence_of(member)
enter | a better task costs its group the turn | rare IN_TURN
- best, turn = nil, shut(group)
+ best = nil, shut(group)
no_room | a queue takes one task too many | BOUNDED
- size + fresh > most
+ size + fresh > most + 1
no_room | a group is full one task too soon | rare WAITING
- size + count > most_waiting
+ size + count >= most_waiting
no_room | a push that meets its key needs room | rare BOUNDED
- size + fresh > most
+ size + #ids > most
drop_worst | the best waiting task is dropped | rare DROPPING
- redis.call('ZREVRANGEBYLEX', waiting, from, to
+ redis.call('ZRANGEBYLEX', waiting, to, from
""")


def test_every_fault_can_be_planted() -> None:
    """What a fault changes stands in the scripts, also of those that are rarely looked for."""
    assert all(fault.changed_scripts() for fault in FAULTS)


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
