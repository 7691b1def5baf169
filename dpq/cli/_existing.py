"""Queues that must exist: a misspelt name is refused, with the nearest one.

Commands that look at a queue, or change its tasks, open it here. Commands that may come before the
first push (`push`, `pop`, `worker`, `pause`, `limit set`, ...) do not.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq import DPQ, Verdict
from dpq.cli._terminal import Failed, talk
from dpq.model.verdict import server_away
from dpq.queue.looking import looking, no_answer
from dpq.registry.all_queues import missing_queue


def judged(url: str, queue: str) -> Verdict:
    """Make the verdict on a queue, also if it does not exist, or if its server does not answer."""
    try:
        with DPQ[Any].from_url(url, queue) as q:
            return looking(q).why()
    except AuthenticationError:  # the server has answered
        raise
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        return away_now(queue, error)


def away_now(queue: str, error: Exception) -> Verdict:
    """Make the verdict on a queue whose server has not answered just now."""
    return server_away(queue, no_answer(error), time.time() * 1000)


@contextmanager
def answering(queue: str) -> Iterator[None]:
    """Say, by the verdict on a queue, that its server does not answer in the body of a `with`.

    Raises:
        Failed: It does not.
    """
    try:
        yield
    except AuthenticationError:  # the server has answered
        raise
    except (RedisConnectionError, RedisTimeoutError) as error:
        raise Failed(str(away_now(queue, error))) from error


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
        with answering(queue):
            missing = missing_queue(q)
        if missing and not awaited:
            raise Failed(missing)
        if missing:
            talk(missing)
        yield q
