"""Directories, files and sockets that only this user can reach.

A data directory, its files and the socket are for one user: a user who could write there could read
the tasks, or answer instead of the server.
"""

import contextlib
import grp
import hashlib
import os
import pwd
import stat
from pathlib import Path

from dpq.model.errors import ConfigurationError

SOCKET_BYTES = 100  # sun_path holds 108 bytes on Linux, 104 on macOS, with the final zero
SHARED = "/tmp"  # noqa: S108 - for sockets: TMPDIR may be long; what is used there is checked


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


def require_safe_way(directory: Path) -> None:
    """Refuse a data directory that another user could replace, from a directory above it.

    Only this user and root may own those directories. Nobody else may write in them, unless their
    sticky bit keeps others from renaming, as in /tmp, or their group is this user's own, as where
    the umask is 002.
    """
    for parent in directory.parents:
        try:
            status = parent.stat()
        except FileNotFoundError:  # it is made for this user
            continue
        writable = status.st_mode & 0o002 or (
            status.st_mode & 0o020 and not _own_group(status.st_gid)
        )
        if status.st_uid not in (0, os.geteuid()):
            fault, way_out = f"belongs to user {status.st_uid}", f"`chown` of {parent}"
        elif writable and not status.st_mode & stat.S_ISVTX:
            mode = f"{status.st_mode & 0o7777:o}"
            fault, way_out = f"may be written by others (mode {mode})", f"`chmod go-w {parent}`"
        else:
            continue
        raise ConfigurationError(
            f"cannot use {directory} as a data directory: {parent} above it {fault}, so another "
            f"user could put a directory in its place. Use one below your home, or {way_out}"
        )


def _own_group(gid: int) -> bool:
    """Return True for root's group, and for the group that only this user is in."""
    try:
        user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(gid)
    except KeyError:  # a container that knows no names
        return gid in (0, os.geteuid())
    return gid == 0 or (group.gr_name == user and set(group.gr_mem) <= {user})


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
    """Choose the path of a socket, short enough for the kernel, where only this user can put one.

    First the directory itself, then the user's runtime directory, then one below /tmp.
    """
    path = directory / "server.sock"
    if fits(path):
        return path
    user = os.geteuid()
    name = f"dpq-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    for runtime in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        path = Path(runtime) / name
        if path.is_absolute() and _is_private(path.parent) and fits(path):
            return path
    shared = Path(SHARED, f"dpq-{user}")
    with contextlib.suppress(FileExistsError):
        shared.mkdir(mode=0o700)
    if not _is_private(shared):
        raise ConfigurationError(
            f"the path of {directory} is too long for a socket in it, and {shared} is not a "
            f"directory of user {user} alone. Use a shorter path, or set XDG_RUNTIME_DIR to a "
            "directory of yours with mode 700"
        )
    return shared / name


def _is_private(directory: Path) -> bool:
    """Return True for a directory of this user, no link, which no other user may enter."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    mine = status.st_uid == os.geteuid()
    return mine and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
