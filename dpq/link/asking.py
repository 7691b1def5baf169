# Made from asking_async.py by `make twins`: change that file, not this one.
"""Asks through the client itself, for what an own connection could not send, or got no reply to.

A server forgets its scripts when it starts, and a replica that takes over never had them. Then a
call sends the text (EVAL). If the Redis user may not call EVAL, all scripts are loaded. If it may
not load them either, calls are refused until `dpq doctor --load-scripts` or a scheduler does.
"""

import time
from typing import Any

from redis.exceptions import (
    ClusterError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    ResponseError,
)

from dpq.link import internals
from dpq.link.cluster import CANNOT_LOAD, NotWrittenError, forbidden, may_not_eval, reachable
from dpq.link.shared import pause
from dpq.script.assembly import script, script_names
from dpq.script.command import Command, script_call

RIDE_OUT_SECONDS = 3.0
"""Seconds for which a call that no server has run is repeated. While a slot moves, its keys are on
two nodes. During a failover a cluster refuses every call. redis-py alone repeats for 0.4 s."""

_PAUSE_SECONDS = 0.1


def ask(client: Any, *command: Any) -> Any:
    """Send a command through a client, with its retries and redirections; return the raw reply."""
    give_up = time.monotonic() + RIDE_OUT_SECONDS
    while True:
        try:
            with reachable():
                return client.execute_command(*command, **internals.RAW)
        except MovedError as error:  # a client of a cluster would have followed it
            told = "this server is a node of a cluster: write redis+cluster:// in its URL"
            raise ResponseError(told) from error
        except (ClusterError, NotWrittenError):
            if time.monotonic() > give_up:
                raise
        pause(_PAUSE_SECONDS)


def load_scripts(client: Any) -> int:
    """Load every script, in a cluster into all masters."""
    names = script_names()
    with reachable():
        for name in names:
            client.script_load(script(name).text)
    return len(names)


def ask_by_script(client: Any, command: Command[Any]) -> Any:
    """Call a script through a client, by its hash; if the server does not know it, by its text."""
    by_hash = script_call(command, as_text=False)
    try:
        return ask(client, *by_hash)
    except NoScriptError:
        pass
    try:
        return ask(client, *script_call(command, as_text=True))
    except ResponseError as refusal:
        if not may_not_eval(refusal):
            raise
    try:
        load_scripts(client)
    except ResponseError as refusal:
        if not forbidden(refusal):
            raise
        raise NoPermissionError(f"{CANNOT_LOAD}: {refusal}") from None
    return ask(client, *by_hash)
