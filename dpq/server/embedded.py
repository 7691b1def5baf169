"""Start a private server: the embedded default and the tests' fixture.

A throw-away server (`Server.start`) lives in a temporary directory and dies with its owner. A
durable one (`Server.join`) lives in a directory of the user's: all processes that join it share it,
the last one out stops it, and acknowledged writes survive. Both listen on a unix socket only, and
have two lock files (flock(2), so a durable directory belongs on a local disk):

    use.lock      shared by every user; held exclusively by the keeper while it stops the server
    server.lock   held exclusively by the keeper and its server, from before the start to the end

The process that gets `server.lock` starts the server, through a keeper (`supervisor.py`). The
others wait until the server answers. The keeper waits for `use.lock`. It gets the lock when the
last user has closed, ended or been killed: a lock ends with its process, so no record can be stale.
`PR_SET_PDEATHSIG`, which fires when the *thread* that forked ends, is used between keeper and
server only.

fork() copies a handle of `use.lock`. So a forked child keeps its parent's server alive until it
ends or closes its copy, unless the parent closes a throw-away. A child never stops its parent's
server.
"""

import atexit
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError
from redis.retry import Retry

from dpq.model.errors import ConfigurationError
from dpq.model.masking import mask
from dpq.server.binaries import Binary, find_binary, release
from dpq.server.private import close_to_others, fits, new_socket, open_private, require_own

START_S = 10.0  # measured: 20-90 ms; this is for a machine in trouble
STOP_S = 15.0  # the keeper itself allows 10 s for a clean stop
UNHELD_S = 0.5  # a keeper that gets its lock kills a throw-away and tidies up in 5 ms
POLL_S = 0.005
LOG_TAIL = 1500  # characters of the server's log in an error
MARKER = "dpq-server.json"
KEEPER = Path(__file__).with_name("supervisor.py")


class Server:
    """A handle of a running private server; made by `start` or `join`.

    Attributes:
        url: `unix:///....sock`, database 0.
        binary: The program that runs.
        pid: The server's process.
        directory: Its data, log and locks.
    """

    def __init__(
        self, directory: Path, binary: Binary | None, options: list[str], *, throw_away: bool
    ) -> None:
        self._use = _lock_file(directory, "use.lock")
        try:
            # Refused only while a keeper stops the server (or for an instant by `close`).
            free = partial(_locked, self._use, fcntl.LOCK_SH)
            _wait(free, STOP_S, f"{directory} is still being closed")
            self.pid = _ensure_running(directory, binary, options, throw_away)
            self.binary = _writer(directory)
        except BaseException:
            self._use.close()
            raise
        self.directory = directory
        self.url = f"unix://{quote(str(_socket(directory)))}"
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
        try:
            return cls(directory, binary, ["--appendonly", "no", *extra_args], throw_away=True)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)  # the keeper may have done it already
            raise

    @classmethod
    def join(cls, directory: str | Path, binary: Binary | None = None) -> Self:
        """Use the durable server of a directory; start it when it is not running.

        Any number of processes and threads may join and close at any time. Writes are in the
        append-only file before they are acknowledged: they survive a killed server, and all but
        the last second a power cut. A server that was killed under its users is started again by
        the next `join`, at the same URL (a new one if the path of `directory` is too long for a
        socket).

        Args:
            directory: Created when missing, for this user alone; `~` is expanded. One that is there
                must be this user's, and no other user may write there.
            binary: Default: `find_binary()`. Looked at only when the server is not running.

        Raises:
            ConfigurationError: The directory cannot be used, is another user's or writable by
                others, or was written by another family or a newer release. Or the server does not
                start within 10 s (not counting the time in which it says that it is loading its
                data).
        """
        path = Path(directory).expanduser().resolve()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            require_own(path)
            options = ["--appendonly", "yes", "--appendfsync", "everysec"]
            return cls(path, binary, options, throw_away=False)
        except OSError as error:
            raise ConfigurationError(f"cannot use {path} as a data directory: {error}") from error

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
    parameters = re.search(r"\?\w*=", directory)  # a name may have a question mark
    if scheme + colon != "embedded:" or directory.startswith("//") or parameters:
        raise ConfigurationError(
            f"url is {mask(url)!r}: it must be embedded: or embedded:DIR, without // and parameters"
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
    socket = new_socket(directory)
    _mark(directory, binary, socket)
    close_to_others(directory)
    log = directory / "server.log"
    if log.exists():
        log.replace(directory / "server.log.1")  # one generation: the errors of one start
    command: list[str | Path] = [binary.path, "--port", "0", "--unixsocket", socket]
    command += ["--unixsocketperm", "700", "--dir", directory, "--logfile", log, "--save", ""]
    python = sys.executable or shutil.which("python3") or "python3"
    keeper: list[str | Path] = [python, "-I", "-S", KEEPER, directory, socket]
    keeper += [str(lock.fileno()), "remove" if throw_away else "keep"]
    with open(log, "ab", opener=open_private) as output:
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


def _mark(directory: Path, binary: Binary, socket: Path) -> None:
    """Write the server and its socket into the marker; refuse data that the server cannot read."""
    marker = directory / MARKER
    if marker.exists():
        wrote = _writer(directory)
        newer = release(wrote.version) > release(binary.version)
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
    with open(new, "w", opener=open_private) as file:
        json.dump({**asdict(binary), "socket": socket}, file, default=str)
    new.replace(marker)


def _writer(directory: Path) -> Binary:
    """Return the server that the directory's marker names."""
    try:
        wrote = json.loads((directory / MARKER).read_text())
        release(wrote["version"])
        return Binary(Path(wrote.get("path", "")), wrote["family"], wrote["version"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{directory / MARKER} is damaged: {error!r}") from error


def _socket(directory: Path) -> Path:
    """Return the socket's path: in the directory, or where the marker says."""
    path = directory / "server.sock"
    if fits(path):
        return path
    try:
        return Path(json.loads((directory / MARKER).read_text())["socket"])
    except (OSError, ValueError, KeyError):  # no server has been started here
        return path


def _answer(directory: Path) -> int | None:
    """Return the pid of the server that answers, None when none does."""
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
    # An exec does not inherit the file (PEP 446). Closing it gives the lock up, unless a forked
    # child has a copy. LOCK_UN would unlock the child's copy, too.
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
