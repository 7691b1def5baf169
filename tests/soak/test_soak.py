"""The soak runs, ends on time, leaves nothing behind; and its judge finds what it is to find."""

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from soak.judge import Judge, Verdict
from soak.ledger import Books
from soak.plan import CREW, LIMITED, STEPPED, STEPPED_LIMIT, STRICT
from support import processes

TESTS = Path(__file__).parents[1]


def test_a_short_soak_is_sound(tmp_path: Path) -> None:
    """A few seconds with each kind of fault end on time, with nothing lost and nothing left."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment["TMPDIR"] = tempfile.mkdtemp(prefix="dpq-", dir="/tmp")  # short: sockets
    command = [sys.executable, "-m", "soak", "--minutes", "0.08", "--visibility", "1.5"]
    try:
        began = time.monotonic()
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=110
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "**Sound.**" in done.stdout
        for kind in ("lossy", "switch", "restart", "stall", "cut", "flush", "pause", "step"):
            assert f"\n| {kind} |" in done.stdout, done.stdout
        assert time.monotonic() - began < 100
        assert os.listdir(environment["TMPDIR"]) == []
        assert processes(environment["TMPDIR"]) == []
    finally:
        subprocess.run(["/bin/rm", "-rf", environment["TMPDIR"]], check=True)


# What the judge finds

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
        number = int(id_[1:])
        self.line(by, "try", queue, by, number, 1, T + at)
        self.line(by, "push", queue, id_, by, number, delay, T + at, T + at + took)

    def held(
        self, id_: str, token: int, at: float, *, queue: str = STRICT, actor: str = "worker.1",
        deliveries: int = 1, priority: float = 0, pushed: float = 0, group: str = "-",
        cost: int = 1, clock: float = 0,
    ) -> None:  # fmt: skip
        granted = round((T + at + clock) * 1000)
        self.line(
            actor, "held", queue, id_, token, deliveries, priority, round((T + pushed) * 1000),
            granted, granted + 3000, group, cost, "producer.1", int(id_[1:]), T + at,
        )  # fmt: skip

    def end(
        self, id_: str, token: int, at: float, how: str = "acked", *, queue: str = STRICT,
        actor: str = "worker.1", seconds: float = 0, scope: str = "-",
    ) -> None:  # fmt: skip
        self.line(actor, "end", queue, id_, token, how, T + at, T + at + 0.001, seconds, scope)

    def fault(self, kind: str, begin: float, finish: float, detail: object = "-") -> None:
        self.line("conductor", "fault", kind, T + begin, T + finish, detail)

    def judged(self) -> Verdict:
        books = Books(sorted(self._directory.iterdir()))
        return Judge(books, defaultdict(set), defaultdict(set)).judge()

    def found(self) -> set[str]:
        return {finding.what for finding in self.judged().findings}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A run of one task, pushed, delivered and acknowledged."""
    made = Made(tmp_path)
    made.push("t1", 0)
    made.held("t1", 1, 1)
    made.end("t1", 1, 2)
    return made


def lost(made: Made) -> None:
    made.push("t2", 1)


def killed_and_lost(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.fault("kill", 4, 4, "worker.1")


def lost_by_a_restart(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.fault("restart", 3.5, 4)


def too_long_and_lost(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.line("worker.1", "over", STRICT, "t2", 2, T + 3)
    made.line("worker.1", "asks", STRICT, "t2", 2, T + 7)
    made.end("t2", 2, 7, "gone")


def failed_and_lost(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.end("t2", 2, 3.2, "fail")


def limited_and_lost(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.end("t2", 2, 3.2, "limited", seconds=1, scope="group")


def failed_then_killed_and_lost(made: Made) -> None:
    failed_and_lost(made)
    made.held("t2", 3, 5, deliveries=2)
    made.fault("kill", 6, 6, "worker.1")


def asked_but_refused(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.line("worker.1", "asks", STRICT, "t2", 2, T + 7)
    made.line("worker.1", "refused", STRICT, "t2", 2, T + 7)


def dead_letter_lost(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.end("t2", 2, 3.2, "buried")


def lost_though_confirmed(made: Made) -> None:
    made.fault("lossy", 0.9, 1.1)
    made.push("t2", 1, by="producer-1.1")


def never_pushed(made: Made) -> None:
    made.held("t2", 2, 3)
    made.end("t2", 2, 4)


def delivered_after_its_ack(made: Made) -> None:
    made.held("t1", 2, 3, deliveries=2)


def late_ack(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 1)
    made.held("t2", 3, 5, deliveries=2, actor="worker.2")
    made.end("t2", 2, 6)


def finished_twice(made: Made) -> None:
    made.held("t1", 2, 3, deliveries=2, actor="worker.2")
    made.end("t1", 2, 4, actor="worker.2")


def token_twice(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 1, 3)
    made.end("t2", 1, 4)


def without_a_reason(made: Made) -> None:
    made.push("t2", 0)
    made.held("t2", 2, 3)
    made.held("t2", 3, 7, deliveries=2)
    made.end("t2", 3, 8)


def out_of_order(made: Made) -> None:
    for number, (token, priority) in enumerate(((2, 5), (3, 2**62), (4, 2**62 + 1)), start=2):
        made.push(f"t{number}", 2)
        made.held(f"t{number}", token, 3 + token, priority=priority, pushed=2)
        made.end(f"t{number}", token, 4 + token)


def given_back_and_passed_over(made: Made) -> None:
    made.push("t2", 2)
    made.held("t2", 2, 3, priority=9, pushed=2)
    made.end("t2", 2, 3.5, "release", seconds=1)
    made.push("t3", 2)
    made.held("t3", 3, 5, priority=1, pushed=2)
    made.end("t3", 3, 6)
    made.held("t2", 4, 7, priority=9, pushed=2, deliveries=2)
    made.end("t2", 4, 8)


def over_a_limit(made: Made) -> None:
    for number in range(2, 8):  # 2 a second, and 6 of them in 0.9 s
        made.push(f"t{number}", 0, queue=LIMITED)
        at = 1 + 0.18 * (number - 2)
        made.held(f"t{number}", number, at, queue=LIMITED, group="slow")
        made.end(f"t{number}", number, at + 0.01, queue=LIMITED)


def over_a_limit_by_cost(made: Made) -> None:
    for number in (2, 3):
        made.push(f"t{number}", 0, queue=LIMITED)
        made.held(f"t{number}", number, 1 + number / 10, queue=LIMITED, group="slow", cost=3)
        made.end(f"t{number}", number, 4, queue=LIMITED)


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
        made.push(f"t{number}", 0, queue=LIMITED)
        made.held(f"t{number}", number, 1 + number / 10, queue=LIMITED, group=CREW)
        made.end(f"t{number}", number, 3, queue=LIMITED)


@pytest.mark.parametrize(
    ("what", "plant"),
    [
        ("lost", lost),
        ("lost", killed_and_lost),
        ("lost", lost_by_a_restart),
        ("lost", too_long_and_lost),
        ("lost", failed_and_lost),
        ("lost", limited_and_lost),
        ("lost", failed_then_killed_and_lost),
        ("lost", asked_but_refused),
        ("lost", dead_letter_lost),
        ("lost though confirmed", lost_though_confirmed),
        ("never pushed", never_pushed),
        ("acknowledged, and delivered again", delivered_after_its_ack),
        ("a late ack was taken", late_ack),
        ("finished twice", finished_twice),
        ("token twice", token_twice),
        ("redelivered without a reason", without_a_reason),
        ("out of order", out_of_order),
        ("out of order", given_back_and_passed_over),
        ("over the limit", over_a_limit),
        ("over the limit", over_a_limit_by_cost),
        ("handed out though closed", out_though_closed),
        ("over the concurrency", too_many_leases),
    ],
)
def test_the_judge_finds(made: Made, what: str, plant: Callable[[Made], None]) -> None:
    """Each thing that must not be is found in the ledgers that prove it, and nothing before."""
    assert made.found() == set()
    plant(made)
    assert what in made.found()


def test_a_lease_may_end_where_its_ack_was_asked_for(made: Made) -> None:
    """Also when nobody has written down the answer: from there on it is not sure any more."""
    too_many_leases(made)
    made.push("t5", 0, queue=LIMITED)
    made.held("t5", 5, 4, queue=LIMITED, group=CREW)
    made.line("worker.1", "asks", LIMITED, "t5", 5, T + 4.1)
    before = sum(each.what == "over the concurrency" for each in made.judged().findings)
    for number in (6, 7):
        made.push(f"t{number}", 0, queue=LIMITED)
        made.held(f"t{number}", number, 4 + number / 10, queue=LIMITED, group=CREW)
        made.end(f"t{number}", number, 6, queue=LIMITED)
    after = sum(each.what == "over the concurrency" for each in made.judged().findings)
    assert after == before > 0


def test_what_a_fault_explains_is_no_finding(made: Made) -> None:
    """Kills, long stays, clock steps and lossy failovers explain what they may bring about."""
    made.push("t2", 1)  # lost: acknowledged while nobody replicated
    made.fault("lossy", 0.9, 1.1)
    made.push("t3", 2)
    made.held("t3", 2, 3)
    made.fault("kill", 4, 4, "worker.1")
    made.held("t3", 3, 6, deliveries=2, actor="worker.2")
    made.line("worker.2", "over", STRICT, "t3", 3, T + 6)
    made.held("t3", 4, 10, deliveries=3, actor="worker.2")
    made.end("t3", 4, 10.5, actor="worker.2")
    made.push("t4", 2, queue=STEPPED)
    made.held("t4", 1, 11, queue=STEPPED)
    made.fault("step", 12, 12, 5000)
    made.held("t4", 2, 13, queue=STEPPED, deliveries=2, clock=5)
    made.end("t4", 2, 14, queue=STEPPED)
    made.push("t5", 5, took=1.5)  # its first answer was lost: sent again when that copy was done
    made.held("t5", 5, 5.5, pushed=5)
    made.end("t5", 5, 6)
    made.held("t5", 6, 7, pushed=6.5)
    made.end("t5", 6, 8)
    made.push("t6", 7)  # killed when it had asked for its ack
    made.held("t6", 7, 7.2, pushed=7)
    made.line("worker.3", "asks", STRICT, "t6", 7, T + 8)
    made.push("t7", 7)  # done by an ack whose answer was lost; the second one finds nothing
    made.held("t7", 8, 7.5, pushed=7)
    made.line("worker.1", "asks", STRICT, "t7", 8, T + 8)
    made.fault("restart", 8, 8.5)
    made.end("t7", 8, 9, "gone")
    made.push("t8", 8.9)  # a failover loses its second delivery, not the ack of the first
    made.held("t8", 9, 9, pushed=8.9)
    made.fault("lossy", 9.5, 10)
    made.held("t8", 10, 9.7, pushed=8.9, actor="worker.2", deliveries=2)
    made.end("t8", 9, 10.2)
    assert made.found() == set()


def test_a_step_back_repeats_no_window(made: Made) -> None:
    """Grants before and after a step back are apart by the time that has passed between them."""
    made.fault("step", 20, 20, -6000)

    def grant(number: int, at: float, clock: float) -> None:
        made.push(f"t{number}", 0, queue=STEPPED)
        made.held(f"t{number}", number, at, queue=STEPPED, clock=clock)
        made.end(f"t{number}", number, at + 0.01, queue=STEPPED)

    most = int(STEPPED_LIMIT.rate) + STEPPED_LIMIT.burst - 1
    for number in range(2, 2 + most):
        grant(number, 16 + number / 400, 0)
        grant(number + 200, 22 + number / 400, -6)
    assert made.found() == set()
    reached = made.judged().reached[STEPPED, "44 in 1 s, burst 4"]
    assert (reached.most, reached.allowed, reached.full) == (most, most, 2 * STEPPED_LIMIT.burst)
    grant(2 + most, 16.3, 0)
    assert made.found() == {"over the limit"}
