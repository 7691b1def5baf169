"""Confirmation of changes: the commands that ask for it, and what their answers mean. No I/O.

A server answers before its replicas, and often before its disk, have a change. WAIT asks the
replicas, and WAITAOF the disk, for all that one connection has written so far. So connections that
have a `Confirmation` send it behind the scripts, over the same connection and in one round trip:

    exchange = confirmation.exchange(commands, timeout)
    exchange.before            HINCRBY before a drop, else nothing
    exchange.behind            HINCRBY, WAIT 1 2100
    exchange.read(replies)     the replies of the scripts, as `Unconfirmed` if WAIT says so

It must not know how commands are sent.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from dpq.protocol.command import Command, PlainCommand, same
from dpq.protocol.durability import Durability, Unconfirmed, error_in, wait_milliseconds
from dpq.protocol.keys import STORAGE_FORMAT, beside, key_of, queue_of
from dpq.protocol.scripts import script

CONFIRMED_SCRIPTS = frozenset(
    {
        *("push", "push_plain", "seal_batch", "update", "cancel", "purge", "drop", "replay"),
        "forget",
        *("ack", "ack_plain", "fail", "release", "set_visibility", "rate_limited", "bury"),
        *("pause", "close", "delay_group", "met_limit", "set_limit", "configure", "import"),
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
        self._confirmed_settings: set[str] = set()  # names of queues whose settings are confirmed

    def exchange(self, commands: Sequence[Command[Any]], timeout: float | None) -> "Exchange":
        """Make the commands that confirm others: a write without effect, and WAIT.

        A newer server waits only for what this connection has written. If a repeated call finds its
        work done, it writes nothing. So a write without effect is added. For a drop that write
        comes before, and the drop removes it; behind the drop it would stay.

        Args:
            commands: The commands; at least one of them needs a confirmation.
            timeout: The client's own timeout, seconds.
        """
        milliseconds = wait_milliseconds(timeout)
        wait = (
            ("WAIT", 1, milliseconds)
            if self.durability == "replica"
            else ("WAITAOF", 1, 0, milliseconds)
        )
        changing = [command for command in commands if needs_confirmation((command,))]
        before = _no_effect(command for command in changing if command.script.name == "drop")
        behind = _no_effect(command for command in changing if command.script.name != "drop")
        return Exchange(self.durability, commands, before, [*behind, wait])

    def with_settings(
        self, commands: Sequence[Command[Any]]
    ) -> tuple[Sequence[Command[Any]], Callable[[list[Any]], list[Any]]]:
        """Add reads of the settings of partitioned queues, to be confirmed beside the first task.

        The first partition has the settings, often on another server than the task. If a replica
        without these settings takes over, a later client would not find the task.

        Returns:
            All commands to send, and a function: it takes the replies to all, and returns those of
            `commands`.
        """
        reads: dict[str, Command[Any]] = {}
        for command in commands:
            name = queue_of(command.keys[0])
            # These scripts may change the settings.
            if command.script.name in ("configure", "drop"):
                self._confirmed_settings.discard(name)
            elif name not in self._confirmed_settings and _needs_settings(command):
                called = script("configure")
                keys = tuple(key_of(name, part) for part in called.parts)
                reads[name] = Command(called, keys, ["", STORAGE_FORMAT, 0], same)
        if not reads:
            return commands, same
        return [*commands, *reads.values()], partial(self._judge_settings, commands, [*reads])

    def _judge_settings(
        self, commands: Sequence[Command[Any]], names: Sequence[str], replies: list[Any]
    ) -> list[Any]:
        """Mark the replies of the queues whose settings are not confirmed."""
        missing: dict[str, Unconfirmed] = {}
        for name, answer in zip(names, replies[len(commands) :], strict=True):
            if isinstance(answer, Exception):
                missing[name] = Unconfirmed(None, self.durability, reason=str(answer))
            elif isinstance(answer, Unconfirmed):
                missing[name] = answer
            elif b"format" in answer:
                self._confirmed_settings.add(name)
        replies = replies[: len(commands)]
        for position, command in enumerate(commands if missing else ()):
            unconfirmed = missing.get(queue_of(command.keys[0]))
            if unconfirmed and _needs_settings(command) and not error_in(replies[position]):
                replies[position] = unconfirmed.mark(replies[position])
        return replies

    def mark_of_client(self, command: Command[Any]) -> Unconfirmed | None:
        """Make the mark for a reply that the client gets; None if the command needs none."""
        needed = needs_confirmation((command,))
        return Unconfirmed(None, self.durability, reason=BY_CLIENT) if needed else None


class Exchange(NamedTuple):
    """Commands that travel together, and the plain commands that confirm them.

    Attributes:
        durability: The durability that is asked for.
        commands: The scripts.
        before: The plain commands that go before them.
        behind: The plain commands that go behind them; the last one waits.
    """

    durability: Durability
    commands: Sequence[Command[Any]]
    before: list[PlainCommand]
    behind: list[PlainCommand]

    @property
    def size(self) -> int:
        """The number of all commands."""
        return len(self.before) + len(self.commands) + len(self.behind)

    def read(self, replies: list[Any]) -> list[Any]:
        """Take the replies to all commands; return those of the scripts.

        If the changes are not confirmed, each reply of a script that needs it is an `Unconfirmed`.
        An error is marked too, so that a call with an unknown script does not wait a second time.
        """
        first, last = len(self.before), len(self.before) + len(self.commands)
        unconfirmed = judge(self.durability, replies[:first] + replies[last:])
        replies = replies[first:last]
        if unconfirmed is None:
            return replies
        return [
            unconfirmed.mark(reply) if needs_confirmation((command,)) else reply
            for command, reply in zip(self.commands, replies, strict=True)
        ]


def judge(durability: Durability, answers: Sequence[Any]) -> Unconfirmed | None:
    """Read the answers to the commands that confirm; return None if all is confirmed.

    If one answer is an error, the last one says nothing about the changes of an earlier call.
    """
    answer = answers[-1]
    if refusal := next((each for each in answers if isinstance(each, Exception)), None):
        return Unconfirmed(None, durability, reason=str(refusal))
    confirmed = int(answer if durability == "replica" else answer[0])
    return None if confirmed else Unconfirmed(None, durability)


def confirmation_of(durability: Durability) -> Confirmation | None:
    """Make the confirmation that a durability asks for; None for "async"."""
    return None if durability == "async" else Confirmation(durability)


def _no_effect(commands: Iterable[Command[Any]]) -> list[PlainCommand]:
    """Make a write without effect to the queue of the first command, if there is one."""
    return [
        ("HINCRBY", beside(command.keys[0], "stats"), "pushed", 0)
        for command in islice(commands, 1)
    ]


def _needs_settings(command: Command[Any]) -> bool:
    """Return True for a change in a partition that does not have the settings of its queue."""
    first = key_of(queue_of(command.keys[0]), command.script.parts[0])
    return first != command.keys[0] and needs_confirmation((command,))
