"""A server that is a list of answers: what tests of a fetcher or a runner alone put below it."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError

from dpq import Task
from dpq.link.watches import Marker, Watch
from dpq.queue.lease_renewal import Leases
from dpq.script.replies import Batch
from dpq.types import QueueStats
from dpq.worker.deliveries import Deliveries, Done
from dpq.worker.run_state import AskOrder, RunState

CUT = RedisConnectionError("cut")


def a_task(payload: Any = None, task_id: str = "id", **fields: Any) -> Task[Any]:
    """A task that is leased."""
    now = datetime.now(UTC)
    return Task(
        id=task_id, payload=payload, priority=0, attempt=1, max_attempts=3, deliveries=1,
        deferrals=0, enqueued_at=now, visible_until=now, token=1, cost=1, state="invisible",
        key=None, due_at=now, expires_at=None, last_error=None, **{"group": None, **fields},
    )  # fmt: skip


class Kept(Leases):
    """Leases that nobody extends."""

    def _wake(self) -> None: ...


class ScriptedQueue:
    """A queue whose tasks are a list; its operations are tuples that name the verb.

    `answers` are what pops get, one after the other: a number of tasks, or an error; when they are
    at an end, each pop gets all that it asks for.
    """

    def __init__(self, name: str, tasks: Iterable[Task[Any]], answers: Iterable[Any] = ()) -> None:
        self.queue_name = name
        self.tasks = deque(tasks)
        self.left = len(self.tasks)  # not acked
        self.answers = deque(answers)
        self.markers = [f"{name}:wake"]
        self.settings = SimpleNamespace(durability="async", default_visibility=30.0)
        self._leases = Kept()
        self._session = SimpleNamespace(operations=self)

    def pop(self, most: int, visibility: float | None, waiter: str = "", **ahead: int) -> Any:
        return ("pop", self, most, waiter)

    def ack_many(self, tasks: Sequence[Task[Any]], costs: Any = None, results: Any = None) -> Any:
        return ("ack", self, [task.id for task in tasks])

    def finish(
        self,
        task: Task[Any],
        error: BaseException | None,
        cost: Any,
        result: str,
        delay: Any,
        worker: str,
    ) -> Any:
        return (type(error).__name__, self, [task.id])

    def stats(self) -> Any:
        return ("stats", self, [])

    def answer(self, most: int) -> Any:
        """The answer to a pop."""
        scripted = self.answers.popleft() if self.answers else most
        if isinstance(scripted, Exception):
            return scripted
        count = min(scripted, most, len(self.tasks))
        return Batch([self.tasks.popleft() for _ in range(count)], [], now_ms=1)


class ScriptedSession:
    """Answers operations of scripted queues, and notes them.

    Attributes:
        sent: The names of the operations of each exchange.
        ended: The name and the task id of each end that was answered.
        cuts: For each exchange that ends deliveries: is the answer to these lost?
    """

    def __init__(self, cuts: Iterable[bool] = ()) -> None:
        self.sent: list[list[str]] = []
        self.ended: list[tuple[str, str]] = []
        self.cuts = deque(cuts)
        self.asking = 0
        self._lock = threading.Lock()

    def send_all(self, operations: Sequence[Any]) -> Any:
        with self._one_pop_at_a_time(operations), self._lock:
            self.sent.append([name for name, *_ in operations])
            cut = any(name not in ("pop", "stats") for name, *_ in operations)
            cut = cut and bool(self.cuts) and self.cuts.popleft()
            return [self._answer(*operation, cut=cut) for operation in operations]

    def _answer(self, name: str, queue: ScriptedQueue, *args: Any, cut: bool) -> Any:
        if name == "pop":
            return queue.answer(args[0])
        if name == "stats":
            empty = dict.fromkeys(QueueStats.model_fields, 0)
            unknown = dict.fromkeys(("oldest_ready_seconds", "wait", "run"))
            return QueueStats(**{**empty, **unknown, "ready": queue.left})
        if cut:
            return CUT
        self.ended += [(name, task_id) for task_id in args[0]]
        queue.left -= len(args[0])
        return [True] * len(args[0])

    @contextmanager
    def _one_pop_at_a_time(self, operations: Sequence[Any]) -> Iterator[None]:
        """Fail if two threads ask for tasks at once."""
        if not any(name == "pop" for name, *_ in operations):
            yield
            return
        self.asking += 1
        assert self.asking == 1
        try:
            yield
        finally:
            self.asking -= 1


class AsyncScriptedSession(ScriptedSession):
    """The same, awaited."""

    async def send_all(self, operations: Sequence[Any]) -> list[Any]:  # type: ignore[override]
        return super().send_all(operations)


class ScriptedWakeUps:
    """Wake-ups that come at once; it notes what was passed on, and that one thread waits."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        self.waits: list[float] = []
        self.passed_on: list[Marker] = []
        self.closed = False
        self._waiting = threading.Lock()

    def wait(self, until: float) -> bool:
        assert self._waiting.acquire(blocking=False), "two threads wait at the server"
        self.waits.append(until)
        self._waiting.release()
        return True

    def stop(self, owed: Iterable[Marker] | None = None) -> None:
        self.passed_on += owed or []
        self.watches = []

    def close(self) -> None:
        self.closed = True


class AsyncScriptedWakeUps(ScriptedWakeUps):
    """The same, awaited."""

    async def wait(self, until: float) -> bool:  # type: ignore[override]
        self.waits.append(until)
        return True

    async def stop(self, owed: Iterable[Marker] | None = None) -> None:  # type: ignore[override]
        super().stop(owed)

    async def aclose(self) -> None:
        super().close()


def deliveries_of(queues: Sequence[ScriptedQueue], state: RunState, **settings: Any) -> Deliveries:
    """The deliveries of a worker of scripted queues, with these settings of its run."""
    state.queues, state.order = list(queues), AskOrder(dict.fromkeys(queues, 1), strict=True)
    for name, setting in settings.items():
        setattr(state, name, setting)
    return Deliveries("worker", state.queues, None)


class ScriptedFetcher:
    """A fetcher of either kind that has some tasks, and notes the ends that it gets."""

    def __init__(self, taken: Iterable[Any], deliveries: Deliveries, state: RunState) -> None:
        self.taken = deque(taken)
        self.deliveries, self.state = deliveries, state
        self.ends: list[Done] = []
        self.change = SimpleNamespace(note=lambda: None)

        self.is_low = False

    def take(self) -> Any:
        return self.taken.popleft() if self.taken else None

    def step(self, free: int) -> None:
        self.state.stopping = True

    def add(self, done: Done) -> None:
        self.ends.append(done)

    def handled(self, done: Done | None, seconds: float) -> Any:
        self.ends += [done] if done else []

    def send_late(self) -> None: ...

    def give_back(self, taken: Iterable[Any]) -> int:
        held = self.deliveries.claim_back(taken)
        self.ends += held
        return len(held)


class AsyncScriptedFetcher(ScriptedFetcher):
    """The same, awaited."""

    async def handled(self, done: Done | None, seconds: float) -> None:
        super().handled(done, seconds)
