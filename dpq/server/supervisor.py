"""The process between an embedded server and its users: `embedded.py` runs it as a script.

It starts the server, waits until nobody holds `use.lock` any more (the kernel takes the lock of a
killed process away, so SIGKILL counts as leaving), then stops the server and removes its files. It
is a process of its own with one thread, so threads, forks and signals of the program that uses the
server do not matter.

It is never imported and must not import anything but the standard library: it runs under
`python -I -S`, in some 20 ms.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time

STOP_S = 10.0  # a clean stop writes at most one second of the append-only file: ample
POLL_S = 0.005
PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h
ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)  # SIGCHLD: it has ended


def keep(directory: str, socket: str, alive: int, remove: bool, command: list[str]) -> None:
    """Run `command` until nobody uses it, and leave no process, socket or temporary directory.

    Args:
        alive: The inherited descriptor of `server.lock`, which the server holds too.
        remove: The server is a throw-away: its directory goes with it.
    """
    os.umask(0o077)  # the server's files hold the tasks: they are the user's alone
    os.setsid()  # a Ctrl-C in the user's terminal is not meant for the server
    signal.pthread_sigmask(signal.SIG_SETMASK, ENDINGS)  # until `server` is known
    for name in ENDINGS:
        signal.signal(name, _end)
    lock = os.open(os.path.join(directory, "use.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    server = _spawn(command)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        fcntl.flock(lock, fcntl.LOCK_EX)
        _ignore_endings()
    finally:
        _stop(server, at_once=remove)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)  # a killed server leaves its socket
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(socket))  # one of its own, if the path of `directory` is long
        if remove:
            os.close(alive)  # a server that ended by itself: the owner may look at its log
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(directory, ignore_errors=True)


def _end(*_: object) -> None:
    _ignore_endings()  # a second one must not interrupt the tidying up
    raise SystemExit(0)


def _ignore_endings() -> None:
    for name in ENDINGS:
        # An ignored SIGCHLD would make the kernel reap the server unseen.
        signal.signal(name, signal.SIG_DFL if name == signal.SIGCHLD else signal.SIG_IGN)


def _spawn(command: list[str]) -> int:
    server = os.fork()
    if server:
        return server
    try:
        _tie_to_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execv(command[0], command)  # noqa: S606 - the binary that server.py has checked
    finally:
        os._exit(127)


def _tie_to_parent() -> None:
    """Should the keeper itself be killed, have the kernel stop the server (cleanly, Linux only)."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(server: int, *, at_once: bool) -> None:
    """End the server: a throw-away at once, else cleanly, within `STOP_S` seconds."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        deadline = time.monotonic() + STOP_S
        os.kill(server, signal.SIGKILL if at_once else signal.SIGTERM)
        while os.waitpid(server, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(server, signal.SIGKILL)
            time.sleep(POLL_S)


if __name__ == "__main__":
    # The launcher leaves at once, so the keeper has no parent: it leaves no zombie to wait for.
    if not os.fork():
        keep(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "remove", sys.argv[5:])
