"""The fetchers of both workers, alone: over a server that is a list of answers, and no runner."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.scripted import (
    CUT,
    AsyncScriptedSession,
    AsyncScriptedWakeUps,
    ScriptedQueue,
    ScriptedSession,
    ScriptedWakeUps,
    a_task,
    deliveries_of,
)
from support import PATIENCE_S

from dpq import RateLimited
from dpq.link.watches import Watch
from dpq.worker import fetcher, fetcher_async
from dpq.worker.change import Change
from dpq.worker.change_async import AsyncChange
from dpq.worker.deliveries import Done, Taken
from dpq.worker.fetcher import Fetcher
from dpq.worker.fetcher_async import AsyncFetcher
from dpq.worker.handler_calls import HandlerCalls
from dpq.worker.handlers import finder
from dpq.worker.run_state import RunState
from dpq.worker.runner import Runner


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause after an error."""
    for module in (fetcher, fetcher_async):
        monkeypatch.setattr(module, "longer_pause", lambda _: 0.0)


def tasks(count: int, name: str = "", **fields: Any) -> list[Any]:
    return [a_task(n, f"{name}{n}", **fields) for n in range(count)]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """The sockets of all changes are closed."""
    yield
    while Scene.changes:
        Scene.changes.pop().close()


class Scene:
    """A fetcher of threads over scripted queues."""

    changes: ClassVar[list[Change]] = []

    def __init__(
        self, *queues: ScriptedQueue, cuts: Any = (), until_empty: bool = True, **settings: Any
    ) -> None:
        self.lock = threading.RLock()
        self.state = RunState(until_empty=until_empty, end=self.end)
        self.session = ScriptedSession(cuts)
        self.wakeups = ScriptedWakeUps()
        self.deliveries = deliveries_of(queues, self.state, **settings)
        wakeups: Any = self.wakeups
        self.changes.append(Change(self.lock))
        self.fetcher = Fetcher(self.state, self.deliveries, self.session, wakeups, self.changes[-1])
        self.seen: list[str] = []

    def end(self) -> None:
        self.state.stopping = True
        self.fetcher.change.note()

    def next_task(self, free: int = 1) -> Taken | None:
        """Step until there is a task, or the run ends."""
        with self.lock:
            while not (self.state.stopping or (taken := self.fetcher.take())):
                self.fetcher.step(free)
            return None if self.state.stopping else taken

    def work(self, error: BaseException | None = None) -> None:
        """Take tasks and end them at once, until the run ends."""
        while taken := self.next_task():
            self.seen.append(taken.lease.task.id)
            self.finish(taken, error)

    def run_threads(self, count: int) -> None:
        """Let a runner of so many threads handle all tasks."""
        calls = HandlerCalls[Any](
            name="worker",
            deliveries=self.deliveries,
            find=finder(lambda task: self.seen.append(task.id)),
        )
        runner = Runner(calls, self.fetcher, self.state, self.lock, wake=lambda: None)
        threads = [threading.Thread(target=runner.work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        give_up = time.monotonic() + PATIENCE_S
        for thread in threads:
            while thread.is_alive() and time.monotonic() < give_up:
                runner.watch()
                thread.join(0.01)
            with self.lock:
                runner.stop()
        with self.lock:
            self.fetcher.send_ends()

    def finish(self, taken: Taken, error: BaseException | None = None) -> None:
        done = Done(taken.queue, taken.task, error)
        assert self.deliveries.claim(done)
        with self.lock:
            self.fetcher.handled(done, 0.0)


def work_async(
    queues: list[ScriptedQueue], cuts: Any, prefetch: int, concurrency: int
) -> tuple[list[str], AsyncScriptedSession]:
    """Let an asyncio fetcher take all tasks; each of them ends at once."""
    session, wakeups, seen = AsyncScriptedSession(cuts), AsyncScriptedWakeUps(), list[str]()

    async def run() -> None:
        state = RunState(until_empty=True, end=lambda: setattr(state, "stopping", True))
        deliveries = deliveries_of(queues, state, prefetch=prefetch, concurrency=concurrency)
        faked: Any = wakeups
        fetcher = AsyncFetcher(state, deliveries, session, faked, AsyncChange())
        while not state.stopping:
            for _ in range(concurrency):
                if taken := fetcher.take():
                    seen.append(taken.lease.task.id)
                    done = Done(taken.queue, taken.task, None)
                    assert deliveries.claim(done)
                    fetcher.add(done)
            await fetcher.step(concurrency)
        await fetcher.give_back_unbegun()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    return seen, session


ANSWERS = st.lists(st.sampled_from([0, 1, 2, 100, CUT]), max_size=8)
CUTS = st.lists(st.booleans(), max_size=6)


@given(counts=st.lists(st.integers(0, 12), min_size=1, max_size=3), data=st.data())
def test_all_tasks_come_once_and_all_ends_are_sent(counts: list[int], data: Any) -> None:
    """Whatever the server answers, each task is given once, and its end is sent until answered."""
    prefetch, concurrency = data.draw(st.integers(0, 7)), data.draw(st.integers(1, 3))
    cuts = data.draw(CUTS)
    answers = [data.draw(ANSWERS) for _ in counts]

    def queues() -> list[ScriptedQueue]:
        return [
            ScriptedQueue(f"q{n}", tasks(count, f"{n}-"), answers[n])
            for n, count in enumerate(counts)
        ]

    scene = Scene(*queues(), cuts=cuts, prefetch=prefetch, concurrency=concurrency)
    scene.run_threads(concurrency)
    expected = [f"{n}-{i}" for n, count in enumerate(counts) for i in range(count)]
    assert sorted(scene.seen) == sorted(expected)
    assert Counter(scene.session.ended) == Counter(("ack", each) for each in expected)

    seen, session = work_async(queues(), cuts, prefetch, concurrency)
    assert sorted(seen) == sorted(expected)
    assert Counter(session.ended) == Counter(("ack", each) for each in expected)


def test_a_task_waits_for_its_moment() -> None:
    """A task that begins later is no task yet: the worker listens to its queue until then."""
    scene = Scene(ScriptedQueue("q", []))
    fetcher = scene.fetcher
    fetcher._look, scene.wakeups.watches = False, [Watch(0, None)]
    [held] = scene.deliveries.hold(scene.state.queues[0], tasks(1), [1e9], granted=1.0)
    fetcher._taken.append(held)
    with scene.lock:
        assert fetcher.take() is None
        fetcher.step(2)
    assert scene.wakeups.waits == [held.at]
    fetcher._taken[0] = held._replace(at=1.0)
    assert fetcher.take()


def test_what_waits_for_its_moment_goes_back() -> None:
    """After a 429 the tasks of its group go back, and at a stop all others: uncounted."""
    scene = Scene(ScriptedQueue("q", []))
    [queue] = scene.state.queues
    same, other = tasks(2, "same", group="host"), tasks(2, "other", group="another")
    for held in (same, other):
        scene.fetcher._taken.extend(scene.deliveries.hold(queue, held, [1e9, 2e9], granted=1.0))
    met = a_task(9, "met", group="host")
    scene.deliveries.hold(queue, [met])
    with scene.lock:
        scene.fetcher.add(Done(queue, met, RateLimited(1)))
        scene.fetcher.send_ends()
    assert scene.session.ended == [
        *(("RateLimited", "met"), ("GivenBack", "same0"), ("GivenBack", "same1"))
    ]
    scene.state.stopping = True
    with scene.lock:
        scene.fetcher.give_back_unbegun()
    assert scene.session.ended[3:] == [("GivenBack", "other0"), ("GivenBack", "other1")]


def test_ends_wait_for_a_pop_only_if_one_is_near() -> None:
    """Ends travel with the next pop; without one they are sent alone, and no pop is in vain."""
    scene = Scene(ScriptedQueue("q", []))
    fetcher, now = scene.fetcher, time.time() * 1000
    near, far = ([Watch(now, ms)] for ms in (20, 1000))
    scene.wakeups.watches = far
    assert fetcher._asks_after_end()
    fetcher._learn(True, far, [])
    assert fetcher._asks_after_end()  # once is no rule
    fetcher._learn(True, far, [])
    assert not fetcher._asks_after_end()
    fetcher.ends = [Done(scene.state.queues[0], a_task(0, "a"), None)]
    assert fetcher._ends_are_late()
    scene.wakeups.watches = near
    assert not fetcher._ends_are_late()
    fetcher.ends = [fetcher.ends[0]._replace(error=RateLimited(1))]
    assert fetcher._ends_are_late()
    scene.wakeups.watches = []
    assert fetcher._asks_after_end()
    scene.wakeups.watches = far
    far[0].marker_received(0)
    fetcher._learn(False, far, [Taken(None, None)])  # type: ignore[arg-type]
    assert fetcher._asks_after_end()


@pytest.mark.parametrize("prefetch", [0, 6])
def test_a_limit_is_told_before_the_next_pop(prefetch: int) -> None:
    """A 429 never shares an exchange with a pop; what was fetched under it goes back."""
    scene = Scene(ScriptedQueue("q", tasks(12, group="host")), prefetch=prefetch)
    scene.work(RateLimited(1))
    assert not [sent for sent in scene.session.sent if {"RateLimited", "pop"} <= {*sent}]
    ended = Counter(name for name, _ in scene.session.ended)
    assert ended["RateLimited"] == len(scene.seen)
    assert ended["RateLimited"] + ended["GivenBack"] == 12


@pytest.mark.parametrize("prefetch", [0, 4])
def test_with_durability_no_pop_waits_for_acks(prefetch: int) -> None:
    """Acks that wait for a confirmation never travel with a pop."""
    queue = ScriptedQueue("q", tasks(5))
    queue.settings.durability = "replica"
    scene = Scene(queue, prefetch=prefetch)
    scene.work()
    assert not [sent for sent in scene.session.sent if {"ack", "pop"} <= {*sent}]
    assert len(scene.session.ended) == 5


def test_what_was_cut_off_is_sent_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the loop or of the network loses no end of a delivery; nor does an interrupt."""

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    scene = Scene(ScriptedQueue("q", tasks(1)), cuts=[True, True], until_empty=False)
    taken = scene.next_task()
    assert taken
    scene.finish(taken)
    with monkeypatch.context() as patch, scene.lock:
        patch.setattr(scene.session, "send_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            scene.fetcher.send_ends()
    for answered in (False, False, True):
        with scene.lock:
            assert scene.fetcher.send_ends() is answered
    assert scene.session.ended == [("ack", "0")]


def test_wake_ups_that_a_busy_worker_owes_are_passed_on() -> None:
    """If the second queue called, and the first has work for all, the second one's marker goes."""
    first, second = ScriptedQueue("a", tasks(1)), ScriptedQueue("b", [])
    scene = Scene(first, second, until_empty=False)
    scene.wakeups.watches = [Watch(0, None), Watch(0, None)]
    scene.wakeups.watches[1].marker_received(0)
    assert scene.next_task()
    assert [marker.number for marker in scene.wakeups.passed_on] == [1]
    assert scene.wakeups.watches == []
