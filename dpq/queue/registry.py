"""The list of the names of all queues: what is a name, and whether there is a queue behind it.

Whoever may write the list may write anything into it. No I/O.
"""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from dpq.model.errors import ConfigurationError
from dpq.model.validation import queue_label
from dpq.protocol.command import CommandMaker, Steps, same
from dpq.transport.cluster import forbidden


def readable(names: Sequence[bytes]) -> tuple[list[str], list[bytes]]:
    """Divide names into those that a queue can have, and the others."""
    good, bad = [], []
    for raw in names:
        try:
            good.append(queue_label(raw.decode()))
        except (UnicodeDecodeError, ConfigurationError):
            bad.append(raw)
    return good, bad


class Sieve:
    """Finds the names that are queues, and takes the others out of the list.

    A producer may begin a queue between the look and the removal. It writes the settings first and
    looks at the list then; here the name goes first, and then there is a second look. So at least
    one of the two sees the other: either the producer finds the name missing and enters it, or this
    finds the settings and enters it. Who opens the queue later enters it in any case.

    Attributes:
        may_remove: This user may change the list, as far as is known.
    """

    def __init__(self) -> None:
        self.may_remove = True

    def is_queue(self, name: str) -> Steps[bool]:
        """Is there anything of a queue? If there is not, its name goes."""
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
