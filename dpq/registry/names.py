"""The list of the names of all queues: finds the names that are queues. No I/O.

The scheduler and the command line call it. A Redis user with the right to write the list may write
any text into it, so a name must not be trusted.
"""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from dpq.link.cluster import forbidden
from dpq.model.errors import ConfigurationError
from dpq.model.validation import queue_label
from dpq.script.assembly import script
from dpq.script.command import Command, CommandMaker, Steps, once, same
from dpq.script.keys import REGISTRY
from dpq.script.replies import Glance, read_glance
from dpq.verbs.queue import QueueOperations


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
