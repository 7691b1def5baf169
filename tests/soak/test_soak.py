"""The soak runs, ends on time, leaves nothing behind; and its judge finds what it is to find."""

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from soak.judge import Judge, Verdict
from soak.ledger import Books
from soak.plan import CREW, LIMITED, STRICT
from support import processes

TESTS = Path(__file__).parents[1]


def test_a_short_soak_is_sound(tmp_path: Path) -> None:
    """A few seconds with each kind of fault end on time, with nothing lost and nothing left."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment["TMPDIR"] = tempfile.mkdtemp(prefix="dpq-", dir="/tmp")  # short: sockets
    command = [sys.executable, "-m", "soak", "--minutes", "0.08", "--visibility", "1.5"]
    try:
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "**Sound.**" in done.stdout
        for kind in (*("lossy", "switch", "restart", "stall", "cut"), *("flush", "leave", "pause")):
            assert f"\n| {kind} |" in done.stdout, done.stdout
        assert os.listdir(environment["TMPDIR"]) == []
        assert processes(environment["TMPDIR"]) == []
    finally:
        subprocess.run(["/bin/rm", "-rf", environment["TMPDIR"]], check=True)


# What the judge finds


def number_of(id_: str) -> int:
    """The number in a made id: `t1`."""
    return int(id_.rpartition("t")[2])


T = 1_700_000_000
"""When it all begins, seconds."""


class Made:
    """Ledgers made by hand: `line("worker.1", "end", ...)`; moments are seconds after the begin."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def line(self, actor: str, *words: object) -> None:
        with (self._directory / actor).open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def push(
        self, id_: str, at: float, queue: str = STRICT, delay: float = 0, by: str = "producer.1",
        took: float = 0,
    ) -> None:  # fmt: skip
        number = number_of(id_)
        self.line(by, "try", queue, by, number, 1, T + at)
        self.line(by, "push", queue, id_, by, number, delay, T + at, T + at + took)

    def held(
        self, id_: str, token: int, at: float, *, queue: str = STRICT, actor: str = "worker.1",
        deliveries: int = 1, priority: float = 0, pushed: float = 0, group: str = "-",
        cost: int = 1, attempt: int = 0, deferrals: int = 0,
    ) -> None:  # fmt: skip
        granted = round((T + at) * 1000)
        self.line(
            actor, "held", queue, id_, token, deliveries, attempt or deliveries, deferrals,
            priority, round((T + pushed) * 1000), granted, granted + 3000, group, cost,
            "producer.1", number_of(id_), T + at,
        )  # fmt: skip

    def end(
        self, id_: str, token: int, at: float, how: str = "acked", *, queue: str = STRICT,
        actor: str = "worker.1", seconds: float = 0, scope: str = "-",
    ) -> None:  # fmt: skip
        self.line(actor, "end", queue, id_, token, how, T + at, T + at + 0.001, seconds, scope)

    def ran(
        self, id_: str, token: int, at: float, until: float, *, pushed: float = 0,
        queue: str = STRICT, delay: float = 0, took: float = 0, **held: Any,
    ) -> None:  # fmt: skip
        """A task that is pushed, delivered at a moment and acknowledged at another."""
        self.push(id_, pushed, queue, delay, took=took)
        self.held(id_, token, at, queue=queue, pushed=pushed, **held)
        self.end(id_, token, until, queue=queue)

    def fault(self, kind: str, begin: float, finish: float, detail: object = "-") -> None:
        self.line("conductor", "fault", kind, T + begin, T + finish, detail)

    def judged(self) -> Verdict:
        books = Books(sorted(self._directory.iterdir()))
        return Judge(books, defaultdict(set), defaultdict(dict)).judge()

    def found(self) -> set[str]:
        return {finding.what for finding in self.judged().findings}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A run of one task, pushed, delivered and acknowledged."""
    made = Made(tmp_path)
    made.ran("t1", 1, 1, 2)
    return made


def lost(made: Made) -> None:
    made.push("t2", 1)


def delivered(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)


def killed_and_lost(made: Made) -> None:
    delivered(made)
    made.fault("kill", 4, 4, "worker.1")


def lost_though_confirmed(made: Made) -> None:
    made.fault("lossy", 0.9, 1.1)
    made.push("t2", 1, by="producer-1.1")


def late_ack(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 1)
    made.held("t2", 3, 5, deliveries=2, actor="worker.2")
    made.end("t2", 2, 6)


def finished_twice(made: Made) -> None:
    made.held("t1", 2, 3, deliveries=2, actor="worker.2")
    made.end("t1", 2, 4, actor="worker.2")


def without_a_reason(made: Made) -> None:
    delivered(made)
    made.held("t2", 3, 7, deliveries=2)
    made.end("t2", 3, 8)


def out_of_order(made: Made) -> None:
    for number, (token, priority) in enumerate(((2, 5), (3, 2**62), (4, 2**62 + 1)), start=2):
        made.ran(f"t{number}", token, 3 + token, 4 + token, pushed=2, priority=priority)


def over_a_limit(made: Made) -> None:
    for number in range(2, 8):  # 2 a second, and 6 of them in 0.9 s
        at = 1 + 0.18 * (number - 2)
        made.ran(f"t{number}", number, at, at + 0.01, queue=LIMITED, group="slow")


def out_though_closed(made: Made) -> None:
    for number, at in ((2, 1), (3, 3)):
        made.push(f"t{number}", 0, queue=LIMITED)
        made.held(f"t{number}", number, at, queue=LIMITED, group="fast")
    made.end("t2", 2, 2, "limited", queue=LIMITED, seconds=1.5, scope="group")
    made.end("t3", 3, 4, queue=LIMITED)
    made.held("t2", 4, 5, queue=LIMITED, group="fast", deliveries=2)
    made.end("t2", 4, 6, queue=LIMITED)


def too_many_leases(made: Made) -> None:
    for number in (2, 3, 4):
        made.ran(f"t{number}", number, 1 + number / 10, 3, queue=LIMITED, group=CREW)


def before_its_delay(made: Made) -> None:
    made.ran("t2", 2, 3.9, 4, pushed=1, delay=3)


def returned(
    made: Made, how: str, seconds: float, again: float, *, queue: str = STRICT, **held: Any
) -> None:
    """A delivery at 3 that ends so at 3.2, and the one that follows."""
    made.push("t2", 0, queue=queue)
    made.held("t2", 2, 3, queue=queue)
    made.end("t2", 2, 3.2, how, queue=queue, seconds=seconds, scope="task")
    made.held("t2", 3, again, queue=queue, deliveries=2, **held)
    made.end("t2", 3, again + 0.1, queue=queue)


def before_its_return(made: Made) -> None:
    returned(made, "set_visibility", 2, 5.1, attempt=1, deferrals=1)


def failure_not_counted(made: Made) -> None:
    returned(made, "fail", 1, 5, attempt=1)


@pytest.mark.parametrize(
    ("what", "plant"),
    [
        ("too early", before_its_delay),
        ("too early", before_its_return),
        ("attempts counted wrong", failure_not_counted),
        ("lost", lost),
        ("lost", killed_and_lost),
        ("lost though confirmed", lost_though_confirmed),
        ("a late ack was taken", late_ack),
        ("finished twice", finished_twice),
        ("redelivered without a reason", without_a_reason),
        ("out of order", out_of_order),
        ("over the limit", over_a_limit),
        ("handed out though closed", out_though_closed),
        ("over the concurrency", too_many_leases),
    ],
)
def test_the_judge_finds(made: Made, what: str, plant: Callable[[Made], None]) -> None:
    """Each thing that must not be is found in the ledgers that prove it, and nothing before."""
    assert made.found() == set()
    plant(made)
    assert what in made.found()


def test_what_comes_in_time_is_sound(made: Made) -> None:
    """To the millisecond: delays, returns, failures, ends of leases, and what nobody has seen."""
    made.ran("t3", 5, 4, 5, pushed=1, delay=3, queue=LIMITED)
    returned(made, "fail", 2, 5.2, attempt=2)
    made.push("t4", 0)
    made.held("t4", 6, 6)
    made.fault("kill", 6.5, 6.5, "worker.1")
    made.held("t4", 8, 9, deliveries=2, actor="worker.2")
    made.fault("restart", 9.5, 10)
    made.held("t4", 10, 16, deliveries=4, actor="worker.2")
    made.end("t4", 10, 17, actor="worker.2")
    assert made.found() == set()
