"""Walks over many calls: a cursor of SCAN means nothing to another process of the server."""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kit.nodes import alone
from soak.servers import Pair

from dpq import DPQ, Push
from dpq.model.reports import Problem
from dpq.script.keys import key_of
from dpq.server import find_binary

pytestmark = pytest.mark.filterwarnings("ignore:.*keeps nothing on disk")

TASKS = 3000
Turn = Callable[[], None]


@pytest.fixture
def place(directory: str) -> Path:
    return Path(directory)


@contextmanager
def restarted(place: Path) -> Iterator[tuple[str, Turn]]:
    with alone(place / "node") as node:

        def turn() -> None:
            node.kill()
            node.start()

        yield f"unix://{node.socket}", turn


@contextmanager
def taken_over(place: Path) -> Iterator[tuple[str, Turn]]:
    (place / "pair").mkdir()
    with closing(Pair(place / "pair", find_binary())) as pair:
        pair.start()

        def turn() -> None:
            pair.switch()
            pair.follow()
            pair.settle()

        yield pair.url, turn


@pytest.mark.parametrize("way", [restarted, taken_over])
def test_an_export_has_each_task_once(place: Path, queue_name: str, way: Any) -> None:
    """In the middle of it the server is killed and starts again, or its replica takes over."""
    with way(place) as (url, turn), DPQ.from_url(url, queue_name) as q:
        ids = q.push_many([Push(n, batch=f"b{n % 700}", key=f"k{n}") for n in range(TASKS)])
        lines = []
        for line in q.admin.export():
            lines.append(line)
            if len(lines) in (300, 1900):  # among the batches, and among the tasks
                turn()
        told = Counter(json.loads(line).get("id") for line in lines)
        assert {id_: told[id_] for id_ in ids} == dict.fromkeys(ids, 1)
        assert json.loads(lines[-1])["tasks"] == TASKS
        assert len(q.admin.batches(999)) == 700
        with DPQ.from_url(url, f"{queue_name}b") as other:
            assert other.admin.import_(lines).added == TASKS
            assert [batch.left for batch in other.admin.batches(999)] == [
                batch.left for batch in q.admin.batches(999)
            ]


def turning(steps: Any, turn: Turn) -> Any:
    """The commands of an operation; behind its second answer the server is another process."""
    answers = 0
    command = next(steps)
    with suppress(StopIteration):
        while True:
            answer = yield command
            answers += 1
            if answers == 2:
                turn()
            command = steps.send(answer)
    assert answers > 2
    return answers


def of_batches(problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.kind.startswith("batch")]


WALKS: dict[str, Callable[[DPQ[Any]], Any]] = {
    "held": lambda q: len((yield from q._operations.all_leases())),
    "running": lambda q: (yield from q._operations._running())[0].total(),
    "limits": lambda q: len((yield from q._operations._names("limits"))),
    "workers": lambda q: len((yield from q._operations.told()).workers),
    "batches": lambda q: len((yield from q._operations.batches(10**6))),
    "check": lambda q: TASKS + len(of_batches((yield from q._operations.check()))),
}


@pytest.fixture(scope="module")
def full() -> Iterator[tuple[DPQ[Any], Turn]]:
    """A queue with `TASKS` of everything, on a server that can be killed."""
    with (
        tempfile.TemporaryDirectory(prefix="dpq-walks-", dir="/tmp") as place,
        restarted(Path(place)) as (url, turn),
        DPQ.from_url(url, "full") as q,
    ):
        for first in range(0, TASKS, 1000):
            numbers = range(first, first + 1000)
            q.push_many([Push(n, group=f"g{n}", batch=f"b{n}") for n in numbers])
            q.pop_many(1000)
        pipeline = q.redis.pipeline()
        now = int(q.redis.time()[0]) * 1000
        for n in range(TASKS):
            pipeline.hset(key_of("full", "limits"), f"group:g{n}", "0|5 1000 1")
            pipeline.hset(key_of("full", "workers"), f"w{n}", f"{now} {now} 1 1 1 0.1\th\tw{n}")
        pipeline.execute()
        yield q, turn


@pytest.mark.parametrize("walk", WALKS)
def test_each_walk_begins_anew(full: tuple[DPQ[Any], Turn], walk: str) -> None:
    """The server is killed between two pages: nothing is left out, nor counted twice."""
    q, turn = full
    counts = []

    def counting() -> Any:
        counts.append((yield from WALKS[walk](q)))

    q._session.run(turning, counting(), turn)
    assert counts == [TASKS]
