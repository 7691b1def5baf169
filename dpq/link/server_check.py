"""The check of each server, once in a process: is it new enough, and does it keep tasks safe?"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redis.utils import str_if_bytes

from dpq.link.cluster import reachable
from dpq.model.diagnosis import explain, server_problems, wants_save
from dpq.model.errors import ServerWarning
from dpq.script.assembly import script, script_names
from dpq.script.durability import Durability, require_fsync
from dpq.script.replies import require_version

NO_REDIS = (
    " (no Redis here? The URL embedded:./queue starts a server of DPQ's own; on the command line "
    "--url embedded:./queue)"
)

_looked_at: set[str] = set()
"""The servers that this process has checked, by INFO's `run_id`; a restart changes it."""


def needs_save(info: Mapping[str, Any], redis: Any) -> bool:
    """Return True if tasks depend on the setting `save`: no AOF, and no private server."""
    pool = getattr(redis, "connection_pool", None)
    path = getattr(pool, "connection_kwargs", {}).get("path")
    if not wants_save(info):
        return False
    if not path:
        return True
    from dpq.server import MARKER  # here: only a POSIX system can run a private server

    return not Path(path).with_name(MARKER).exists()


def read_setting(reply: Any) -> str | None:
    """Read the value of a setting from the answer to CONFIG GET, of either protocol."""
    values = list(reply.values()) if isinstance(reply, dict) else reply[1:]
    return str(str_if_bytes(values[0])) if values else None


def is_new(info: Mapping[str, Any], durability: Durability, label: str) -> bool:
    """Refuse a server that is too old; return True for one that this process has not checked."""
    require_version(info)
    if durability == "fsync":
        require_fsync(info)
    run_id = str(info.get("run_id") or label)
    known = run_id in _looked_at
    _looked_at.add(run_id)
    return not known


def warn(info: Mapping[str, Any], save: str | None, label: str) -> None:
    """Warn of settings that endanger tasks on this server."""
    for problem in server_problems(info, save):
        if problem.kind in ("eviction", "no persistence"):
            text = " ".join(explain(problem))
            warnings.warn(f"{label}: {text}", ServerWarning, stacklevel=3)


def scripts_there(client: Any) -> bool:
    """Return True if the server, in a cluster each master, knows every script."""
    shas = [script(name).sha for name in script_names()]
    with reachable():
        return all(client.script_exists(*shas))


def unreachable(label: str, error: Exception) -> str:
    """Say which server cannot be reached; if there is no Redis, also how to go on."""
    text = f"cannot reach {label}: {error}"
    # The last text is from asyncio.
    nobody = ("connection refused", "no such file", "connect call failed")
    return f"{text}{NO_REDIS}" if any(part in text.lower() for part in nobody) else text
