"""The processes of a soak: producers, consumers of four kinds, a scheduler.

Each is a function that runs until SIGTERM, through any fault; only a fault of DPQ ends it. What it
does it writes into its ledger. Must not judge anything.
"""

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError
from soak.ledger import Ledger
from soak.plan import (
    BACKLOG,
    BACKOFF,
    CONFIRMED,
    LIMITED,
    PRODUCERS,
    QUEUES,
    SHARES,
    STRICT,
    TASKS,
    THREADS,
    Plan,
)

from dpq import (
    DPQ,
    AsyncDPQ,
    AsyncWorker,
    LeaseLostError,
    NotConfirmedError,
    Push,
    RateLimited,
    Reject,
    Task,
    Worker,
)
from dpq.scheduler import run_daemon
from dpq.worker.deliveries import Done, Ending, GivenBack

POP_S = 0.5

PAUSE_S = 0.05
"""After a fault of the server."""


class Stop:
    """Set by SIGTERM; then it tells a worker that has no signal handlers yet."""

    def __init__(self) -> None:
        self.told, self.workers = False, list[Any]()
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, *_: object) -> None:
        self.told = True
        for worker in self.workers:
            worker.stop()

    def within(self, seconds: float) -> bool:
        """Sleep, unless it was told; whether it was."""
        if not self.told:
            time.sleep(seconds)
        return self.told


def note_starving(plan: Plan, name: str) -> None:
    """Write down, from a thread, when the machine had no time for this process."""
    ledger = Ledger(plan.ledgers / name)

    def watch() -> None:
        while True:
            since = time.time()
            time.sleep(PAUSE_S)
            over = time.time() - since - PAUSE_S
            if over > plan.visibility / 10:
                ledger.note("fault", "late", since, time.time(), name)

    threading.Thread(target=watch, daemon=True).start()


# Producers


def produce(plan: Plan, name: str) -> None:
    """Push into all queues, at the plan's rate, while their backlogs are not full."""
    stop, ledger, chance = Stop(), Ledger(plan.ledgers / name), random.Random(f"{plan.seed} {name}")
    durability = {"durability": "replica" if name.startswith(CONFIRMED) else "async"}
    with DPQ.from_url(plan.url, STRICT, **plan.settings(STRICT), **durability) as first:
        queues = [first] + [
            DPQ(first.redis, queue, **plan.settings(queue), **durability)
            for queue in SHARES
            if queue != STRICT
        ]
        room = dict.fromkeys(SHARES, 0)
        number, looked, pause = 0, 0.0, 0.0
        while not stop.within(pause):
            pause = PAUSE_S / 5
            if time.monotonic() > looked + 0.2:
                looked = time.monotonic()
                with suppress(RedisError):
                    room = {q.queue_name: BACKLOG[q.queue_name] - q.size() for q in queues}
            queue = chance.choices(queues, [SHARES[q.queue_name] for q in queues])[0]
            count = 1 if chance.random() < 0.8 else chance.randrange(2, 6)
            if room[queue.queue_name] <= count:
                continue
            room[queue.queue_name] -= count
            groups = plan.groups(queue.queue_name)
            pushes = [_push(chance, groups, name, number + i) for i in range(count)]
            _push_until_known(stop, ledger, queue, name, number, pushes)
            number += count
            pause = chance.expovariate(plan.rate / PRODUCERS / count)


def _push(chance: random.Random, groups: dict[str, float], name: str, number: int) -> Push[Any]:
    group = chance.choices(list(groups), list(groups.values()))[0]
    priority = chance.choice(
        (
            chance.randrange(4),
            chance.randrange(4),
            chance.randrange(-(2**63), 2**63),
            2**62 + chance.randrange(1000),
            chance.uniform(-10, 10),
        )
    )
    delay = chance.choices((0, chance.random() / 2, 2 * chance.random()), (80, 15, 5))[0]
    return Push(
        {"p": name, "n": number},
        priority=priority,
        delay=round(delay, 3),
        group=group or None,
        key=f"{name}-{number}",  # a push that is repeated is not to count twice
        cost=2 if chance.random() < 0.1 else 1,
    )


def _push_until_known(
    stop: Stop, ledger: Ledger, queue: DPQ[Any], name: str, number: int, pushes: Sequence[Push[Any]]
) -> None:
    ledger.note("try", queue.queue_name, name, number, len(pushes), time.time())
    sent = time.time()
    while not stop.told:
        try:
            ids = (
                queue.push_many(pushes) if len(pushes) > 1 else [queue.push(**pushes[0]._asdict())]
            )
        except (RedisError, NotConfirmedError):
            stop.within(PAUSE_S)
            continue
        back = time.time()
        for i, (id_, push) in enumerate(zip(ids, pushes, strict=True)):
            ledger.note("push", queue.queue_name, id_, name, number + i, push.delay, sent, back)
        return


# Consumers


class Book:
    """Notes what consumers of one queue do."""

    def __init__(self, plan: Plan, name: str, queue: str) -> None:
        self.queue = queue
        self.chance = random.Random(f"{plan.seed} {name}")
        self._lease_ms = round(plan.visibility * 1000)
        self._plan = plan
        self._longest = plan.visibility / 5  # far from the end of a lease
        self._ledger = Ledger(plan.ledgers / name)
        self._sent: dict[tuple[str, int], float] = {}
        self.answer: bool | None = None  # of the last ack

    def held(self, task: Task[Any]) -> None:
        assert task.visible_until
        until = round(task.visible_until.timestamp() * 1000)
        self._ledger.note(
            *("held", self.queue, task.id, task.token, task.deliveries),
            *(task.attempt, task.deferrals, task.priority),
            *(round(task.enqueued_at.timestamp() * 1000), until - self._lease_ms, until),
            *(task.group or "-", task.cost, task.payload["p"], task.payload["n"], time.time()),
        )

    def gives(self, task: Task[Any], how: str, seconds: float) -> None:
        self._ledger.note("gives", self.queue, task.id, task.token, how, seconds, time.time())

    def mark(self, what: str, task: Task[Any]) -> None:
        self._ledger.note(what, self.queue, task.id, task.token, time.time())

    def end(
        self, task: Task[Any], how: str, sent: float, seconds: float = 0, scope: str = "-"
    ) -> None:
        back = time.time()
        self._ledger.note("end", self.queue, task.id, task.token, how, sent, back, seconds, scope)

    def note_acks(self, q: DPQ[Any]) -> None:
        """Write down each ack that is about to be sent, and each that is refused."""
        ack = q.ack

        def ask(task: Task[Any]) -> bool:
            self.mark("asks", task)
            try:
                self.answer = ack(task)
            except LeaseLostError:
                self.mark("refused", task)
                raise
            return self.answer

        q.ack = ask  # type: ignore[method-assign]

    # For workers

    def note_what_is_held(self, leases: Any) -> None:
        """Write down each task that reaches the process, prefetched or not.

        Once: a lease is held again when its end could not be sent.
        """
        hold, noted = leases.hold, set[tuple[str, int]]()

        def hold_and_note(tasks: Sequence[Task[Any]], *rest: Any) -> Any:
            for task in tasks:
                if (task.id, task.token) not in noted:
                    noted.add((task.id, task.token))
                    self.held(task)
            return hold(tasks, *rest)

        leases.hold = hold_and_note

    def note_what_is_asked(self, worker: Any) -> None:
        """Write down each end of a delivery that a worker is about to send."""
        endings = worker._deliveries.endings

        def ask(done: Sequence[Done]) -> Any:
            for each in done:
                self._sent.setdefault((each.task.id, each.task.token), time.time())
                if each.error is None:
                    self.mark("asks", each.task)
                else:
                    self.gives(each.task, *_how(each.task, each.error)[:2])
            return endings(done)

        worker._deliveries.endings = ask

    def note_what_is_answered(self, worker: Any) -> None:
        """Write down each answer to the end of a delivery."""
        answered = worker._deliveries.answered

        def note(asked: list[Ending], results: Sequence[Any]) -> list[Done]:
            for (_, done, _), answer in zip(asked, results, strict=True):
                ids = [each.task.id for each in done]  # one may be there twice, with two tokens
                for place, each in enumerate(done):
                    if isinstance(answer, list):  # of acks
                        self.settled(each.task, "acked" if answer[place] else "gone")
                    elif isinstance(answer, LeaseLostError):  # of some; what of the others
                        id_ = each.task.id  # is not told
                        if each.error is None and answer.task_ids.count(id_) == ids.count(id_):
                            self.mark("refused", each.task)
                    elif not isinstance(answer, Exception):
                        how = "acked" if each.error is None else _how(each.task, each.error)[0]
                        self.settled(each.task, how, each.error)
            again: list[Done] = answered(asked, results)
            return again

        worker._deliveries.answered = note

    def settled(self, task: Task[Any], how: str, error: Any = None) -> None:
        sent = self._sent.pop((task.id, task.token), 0.0)
        self.end(task, how, sent, *([] if error is None else _how(task, error)[1:]))

    def work(self, *, extended: bool = False) -> float:
        """Seconds that a handler is to take, before it calls `verdict`.

        Some take longer than a lease, if that is extended meanwhile.
        """
        if extended and self.queue == STRICT and self.chance.random() < 0.01:
            return 1.3 * self._plan.visibility
        mean = self._plan.work_seconds(self.queue)
        return min(self.chance.expovariate(1 / mean), self._longest)

    def verdict(self) -> None:
        """End a handler in one of the ways in which handlers end."""
        chance = self.chance.random()
        if self.queue == LIMITED and chance < 0.01:
            raise _too_many(self.chance)
        if chance > 0.99:
            raise ValueError("a handler that fails")
        if chance > 0.988:
            raise Reject("a handler that gives up")


def _how(task: Task[Any], error: BaseException) -> tuple[str, float, str]:
    """What a worker does of a handler that ends so: the verb, its seconds, and its scope."""
    if isinstance(error, RateLimited):
        return "limited", error.retry_after or 0, error.scope
    if isinstance(error, Reject):
        return "buried", 0, "-"
    if isinstance(error, GivenBack):
        return "release", 0, "-"
    return "fail", BACKOFF.delay(task.attempt, 0), "-"


def _too_many(chance: random.Random) -> RateLimited:
    scope = chance.choices(("group", "queue", "task"), (80, 10, 10))[0]
    return RateLimited(round(0.1 + chance.random(), 3), scope)


def work(plan: Plan, name: str, queue: str) -> None:
    """A `Worker`, with threads and tasks taken ahead."""
    book = Book(plan, name, queue)

    def handle(task: Task[Any]) -> None:
        time.sleep(book.work(extended=True))
        book.verdict()

    with DPQ.from_url(plan.url, queue, **plan.settings(queue)) as q:
        book.note_what_is_held(q._leases)
        worker = Worker(q, handle, concurrency=THREADS, prefetch=book.chance.choice((0, 5)))
        book.note_what_is_asked(worker)
        book.note_what_is_answered(worker)
        stop = Stop()
        stop.workers = [worker]
        _through_outages(stop, worker.run)


def work_async(plan: Plan, name: str, queue: str) -> None:
    """An `AsyncWorker`."""
    book = Book(plan, name, queue)

    async def handle(task: Task[Any]) -> None:
        await asyncio.sleep(book.work(extended=True))
        book.verdict()

    async def run() -> None:
        async with AsyncDPQ.from_url(plan.url, queue, **plan.settings(queue)) as q:
            book.note_what_is_held(q._leases)
            worker = AsyncWorker(q, handle, concurrency=TASKS, prefetch=book.chance.choice((0, 5)))
            book.note_what_is_asked(worker)
            book.note_what_is_answered(worker)
            stop.workers = [worker]
            await worker.run(signals=True)

    stop = Stop()
    _through_outages(stop, lambda: asyncio.run(run()))


def _through_outages(stop: Stop, run: Callable[[], Any]) -> None:
    """A worker that cannot reach the server at its start ends with an error: try again."""
    while not stop.told:
        try:
            run()
        except RedisError:
            stop.within(PAUSE_S)
        else:
            return


def pop_and_settle(plan: Plan, name: str, queue: str) -> None:
    """A plain loop around `pop`, or around `lease`, which ends deliveries in every way there is."""
    stop, book = Stop(), Book(plan, name, queue)
    with DPQ.from_url(plan.url, queue, **plan.settings(queue)) as q:
        book.note_acks(q)
        while not stop.told:
            try:
                if book.chance.random() < 0.2:
                    _lease(stop, book, q)
                else:
                    _pop(stop, book, q, plan.visibility)
            except RedisError:
                stop.within(PAUSE_S)


def _lease(stop: Stop, book: Book, q: DPQ[Any]) -> None:
    chance, book.answer = book.chance.random(), None
    with suppress(LeaseLostError):
        try:
            with q.lease(timeout=POP_S) as task:
                if task is None:
                    return
                book.held(task)
                fails = chance < 0.02
                stop.within(book.work(extended=True))
                sent = time.time()
                if fails:
                    book.gives(task, "fail", BACKOFF.delay(task.attempt, 0))
                    raise ValueError("a body that fails")  # noqa: TRY301 - lease() is to see it
        except ValueError:
            book.end(task, "fail", sent, BACKOFF.delay(task.attempt, 0))
        else:
            if book.answer is not None:  # else the lease was known to be lost: it did not ask
                book.end(task, "acked" if book.answer else "gone", sent)


def _pop(stop: Stop, book: Book, q: DPQ[Any], visibility: float) -> None:
    popped = q.pop(timeout=POP_S)
    if popped.task is None:
        return
    task, chance = popped.task, book.chance
    book.held(task)
    stop.within(book.work())
    how = chance.choices(
        ("acked", "set_visibility", "fail", "release", "over", "buried", "limited"),
        (88, 3, 3, 3, 0.3, 0.3, 1 if q.queue_name == LIMITED else 0),
    )[0]
    delay = round(chance.random(), 3)
    if how == "over":
        book.mark("over", task)
        stop.within(1.2 * visibility)
        how = "acked"
    limit = _too_many(chance)
    calls: dict[str, Callable[[], Any]] = {
        "acked": lambda: q.ack(task),
        "set_visibility": lambda: q.set_visibility(task, delay),
        "fail": lambda: q.fail(task, "a loop that fails", delay=delay),
        "release": lambda: q.release(task, delay),
        "buried": lambda: q.bury(task, "a loop that gives up"),
        "limited": lambda: q.rate_limited(task, limit.retry_after, limit.scope),
    }
    seconds = {"limited": limit.retry_after, "acked": 0, "buried": 0}.get(how, delay)
    if how != "acked":
        book.gives(task, how, seconds)
    sent, unsure = time.time(), False
    while True:
        try:
            answer = calls[how]()
        except LeaseLostError:
            return
        except RedisError:
            unsure = True
            if stop.within(PAUSE_S):
                return
            continue
        break
    if how == "acked" and answer is False:
        how = "gone"
    elif how == "acked" and unsure:
        how = "acked?"
    scope = limit.scope if how == "limited" else "-"
    book.end(task, how, 0.0 if unsure and how == "limited" else sent, seconds, scope)


def schedule(plan: Plan, name: str) -> None:
    """The daemon."""
    run_daemon(plan.url, QUEUES)


ROLES: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    **{f"producer-{n}": (produce, ()) for n in range(PRODUCERS)},
    "scheduler": (schedule, ()),
    **{f"worker-{q}": (work, (q,)) for q in QUEUES},
    **{f"async-{q}": (work_async, (q,)) for q in QUEUES},
    **{f"plain-{q}": (pop_and_settle, (q,)) for q in QUEUES},
}
"""Role -> what it runs, and with which queue."""
