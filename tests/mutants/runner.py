"""Runs pytest in copies of the project, so that it is quick, ends in time and leaves nothing.

What is compiled, the tests with their rewritten asserts included, is kept for the next run, below
the one directory that holds everything; dpq's own files are known by their text, not their time.
"""

import compileall
import os
import py_compile
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mutants.mutant import copy_project

TEST_S = 60
"""Of one test; it then fails. On an idle machine the longest takes 5."""

PATIENCE_S = 300
"""Of the tests of one mutant."""

GRACE_S = 30
"""For tests to put away what they have started, once they are told to stop."""


class Runner:
    """All tests ask the first of the servers alone: what a mutant changes, it changes on all."""

    def __init__(self, directory: Path, server: str) -> None:
        self._directory, self._stopped = directory, threading.Event()
        self._compiled, self._temporary = directory / "c", directory / "t"
        self._temporary.mkdir()
        self._options = ["-x", "-vv", "-ra", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        self._options += ["--server", server, "--timeout", str(TEST_S)]
        self._options += ["--hypothesis-profile", "mutants"]  # nobody needs the smallest example

    def copy(self, name: str) -> Path:
        """Make a copy of the project, and compile it so that each change of a text is seen."""
        root = self._directory / name
        copy_project(root)
        sys.pycache_prefix = str(self._compiled)
        by_text = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(root / "dpq", quiet=1, invalidation_mode=by_text)
        return root

    def stop(self) -> None:
        """End what is under way."""
        self._stopped.set()

    def failure(self, root: Path, tests: Sequence[str], patience: float = PATIENCE_S) -> str:
        """Which test fails first, and how; "" when all pass.

        Raises:
            RuntimeError: The tests cannot be run.
        """
        command = [sys.executable, "-m", "pytest", *self._options, *tests]
        environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "PYTHONPYCACHEPREFIX": str(self._compiled),
            "TMPDIR": str(self._temporary),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with tempfile.TemporaryFile("w+") as said:
            code = self._run(command, patience, cwd=root, env=environment, stdout=said)
            said.seek(0)
            text = said.read()
        if code is None:
            return "the tests do not end"
        failed = re.search(r"^(?:FAILED|ERROR) (.{,180})", text, flags=re.MULTILINE)
        if code not in (0, 1) or (code and not failed):
            raise RuntimeError(f"{' '.join(command)}:\n{text[-3000:]}")
        return failed[1] if failed else ""

    def _run(self, command: list[str], patience: float, **settings: object) -> int | None:
        """Run a command to its end, or for so long; then the code is None."""
        give_up = time.monotonic() + patience
        with subprocess.Popen(  # in a session of its own: a Ctrl-C reaches it once, from here
            command, stderr=subprocess.STDOUT, start_new_session=True, **settings
        ) as process:
            try:
                while time.monotonic() < give_up and not self._stopped.is_set():
                    with suppress(subprocess.TimeoutExpired):
                        return process.wait(0.1)
            finally:
                if process.poll() is None:
                    _end(process)
        return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let pytest tidy up as after a Ctrl-C, then kill what is left of its group."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
        return
    os.killpg(process.pid, signal.SIGKILL)  # not waited for yet, so the number is its own
