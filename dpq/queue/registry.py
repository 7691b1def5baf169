"""The list of the names of all queues: finds the names that are queues. No I/O.

The scheduler and the command line call it. A user who may write the list may write anything into
it, so a name must not be trusted.
"""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from dpq.model.errors import ConfigurationError
from dpq.model.validation import queue_label
from dpq.protocol.command import CommandMaker, Steps, same
from dpq.transport.cluster import forbidden


def readable(names: Sequence[bytes]) -> tuple[list[str], list[bytes]]:
    """Divide names into possible names of queues, and others."""
    good, bad = [], []
    for raw in names:
        try:
            good.append(queue_label(raw.decode()))
        except (UnicodeDecodeError, ConfigurationError):
            bad.append(raw)
    return good, bad


class Sieve:
    """Finds the names that are queues, and removes the others from the list.

    A producer may create a queue between the look and the removal. It first writes the settings,
    then it looks at the list. `is_queue` first removes the name, then it looks again. So at least
    one of both sees the other. Either the producer finds the name missing and adds it, or
    `is_queue` finds the settings and adds it. A client that opens the queue later adds it anyway.

    Attributes:
        may_remove: This user may change the list, as far as DPQ knows.
    """

    def __init__(self) -> None:
        self.may_remove = True

    def is_queue(self, name: str) -> Steps[bool]:
        """Return True if anything of a queue is stored; else remove its name from the list."""
        makes = CommandMaker(name, name, None)
        absent = makes._command("absent", [], same)
        if not (yield absent):
            return True
        if not self.may_remove:
            return False
        try:
            yield makes._command("unregister", [name], same)
        except ResponseError as refusal:
            self.may_remove = not forbidden(refusal)
            return False
        if (yield absent):
            return False
        yield makes._command("register", [name], same)
        return True
