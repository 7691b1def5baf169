"""What does scale cost on one server: processes, waiting consumers, tasks due at once, groups?"""

import asyncio
import threading
import time
from collections.abc import Iterator
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

from redis import Redis

from benchmarks._harness import (
    ROUNDS,
    SLICES,
    Bench,
    Result,
    Target,
    payload,
    percentile,
    raw_member,
    run_one,
    server_clock,
    wait_until,
)
from benchmarks._processes import processes
from dpq import DPQ, AsyncDPQ, Push

PROCESSES = (1, 2, 4, 8)
SECONDS = 0.15  # of each slice
BATCH = 100

WAITING = 1000
PUSHES = 100  # in each round
QUIET = 5.0  # seconds: a waiter looks again by itself once in it
PATIENCE = 60

DUE = 100_000  # tasks, in one second
AHEAD = 20.0  # seconds until that second, for pushing them

GROUPS = 100_000
FEW_GROUPS = 1000
POPS = 1000  # in each round


# Processes


def _open(url: str, name: str) -> tuple[DPQ[Any], Any, Iterator[int]]:
    client = Redis.from_url(url)
    numbers = count(id(client) % 1_000_003 * 1_000_000)  # others in each process
    return DPQ[Any](Redis.from_url(url), name, default_visibility=3600), client, numbers


def _ours_one_by_one(queue: DPQ[Any], number: int) -> int:
    queue.push(payload(number), priority=number % 1000)
    task, on_success, _ = queue.pop()
    if task:
        on_success()
    return 1


def _ours_in_hundreds(queue: DPQ[Any], number: int) -> int:
    queue.push_many(Push(payload(number + n), n % 1000) for n in range(BATCH))
    queue.ack_many(queue.pop_many(BATCH))
    return BATCH


def _raw_one_by_one(client: Any, number: int) -> int:
    client.zadd("raw", {raw_member(number): number % 1000})
    client.zpopmin("raw")
    return 1


def _raw_in_hundreds(client: Any, number: int) -> int:
    pipe = client.pipeline(transaction=False)
    for n in range(BATCH):
        pipe.zadd("raw", {raw_member(number + n): n % 1000})
    pipe.execute()
    client.zpopmin("raw", BATCH)
    return BATCH


_WORK = {
    "one by one": _ours_one_by_one,
    "in hundreds": _ours_in_hundreds,
    "raw one by one": _raw_one_by_one,
    "raw in hundreds": _raw_in_hundreds,
}


def _work(tools: tuple[DPQ[Any], Any, Iterator[int]], kind: str, end: float) -> int:
    queue, client, numbers = tools
    target, do, done = client if kind.startswith("raw") else queue, _WORK[kind], 0
    while time.monotonic() < end:
        done += do(target, next(numbers) * BATCH)
    return done


def _processes(bench: Bench) -> Iterator[Result]:
    """The server's processor time for a task must not grow with the processes."""
    queue = bench.queue()
    queue.stats()  # opens it
    clock = server_clock(bench.server.pid)
    alone: dict[str, float] = {}
    for number in PROCESSES:
        ratios: dict[str, list[float]] = {kind: [] for kind in _WORK}
        spent: dict[str, list[float]] = {kind: [] for kind in _WORK}
        with processes(number, _open, _work, bench.server.url, queue.queue_name) as several:
            for _ in range(ROUNDS + 1):
                for kind in _WORK:
                    done = before = 0.0
                    for _ in range(2):
                        before -= clock()
                        done += sum(several.slice(kind, SECONDS))
                        before += clock()
                    ratios[kind].append(done / (2 * SECONDS))
                    spent[kind].append(before / done * 1e6)
        for kind in ("one by one", "in hundreds"):
            rates, raw = ratios[kind][1:], ratios[f"raw {kind}"][1:]
            server = median(spent[kind][1:])
            plain = median(spent[f"raw {kind}"][1:])
            alone.setdefault(kind, server)
            alone.setdefault(f"raw {kind}", plain)
            detail = (
                f"{median(rates):.0f}/s, raw {median(raw):.0f}/s; server {server:.1f} us a task"
            )
            samples = [ours / theirs for ours, theirs in zip(rates, raw, strict=True)]
            who = f"{number} process{'es' if number > 1 else ''}"
            name = f"{who}, push, pop and ack {kind} / ZADD and ZPOPMIN"
            yield Result(name, "x", None, samples, detail)
            if number > 1:
                samples = [each / alone[kind] for each in spent[kind][1:]]
                name = f"server time of a task {kind}, {number} processes / 1"
                detail = f"the raw commands {plain / alone[f'raw {kind}']:.2f} x"
                yield Result(name, "x", Target("at most", 1.2), samples, detail)
    queue.admin.drop()


# Waiting consumers


async def _wait(queue: AsyncDPQ[Any], times: Connection) -> None:
    while True:
        task, on_success, _ = await queue.pop(timeout=None)
        now = time.monotonic_ns()
        if task.payload is None:
            await on_success()
            return
        await on_success()
        times.send(now - task.payload)


def _consumers(url: str, name: str, number: int, times: Connection) -> None:
    async def run() -> None:
        async with AsyncDPQ[Any].from_url(url, name, default_visibility=60) as queue:
            await asyncio.gather(*(_wait(queue, times) for _ in range(number)))

    asyncio.run(run())


class _Crowd:
    """Consumers that wait at a queue of their own, in one process with asyncio."""

    def __init__(self, bench: Bench, number: int) -> None:
        self.queue = bench.queue()
        self.queue.stats()  # opens it
        self.number = number
        self._redis = bench.redis
        self._clock = server_clock(bench.server.pid)
        context = get_context("spawn")
        self._times, there = context.Pipe(duplex=False)
        before = self.blocked()
        self.process = context.Process(
            target=_consumers,
            args=(bench.server.url, self.queue.queue_name, number, there),
            daemon=True,
        )
        self.process.start()
        wait_until(lambda: self.blocked() == before + number, "all wait", PATIENCE)

    def blocked(self) -> int:
        return int(self._redis.info("clients")["blocked_clients"])

    def push(self) -> tuple[float, float]:
        """Push for one of them: the server's time of the push, us; ms until a consumer has it."""
        before = self._clock()
        self.queue.push(time.monotonic_ns())
        spent = (self._clock() - before) * 1e6
        if not self._times.poll(PATIENCE):
            raise TimeoutError("no consumer has it")
        return spent, self._times.recv() / 1e6

    def stop(self) -> None:
        self.queue.push_many(Push(None) for _ in range(self.number))
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        self.queue.admin.drop()


def _idle(bench: Bench) -> Result:
    clock = server_clock(bench.server.pid)
    calls, before, began = bench.script_time()[0], clock(), time.monotonic()
    time.sleep(QUIET)
    took = time.monotonic() - began
    share = (clock() - before) / took * 100
    each = (bench.script_time()[0] - calls) / took
    name = f"{WAITING} consumers waiting at an empty queue: of the server's core"
    return Result(name, "%", None, [share], f"{each:.0f} scripts a second")


def _blocked(bench: Bench) -> Result:
    """What the server itself spends on a ZADD that wakes one of many raw clients."""
    pool = bench.client(max_connections=WAITING + 2).connection_pool
    clock = server_clock(bench.server.pid)
    spent: dict[int, float] = {}
    for number in (1, WAITING):
        key = f"raw-{number}"
        waiting = [pool.make_connection() for _ in range(number)]
        for connection in waiting:
            connection.connect()
            connection.send_command("BZPOPMIN", key, 0)
        wait_until(
            lambda number=number: bench.redis.info("clients")["blocked_clients"] == number, "block"
        )
        each = []
        for _ in range(PUSHES):
            began = clock()
            bench.redis.zadd(key, {"w": 0})
            each.append((clock() - began) * 1e6)
            first = waiting.pop(0)  # they are served in their order
            first.read_response()
            first.send_command("BZPOPMIN", key, 0)
            waiting.append(first)
        spent[number] = median(each)
        for connection in waiting:
            connection.disconnect()
    name = f"raw ZADD beside {WAITING} blocked BZPOPMIN / beside one, server"
    detail = f"{spent[1]:.0f} -> {spent[WAITING]:.0f} us"
    return Result(name, "x", None, [spent[WAITING] / spent[1]], detail)


def _waiting(bench: Bench) -> Iterator[Result]:
    yield _blocked(bench)
    one, many = _Crowd(bench, 1), _Crowd(bench, WAITING)
    try:
        yield _idle(bench)
        pushes, turns, scripts = [], [], []
        last: dict[_Crowd, list[float]] = {}
        clock = server_clock(bench.server.pid)
        waiting = one.number + many.number
        for _ in range(ROUNDS + 1):
            server: dict[_Crowd, list[float]] = {one: [], many: []}
            whole: dict[_Crowd, list[float]] = {one: [], many: []}
            last = {one: [], many: []}
            calls = {one: 0, many: 0}
            for turn in range(2 * PUSHES):
                crowd = many if turn % 2 else one
                before, spent = bench.script_time()[0], clock()
                took, late = crowd.push()
                wait_until(lambda: many.blocked() >= waiting, "it waits again")
                whole[crowd].append((clock() - spent) * 1e6)
                calls[crowd] += bench.script_time()[0] - before
                server[crowd].append(took)
                last[crowd].append(late)
            pushes.append(median(server[many]) / median(server[one]))
            turns.append(median(last[many]) / median(last[one]))
            scripts.append(calls[many] / PUSHES)
            detail = f"last: {median(server[one]):.0f} -> {median(server[many]):.0f} us"
        name = f"push beside {WAITING} waiting consumers / beside one, server"
        yield Result(name, "x", Target("at most", 1.2), pushes[1:], detail)
        name = f"push -> one of {WAITING} waiting consumers / the only one, p50"
        detail = f"last: {median(last[one]):.2f} -> {median(last[many]):.2f} ms"
        yield Result(name, "x", Target("at most", 1.5), turns[1:], detail)
        name = f"scripts for a task that one of {WAITING} waiting consumers takes"
        yield Result(name, "", Target("at most", 5), scripts[1:], "push, pop, ack, pop: all wait")
    finally:
        one.stop()
        many.stop()


# Due at once


def _consume(queue: DPQ[Any], number: int, moments: list[float]) -> None:
    """Take and finish so many, by hundreds; note for each when it was taken."""
    left = number
    while left:
        tasks = queue.pop_many(BATCH, timeout=PATIENCE)
        now = time.monotonic()
        moments += [now - task.payload["due"] for task in tasks]
        queue.ack_many(tasks)
        left -= len(tasks)


def _due(bench: Bench) -> Iterator[Result]:
    """100 000 ready tasks, then as many that come due within a second."""
    queue = bench.queue()
    seconds, server, late = {}, {}, {}
    for what in ("ready", "due"):
        start = time.monotonic() + (AHEAD if what == "due" else 0)
        moments = [start + bench.random.random() for _ in range(DUE)]
        with_moment = ({**payload(n), "due": moment} for n, moment in enumerate(moments))
        if what == "due":
            queue.push_many(
                Push(body, delay=max(0.0, body["due"] - time.monotonic())) for body in with_moment
            )
            assert time.monotonic() < start, "pushing takes too long"
            time.sleep(max(0.0, start - time.monotonic()))
        else:
            queue.push_many(Push(body) for body in with_moment)
        before = bench.script_time()[1]
        began, seen = time.monotonic(), list[float]()
        _consume(queue, DUE, seen)
        seconds[what] = time.monotonic() - began
        server[what] = (bench.script_time()[1] - before) / DUE
        late[what] = seen
    queue.admin.drop()
    took = f"{seconds['due']:.2f} s, ready {seconds['ready']:.2f} s"
    name = f"{DUE} tasks due in one second, until the last is acked / as many ready, one process"
    yield Result(name, "x", None, [seconds["due"] / seconds["ready"]], took)
    name = f"{DUE} tasks due in one second / as many ready, server"
    detail = f"{server['due']:.1f} us a task, ready {server['ready']:.1f} us"
    yield Result(name, "x", None, [server["due"] / server["ready"]], detail)
    detail = f"p50 {percentile(late['due'], 0.5):.2f} s, longest {max(late['due']):.2f} s"
    name = f"{DUE} tasks due in one second: lateness, p99"
    yield Result(name, "s", None, [percentile(late["due"], 0.99)], detail)


# Groups


def _limited(bench: Bench, groups: int) -> tuple[DPQ[Any], float, float]:
    """Make a queue of groups, each with a limit of its own; also us a limit and bytes a group."""
    queue = bench.queue()
    queue.stats()  # opens it
    bench.wait_until_freed()
    used = bench.redis.info("memory")["used_memory"]
    began = time.perf_counter()
    threads = [
        threading.Thread(
            target=lambda first: [
                queue.set_limit(100, 1, 100, group=f"host-{n}.com") for n in range(first, groups, 4)
            ],
            args=(first,),
        )
        for first in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = (time.perf_counter() - began) / groups * 1e6
    return queue, took, (bench.redis.info("memory")["used_memory"] - used) / groups


def _groups(bench: Bench) -> Iterator[Result]:
    few, _, _ = _limited(bench, FEW_GROUPS)
    many, set_us, size = _limited(bench, GROUPS)
    clock = server_clock(bench.server.pid)
    for queue, groups in ((few, FEW_GROUPS), (many, GROUPS)):
        queue.push_many(
            Push(payload(n), priority=p, group=f"host-{n % groups}.com")
            for n, p in enumerate(bench.priorities(GROUPS))
        )
    times: dict[str, list[float]] = {"pop": [], "pop_many": []}
    spent: dict[DPQ[Any], float] = {}
    details = {}
    for what, samples in times.items():
        for _ in range(ROUNDS + 1):
            spent = {few: 0.0, many: 0.0}
            for turn in range(2 * SLICES):
                queue = many if turn % 2 else few
                before = clock()
                if what == "pop":
                    for _ in range(POPS // SLICES):
                        assert queue.pop().task
                else:
                    for _ in range(POPS // BATCH):
                        assert queue.pop_many(BATCH)
                spent[queue] += (clock() - before) * 1e6 / POPS
            samples.append(spent[many] / spent[few])
        if what == "pop_many":
            spent = {queue: each / SLICES for queue, each in spent.items()}
        details[what] = f"last: {spent[few]:.1f} -> {spent[many]:.1f} us a task"
    for what, samples in times.items():
        many_or_one = "" if what == "pop" else f" of {BATCH}"
        name = f"{what}{many_or_one} from {GROUPS} groups with limits / from {FEW_GROUPS}, server"
        yield Result(name, "x", Target("at most", 1.5), samples[1:], details[what])
    detail = f"set_limit {set_us:.0f} us each, from 4 threads"
    yield Result(f"memory of a group's limit, {GROUPS} groups", "bytes", None, [size], detail)
    few.admin.drop()
    many.admin.drop()
    bench.wait_until_freed()


def measure(bench: Bench) -> Iterator[Result]:
    yield from _processes(bench)
    yield from _waiting(bench)
    yield from _due(bench)
    yield from _groups(bench)


if __name__ == "__main__":
    run_one("scale")
