"""Programs of the command line that a test starts, in a directory of its own."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Start = Callable[..., "subprocess.Popen[str]"]


@contextlib.contextmanager
def programs(command: str, here: Path, server: Sequence[str]) -> Iterator[Start]:
    """Starts `dpq COMMAND ...`, and kills what is left at the end.

    `server` are the options that name the server and the queue; `where=False` leaves them out.
    Other settings are those of `Popen`.
    """
    started: list[subprocess.Popen[str]] = []

    def begin(*words: object, where: bool = True, **settings: Any) -> "subprocess.Popen[str]":
        line = [sys.executable, "-m", "dpq", command, *map(str, words), *(server if where else ())]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(line, text=True, **{**pipes, "cwd": here, **settings}))
        return started[-1]

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()
