"""All queues of a server: their names, one question to many queues, and the server's setup.

The scheduler, the sampler, the command line and the dashboard call it. A Redis user with the right
to write the list of names may write any text into it, so a name must not be trusted.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from dpq.explain.operations import Operations
from dpq.explain.verdict import no_such_queue
from dpq.link.cluster import forbidden
from dpq.link.connections import Connections, ask
from dpq.link.server_check import needs_save
from dpq.link.session import Session
from dpq.model.diagnosis import server_problems
from dpq.model.errors import ConfigurationError
from dpq.model.reports import Problem
from dpq.model.validation import queue_label
from dpq.queue.base import operations_named
from dpq.queue.inside import session_of
from dpq.script.assembly import script
from dpq.script.command import Command, CommandMaker, Steps, once, same
from dpq.script.keys import REGISTRY
from dpq.script.replies import Glance, read_glance
from dpq.verbs.queue import QueueOperations

if TYPE_CHECKING:
    from dpq.queue.queue import DPQ

NAMES_A_CALL = 500
"""Names of queues in one round trip: about 0.1 ms of server time."""

QUEUES_A_CALL = 100
"""Queues in one round trip of `ask_queues`: 5 ms of server time for their counts, 30 ms for their
verdicts."""


def inspect_server(queue: "DPQ[Any]") -> tuple[list[Problem], list[str]]:
    """Check the setup of a queue's server; a setting that the server does not show counts as good.

    Returns:
        The problems that endanger tasks, and the rights that are missing to see all settings.
    """
    session = session_of(queue)
    try:
        info = session.info()
    except ResponseError:
        return [], ["+info", "+config|get"]
    save = session.save_points(info)
    missing = save is None and needs_save(info, queue.redis)
    return server_problems(info, save), ["+config|get"] if missing else []


def some_names(redis: Any, cursor: int = 0) -> tuple[int, list[bytes]]:
    """Read a part of the list of names, and the next cursor: 0 after the last part."""
    at, names = ask(redis, "SSCAN", REGISTRY, cursor, "COUNT", NAMES_A_CALL)
    return int(at), names


def all_names(redis: Any) -> list[bytes]:
    """Read the list of names, in bounded steps."""
    cursor, names = some_names(redis)
    found = set(names)
    while cursor:
        cursor, names = some_names(redis, cursor)
        found.update(names)
    return sorted(found)


def known_queues(redis: Any) -> list[str]:
    """List the names of all queues on a server or a cluster, in alphabetical order."""
    return sorted(name.decode("utf-8", "replace") for name in all_names(redis))


def missing_queue(queue: "DPQ[Any]") -> str:
    """Say that a queue does not exist, with the nearest name; "" if anything of it is stored.

    If the Redis user may not look, the queue counts as existing.
    """
    session = session_of(queue)
    session.ready()
    if session.operations.settings is not None:
        return ""
    try:
        if not session.send(absent(queue.queue_name)):
            return ""
    except ResponseError:
        return ""
    try:
        names = known_queues(queue.redis)
    except ResponseError:
        names = []
    return no_such_queue(queue.queue_name, names)


def forget_queues(redis: Any, names: Sequence[bytes]) -> int:
    """Remove names from the list; return how many were there. The queues themselves stay."""
    return int(ask(redis, "SREM", REGISTRY, *names))


def ask_queues(
    redis: Any, names: Sequence[bytes], what: Callable[[Operations[Any]], Steps[Any]]
) -> Iterator[tuple[str, Any]]:
    """Run one operation on several queues over one connection, some queues in each round trip.

    Yields:
        The name of a queue, and its answer, or the error instead of an answer.
    """
    session: Session | None = None
    for start in range(0, len(names), QUEUES_A_CALL):
        answers: dict[str, Any] = {}
        queues: dict[str, Operations[Any]] = {}
        for raw in names[start : start + QUEUES_A_CALL]:
            name = raw.decode("utf-8", "backslashreplace")
            answers[name] = ConfigurationError("it is no name of a queue: not UTF-8")
            try:
                queues[name] = operations_named(raw.decode())
            except ConfigurationError as error:
                answers[name] = error
            except UnicodeDecodeError:
                continue
        if session is None and queues:
            session = Session(Connections(redis), next(iter(queues.values())).conf)
            session.check_server()
        if session:
            steps = [queue.after_opening(partial(what, queue)) for queue in queues.values()]
            answers |= zip(queues, session.send_all(steps), strict=True)
        yield from answers.items()
    if session:
        session.close()


# The list of names


def readable(names: Sequence[bytes]) -> tuple[list[str], list[bytes]]:
    """Divide names into possible names of queues, and others."""
    good, bad = [], []
    for raw in names:
        try:
            good.append(queue_label(raw.decode()))
        except (UnicodeDecodeError, ConfigurationError):
            bad.append(raw)
    return good, bad


def absent(name: str) -> Steps[bool]:
    """Return True if nothing of a queue is stored."""
    return CommandMaker(name)._ask("absent", [], bool)


def glance(queues: Sequence[QueueOperations[Any]], *, names: bool) -> Steps[Glance]:
    """Read the next moments of queues that one server holds.

    Args:
        queues: The queues, which are opened; at least one without `names`.
        names: Count the names of the list, too.
    """
    confs = [queue.conf for queue in queues]
    keys = (REGISTRY if names else confs[0], *confs)
    return once(Command(script("glance"), keys, [""], read_glance))


class Sieve:
    """Finds the names that are queues, and removes the others from the list.

    A producer may create a queue between the look and the removal. It first writes the settings,
    then it looks at the list. `is_queue` first removes the name, then it looks again. So at least
    one of them sees the other. Either the producer finds the name missing and adds it, or
    `is_queue` finds the settings and adds it. A client that opens the queue later adds it anyway.
    """

    def __init__(self) -> None:
        self.may_remove = True  # the Redis user may change the list, as far as DPQ knows

    def is_queue(self, name: str) -> Steps[bool]:
        """Return True if anything of a queue is stored; else remove its name from the list."""
        if not (yield from absent(name)):
            return True
        makes = CommandMaker(name)
        if not self.may_remove:
            return False
        try:
            yield makes._command("unregister", [name], same)
        except ResponseError as refusal:
            self.may_remove = not forbidden(refusal)
            return False
        if (yield from absent(name)):
            return False
        yield makes._command("register", [name], same)
        return True
