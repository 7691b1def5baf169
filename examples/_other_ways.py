"""Ways to crawl under a rate limit that crawler.py is compared with."""

import time
from contextlib import suppress

from crawler import LEASE_S, Tell, describe, visit

from dpq import DPQ, LeaseLostError, Push, RateLimited, TaskNotFoundError


def consume_fifo(url: str, queue_name: str, tell: Tell) -> None:
    """First in, first out; who is told to wait sleeps with the task in hand, and asks again."""
    with DPQ.from_url(url, queue_name, default_visibility=LEASE_S) as q:
        while q.size():
            with suppress(LeaseLostError, TaskNotFoundError), q.lease(timeout=1) as task:
                while task:
                    try:
                        visit(q, task, describe_fifo, tell)
                    except RateLimited as limit:
                        time.sleep(limit.retry_after)
                    else:
                        break


def describe_fifo(page: str, references: int = 0) -> Push[str]:
    """Say how a page waits: behind all that came before it."""
    return Push(payload=page, key=page)


def consume_original(url: str, queue_name: str, tell: Tell) -> None:
    """As the original DPQ did: who is told to wait hides that one task, and takes the next."""
    with DPQ.from_url(url, queue_name, default_visibility=LEASE_S) as q:
        while q.size():
            task, _, set_visibility = q.pop(timeout=1)
            with suppress(LeaseLostError, TaskNotFoundError):
                try:
                    if task:
                        visit(q, task, describe_original, tell)
                except RateLimited as limit:
                    set_visibility(limit.retry_after)


def describe_original(page: str, references: int = 0) -> Push[str]:
    """Say how a page waits: the more modules import it the sooner; no group for its host."""
    return Push(payload=page, key=page, priority=references, on_duplicate="raise_priority")


def consume_fifo_with_limits(url: str, queue_name: str, tell: Tell) -> None:
    """As crawler.py does, but without priorities."""
    with DPQ.from_url(url, queue_name, default_visibility=LEASE_S) as q:
        while q.size():
            with suppress(LeaseLostError, TaskNotFoundError), q.lease(timeout=1) as task:
                if task:
                    visit(q, task, describe_fifo_with_limits, tell)


def describe_fifo_with_limits(page: str, references: int = 0) -> Push[str]:
    """Say how a page waits: behind all that came before it, in the group of its host."""
    return Push(payload=page, key=page, group=describe(page).group)
