"""Loads the scripts into a server that does not know them. Must not know about tasks.

A server forgets its scripts when it starts, and a replica that takes over never had them. Then
`connections` sends the text (EVAL). If the Redis user may not call EVAL, it loads all scripts. If
it may not load them either, its calls are refused until `dpq doctor --load-scripts` or a scheduler
loads them.
"""

import re
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from dpq.link.cluster import forbidden, reachable
from dpq.script.assembly import script, script_names

_EVAL = re.compile("'eval' command", re.IGNORECASE)

_WAY_OUT = (
    "the server does not know DPQ's scripts (it forgets them when it starts, and a replica that "
    "takes over never had them), and this user may not load them: run `dpq doctor --load-scripts` "
    "as a user with +script|load, or a scheduler as one (docs/security.md)"
)


def may_not_eval(error: object) -> bool:
    """Return True if a server has refused EVAL itself, not a command in the script."""
    return forbidden(error) and bool(_EVAL.search(str(error)))


def scripts_there(client: Any) -> bool:
    """Return True if the server, in a cluster each master, knows every script."""
    shas = [script(name).sha for name in script_names()]
    with reachable():
        return all(client.script_exists(*shas))


def load_scripts(client: Any) -> int:
    """Load every script, in a cluster into all masters."""
    names = script_names()
    with reachable():
        for name in names:
            client.script_load(script(name).text)
    return len(names)


def load_instead(client: Any) -> None:
    """Load every script, since the Redis user may not call EVAL."""
    try:
        load_scripts(client)
    except ResponseError as refusal:
        raise _explained(refusal) from None


async def load_instead_async(client: Any) -> None:
    """Async `load_instead`."""
    try:
        with reachable():
            for name in script_names():
                await client.script_load(script(name).text)
    except ResponseError as refusal:
        raise _explained(refusal) from None


def _explained(refusal: ResponseError) -> ResponseError:
    return NoPermissionError(f"{_WAY_OUT}: {refusal}") if forbidden(refusal) else refusal
