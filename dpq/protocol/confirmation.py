"""Confirmation of changes: the commands that ask for it, and what their answers mean. No I/O.

A server answers before its replicas, and often before its disk, have a change. WAIT asks the
replicas, and WAITAOF the disk, for all that one connection has written so far. So connections that
have a `Confirmation` send it behind the scripts, over the same connection and in one round trip:

    behind = confirmation.behind(commands, settings)    HINCRBY, WAIT 1 2100
    judged(durability, commands, replies)               those of the scripts, some `Unconfirmed`

It must not know how commands are sent.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from dpq.protocol.command import Command, PlainCommand
from dpq.protocol.durability import Durability, Unconfirmed, wait_milliseconds
from dpq.protocol.keys import beside

CONFIRMED_SCRIPTS = frozenset(
    {
        *("push", "push_plain", "seal_batch", "update", "cancel", "purge", "drop", "replay"),
        "forget",
        *("ack", "ack_plain", "fail", "release", "set_visibility", "rate_limited", "bury"),
        *("pause", "delay_group", "met_limit", "set_limit", "configure", "import"),
    }
)
"""The scripts whose changes are confirmed. Not pop and extend: a lost lease costs another delivery,
which may come anyway. Not upkeep either: it is done again."""

BY_CLIENT = "its connection was cut or it was sent elsewhere, and the client has sent it again"


def needs_confirmation(commands: Sequence[Command[Any]]) -> bool:
    """Return True if one of these commands needs a confirmation."""
    return any(
        command.needs_confirmation and command.script.name in CONFIRMED_SCRIPTS
        for command in commands
    )


class Confirmation:
    """The confirmation that the calls of one queue object wait for; threads may share it.

    Attributes:
        durability: "replica" or "fsync".
    """

    def __init__(self, durability: Durability) -> None:
        self.durability = durability

    def behind(
        self, commands: Sequence[Command[Any]], settings: Mapping[str, Any]
    ) -> list[PlainCommand]:
        """Make the commands that confirm others: a write without effect, and WAIT; [] for none.

        A newer server waits only for what this connection has written. If a repeated call finds its
        work done, it writes nothing. So a write without effect is added.
        """
        changing = [command for command in commands if needs_confirmation((command,))]
        if not changing:
            return []
        ms = wait_milliseconds(settings.get("socket_timeout"))
        replica = self.durability == "replica"
        wait: PlainCommand = ("WAIT", 1, ms) if replica else ("WAITAOF", 1, 0, ms)
        stored = (c for c in changing if c.script.name != "drop")
        writes = [("HINCRBY", beside(c.keys[0], "stats"), "pushed", 0) for c in islice(stored, 1)]
        return [*writes, wait]

    def mark_of_client(self, command: Command[Any]) -> Unconfirmed | None:
        """Make the mark for a reply that the client gets; None if the command needs none."""
        needed = needs_confirmation((command,))
        return Unconfirmed(None, self.durability, reason=BY_CLIENT) if needed else None


def judged(
    durability: Durability, commands: Sequence[Command[Any]], replies: list[Any]
) -> list[Any]:
    """Return the replies of scripts; as `Unconfirmed` if the answers behind them say so."""
    replies, answers = replies[: len(commands)], replies[len(commands) :]
    refusal = next((each for each in answers if isinstance(each, Exception)), None)
    if refusal is None:
        answer = answers[-1]
        if int(answer if durability == "replica" else answer[0]):
            return replies
    mark = Unconfirmed(None, durability, reason=str(refusal or ""))
    return [
        mark.mark(reply)
        if needs_confirmation((command,)) and not isinstance(reply, Exception)
        else reply
        for command, reply in zip(commands, replies, strict=True)
    ]


def confirmation_of(durability: Durability) -> Confirmation | None:
    """Make the confirmation that a durability asks for; None for "async"."""
    return None if durability == "async" else Confirmation(durability)
