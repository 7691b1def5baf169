"""The session, the operations and the leases of a queue object, for other rooms of DPQ.

Workers, the scheduler, the dashboard and the command line use it. The verbs are for all callers.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.model.task import P
    from dpq.queue.base import QueueBase
    from dpq.queue.lease_renewal import Leases

S = TypeVar("S", covariant=True)
"""The type of a session."""


class HasSession(Protocol[S]):
    """A queue object, blocking or asyncio."""

    @property
    def _session(self) -> S: ...


def session_of(queue: HasSession[S]) -> S:
    """Return the session of a queue object, which sends operations."""
    return queue._session


def operations_of(queue: QueueBase[P]) -> Operations[P]:
    """Return the operations of a queue object."""
    return cast("Operations[P]", queue._session.operations)


def leases_of(queue: QueueBase[Any]) -> Leases:
    """Return the leases that a queue object extends; in a forked child it has others."""
    return queue._leases


def process_name() -> str:
    """Return the name of this process, for people who look for it: `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"
