"""The machine bites: faults planted in the scripts on purpose, each of which it must find."""

from dataclasses import dataclass

import pytest
from hypothesis import Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from queue_machine import machine_on
from redis import Redis

from dpq import DPQError, _commands
from dpq._scripts import Script, script, script_names
from dpq.server import Server

MOST_EXAMPLES = 400


@dataclass(frozen=True)
class Fault:
    """A text of the scripts and what stands there instead."""

    name: str
    text: str
    instead: str
    scripts: tuple[str, ...] = ()  # none: every script that has the text


FAULTS = [
    Fault("a popped head has no heir", "crown(group)", "", ("pop",)),
    Fault(
        "a better newcomer waits behind its group's head",
        "best and (score < best or score == best and member < first)",
        "false",
    ),
    Fault("among equals of a group the newcomer leads", "member < first", "member > first"),
    Fault(
        "a release takes a new place",
        "task.delivery = verb\nif priority",
        "task.delivery = verb\n"
        "task.order = string.sub(task.order, 1, -16) .. '999999999999990'\nif priority",
        ("release",),
    ),
    Fault(
        "fail counts what the end of the lease has counted",
        "if task.delivery == '-' or task.delivery == 'd' then -- else",
        "if true then -- else",
        ("fail",),
    ),
    Fault("any token will do", "task.token ~= token", "false"),
    Fault("any token acks", "token ~= args[2 * i + 1]", "not token", ("ack",)),
    Fault("a settled delivery acts again", "'[fbr]'", "'[0]'"),
    Fault(
        "a closed group keeps its head in ready",
        "  shut(group)\n  redis.call('ZADD', closed",
        "  redis.call('ZADD', closed",
        ("delay_group",),
    ),
    Fault(
        "a closed group lets newcomers lead", "best or redis.call('ZSCORE', closed, group)", "best"
    ),
    Fault(
        "a purged task keeps its key",
        "    if task.key ~= '' then\n      redis.call('HDEL', keys, task.key)\n    end\n",
        "",
        ("purge",),
    ),
    Fault("LIFO is FIFO", "lifo and 999999999999999 - place or place", "place", ("push",)),
    Fault(
        "an expired lease costs no attempt",
        "task.attempts = task.attempts + 1\n        task",
        "task",
    ),
    Fault(
        "negative scores wait in the wrong order",
        "'7', 4095 - high, 2 ^ 53 - low",
        "'7', high, low",
    ),
    Fault(
        "what a double loses is lost",
        "local order = residual ..",
        "local order = '1' ..",
        ("push",),
    ),
    Fault(
        "a due task waits one millisecond more", "set, '-inf', stamp", "set, '-inf', '(' .. stamp"
    ),
    Fault(
        "a cancelled head has no heir",
        "    succeed(group)\n  end\nend\n\nlocal function admit",
        "  end\nend\n\nlocal function admit",
    ),
    Fault(
        "each deferral of a delivery counts",
        "task.delivery == '-' or task.delivery == 'x' then",
        "true then",
        ("set_visibility",),
    ),
    Fault(
        "a replay keeps the spent attempts",
        "task.attempts, task.expires, task.reason, task.again = 0",
        "task.attempts, task.expires, task.reason, task.again = task.attempts",
        ("replay",),
    ),
    Fault(
        "a rerun keeps its old place",
        "string.format('%015.0f', place)\n",
        "string.sub(task.order, -15)\n",
        ("ack",),
    ),
    Fault(
        "the earliest event is forgotten",
        "if not known or now + ms < known then",
        "if not known then",
    ),
    Fault(
        "the end of a lease ignores the bound on attempts",
        "tonumber(task.attempts) >= tonumber(task.max)",
        "false",
    ),
]


def plant(fault: Fault) -> dict[str, Script]:
    """The scripts that have the fault's text, with the fault in them."""
    changed = {}
    for name in fault.scripts or script_names():
        sound = script(name)
        if fault.text in sound.text:
            changed[name] = Script(name, sound.text.replace(fault.text, fault.instead), sound.parts)
        else:
            assert not fault.scripts, f"{name}.lua no longer says {fault.text!r}"
    assert changed, f"no script says {fault.text!r} any more"
    return changed


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_machine_finds_a_planted_fault(
    fault: Fault, first_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script with this fault does not survive a bounded number of random sequences."""
    changed = plant(fault)
    monkeypatch.setattr(_commands, "script", lambda name: changed.get(name) or script(name))
    with Redis.from_url(first_server.url) as redis:
        machine = machine_on(redis, "planted")
        with pytest.raises((AssertionError, DPQError, Flaky)):
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=MOST_EXAMPLES,
                    phases=[Phase.generate],
                    report_multiple_bugs=False,
                    print_blob=False,
                ),
            )
