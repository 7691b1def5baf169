"""Workers under faults, with real processes: what a fault does to tasks, and nothing else does.

Leases are long here unless it is said: none runs out because a machine is slow, so a redelivery has
another reason, which the test knows. `make test-all` runs the long versions.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from daemon.faults.ledger import Books, Ledger, count, lines
from daemon.faults.proxy import Cut, Proxy
from daemon.faults.workers import Hand, Workers
from hypothesis import settings
from kit.faces import FACES, face_of
from redis import Redis
from redis.exceptions import RedisError
from support import PATIENCE_S, wait_for

from dpq import DPQ, Context, Push, Task, TaskState, Worker
from dpq.operations.queue import QueueOperations
from dpq.queue.lease_renewal import Leases
from dpq.server import Server, find_binary
from dpq.testing import assert_conserved, crash, let_leases_expire

LONG_S = 600.0
"""Seconds of a lease that does not run out by itself."""

SOAK = settings.get_current_profile_name() == "soak"

soak = pytest.mark.skipif(not SOAK, reason="make test-all")


@pytest.fixture(scope="module")
def all_hands() -> Iterator[Workers]:
    with closing(Workers()) as workers:
        yield workers


@pytest.fixture
def workers(all_hands: Workers) -> Iterator[Workers]:
    """Starts worker processes; whoever is left at the end of the test is killed."""
    yield all_hands
    all_hands.dismiss()


@pytest.fixture
def first_url(start_server: Callable[[str], Server]) -> str:
    """The server that DPQ itself would choose."""
    first = find_binary()
    return start_server(f"{first.family}-{first.version.rpartition('.')[0]}").url


@pytest.fixture
def live(first_url: str, queue_name: str) -> Iterator[DPQ]:
    """A queue on that server, whose tasks survive any number of faults."""
    with DPQ.from_url(first_url, queue_name, default_max_attempts=1000) as queue:
        yield queue
        queue.drop()


def push(queue: DPQ, number: int, ms: Callable[[], float]) -> list[str]:
    """Push tasks whose handlers take so long."""
    return queue.push_many([Push(payload={"ms": ms()}) for _ in range(number)])


def books(workers: Workers) -> Books:
    return Books(hand.ledger for hand in workers.hands)


def finish(workers: Workers, queue: DPQ, url: str, directory: Path) -> None:
    """Let the next worker do what is left, while nobody else uses the queue."""
    let_leases_expire(queue)
    hand = workers.start(
        directory, "async", url, queue.queue_name, concurrency=50, prefetch=50, until_empty=True
    )
    assert workers.wait(hand) == 0, hand


FAULTY = ("never retrieved", "was destroyed", "never awaited", "Exception in", "hook failed")
"""What a log says of a fault in the worker itself, whatever happens to the server."""


def assert_all_done(workers: Workers, queue: DPQ, pushed: list[str]) -> Books:
    """Every task was acked, none is left, and no worker has complained about itself."""
    book = books(workers)
    assert_conserved(queue, pushed, pushed)
    assert set(pushed) == set(book.times_done())
    stats = queue.stats()
    assert (queue.size(), stats.dead, stats.failed, stats.buried) == (0, 0, 0, 0)
    assert (stats.pushed, stats.acked) == (len(pushed), len(pushed))
    for hand in workers.hands:
        log = hand.log.read_text() if hand.log.exists() else ""  # it may have been killed at once
        assert not any(words in log for words in FAULTY), hand
    return book


# A worker is killed


def stumble() -> None:
    """Where a handler is when its process is killed."""


KILLS = {
    "in the handler": stumble,
    "between pop and handler": Leases.hold,
    "between handler and ack": QueueOperations.ack_many,
}

LEFT_S = 0.1
"""Seconds of its lease that are left to the dead worker, so that nobody waits longer."""


@pytest.mark.parametrize("kind", FACES)
@pytest.mark.parametrize("point", KILLS)
def test_tasks_of_a_killed_worker_come_back(
    redis: Redis, server: Server, queue_name: str, kind: str, point: str, tmp_path: Path
) -> None:
    """What a killed worker held comes back when its lease ends, counted once; another does it."""
    queue = DPQ(redis, queue_name)
    pushed = push(queue, 20, lambda: 0)

    def handle(task: Task[Any], context: Context[Any]) -> None:
        Ledger(tmp_path / "ledger").note("done", task)
        if task.id == pushed[5]:
            stumble()

    def run() -> None:
        with face_of(kind) as face, face.queue.from_url(server.url, queue_name) as own:
            worker = face.worker(own, handle, concurrency=2, prefetch=4, visibility=LONG_S)
            worker.run(signals=False)

    crash(run, at=KILLS[point])
    left = {task.id for state in TaskState for task in queue.peek(100, state)}
    done = {line.id for line in lines(tmp_path / "ledger")}
    begun: dict[str, tuple[int, float]] = {}
    orphans = queue.peek(100, TaskState.INVISIBLE)
    ends = {task.id: queue.extend(task, LEFT_S).timestamp() for task in orphans}

    def take(task: Task[Any]) -> None:
        assert task.id not in begun
        begun[task.id] = (task.attempt, time.time())

    Worker(queue, take, concurrency=2, visibility=LONG_S).drain()
    assert begun.keys() == left
    assert all(attempt == 1 + (id_ in ends) for id_, (attempt, _) in begun.items())
    assert all(begun[id_][1] >= ends[id_] for id_ in ends)  # by the clock of the same machine
    assert 1 <= len(ends) <= 6  # what runs, and what is prefetched
    assert queue.stats().expired_leases == len(ends)
    assert done & left <= ends.keys()
    assert set(pushed) - left <= done
    if point == "in the handler":
        assert pushed[5] in ends
    elif point == "between handler and ack":
        assert done & ends.keys()
    assert_conserved(queue, pushed, pushed)
    queue.drop()


MIX: list[dict[str, Any]] = [
    {"kind": "sync", "concurrency": 1},
    {"kind": "sync", "concurrency": 4},
    {"kind": "sync", "concurrency": 1, "prefetch": 50},
    {"kind": "sync", "concurrency": 4, "prefetch": 20},
    {"kind": "async", "concurrency": 1},
    {"kind": "async", "concurrency": 20},
    {"kind": "async", "concurrency": 5, "prefetch": 30},
    {"kind": "async", "concurrency": 50, "prefetch": 100},
]
"""Eight workers, as different as they may be."""


def end_leases(queue: DPQ, dead: Hand) -> None:
    """End what leases a killed process had, as if their time had run out."""
    held = {line.token for line in lines(dead.ledger)}
    for task in queue.peek(10**6, TaskState.INVISIBLE):
        if task.token in held:
            queue.extend(task, 0.001)


@pytest.mark.parametrize(
    ("tasks", "kills"), [(5000, 12), pytest.param(100_000, 200, marks=soak, id="soak")]
)
def test_random_kills(
    workers: Workers,
    live: DPQ,
    first_url: str,
    tmp_path: Path,
    tasks: int,
    kills: int,
) -> None:
    """Eight workers, killed and restarted at random: each redelivery was held by a killed one."""
    chance = random.Random(4)
    began = time.monotonic()
    visibility = 15.0 if SOAK else LONG_S  # in the soak version they run out by themselves
    pushed = push(live, tasks, lambda: chance.choices((0, 1, 5, 200), (49, 40, 10, 1))[0])

    def start(place: int) -> Hand:
        plan = dict(MIX[place], visibility=visibility)
        return workers.start(tmp_path, plan.pop("kind"), first_url, live.queue_name, **plan)

    def reached(goal: int) -> bool:
        stats = live.stats()
        return stats.acked >= goal or stats.ready == 0  # killed workers hold the rest

    working = [start(place) for place in range(len(MIX))]
    killed: dict[int, int] = {}  # pid -> most tasks that it held
    for _ in range(kills):
        goal = live.stats().acked + chance.randrange(2 * tasks * 8 // 10 // kills)
        wait_for(lambda goal=goal: reached(goal), live.stats)
        place = chance.randrange(len(MIX))
        workers.kill(working[place])
        killed[working[place].pid] = MIX[place]["concurrency"] + MIX[place].get("prefetch", 0)
        if chance.random() < 0.5:  # so that some of its tasks meet the next kills
            end_leases(live, working[place])
        working[place] = start(place)
    if SOAK:
        wait_for(lambda: live.size() == live.stats().invisible, live.stats)
        wait_for(lambda: live.size() == 0, live.stats)
        workers.stop(*working)
    else:
        wait_for(lambda: live.stats().ready == 0, live.stats)
        workers.stop(*working)
        orphans = live.peek(10**6, TaskState.INVISIBLE)
        held = books(workers).held
        assert all(t.token not in held or held[t.token].pid in killed for t in orphans)
        finish(workers, live, first_url, tmp_path)
    book = assert_all_done(workers, live, pushed)
    assert book.unexplained(lambda lease: lease.held is None or lease.held.pid in killed) == []
    # deliveries that reached nobody: the reply was under way, one for each kill at most
    missing = book.missing(live.stats().popped)
    assert missing == sum(lease.held is None for lease in book.expired())
    assert live.stats().expired_leases == len(book.expired())
    assert missing <= sum(killed.values())
    last_done = {line.id: line.token for _, line in sorted(book.done.items())}
    doubled = [line for line in book.done.values() if line.token != last_done[line.id]]
    assert all(line.pid in killed for line in doubled)
    print(
        f"{tasks} tasks in {time.monotonic() - began:.1f} s, {len(killed)} kills, "
        f"{len(book.expired())} redeliveries, of {missing} the reply was under way, "
        f"{len(doubled)} done again; most attempts: {max(t.attempt for t in book.done.values())}"
    )


# Workers are told to stop


def test_sigterm_under_load(workers: Workers, live: DPQ, first_url: str, tmp_path: Path) -> None:
    """Workers that are stopped finish or give back what they hold: no attempt is counted."""
    pushed = push(live, 3000, lambda: 5)
    for plan in MIX[::2] + MIX[1::2]:
        workers.start(
            tmp_path, plan["kind"], first_url, live.queue_name, visibility=LONG_S, concurrency=4,
            prefetch=plan.get("prefetch", 0),
        )  # fmt: skip
    wait_for(lambda: all(count(hand.ledger) > 20 for hand in workers.hands), live.stats)
    workers.stop(*workers.hands)
    left = live.peek(10**6, TaskState.READY)
    assert len(left) == live.size() > 0
    assert {task.attempt for task in left} <= {1}
    finish(workers, live, first_url, tmp_path)
    book = assert_all_done(workers, live, pushed)
    assert live.stats().expired_leases == 0
    assert {line.attempt for line in book.held.values()} == {1}
    assert set(book.times_done().values()) == {1}


# The server ends


class Producer(threading.Thread):
    """Pushes, one by one, until it is told to stop; again, after a while, what was refused.

    Attributes:
        acknowledged: The ids of the pushes that returned.
        refused: How many did not.
    """

    def __init__(self, url: str, queue_name: str) -> None:
        super().__init__(daemon=True)
        self._url, self._name = url, queue_name
        self._ended = threading.Event()
        self.acknowledged: set[str] = set()
        self.refused = 0

    def run(self) -> None:
        with DPQ.from_url(self._url, self._name) as queue:
            number = 0
            while not self._ended.wait(0.001):
                key = f"{self.ident}-{number}"  # a push that is repeated is not to count twice
                with suppress(RedisError):
                    self.acknowledged.add(queue.push({"ms": 1}, key=key))
                    number += 1
                    continue
                self.refused += 1
                self._ended.wait(0.02)

    def stop(self) -> None:
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


def join_durable(directory: Path) -> Server:
    """Start the server of a directory, which answers once a write is on the disk."""
    server = Server.join(directory)
    with Redis.from_url(server.url) as client:
        client.config_set("appendfsync", "always")
        assert client.config_get("appendonly") == {"appendonly": "yes"}
    return server


@pytest.mark.parametrize("restarts", [2, pytest.param(20, marks=soak, id="soak")])
def test_server_restarts_under_load(
    workers: Workers, queue_name: str, tmp_path: Path, restarts: int
) -> None:
    """When the server is killed and started again, all go on, and no acknowledged push is lost."""
    servers = [join_durable(tmp_path / "data")]
    url = servers[0].url
    producers = [Producer(url, queue_name) for _ in range(2)]
    try:
        for producer in producers:
            producer.start()
        for plan in ({"kind": "sync", "prefetch": 10}, {"kind": "async", "prefetch": 10},
                     {"kind": "sync"}, {"kind": "async"}):  # fmt: skip
            workers.start(
                tmp_path, url=url, queue=queue_name, visibility=LONG_S, concurrency=4, **plan
            )
        for _ in range(restarts):
            await_progress(workers, producers)
            os.kill(servers[-1].pid, signal.SIGKILL)
            refused = [producer.refused for producer in producers]
            wait_for(
                lambda refused=refused: all(
                    producer.refused > before
                    for producer, before in zip(producers, refused, strict=True)
                ),
                lambda: [producer.refused for producer in producers],
            )
            servers.append(join_durable(tmp_path / "data"))
            assert servers[-1].url == url
        await_progress(workers, producers)
        for producer in producers:
            producer.stop()
        with DPQ.from_url(url, queue_name) as queue:
            wait_for(lambda: queue.stats().ready == 0, queue.stats)
            workers.stop(*workers.hands)
            finish(workers, queue, url, tmp_path)
            # a push whose reply was lost, and whose task was done before it was repeated, is there
            # twice; and the last one may have been done, but never acknowledged
            acknowledged = set().union(*(producer.acknowledged for producer in producers))
            book = books(workers)
            done = set(book.times_done())
            assert acknowledged <= done
            assert len(done - acknowledged) <= 2 * restarts
            assert_all_done(workers, queue, sorted(done))
            # no lease runs out here, so only what reached nobody came again
            assert book.unexplained(lambda lease: lease.held is None) == []
            assert book.missing(queue.stats().popped) == len(book.expired())
            assert queue.stats().expired_leases == len(book.expired())
            assert set(book.times_done().values()) == {1}
    finally:
        for producer in producers:
            producer._ended.set()
        workers.dismiss()
        for server in servers:
            server.close()


def await_progress(workers: Workers, producers: list[Producer]) -> None:
    """Wait until everybody has done something since now."""
    marks = [count(hand.ledger) + 20 for hand in workers.hands]
    pushes = [len(producer.acknowledged) + 20 for producer in producers]

    def state() -> list[int]:
        done = [count(hand.ledger) for hand in workers.hands]
        return done + [len(producer.acknowledged) for producer in producers]

    wait_for(
        lambda: all(now >= mark for now, mark in zip(state(), marks + pushes, strict=True)),
        lambda: (state(), marks + pushes, workers.hands),
    )


# The network is cut


SECONDS = 10.0 if SOAK else 2.0
"""How long a network is cut."""


@pytest.mark.parametrize(
    ("how", "leases"),
    [
        ("reset", "kept"),
        ("reset", "ended"),
        ("silent", "ended"),
        pytest.param("silent", "kept", marks=soak),
    ],
)
def test_network_cut(
    workers: Workers, live: DPQ, first_url: str, tmp_path: Path, how: Cut, leases: str
) -> None:
    """After a cut workers go on by themselves; only what the cut has hit is delivered again."""
    proxy = Proxy(unquote(first_url.removeprefix("unix://")))
    try:
        pushed = push(live, 500, lambda: 5)
        for kind in ("sync", "async"):
            for prefetch in (0, 10):
                workers.start(
                    tmp_path, kind, proxy.url, live.queue_name,
                    visibility=LONG_S, concurrency=4, prefetch=prefetch,
                )  # fmt: skip

        def progress() -> bool:
            if live.stats().ready < 200:
                pushed.extend(push(live, 200, lambda: 5))
            return all(
                count(hand.ledger) >= mark for hand, mark in zip(workers.hands, marks, strict=True)
            )

        marks = [20] * len(workers.hands)
        wait_for(progress, lambda: workers.hands)
        proxy.cut(how)
        until = time.monotonic() + SECONDS
        live.stats()  # what has reached the server has been answered before the next call is
        exposed = {task.token for task in live.peek(10**6, TaskState.INVISIBLE)}
        if leases == "ended":
            let_leases_expire(live)
        wait_for(lambda: time.monotonic() >= until, lambda: "the clock stands still")
        marks = [count(hand.ledger) + 20 for hand in workers.hands]
        proxy.heal()
        wait_for(progress, lambda: (workers.hands, marks))
        wait_for(lambda: live.stats().ready == 0, live.stats)
        workers.stop(*workers.hands)
    finally:
        left = [hand for hand in workers.hands if hand.status is None]
        for hand in left:
            workers.kill(hand)
        proxy.close()
    finish(workers, live, first_url, tmp_path)
    book = assert_all_done(workers, live, pushed)
    missing = book.missing(live.stats().popped)
    assert missing <= len(proxy.under_way() - book.held.keys())
    ran_out = exposed if leases == "ended" else set()
    assert book.unexplained(lambda x: x.held is None or x.held.token in ran_out) == []
    ended = len(book.expired())
    if leases == "ended":  # those that were finished before anybody else had them are not back
        again = {lease.held.token for lease in book.expired() if lease.held}
        ended += sum(t in book.held and t not in again for t in exposed)
    assert live.stats().expired_leases == ended
    print(
        f"{how}, leases {leases}: {len(exposed)} tasks were held, {len(book.expired())} came "
        f"again, of {missing} the reply was under way"
    )
