"""Several worker processes and their parent. Knows no queue and no server.

A child writes lines into a pipe of its own, whose number it gets as `--report-to`:

    beat     a server has received its first heartbeat
    {...}    its health, every second

If all children end without a beat, the parent gives up.
"""

import contextlib
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpq.cli._terminal import FAILED, USAGE, Failed
from dpq.cli.daemon import HealthSource
from dpq.model.backoff import longer_pause
from dpq.model.reports import Health
from dpq.worker.run_state import stop_signals

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1  # until the parent sees a signal, or the end of a child, at the latest
FIRST_PAUSE_SECONDS = 0.5  # before a child that died is started again; it doubles each time
LONGEST_PAUSE_SECONDS = 30.0
HEALTHY_SECONDS = 60.0  # of a run, after which the pause is the first one again
MOST_STARTS = 4  # of a child without a beat: 3.5 s of pauses, while a server may be restarted
HEALTH_SECONDS = 1.0  # between two reports of the health of a process
SILENT_SECONDS = 15.0  # without such a report, also at its start: then a process counts as stuck
MAX_REPORT_BYTES = 65_536  # of one read from a pipe; a report has about 1000 characters at most


@dataclass(eq=False)
class Child:
    """A slot for a process: the running process, and the start of the next one."""

    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    start_at: float = -math.inf
    pause: float = 0.0
    over: bool = False
    starts: int = 0
    has_beat: bool = False  # True once one of its processes has sent a beat
    health = Health(live=True, ready=False)
    _told = _began = 0.0  # the times of the last report of health, and of the start
    _reports: int | None = None  # the end of the pipe from which the parent reads

    def start(self) -> None:
        """Start a process in its own group: only the parent gets Ctrl-C, and passes it on."""
        self._began = time.monotonic()
        self.starts += 1
        self.health, self._told = Health(live=True, ready=False), self._began
        self._reports, write = os.pipe()
        os.set_blocking(self._reports, False)
        try:
            self.process = subprocess.Popen(
                [*self.command, f"--report-to={write}"],
                stdin=subprocess.DEVNULL,
                env=self.environment,
                process_group=0,
                pass_fds=[write],
            )
        finally:
            os.close(write)
        log.info("process %d: started", self.process.pid)

    def read_reports(self) -> None:
        """Read the reports of the process from its pipe."""
        lines = b""
        with contextlib.suppress(BlockingIOError):
            if self._reports is not None:  # it is 0 where stdin is closed
                lines = os.read(self._reports, MAX_REPORT_BYTES)
        for line in lines.splitlines():
            self.has_beat = self.has_beat or line == b"beat"
            with contextlib.suppress(ValueError):  # a beat, or a line that was cut
                self.health = Health.model_validate_json(line)
                self._told = time.monotonic()

    @property
    def silent(self) -> bool:
        """True if a process runs, but has not reported its health for `SILENT_SECONDS`."""
        return self.process is not None and time.monotonic() - self._told > SILENT_SECONDS

    def ended(self) -> None:
        """Note that the process has ended, after its last report."""
        self.read_reports()
        if self._reports is not None:
            os.close(self._reports)
        self.process = self._reports = None

    def wait_longer(self) -> float:
        """Return the pause before the next start: longer, unless the last process ran for long."""
        if time.monotonic() - self._began > HEALTHY_SECONDS:
            self.pause = 0.0
        self.pause = longer_pause(self.pause, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self.start_at = time.monotonic() + self.pause
        return self.pause


class Parent:
    """Starts processes, passes signals on, and restarts processes that died."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children
        self._signals = 0
        self._passed_on = 0
        self._code = 0
        self._failure = ""
        self._looked = time.monotonic()

    def health(self) -> Health:
        """Return the health: live if parent and processes are live; ready if a process is ready."""
        late = time.monotonic() - self._looked
        reasons = [f"the parent has not moved for {late:.0f} s"] * (late > SILENT_SECONDS)
        ready = False
        for child in self._children:
            if child.process and child.silent:
                reasons.append(f"process {child.process.pid} does not tell of itself")
            elif child.process:
                ready = ready or child.health.ready
                told = () if child.health.live else child.health.reasons
                reasons += (f"process {child.process.pid}: {reason}" for reason in told)
        live = not reasons
        reasons += ["no process is ready"] * (not ready) + ["it is stopping"] * bool(self._signals)
        return Health(live=live, ready=live and ready and not self._signals, reasons=tuple(reasons))

    def run(self) -> int:
        """Run until all children have ended; return the exit code. Fail if none had a beat."""

        def count(*_: object) -> None:
            self._signals += 1

        before = {number: signal.signal(number, count) for number in stop_signals()}
        try:
            while not all(child.over for child in self._children):
                self._looked = time.monotonic()
                self._pass_on()
                for child in self._children:
                    self._look_after(child)
                time.sleep(POLL_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for child in self._children:
                if child.process:  # the parent itself has failed
                    child.process.kill()
                    child.process.wait()
                child.ended()
        if self._failure:
            raise Failed(self._failure)
        return self._code

    def _pass_on(self) -> None:
        """Pass signals on: the first lets handlers finish, the second stops, the third kills."""
        while self._passed_on < self._signals:
            self._passed_on += 1
            running = [child.process for child in self._children if child.process]
            log.info("stopping %d processes", len(running))
            for process in running:
                process.send_signal(signal.SIGKILL if self._passed_on > 2 else signal.SIGTERM)

    def _look_after(self, child: Child) -> None:
        if child.process is None:
            child.over = child.over or self._signals > 0
            if not child.over and time.monotonic() >= child.start_at:
                child.start()
            return
        code, pid = child.process.poll(), child.process.pid
        child.read_reports()
        if code is None:
            return
        child.ended()
        how = f"ended with {code}" if code >= 0 else f"died by {signal.Signals(-code).name}"
        ending = f"process {pid}: {how}"
        if self._signals or code == 0:
            child.over = True
            # A signal may come before the child has a handler for it
            self._code = self._code or (0 if code in (0, -signal.SIGTERM) else FAILED)
            log.info("%s", ending)
        elif code == USAGE:  # the next process would fail in the same way
            child.over, self._code = True, USAGE
            self._signals = max(1, self._signals)
        elif child.starts >= MOST_STARTS and not any(each.has_beat for each in self._children):
            self._failure = f"{ending} before its first heartbeat, in all {child.starts} starts"
            child.over = True
            self._signals = max(1, self._signals)
        else:
            log.warning("%s; restarting in %.1f s", ending, child.wait_longer())


def children(words: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[Child]:
    """Make a child for each list of arguments of `dpq`; `environment` is added to that of dpq."""
    # With -P, no file of the current directory, such as a redis.py, hides an installed module
    dpq = [sys.executable, "-P", "-m", "dpq"]
    added = {**instrumentation(), **environment}
    return [Child([*dpq, *each], {**os.environ, **added}) for each in words]


def instrumentation() -> dict[str, str]:
    """Make the variables that trace children, if `opentelemetry-instrument` runs this process."""
    tool = sys.modules.get("opentelemetry.instrumentation.auto_instrumentation")
    if tool is None or tool.__file__ is None:
        return {}
    paths = [os.path.dirname(tool.__file__), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def report_through(pipe: int, source: HealthSource) -> Callable[[], None]:
    """Report health to the parent; return a function that reports a beat.

    If the parent has died, nothing reads the pipe: then this process ends, as SIGTERM does.
    """
    os.set_inheritable(pipe, False)  # programs that handlers start must not get the pipe
    os.set_blocking(pipe, False)

    def write(line: str) -> bool:
        try:
            os.write(pipe, line.encode() + b"\n")
        except BrokenPipeError:
            return False
        except OSError:  # the pipe is full
            pass
        return True

    def tell() -> None:
        while write(source.ask().model_dump_json()):
            time.sleep(HEALTH_SECONDS)
        log.warning("process %d: its parent has ended; stopping", os.getpid())
        os.kill(os.getpid(), signal.SIGTERM)

    def beat() -> None:
        write("beat")

    threading.Thread(target=tell, name="dpq-tell", daemon=True).start()
    return beat
