"""Queues that must exist: a misspelt name is refused, with the nearest one.

Commands that look at a queue, or change its tasks, open it here. Commands that may come before the
first push (`push`, `pop`, `worker`, `pause`, `limit set`, ...) do not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError

from dpq import DPQ, Verdict
from dpq.cli._terminal import Failed, server_away_by, talk
from dpq.queue.looking import looking
from dpq.registry.all_queues import missing_queue


def judged(url: str, queue: str) -> Verdict:
    """Make the verdict on a queue, also if it does not exist, or if its server does not answer."""
    try:
        with DPQ[Any].from_url(url, queue) as q:
            return looking(q).why()
    except RedisError as error:
        if away := server_away_by(error, queue):
            return away
        raise


@contextmanager
def existing(url: str, queue: str, *, awaited: bool = False) -> Iterator[DPQ[Any]]:
    """Open a queue for the body of a `with`.

    Args:
        url: The server.
        queue: The name.
        awaited: If the queue does not exist, only say so, and go on: it may come later.

    Raises:
        Failed: Nothing of a queue of this name is stored.
    """
    with DPQ[Any].from_url(url, queue) as q:
        missing = missing_queue(q)
        if missing and not awaited:
            raise Failed(missing)
        if missing:
            talk(missing)
        yield q
