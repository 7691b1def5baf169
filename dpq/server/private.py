"""Directories, files and sockets that only this user can reach.

A data directory, its files and the socket are for one user: a user who could write there could read
the tasks, or answer instead of the server.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from dpq.model.errors import ConfigurationError

SOCKET_BYTES = 100  # sun_path holds 108 bytes on Linux, 104 on macOS, with the final zero


def require_own(directory: Path) -> None:
    """Refuse a data directory in which another user could put files in place of the server's."""
    status = directory.stat()
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            f"cannot use {directory} as a data directory: it belongs to user {status.st_uid}, and "
            f"this process is user {os.geteuid()}. Use a directory of your own (if it does not "
            "exist yet, it is created), or change the owner with chown"
        )
    if status.st_mode & 0o022:
        raise ConfigurationError(
            f"cannot use {directory} as a data directory: other users may write there (mode "
            f"{status.st_mode & 0o7777:o}). Forbid that with `chmod go-w {directory}`, or use "
            "another directory (if it does not exist yet, it is created for you alone)"
        )


def close_to_others(directory: Path) -> None:
    """Make files private that a copy of the directory has left readable."""
    for name in ("appendonlydir", "appendonly.aof", "server.log"):
        with contextlib.suppress(FileNotFoundError):
            path = directory / name
            path.chmod(path.stat().st_mode & 0o700)


def open_private(path: str, flags: int) -> int:
    """Open a file that, when it is new, only this user may read: an `opener`."""
    return os.open(path, flags, 0o600)


def fits(path: Path) -> bool:
    """Return True if the kernel takes the path of a socket."""
    return len(os.fsencode(path)) <= SOCKET_BYTES


def new_socket(directory: Path) -> Path:
    """Choose the path of a socket: in the directory, or in a new one if that is too long."""
    path = directory / "server.sock"
    return path if fits(path) else Path(tempfile.mkdtemp(prefix="dpq-", dir="/tmp"), path.name)
