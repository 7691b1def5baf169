"""All queues of a server: their names, one question to many queues, and the server's setup.

The scheduler, the sampler, the command line and the dashboard call it. Code about the tasks of one
queue stands in `queue/`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from dpq.explain.operations import Operations
from dpq.explain.verdict import no_such_queue
from dpq.link.asking import ask
from dpq.link.cluster import reachable
from dpq.link.connections import Connections
from dpq.link.server_check import keeps_nothing_on_purpose
from dpq.link.session import Session, save_points
from dpq.model.diagnosis import server_problems, wants_save
from dpq.model.errors import ConfigurationError
from dpq.model.reports import Problem
from dpq.queue.base import operations_named
from dpq.queue.inside import session_of
from dpq.registry.names import absent
from dpq.script.command import Steps
from dpq.script.keys import REGISTRY, key_of

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
    redis, here = (
        queue.redis,
        session_of(queue).connections.aimed(key_of(queue.queue_name, "conf")),
    )
    try:
        with reachable():
            info = redis.info(**here)
    except ResponseError:
        return [], ["+info", "+config|get"]
    if not wants_save(info) or keeps_nothing_on_purpose(redis):
        return server_problems(info, None), []
    save = save_points(redis, here)
    return server_problems(info, save), ["+config|get"] if save is None else []


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
            session = Session(redis, Connections(redis), queue_name=next(iter(queues)))
            session.check_server()
        if session:
            steps = [after_opening(queue, what) for queue in queues.values()]
            answers |= zip(queues, session.send_all(steps), strict=True)
        yield from answers.items()
    if session:
        session.close()


def after_opening(
    queue: Operations[Any], what: Callable[[Operations[Any]], Steps[Any]]
) -> Steps[Any]:
    """Read a queue's settings, then run an operation on it; the server must be checked before."""
    if queue.settings is None:
        queue.agree((yield from queue.open()))
    return (yield from what(queue))
