"""What a call waits for before it returns, as data: which calls, which words, which error. No I/O.

A server answers before its replicas, and often before its disk, have what it answers for. WAIT asks
the replicas, and WAITAOF the disk, for all that one connection has written so far. So it travels
behind the scripts that it is for, over the same connection and in the same round trip.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from dpq.model.errors import ConfigurationError, NotConfirmedError
from dpq.protocol.keys import beside

Durability = Literal["async", "replica", "fsync"]
"""What has a change when the call that made it returns: the server; a replica too; its disk too."""

CONFIRM_SECONDS = 3.0
"""How long a call waits: a replica that is well answers in 1 ms, a disk within a second."""

SHARE_OF_TIMEOUT = 0.7
"""... but at most this share of the client's own timeout, which would end the connection."""

PROMISES = frozenset(
    {
        *("push", "update", "cancel", "purge", "drop", "replay"),
        *("ack", "fail", "release", "set_visibility", "rate_limited", "bury"),
        *("pause", "close", "delay_group", "set_limit", "configure"),
    }
)
"""The scripts whose answer says that something has changed for good. Not pop and extend: a lease
that is lost costs a redelivery, which may come anyway; nor upkeep, which is done again."""

WAITAOF_SINCE = (7, 2)


class Words(NamedTuple):
    """A command that is no script of ours."""

    words: tuple[Any, ...]


class Unconfirmed(NamedTuple):
    """The reply of a script that has run, and for which nobody has vouched in time.

    Attributes:
        reply: As the script gave it.
        durability: What was asked for.
        confirmed: How many replicas, or disks, have answered.
        reason: What has gone wrong, when it was not just the time.
    """

    reply: Any
    durability: Durability
    confirmed: int = 0
    reason: str = ""

    def error(self, action: str, result: Any) -> NotConfirmedError:
        """What the caller gets in the place of the result."""
        return NotConfirmedError(action, result, self.durability, self.confirmed, self.reason)


def named_durability(value: Any) -> Durability:
    """Check the setting."""
    if value not in ("async", "replica", "fsync"):
        raise ConfigurationError(
            f"durability is {value!r}: it must be 'async', 'replica' or 'fsync'"
        )
    durability: Durability = value
    return durability


def promises(commands: Sequence[Any]) -> bool:
    """Whether something among these commands is to be confirmed."""
    return any(not command.loose and command.script.name in PROMISES for command in commands)


def confirmation(
    durability: Durability, commands: Sequence[Any], timeout: float | None
) -> tuple[list[Words], list[Words]]:
    """What is sent before commands, and behind them: a write of no effect, and words that wait.

    The write, since a newer server waits for what this connection has written and for nothing else:
    a call that is repeated, and finds that all is done, has written nothing. It goes before a drop,
    which takes away what it has written: behind, it would be left.

    Args:
        durability: "replica" or "fsync".
        commands: They are to be confirmed.
        timeout: The client's own, seconds.
    """
    seconds = min(CONFIRM_SECONDS, SHARE_OF_TIMEOUT * (timeout or CONFIRM_SECONDS * 2))
    milliseconds = max(1, round(seconds * 1000))
    wait = ("WAIT", 1, milliseconds) if durability == "replica" else ("WAITAOF", 1, 0, milliseconds)
    promised = [command for command in commands if promises((command,))]
    before = _nothing(command for command in promised if command.script.name == "drop")
    behind = _nothing(command for command in promised if command.script.name != "drop")
    return before, [*behind, Words(wait)]


def _nothing(commands: Iterable[Any]) -> list[Words]:
    """A write of no effect to the queue of the first of them, if there is one."""
    return [
        Words(("HINCRBY", beside(command.keys[0], "stats"), "pushed", 0))
        for command in islice(commands, 1)
    ]


def doubt(durability: Durability, answers: Sequence[Any]) -> Unconfirmed | None:
    """What is said of all that was sent, by the answers to the words of `confirmation`.

    Without the write the last answer says nothing of what an earlier call has changed.
    """
    answer = answers[-1]
    if refusal := next((each for each in answers if isinstance(each, Exception)), None):
        return Unconfirmed(None, durability, reason=str(refusal))
    confirmed = int(answer if durability == "replica" else answer[0])
    return None if confirmed else Unconfirmed(None, durability)


def require_direct(durability: Durability, direct: bool, client: Any) -> None:
    """Refuse a client over which WAIT may take another connection than the script."""
    if not direct:
        kind = type(client)
        raise ConfigurationError(
            f"durability is {durability!r}: that needs a Redis or RedisCluster client of redis-py "
            f"itself, with a pool, and not a {kind.__module__}.{kind.__name__}, over which nobody "
            "knows which connection a command takes"
        )


def require_fsync(info: Mapping[str, Any]) -> None:
    """Refuse a server that cannot say when something is on its disk."""
    version = str(info.get("redis_version", ""))
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < WAITAOF_SINCE:
        raise ConfigurationError(
            f"durability is 'fsync', and Redis {version} has no WAITAOF: that needs Redis 7.2 or "
            "Valkey. With `appendfsync always` on the server, 'async' promises the same"
        )
    if str(info.get("aof_enabled", 1)) == "0":
        raise ConfigurationError(
            "durability is 'fsync', and the server writes no AOF: set `appendonly yes`"
        )
