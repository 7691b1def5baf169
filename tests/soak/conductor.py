"""Runs a soak: starts servers and actors, breaks things in turn, drains, and looks at what is left.

One process with one thread, which forks the actors and whose children die with it. It writes down
each fault; what the ledgers mean is for judge.py.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from redis import Redis
from redis.exceptions import RedisError
from soak import plan
from soak.actors import ROLES, note_starving
from soak.ledger import Books, Ledger
from soak.plan import Plan
from soak.servers import FENCE, Pair, die_with_parent, wait_for

from dpq import DPQ, Push, TaskState
from dpq.script.keys import PARTS, REGISTRY, REGISTRY_TICK, key_of
from dpq.server import Binary
from dpq.types import DeadTask, Problem

DRAIN_S = 90.0
"""How long the queues may take to be empty once nothing is pushed: far more than they need."""

STARVED_S = 0.5
"""A tick that comes so late says that the machine had no time for anybody."""


TICK_S = 0.05


TOO_MANY = 10
"""Failures, after which going on would tell nothing new."""

LEFT_BY_DESIGN = {
    *("conf", "stats", "limits", "gates", "wake", "tick", "workers", "history", "events", "changes")
}
"""Parts of an empty queue that may be there: settings, totals, limits and what they remember, the
markers of waiting, for a minute the workers that were killed, and what it remembers of itself."""

FAULTY = ("never retrieved", "was destroyed", "never awaited", "Exception in", "hook failed")
"""What a log says of a fault in the process itself, whatever happens to the server."""

KINDS = {
    "kill consumer": 5, "kill producer": 2, "kill scheduler": 1, "pause consumer": 2,
    "dismiss consumer": 2,
    "flush scripts": 2, "cut connections": 2, "stall server": 2, "kill server": 3, "switch over": 2,
    "fail over, losing": 2,
}  # fmt: skip
"""What is broken, and how often in one deck; decks are shuffled, and dealt one after the other."""


@dataclass
class Actor:
    """A process: which role, and under which name it writes."""

    role: str
    name: str
    pid: int
    stopped: bool = False  # by SIGSTOP


@dataclass
class Outcome:
    """What was seen at the end; the rest is in the ledgers.

    Attributes:
        began, ended: Seconds of this machine's clock.
        failed: What went wrong with processes and servers, in words.
        stored, dead: By queue, the ids that were left, and the dead letters by their ids.
        problems: By queue, what check() found.
        left_keys: Keys that should not be there.
    """

    began: float = 0.0
    ended: float = 0.0
    failed: list[str] = field(default_factory=list)
    stored: dict[str, set[str]] = field(default_factory=dict)
    dead: dict[str, dict[str, DeadTask[Any]]] = field(default_factory=dict)
    problems: dict[str, list[Problem]] = field(default_factory=dict)
    left_keys: list[str] = field(default_factory=list)


class Conductor:
    """One run. Its directory and all its processes are gone when `run` returns, or fails."""

    def __init__(
        self,
        binary: Binary,
        seconds: float,
        *,
        rate: float,
        visibility: float,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._seconds, self._say = seconds, say
        self._chance = random.Random(seed)
        # a short path: a socket's may have no more than 100 bytes
        self.directory = Path(tempfile.mkdtemp(prefix="dpq-soak-", dir=_short_temporary()))
        self._pair = Pair(self.directory, binary)
        self.plan = Plan(self._pair.url, self.directory, rate, visibility, seed)
        self._actors: dict[str, Actor] = {}  # by role
        self._born: Counter[str] = Counter()
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.outcome = Outcome()

    def run(self) -> Books:
        """Run it all; the ledgers."""
        outcome = self.outcome
        outcome.began = time.time()
        self.plan.ledgers.mkdir()
        (self.directory / "logs").mkdir()
        self._faults = Ledger(self.plan.ledgers / "conductor")
        try:
            self._pair.start()
            self._client = Redis.from_url(self.plan.url)
            self._queues = {q: DPQ(self._client, q, **self.plan.settings(q)) for q in plan.QUEUES}
            self._set_up()
            for role in ROLES:
                self._start(role)
            self._break_things(outcome.began + self._seconds)
            self._drain()
            self._look()
            outcome.ended = time.time()
            return Books(sorted(self.plan.ledgers.iterdir()))
        finally:
            self._close()

    def _close(self) -> None:
        for actor in self._actors.values():
            os.kill(actor.pid, signal.SIGKILL)
            os.waitpid(actor.pid, 0)
        self._pair.close()

    def tidy_up(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    # Actors

    def _start(self, role: str) -> None:
        self._born[role] += 1
        name = f"{role}.{self._born[role]}"
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            self._act(role, name)
        self._actors[role] = Actor(role, name, pid)

    def _act(self, role: str, name: str) -> NoReturn:
        status = 1
        try:
            die_with_parent()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            log = os.open(
                self.directory / "logs" / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
            )
            os.dup2(log, 1)
            os.dup2(log, 2)
            note_starving(self.plan, name)
            run, arguments = ROLES[role]
            run(self.plan, name, *arguments)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _kill(self, role: str) -> None:
        actor = self._actors[role]
        with self._fault("kill", actor.name):
            os.kill(actor.pid, signal.SIGKILL)
            os.waitpid(actor.pid, 0)
        del self._actors[role]
        self._start(role)

    def _reap(self) -> None:
        for role, actor in list(self._actors.items()):
            ended, status = os.waitpid(actor.pid, os.WNOHANG)
            if ended:
                self._fail(f"{actor.name} ended by itself, {_how(status)}: {self._log(actor)}")
                now = time.time()
                self._faults.note("fault", "kill", now, now, actor.name)
                del self._actors[role]
                self._start(role)

    def _stop(self, prefix: str) -> None:
        """End actors with SIGTERM, and see that they leave in peace."""
        leaving = [role for role in self._actors if role.startswith(prefix)]
        for role in leaving:
            os.kill(self._actors[role].pid, signal.SIGTERM)
        for role in leaving:
            actor = self._actors.pop(role)
            status: list[int] = []
            try:
                wait_for(lambda a=actor, s=status: _ended(a.pid, s), f"{actor.name} ends")
            except TimeoutError:
                os.kill(actor.pid, signal.SIGKILL)
                status.append(os.waitpid(actor.pid, 0)[1])
            if status[0]:
                self._fail(f"{actor.name} did not leave in peace, {_how(status[0])}: "
                           f"{self._log(actor)}")  # fmt: skip

    def _log(self, actor: Actor) -> str:
        return (self.directory / "logs" / actor.name).read_text()[-3000:]

    def _fail(self, what: str) -> None:
        self._say(what)
        self.outcome.failed.append(what)

    # Faults

    @contextmanager
    def _fault(self, kind: str, detail: object = "-") -> Iterator[None]:
        begin = time.time()
        try:
            yield
        finally:
            self._faults.note("fault", kind, begin, time.time(), detail)

    def _break_things(self, end: float) -> None:
        """Deal fault after fault until the time is over, but each kind once in any case."""
        deck: list[str] = []
        size = sum(KINDS.values())
        gap = min(10.0, (end - time.time()) / (len(KINDS) + 1))
        due = time.time() + gap
        said = tick = time.time()
        dealt: set[str] = set()
        while (now := time.time()) < end or len(dealt) < len(KINDS):
            if len(self.outcome.failed) >= TOO_MANY:
                return
            if now - tick > TICK_S + STARVED_S:
                self._faults.note("fault", "starved", tick, now, "-")
            self._reap()
            for moment, action in list(self._later):
                if moment <= now:
                    self._later.remove((moment, action))
                    action()
            if now >= due:
                if not deck:
                    deck = self._deal(gap * size > self._seconds)
                kind = deck.pop()
                dealt.add(kind)
                try:
                    getattr(self, "_" + kind.replace(",", "").replace(" ", "_"))()
                except (RedisError, TimeoutError, RuntimeError) as error:
                    self._fail(f"{kind}: {error!r}")
                due += gap
            if now - said >= min(60.0, self._seconds / 4):
                said = now
                self._say(self._progress())
            tick = time.time()
            time.sleep(TICK_S)

    def _deal(self, short: bool) -> list[str]:
        """Some faults in a random order: each once, when there is no time for more."""
        deck = [kind for kind, often in KINDS.items() for _ in range(1 if short else often)]
        self._chance.shuffle(deck)
        return deck

    def _one_of(self, *prefixes: str) -> str:
        return self._chance.choice(
            [r for r, a in self._actors.items() if r.startswith(prefixes) and not a.stopped]
        )

    def _kill_consumer(self) -> None:
        self._kill(self._one_of("worker", "async", "plain"))

    def _kill_producer(self) -> None:
        self._kill(self._one_of("producer"))

    def _kill_scheduler(self) -> None:
        self._kill("scheduler")

    def _pause_consumer(self) -> None:
        """For longer than a lease: the process goes on and finds that others have its tasks."""
        actor = self._actors[self._one_of("worker", "async", "plain")]
        os.kill(actor.pid, signal.SIGSTOP)
        actor.stopped = True
        since = time.time()

        def go_on() -> None:
            actor.stopped = False
            os.kill(actor.pid, signal.SIGCONT)
            self._faults.note("fault", "pause", since, time.time(), actor.name)

        self._later.append((since + 1.5 * self.plan.visibility, go_on))

    def _dismiss_consumer(self) -> None:
        """It finishes or gives back what it holds, uncounted, and another one takes its place."""
        role = self._one_of("worker", "async", "plain")
        with self._fault("leave", self._actors[role].name):
            self._stop(role)
        self._start(role)

    def _flush_scripts(self) -> None:
        with self._fault("flush"):
            self._pair.master.client.script_flush()

    def _cut_connections(self) -> None:
        with self._fault("cut"):
            self._pair.master.client.execute_command("CLIENT", "KILL", "TYPE", "normal")

    def _stall_server(self) -> None:
        master = self._pair.master
        with self._fault("stall"):
            master.signal(signal.SIGSTOP)
            time.sleep(self._chance.uniform(0.2, 0.7 * self.plan.visibility))
            master.signal(signal.SIGCONT)

    def _kill_server(self) -> None:
        with self._fault("restart"):
            self._pair.restart(self._chance.choice((0.0, 0.2, self.plan.visibility / 2)))

    def _switch_over(self) -> None:
        self._pair.settle()
        with self._fault("switch"):
            self._pair.switch()
        self._pair.follow()

    def _fail_over_losing(self) -> None:
        self._pair.settle()
        self._pair.fence()
        with self._fault("lossy"):
            self._pair.fence()
            self._pair.fail_over(self._chance.uniform(0.02, 0.1))
        self._pair.follow()

    # Before, meanwhile and after

    def _set_up(self) -> None:
        limited = self._queues[plan.LIMITED]
        limited.set_limit([plan.QUEUE_LIMIT])
        for group, limits in plan.GROUP_LIMITS.items():
            limited.set_limit(limits, group=group)
        limited.set_limit(concurrency=plan.CREW_SIZE, group=plan.CREW)
        for queue in self._queues.values():  # so that all is there that stays
            queue.push({"p": "conductor", "n": 0})
            queue.ack(queue.pop().task)
        grouped = self._queues[plan.GROUPED]
        grouped.set_limit([plan.LANE_LIMIT], group=plan.LANE)
        grouped.set_limit(concurrency=plan.NARROW_SIZE, group=plan.NARROW)
        for queue, number in ((self._queues[plan.STRICT], 1000), (grouped, 60)):
            queue.push_many([Push({"p": "conductor", "n": 0})] * number)
            queue.ack_many(queue.pop_many(number))

    def _progress(self) -> str:
        passed = time.time() - self.outcome.began
        try:
            stats = {name: queue.stats() for name, queue in self._queues.items()}
        except RedisError as error:
            return f"{passed:6.0f} s  no answer: {error}"
        done = "  ".join(
            f"{name.removeprefix('soak-')}: {s.acked} acked, {queue_size(s)} live"
            for name, s in stats.items()
        )
        faults = (self.plan.ledgers / "conductor").read_bytes().count(b"\n")
        return f"{passed:6.0f} s  {faults} faults  {done}"

    def _drain(self) -> None:
        for _, action in self._later:
            action()
        self._later.clear()
        self._stop("producer")
        try:
            self._pair.settle()
            give_up = time.monotonic() + DRAIN_S
            while any(queue.size() for queue in self._queues.values()):
                self._reap()
                if time.monotonic() > give_up:
                    self._fail(f"after {DRAIN_S:g} s there is left: {self._progress()}")
                    break
                time.sleep(TICK_S)
            self._stop("")
            wait_for(self._nothing_is_to_come, "groups open that a limit has closed")
        except (RedisError, TimeoutError) as error:
            self._fail(f"while draining: {error!r}")
        self._stop("")

    def _nothing_is_to_come(self) -> bool:
        queues = self._queues.values()
        return not any(queue.promote() for queue in queues) and all(
            queue.next_event() is None for queue in queues
        )

    def _look(self) -> None:
        outcome = self.outcome
        for log in sorted((self.directory / "logs").iterdir()):
            said = log.read_text()
            if any(words in said for words in FAULTY):
                self._fail(f"{log.name} says: {said[-3000:]}")
        for name, queue in self._queues.items():
            outcome.stored[name] = {
                task.id
                for state in TaskState
                if state != TaskState.DEAD
                for task in queue.peek(10**9, state)
            }
            outcome.dead[name] = {task.id: task for task in queue.dead.list(10**9)}
            outcome.problems[name] = queue.check()
            queue.dead.purge()
        tags = plan.QUEUES
        allowed = {key_of(tag, part) for tag in tags for part in LEFT_BY_DESIGN}
        every = {key.decode() for key in self._pair.master.client.keys("*")}
        shared = {REGISTRY, REGISTRY_TICK, FENCE}
        known = {key_of(tag, part) for tag in tags for part in PARTS}
        outcome.left_keys = sorted((every & known) - allowed) + sorted(every - known - shared)


def queue_size(stats: Any) -> int:
    """The live tasks."""
    return int(stats.ready + stats.delayed + stats.invisible + stats.waiting)


def _ended(pid: int, status: list[int]) -> bool:
    ended, how = os.waitpid(pid, os.WNOHANG)
    if ended:
        status.append(how)
    return bool(ended)


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _short_temporary() -> str:
    return tempfile.gettempdir() if len(tempfile.gettempdir()) < 40 else "/tmp"  # noqa: S108
