"""Helpers for tests of programs that use DPQ: a clock, queues that clean up, crashes, a check.

They work without pytest; `dpq.pytest_plugin` has them as fixtures. If a helper finds a fault, it
raises AssertionError. Source: docs/testing.md.

A crash is real: a forked child process is killed with SIGKILL. Since it is a fork, it can run any
function of the test, also closures. Of the test's threads only the forking one goes on in it.
"""

import asyncio
import contextlib
import copy
import functools
import inspect
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Literal, NoReturn, TypeVar, cast

from dpq.model.backoff import Backoff
from dpq.model.errors import ConfigurationError, LeaseLostError, TaskNotFoundError
from dpq.model.task import Task, TaskState
from dpq.queue.inside import operations_of
from dpq.queue.queue import DPQ

__all__ = [
    "Clock",
    "QueueFactory",
    "assert_conserved",
    "crash",
    "crash_consumer",
    "let_leases_expire",
]

P = TypeVar("P")

CRASH_SECONDS = 10.0
"""Seconds that a child may need to the point of its crash: a fork and a pop take 10 ms."""

EXPIRY_SECONDS = 5.0
"""Seconds that the end of leases may take: it is a few calls and 1 ms."""

NAMED = 10
"""Ids that a message names; for the others it says only their number."""


class Clock:
    """A clock that stands still until it is moved: `DPQ(redis, name, clock=clock)`.

    Attributes:
        ms: The time, ms since 1970; may be set.
    """

    def __init__(self, ms: int | None = None) -> None:
        """Start at `ms`, or at the present, as clients without this clock do."""
        self.ms = time.time_ns() // 1_000_000 if ms is None else ms

    def __call__(self) -> int:
        return self.ms

    def __repr__(self) -> str:
        return f"Clock({self.ms})"

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, to the millisecond."""
        self.ms += round(seconds * 1000)


class QueueFactory(contextlib.ExitStack):
    """Makes queues on one server; the end of its `with` block, or `close`, drops and closes them.

    A call makes a `DPQ`: `make(name=None, **settings)`. Without a name the queue gets a new one.
    `settings` are the keyword arguments of `DPQ`. By default `clock` is the factory's (None: real
    time), and `backoff` has no jitter.
    """

    def __init__(self, redis: Any, clock: Callable[[], int] | None = None) -> None:
        """Take a blocking client, which stays open, and a clock (None: real time)."""
        super().__init__()
        self._redis, self._clock = redis, clock

    def __call__(self, name: str | None = None, **settings: Any) -> DPQ[Any]:
        """Make a queue."""
        defaults: dict[str, Any] = {"clock": self._clock, "backoff": Backoff(jitter=0)}
        queue: DPQ[Any] = DPQ(
            self._redis, name or f"test-{uuid.uuid4().hex}", **defaults | settings
        )
        self.callback(queue.close)
        self.callback(queue.admin.drop)
        return queue


# Nothing lost, nothing doubled


def assert_conserved(
    queue: DPQ[Any], pushed_ids: Iterable[str], done_ids: Iterable[str] = ()
) -> None:
    """Assert that each pushed task is either done, live or dead, and that no other task is stored.

    The queue's own `check()` must find nothing either. Call it while no consumer uses the queue.

    Args:
        queue: The queue; for an `AsyncDPQ`, a `DPQ` of the same name.
        pushed_ids: The ids that `push` returned; an id may come several times (unique keys).
        done_ids: The id of each task whose `ack` returned True.

    Raises:
        AssertionError: Ids are lost, doubled or unknown, or an invariant is broken; it names them.
    """
    __tracebackhide__ = True
    pushed, done = set(pushed_ids), Counter(done_ids)
    stored = {state: Counter(task.id for task in _stored(queue, state)) for state in TaskState}
    wrong = [
        *_misplaced(pushed, done, stored),
        *(f"broken invariant: {each.kind}: {each.subject} {each.detail}" for each in queue.check()),
    ]
    if wrong:
        counts = ", ".join(f"{ids.total()} {state}" for state, ids in stored.items() if ids)
        head = f"{queue!r} has not conserved its tasks: {len(pushed)} pushed, {len(done)} done"
        raise AssertionError("\n  ".join([f"{head}, {counts or 'none'} stored", *wrong]))


def _misplaced(
    pushed: set[str], done: Counter[str], stored: dict[TaskState, Counter[str]]
) -> Iterator[str]:
    """Make a line for each fault: ids that are nowhere, in several states, or never pushed."""
    copies = sum(stored.values(), Counter[str]())
    findings: dict[str, Iterable[str]] = {
        "lost (neither done nor stored)": pushed - done.keys() - copies.keys(),
        "done and still stored": done.keys() & copies.keys(),
        "done more than once": (id_ for id_ in done if done[id_] > 1),
        "stored more than once": (id_ for id_ in copies if copies[id_] > 1),
        "done but never pushed": done.keys() - pushed,
        "stored but never pushed": copies.keys() - pushed,
    }
    for what, ids in findings.items():
        named = [
            " ".join([id_, *(f"({state})" for state in stored if id_ in stored[state])])
            for id_ in sorted(ids)
        ]
        if named:
            more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
            yield f"{what}: {', '.join(named[:NAMED])}{more}"


def _stored(queue: DPQ[Any], state: TaskState) -> list[Task[Any]]:
    return queue.peek(10**9, state)


def let_leases_expire(queue: DPQ[Any]) -> int:
    """End all leases, as if their time had run out: their tasks are ready, or dead.

    A `Clock` of the queue moves by 1 ms; in real time the call waits as long. So hardly anything
    else comes due. If a `lease()` body still runs elsewhere, it may extend its lease again.

    Returns:
        The number of leases that ended.

    Raises:
        AssertionError: Some leases have not ended after 5 s: the queue has another clock.
    """
    held = {(task.id, task.token): task for task in _stored(queue, TaskState.INVISIBLE)}
    for task in held.values():
        with contextlib.suppress(LeaseLostError, TaskNotFoundError):  # the lease ended meanwhile
            queue.extend(task, 0.001)
    clock = operations_of(queue).description.clock
    if isinstance(clock, Clock):
        clock.advance(0.001)
    give_up = time.monotonic() + EXPIRY_SECONDS
    left = set(held)
    while left := left & {(task.id, task.token) for task in _stored(queue, TaskState.INVISIBLE)}:
        if time.monotonic() > give_up:
            raise AssertionError(f"{len(left)} leases of {queue!r} do not end: advance its clock")
        if not queue.promote():
            time.sleep(0.001)
    return len(held)


# Crashes


Point = Literal["after_pop", "before_ack"] | Callable[..., Any]
"""The point where a consumer crashes; for a callable, the moment when it is entered."""


def crash_consumer(
    queue: DPQ[P],
    work: Callable[[Task[P]], Any] | None = None,
    *,
    at: Point = "after_pop",
    visibility: float | None = None,
    timeout: float = CRASH_SECONDS,
) -> Task[P]:
    """Start a consumer in a process of its own, let it pop a task, and kill it with SIGKILL.

    The consumer is `with queue.lease() as task: work(task)`. When this returns, the lease still
    holds: `let_leases_expire(queue)`, or a move of the clock, brings the task back. The process is
    gone, with all processes that it started in its session.

    Args:
        queue: A queue on a real server. The child has the same settings and clock, and its own
            connections.
        work: The function that the consumer calls with its task. If its result is awaitable, it
            is awaited. Not called with `at="after_pop"`.
        at: `"after_pop"`: the pop has returned, `work` has not begun. `"before_ack"`: `work` has
            returned. A function, or a method (of any object): `work` has entered it, directly or
            not, in any thread; of a decorated function, the innermost.
        visibility: Seconds of the lease, as for `lease`.
        timeout: Seconds until the child is killed in any case.

    Returns:
        The task that the consumer held, as it is stored now.

    Raises:
        AssertionError: There was nothing to pop; or `work` raised (the message has the traceback),
            ended without entering `at`, ended the delivery itself, or took longer than `timeout`.
        ConfigurationError: `at` is nothing of the above or needs a `work`, or the queue is on
            fakeredis, which no other process can reach.
    """
    __tracebackhide__ = True
    if not isinstance(queue, DPQ) or type(queue.redis).__module__.startswith("fakeredis"):
        raise ConfigurationError(f"queue is {queue!r}: it must be a DPQ on a real server")
    if work is None and at != "after_pop":
        raise ConfigurationError(f"at is {at!r}: also give `work`, the function that is to crash")
    is_point = None if at in ("after_pop", "before_ack") else _entering(at)

    def consume(die: "Die") -> None:  # pragma: no cover - in a child that is killed
        own = copy.copy(queue)
        own._start()  # the connections and the leases are the parent's
        with own.lease(visibility=visibility) as task:
            if task is None:
                die("error", f"{queue!r} has nothing to pop")
            if at == "after_pop":
                die("held", task.id)
            with _watching(is_point, lambda: die("held", task.id)):
                _finish(cast("Callable[[Task[P]], Any]", work)(task))
            if at == "before_ack":
                die("held", task.id)
            die("error", f"work ended without entering {_name(at)}")
        die("error", "work ended with a signal, not a crash: the task was given back")

    task_id = _killed(consume, _name(at), timeout)
    try:
        return queue.get(task_id)
    except TaskNotFoundError:
        raise AssertionError(
            f"work had finished task {task_id} itself before {_name(at)}"
        ) from None


def crash(
    run: Callable[[], Any], *, at: Callable[..., Any], timeout: float = CRASH_SECONDS
) -> None:
    """Run a whole program in a process of its own, and kill it with SIGKILL when it enters `at`.

    For consumers with a loop of their own: `crash(main, at=DPQ.ack)` kills the program just before
    its first ack. If a queue was made before, the child uses it over new connections.

    Args:
        run: The program. If its result is awaitable, it is awaited.
        at: A function or method that it enters, in any thread; as for `crash_consumer`.
        timeout: Seconds until the child is killed in any case.

    Raises:
        AssertionError: `run` raised (the message has the traceback), ended without entering `at`,
            or took longer than `timeout`.
        ConfigurationError: `at` is no function or method.
    """
    __tracebackhide__ = True
    is_point = _entering(at)

    def program(die: "Die") -> None:  # pragma: no cover - in a child that is killed
        with _watching(is_point, lambda: die("held", "")):
            _finish(run())
        die("error", f"it ended without entering {_name(at)}")

    _killed(program, _name(at), timeout)


Die = Callable[[str, str], NoReturn]
"""A function that ends the child: with "held" and a task id at the point, or "error" and a text."""

IsPoint = Callable[[FrameType, str, Any], bool]
"""A function that returns True if a call, as the profiler sees it, enters the point."""


def _name(at: Point) -> str:
    return at if isinstance(at, str) else getattr(at, "__qualname__", repr(at))


def _entering(at: Any) -> IsPoint:
    if inspect.isbuiltin(at):
        return lambda _frame, event, arg: event == "c_call" and arg == at
    function = at
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    if code is None:
        raise ConfigurationError(
            f"at is {at!r}: it must be 'after_pop', 'before_ack', or a function or method"
        )
    return lambda frame, event, _arg: event == "call" and frame.f_code is code


@contextlib.contextmanager
def _watching(
    is_point: IsPoint | None, die: Callable[[], NoReturn]
) -> Iterator[None]:  # pragma: no cover - in a child that is killed
    """Die when the point is entered, in this thread or in one that is started later."""

    def look(frame: FrameType, event: str, arg: Any) -> None:
        if is_point and is_point(frame, event, arg):
            die()

    if is_point:
        threading.setprofile(look)
        sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def _finish(result: Any) -> None:  # pragma: no cover - in a child that is killed
    async def wait() -> None:
        await result

    if inspect.isawaitable(result):
        asyncio.run(wait())


def _killed(body: Callable[[Die], None], point: str, timeout: float) -> str:
    """Fork a child that runs `body` until it dies at its point; return the text it sent then."""
    __tracebackhide__ = True
    reader, writer = multiprocessing.Pipe(duplex=False)
    with reader:
        with warnings.catch_warnings():  # from 3.12 on of other threads, which the child leaves be
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:  # pragma: no cover - in a child that is killed
            _live_and_die(body, writer, timeout)
        writer.close()
        try:
            if not reader.poll(timeout):
                raise AssertionError(f"the child did not reach {point} within {timeout:g} s")
            how, text = reader.recv()
        except EOFError:
            raise AssertionError(f"the child ended by itself before {point}") from None
        finally:
            _end(pid)
    if how == "error":
        raise AssertionError(f"the child did not crash at {point}: {text}")
    return str(text)


def _live_and_die(
    body: Callable[[Die], None], writer: Connection, timeout: float
) -> NoReturn:  # pragma: no cover - in a child that is killed
    def die(how: str, text: str) -> NoReturn:
        writer.send((how, text))
        os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)  # this line is not reached

    try:
        os.setsid()  # all processes that it starts can be ended with it
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the parent may be gone by then
        signal.setitimer(signal.ITIMER_REAL, timeout + 1)
        body(die)
    except BaseException:
        die("error", traceback.format_exc())
    finally:
        os._exit(1)  # the child never goes back into the test


def _end(pid: int) -> None:
    """Kill a child and its session; it is not reaped yet, so its numbers are still its own."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
