"""Names of queues for the completion of the shell: `dpq --install-completion` sets it up.

A shell calls it at each press of TAB. So it is quick, writes nothing, and starts no server.
"""

import threading
from contextlib import closing, suppress
from typing import Any

import typer
from redis.exceptions import RedisError

from dpq.link.connect import open_url
from dpq.model.errors import DPQError
from dpq.registry.all_queues import known_queues

WITHIN_SECONDS = 1.0
"""Seconds for the server to answer: somebody waits at the terminal."""


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the names of queues that begin so; none if the server does not answer soon."""
    url = str(ctx.params.get("url") or ctx.find_root().params.get("url"))
    if url.startswith("embedded:"):
        return []
    names: list[str] = []
    looking = threading.Thread(target=_look, args=(url, names), daemon=True)
    looking.start()
    looking.join(WITHIN_SECONDS)
    return [name for name in names if name.startswith(incomplete)]


def _look(url: str, names: list[Any]) -> None:
    with suppress(RedisError, DPQError, OSError), closing(open_url(url)) as opened:
        names += known_queues(opened.client)
