"""The measures: each compares calls of DPQ with raw commands, in turns, in a bounded time.

`run.measured` calls them. All keys belong to one queue, also those of the raw commands. Both sides
take the same number of round trips wherever raw commands can do without more.
"""

import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

from redis.exceptions import NoPermissionError, ResponseError

from dpq import DPQ, Push, Task
from dpq.bench.rows import Latency, Memory, Round, Throughput, latency, throughput
from dpq.protocol.keys import PARTS, key_of

ROUNDS = 5
HUNDRED = 100
"""Tasks of one call: what a quick producer or consumer sends at once."""

STORED = 5000
"""Tasks that stay stored while throughput is measured, if the server is near enough."""

SEED = 20240229
PATIENCE_S = 10.0
"""Seconds for a delayed task to come, before its measure fails: it is due by then."""

MIN_DELAYED = 3
"""Delayed tasks that are measured at least, however far the server is."""

WARM_UP = 2
"""Delayed tasks that are not counted: the first waits open connections."""

UNLIMITED = 100_000_000
"""Units a second and at once: a limit that never holds a task back, but is looked at."""

PARTS_OF_A_ROUND = 6
"""A round pushes on both sides for one part of its time each; to take the tasks back takes twice as
long."""

LATENESS_SHARE, MEMORY_SHARE, EACH_SHARE = 0.2, 0.15, 0.3
"""The shares of the time: of lateness, of memory, and of each of the two measures of throughput."""


class Plan(NamedTuple):
    """The choices of a run: how long, and which tasks.

    Attributes:
        seconds: The time for all measures, in seconds.
        groups: The groups of the tasks, under limits that never bind; 0 is neither.
        payload_bytes: The bytes of a payload as JSON.
    """

    seconds: float
    groups: int
    payload_bytes: int


class Measures:
    """The measures of one queue and its client.

    Args:
        queue: A new queue; it is not dropped here.
        client: The client for raw commands, of the same server.
        ping: Sends one PING to the server of the queue.
        plan: What to measure.
    """

    def __init__(
        self, queue: DPQ[Any], client: Any, ping: Callable[[], object], plan: Plan
    ) -> None:
        self._queue = queue
        self._client = client
        self._ping = ping
        self._plan = plan
        self._random = random.Random(SEED)  # noqa: S311 - a load, no secret
        self._numbers = count()
        self._text = "x" * max(0, plan.payload_bytes - len('{"n":1000000,"text":""}'))
        self.raw_keys = raw_keys(queue.queue_name)
        self._pings: list[float] = []

    def prepare(self) -> None:
        """Set the limits of the groups, and measure the first PINGs."""
        if self._plan.groups:
            self._queue.set_limit(UNLIMITED, per=1, burst=UNLIMITED)
            self._queue.set_limit(UNLIMITED, per=1, burst=UNLIMITED, group="*")
        self._some_pings(0.02 * self._plan.seconds)

    # Latency

    def lateness(self) -> Latency:
        """Measure how late a waiting consumer has a task that was delayed."""
        ping = self._ping_s()
        spacing = max(0.02, 6 * ping)  # a task must not wait for the one before it
        seconds = LATENESS_SHARE * self._plan.seconds
        tasks = max(MIN_DELAYED, min(200, int(0.7 * seconds / spacing)))
        for _ in range(WARM_UP):
            self._push_due(time.monotonic() + 2 * ping + 0.01)
            self._one_late()
        start = time.monotonic() + 0.1 + tasks * (2 * ping + 0.001)  # first all are pushed
        for n in range(tasks):
            self._push_due(start + spacing * (n + self._random.random() / 2))
        late = [self._one_late() for _ in range(tasks)]
        return latency("a delayed task, after its due moment", late, 1000 * ping)

    def _push_due(self, due: float) -> None:
        self._queue.push({"due": due}, delay=max(0.0, due - time.monotonic()))

    def _one_late(self) -> float:
        task, on_success, _ = self._queue.pop(timeout=PATIENCE_S)
        now = time.monotonic()
        if task is None:
            raise TimeoutError(f"a delayed task has not come for {PATIENCE_S:g} s")
        on_success()
        return max(0.0, now - float(task.payload["due"]))

    # Memory

    def memory(self) -> Memory | None:
        """Store some tasks, which stay; None if the Redis user may not look at memory."""
        keys = [key_of(self._queue.queue_name, part) for part in PARTS]
        before = self._bytes_of(keys)
        give_up = time.monotonic() + MEMORY_SHARE * self._plan.seconds
        tasks = 0
        while tasks < STORED and (not tasks or time.monotonic() < give_up):
            self._queue.push_many(self._pushes(HUNDRED))
            self._raw_push(HUNDRED)
            tasks += HUNDRED
        taken, raw = self._bytes_of(keys), self._bytes_of(self.raw_keys)
        if before is None or taken is None or raw is None:
            return None
        name = f"a task with {self._plan.payload_bytes} bytes of payload"
        each, least = (taken - before) / tasks, raw / tasks
        return Memory(name, each, "ZADD + HSET", least, each / least, tasks)

    def _bytes_of(self, keys: list[str]) -> int | None:
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for key in keys:  # samples 0: all fields are counted, so it is no estimate
                    pipe.memory_usage(key, samples=0)
                return sum(size or 0 for size in pipe.execute())
        except NoPermissionError:
            return None
        except ResponseError:  # a server that does not know the command
            return None

    # Throughput

    def one_by_one(self) -> Iterator[Throughput | Latency]:
        """Measure single calls: first their throughput, then how long each took."""
        pushes: list[float] = []
        pops: list[float] = []
        acks: list[float] = []
        zadds: list[float] = []
        pushing, popping = [], []
        for seconds, turn in self._rounds(PARTS_OF_A_ROUND):
            spent: dict[str, tuple[float, int]] = {}
            for side in ("raw", "ours") if turn % 2 else ("ours", "raw"):
                if side == "ours":
                    spent["push"] = timed_until(seconds, self._push_one, pushes)
                    spent["pop"] = self._pop_each(spent["push"][1], pops, acks)
                else:
                    spent["zadd"] = timed_until(seconds, self._raw_push_one, zadds)
                    spent["zpopmin"] = self._raw_pop_each(spent["zadd"][1])
            pushing.append(Round(*spent["push"], *spent["zadd"]))
            popping.append(Round(*spent["pop"], *spent["zpopmin"]))
            self._some_pings(seconds / 4)
        yield throughput("push, one by one", "ZADD", pushing)
        yield throughput("pop + ack, one by one", "ZPOPMIN, then HDEL", popping)
        ping = 1000 * self._ping_s()
        named = {"PING": self._pings, "ZADD": zadds, "push": pushes, "pop": pops, "ack": acks}
        yield from (latency(name, taken, ping) for name, taken in named.items())

    def in_hundreds(self) -> Iterator[Throughput]:
        """Measure calls of a hundred tasks."""
        pushing, popping = [], []
        for seconds, turn in self._rounds(PARTS_OF_A_ROUND):
            spent: dict[str, tuple[float, int]] = {}
            for side in ("raw", "ours") if turn % 2 else ("ours", "raw"):
                if side == "ours":
                    spent["push"] = timed_until(seconds, self._push_hundred, [], HUNDRED)
                    spent["pop"] = repeated(spent["push"][1], self._pop_hundred)
                else:
                    spent["zadd"] = timed_until(seconds, self._raw_push_hundred, [], HUNDRED)
                    spent["zpopmin"] = repeated(spent["zadd"][1], self._raw_pop_hundred)
            pushing.append(Round(*spent["push"], *spent["zadd"]))
            popping.append(Round(*spent["pop"], *spent["zpopmin"]))
        n = HUNDRED
        yield throughput(f"push_many of {n}", f"{n} ZADD + HSET in a pipeline", pushing)
        raw = f"ZPOPMIN {n}, then HMGET + HDEL"
        yield throughput(f"pop_many of {n} + ack_many", raw, popping)

    def _rounds(self, parts: int) -> Iterator[tuple[float, int]]:
        """Yield the seconds of a part and the number of the round: one to warm up, and five.

        The server may be too far away for all of them in time; there is one at least.
        """
        seconds = EACH_SHARE * self._plan.seconds
        give_up = time.monotonic() + seconds
        for turn in range(ROUNDS + 1):
            if turn and time.monotonic() > give_up:
                return
            yield seconds / (ROUNDS + 1) / parts, turn

    def _some_pings(self, seconds: float) -> None:
        timed_until(seconds, self._ping, self._pings)

    def _ping_s(self) -> float:
        return sorted(self._pings)[len(self._pings) // 2]

    # DPQ's side

    def _new(self) -> tuple[dict[str, Any], int, str | None]:
        """Make the payload, the priority and the group of a task."""
        n, groups = next(self._numbers), self._plan.groups
        group = f"group-{n % groups}" if groups else None
        return {"n": 1_000_000 + n, "text": self._text}, self._priority(), group

    def _priority(self) -> int:
        return self._random.randrange(1_000_000)

    def _pushes(self, number: int) -> list[Push[Any]]:
        made = [self._new() for _ in range(number)]
        return [Push(payload=payload, priority=p, group=group) for payload, p, group in made]

    def _push_one(self) -> None:
        payload, priority, group = self._new()
        self._queue.push(payload, priority, group=group)

    def _push_hundred(self) -> None:
        self._queue.push_many(self._pushes(HUNDRED))

    def _pop_each(self, tasks: int, pops: list[float], acks: list[float]) -> tuple[float, int]:
        began = time.perf_counter()
        for _ in range(tasks):
            before = time.perf_counter()
            task = self._queue.pop().task
            popped = time.perf_counter()
            self._queue.ack(_there(task))
            pops.append(popped - before)
            acks.append(time.perf_counter() - popped)
        return time.perf_counter() - began, tasks

    def _pop_hundred(self) -> int:
        tasks = self._queue.pop_many(HUNDRED)
        self._queue.ack_many(tasks)
        return len(tasks)

    # The raw side

    def _member(self) -> tuple[bytes, bytes]:
        """Make a raw task: the id and the payload, of the same bytes as those of DPQ."""
        n = 1_000_000 + next(self._numbers)
        return b"%012d" % n, b'{"n":%d,"text":"%s"}' % (n, self._text.encode())

    def _raw_push(self, number: int) -> None:
        order, payloads = self.raw_keys
        with self._client.pipeline(transaction=False) as pipe:
            for _ in range(number):
                member, payload = self._member()
                pipe.zadd(order, {member: -self._priority()})
                pipe.hset(payloads, member, payload)
            pipe.execute()

    def _raw_push_one(self) -> None:
        _, payload = self._member()  # the member is the payload; it is popped before all others
        self._client.zadd(self.raw_keys[0], {payload: -1_000_000 - self._priority()})

    def _raw_push_hundred(self) -> None:
        self._raw_push(HUNDRED)

    def _raw_pop_each(self, tasks: int) -> tuple[float, int]:
        order, payloads = self.raw_keys
        began = time.perf_counter()
        for _ in range(tasks):
            ((member, _),) = self._client.zpopmin(order)
            self._client.hdel(payloads, member)
        return time.perf_counter() - began, tasks

    def _raw_pop_hundred(self) -> int:
        order, payloads = self.raw_keys
        members = [member for member, _ in self._client.zpopmin(order, HUNDRED)]
        with self._client.pipeline(transaction=False) as pipe:
            pipe.hmget(payloads, members)
            pipe.hdel(payloads, *members)
            pipe.execute()
        return len(members)


def raw_keys(queue_name: str) -> list[str]:
    """Name the keys of the raw commands: beside the queue's own, so that its rights suffice."""
    return [key_of(queue_name, part) for part in ("raw", "raw-payload")]


def timed_until(
    seconds: float, work: Callable[[], object], taken: list[float], tasks: int = 1
) -> tuple[float, int]:
    """Repeat work for some seconds, once at least.

    Args:
        seconds: After these it ends.
        work: One call.
        taken: It gets the seconds of each call.
        tasks: The tasks of one call.

    Returns:
        The seconds that it took, and the tasks.
    """
    began = before = time.perf_counter()
    calls = 0
    while not calls or before - began < seconds:
        work()
        now = time.perf_counter()
        taken.append(now - before)
        before = now
        calls += 1
    return before - began, calls * tasks


def repeated(tasks: int, work: Callable[[], int]) -> tuple[float, int]:
    """Repeat work until it has handled so many tasks; return the seconds and the tasks."""
    began = time.perf_counter()
    done = 0
    while done < tasks:
        more = work()
        if not more:
            raise RuntimeError(f"only {done} of {tasks} tasks came back: does another program pop?")
        done += more
    return time.perf_counter() - began, done


def _there(task: Task[Any] | None) -> Task[Any]:
    if task is None:
        raise RuntimeError("no task came back: does another program pop?")
    return task
