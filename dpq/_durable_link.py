"""`Link` for a queue whose calls return when what they have changed is confirmed: `durability`.

Scripts, and the words that wait for them, go over one connection of our own. Where the client had
to send a script, since a slot of a cluster moves or a connection was cut twice, the caller is told
that nothing is confirmed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from dpq._command import Command
from dpq._durable import (
    Durability,
    Unconfirmed,
    Words,
    confirmation,
    promises,
    require_direct,
    vouched,
)
from dpq._link import MISSING, Link, Packer, bulk_strings
from dpq._nodes import Node, refused

TRIES = 2
"""To get a confirmation too, before a script whose connection was cut goes through the client."""

BY_CLIENT = "its connection was cut or it was sent elsewhere, and the client has sent it again"


class MixedPacker(Packer):
    """Packs scripts and other words."""

    def _pack(self, command: Any) -> bytes:
        if isinstance(command, Words):
            return b"*%d\r\n%b" % (len(command.words), bulk_strings(command.words))
        return super()._pack(command)


def by_text(command: Command[Any]) -> Words:
    """A command for a server that does not know its script."""
    return Words(("EVAL", command.script.text, len(command.keys), *command.keys, *command.args))


def timeout_of(node: Node) -> float | None:
    """The seconds after which the client takes a connection for dead."""
    pool = getattr(node.client, "connection_pool", node.client)
    timeout: float | None = pool.connection_kwargs.get("socket_timeout")
    return timeout


def judged(
    durability: Durability, commands: Sequence[Command[Any]], replies: list[Any]
) -> list[Any]:
    """The replies of commands, out of all that came: the last is what the waiting was answered."""
    *replies, _, answer = replies
    if answer is MISSING:
        answer = RedisConnectionError("the connection was cut")
    return [
        vouched(durability, reply, answer)
        if promises((command,)) and reply is not MISSING and not isinstance(reply, Exception)
        else reply
        for command, reply in zip(commands, replies, strict=True)
    ]


class DurableLink(Link):
    """Sends commands; in the place of a reply that is not confirmed stands an `Unconfirmed`."""

    def __init__(self, client: Any, durability: Durability) -> None:
        super().__init__(client)
        require_direct(durability, self.nodes.direct, client)
        self._durability = durability
        self._only = None  # no short way past `_send`

    @staticmethod
    def _make_packer() -> Packer:
        return MixedPacker()

    def _send(
        self, node: Node, commands: Sequence[Command[Any]], *, known: bool = True
    ) -> Callable[[], list[Any]]:
        words: list[Any] = [command if known else by_text(command) for command in commands]
        if not promises(commands):
            return self._way(node).send(words)
        words += confirmation(self._durability, commands, timeout_of(node))
        receive = self._way(node).send(words)
        return lambda: judged(self._durability, commands, receive())

    def _again(self, command: Command[Any], *, known: bool) -> Any:
        if not promises((command,)):
            return super()._again(command, known=known)
        for _ in range(TRIES):
            node = self.nodes.of(command.keys[0])
            if node is None:
                break
            (reply,) = self._send(node, (command,), known=known)()
            known = known and not isinstance(reply, NoScriptError)
            if refused(reply):
                self.nodes.lost(node)  # the slot is elsewhere
            elif reply is not MISSING and not isinstance(reply, NoScriptError):
                return reply
        reply = self._by_client(command, known=known)
        if isinstance(reply, Exception):
            return reply
        return Unconfirmed(reply, self._durability, reason=BY_CLIENT)


def link_for(client: Any, durability: Durability) -> Link:
    """The way to the servers behind a client."""
    return Link(client) if durability == "async" else DurableLink(client, durability)
