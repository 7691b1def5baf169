"""Connections for `durability`: a call returns once its changes are confirmed.

`DPQ` uses it. Scripts, and the WAIT behind them, go over one connection of DPQ's own:

    EVALSHA push, EVALSHA ack, HINCRBY, WAIT    one WAIT confirms all before it

If the client itself had to send a script, since a slot moves or a connection was cut twice, the
caller gets `NotConfirmedError`. Must not know what a script does.
"""

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from dpq.protocol.command import Command, same
from dpq.protocol.durability import (
    Durability,
    Unconfirmed,
    Words,
    confirmation,
    missing_confirmation,
    promises,
    require_direct,
)
from dpq.protocol.keys import STORAGE_FORMAT, key_of, queue_of
from dpq.protocol.scripts import script
from dpq.transport.cluster import Node, refused
from dpq.transport.connections import MISSING, Connections, Packer, bulk_strings
from dpq.transport.script_loading import load_instead, may_not_eval

TRIES = 2
"""Tries over DPQ's own connection, after which the client sends a script whose connection was cut:
only the former can be confirmed."""

BY_CLIENT = "its connection was cut or it was sent elsewhere, and the client has sent it again"


class WaitedInVainError(NoScriptError):
    """The error for a script that the server does not know, after a WAIT that was not answered in
    time: the call has waited as long as it may."""

    def __init__(self, unconfirmed: Unconfirmed) -> None:
        super().__init__("unknown script")
        self.unconfirmed = unconfirmed


class SettingsWatch:
    """Lets the settings of partitioned queues be confirmed once, before the first task is.

    The first partition has the settings, often on another server than the task. If its replica has
    not got them and takes over, a later client would not find the task.
    """

    def __init__(self, durability: Durability) -> None:
        self._durability = durability
        self._confirmed: set[str] = set()  # names of queues whose settings are confirmed

    def asks(self, commands: Sequence[Command[Any]]) -> dict[str, Command[Any]]:
        """Make the commands to send along, by queue: a read of its settings, to be confirmed."""
        asks: dict[str, Command[Any]] = {}
        for command in commands:
            name = queue_of(command.keys[0])
            if command.script.name in ("configure", "drop"):  # the settings may change
                self._confirmed.discard(name)
            elif name not in self._confirmed and promises((command,)) and _elsewhere(command):
                called = script("configure")
                keys = tuple(key_of(name, part) for part in called.parts)
                asks[name] = Command(called, keys, ["", STORAGE_FORMAT, 0], same)
        return asks

    def settle(
        self, commands: Sequence[Command[Any]], replies: list[Any], asks: dict[str, Command[Any]]
    ) -> list[Any]:
        """Return the replies of the commands, `Unconfirmed` if that of their read is."""
        answers = dict(zip(asks, replies[len(commands) :], strict=True))
        replies = replies[: len(commands)]
        for name, answer in answers.items():
            if isinstance(answer, Exception):
                answers[name] = Unconfirmed(None, self._durability, reason=str(answer))
            elif not isinstance(answer, Unconfirmed) and b"format" in answer:
                self._confirmed.add(name)
        for i, command in enumerate(commands if asks else ()):
            answer = answers.get(queue_of(command.keys[0]))
            if isinstance(answer, Unconfirmed) and promises((command,)) and _elsewhere(command):
                replies[i] = as_unconfirmed(answer, replies[i])
        return replies


def _elsewhere(command: Command[Any]) -> bool:
    return key_of(queue_of(command.keys[0]), command.script.parts[0]) != command.keys[0]


def as_unconfirmed(unconfirmed: Unconfirmed, reply: Any) -> Any:
    """Mark a reply as not confirmed; an error stays, since its script has not run."""
    if isinstance(reply, Exception | Unconfirmed):
        return reply
    return unconfirmed._replace(reply=reply)


class MixedPacker(Packer):
    """Packs scripts and plain Redis commands."""

    def _pack(self, command: Any) -> bytes:
        if isinstance(command, Words):
            return b"*%d\r\n%b" % (len(command.words), bulk_strings(command.words))
        return super()._pack(command)


def by_text(command: Command[Any]) -> Words:
    """Make the EVAL of a command, for a server that does not know its script."""
    return Words(("EVAL", command.script.text, len(command.keys), *command.keys, *command.args))


def timeout_of(node: Node) -> float | None:
    """Return the client's timeout for a reply, seconds."""
    pool = getattr(node.client, "connection_pool", node.client)
    timeout: float | None = pool.connection_kwargs.get("socket_timeout")
    return timeout


class ConfirmedCommands:
    """Commands with the WAIT that confirms them.

    Attributes:
        words: All commands to send.
    """

    def __init__(
        self,
        durability: Durability,
        commands: Sequence[Command[Any]],
        words: Sequence[Any],
        timeout: float | None,
    ) -> None:
        before, behind = confirmation(durability, commands, timeout)
        self.words = [*before, *words, *behind]
        self._durability, self._commands, self._first = durability, commands, len(before)

    def results(self, replies: list[Any]) -> list[Any]:
        """Read all replies; return those of the commands, with `Unconfirmed` if needed."""
        first, last = self._first, self._first + len(self._commands)
        answers = replies[:first] + replies[last:]
        replies = replies[first:last]
        if answers[-1] is MISSING:
            answers = [RedisConnectionError("the connection was cut")]
        unconfirmed = missing_confirmation(self._durability, answers)
        if unconfirmed is None:
            return replies
        for i, command in enumerate(self._commands):
            if isinstance(replies[i], NoScriptError):
                replies[i] = WaitedInVainError(unconfirmed)
            elif promises((command,)) and replies[i] is not MISSING:
                replies[i] = as_unconfirmed(unconfirmed, replies[i])
        return replies


class ConfirmedConnections(Connections):
    """Sends commands; a reply that is not confirmed becomes an `Unconfirmed`."""

    def __init__(self, client: Any, durability: Durability) -> None:
        super().__init__(client)
        require_direct(durability, self.nodes.direct, client)
        self._durability = durability
        self._settings = SettingsWatch(durability)
        self._only = None  # so that `begin` calls `_send`

    @staticmethod
    def _make_packer() -> Packer:
        return MixedPacker()

    def begin(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands, as `Connections.begin` does."""
        asks = self._settings.asks(commands)
        receive = super().begin([*commands, *asks.values()])
        return lambda: self._settings.settle(commands, receive(), asks)

    def _send(
        self, node: Node, commands: Sequence[Command[Any]], *, known: bool = True
    ) -> Callable[[], list[Any]]:
        words: list[Any] = [command if known else by_text(command) for command in commands]
        if not promises(commands):
            return self._endpoint(node).send(words)
        confirmed = ConfirmedCommands(self._durability, commands, words, timeout_of(node))
        receive = self._endpoint(node).send(confirmed.words)
        return lambda: confirmed.results(receive())

    def _again(self, command: Command[Any], refusal: Any) -> Any:
        if not promises((command,)):
            return super()._again(command, refusal)
        known = not isinstance(refusal, NoScriptError)
        for _ in range(TRIES):
            node = self.nodes.of(command.keys[0])
            if node is None or isinstance(refusal, WaitedInVainError):
                break
            (refusal,) = self._send(node, (command,), known=known)()
            known = known and not isinstance(refusal, NoScriptError)
            if may_not_eval(refusal):
                try:
                    load_instead(self._client)
                except RedisError as error:
                    return error
                known = True
            elif refused(refusal):
                self.nodes.lost(node)  # the slot is elsewhere
            elif refusal is not MISSING and not isinstance(refusal, NoScriptError):
                return refusal
        return as_unconfirmed(self._by_now(refusal), self._by_client(command, known=known))

    def _by_now(self, refusal: Any) -> Unconfirmed:
        """Make the `Unconfirmed` of a script that the client sends."""
        if isinstance(refusal, WaitedInVainError):
            return refusal.unconfirmed
        return Unconfirmed(None, self._durability, reason=BY_CLIENT)


def connections_for(client: Any, durability: Durability) -> Connections:
    """Make the connections to the servers behind a client."""
    return (
        Connections(client) if durability == "async" else ConfirmedConnections(client, durability)
    )
