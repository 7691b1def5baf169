"""The soak runs, ends on time, leaves nothing behind; and its judge finds what it is to find."""

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from soak.judge import Judge, Verdict
from soak.ledger import Books
from soak.plan import (
    CREW,
    GROUPED,
    LANE,
    LIMITED,
    NARROW,
    QUIET,
    QUIET_ATTEMPTS,
    STEPPED,
    STEPPED_LIMIT,
    STRICT,
)
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
        for kind in (
            *("lossy", "switch", "restart", "stall", "cut"),
            *("flush", "leave", "pause", "step"),
        ):
            assert f"\n| {kind} |" in done.stdout, done.stdout
        assert time.monotonic() - began < 100
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
        self.dead: dict[str, dict[str, Any]] = defaultdict(dict)

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
        cost: int = 1, clock: float = 0, attempt: int = 0, deferrals: int = 0,
    ) -> None:  # fmt: skip
        granted = round((T + at + clock) * 1000)
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

    def dies(self, id_: str, attempts: int) -> None:
        task = SimpleNamespace(id=id_, attempts=attempts, reason="attempts spent")
        self.dead[QUIET][id_] = task

    def gives(
        self, id_: str, token: int, at: float, how: str, seconds: float = 0, queue: str = STRICT,
        actor: str = "worker.1",
    ) -> None:  # fmt: skip
        self.line(actor, "gives", queue, id_, token, how, seconds, T + at)

    def fault(self, kind: str, begin: float, finish: float, detail: object = "-") -> None:
        self.line("conductor", "fault", kind, T + begin, T + finish, detail)

    def judged(self) -> Verdict:
        books = Books(sorted(self._directory.iterdir()))
        return Judge(books, defaultdict(set), self.dead).judge()

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


def lost_by_a_restart(made: Made) -> None:
    delivered(made)
    made.fault("restart", 3.5, 4)


def too_long_and_lost(made: Made) -> None:
    delivered(made)
    made.line("worker.1", "over", STRICT, "t2", 2, T + 3)
    made.line("worker.1", "asks", STRICT, "t2", 2, T + 7)
    made.end("t2", 2, 7, "gone")


def failed_and_lost(made: Made) -> None:
    delivered(made)
    made.end("t2", 2, 3.2, "fail")


def limited_and_lost(made: Made) -> None:
    delivered(made)
    made.end("t2", 2, 3.2, "limited", seconds=1, scope="group")


def failed_then_killed_and_lost(made: Made) -> None:
    failed_and_lost(made)
    made.held("t2", 3, 5, deliveries=2)
    made.fault("kill", 6, 6, "worker.1")


def asked_but_refused(made: Made) -> None:
    delivered(made)
    made.line("worker.1", "asks", STRICT, "t2", 2, T + 7)
    made.line("worker.1", "refused", STRICT, "t2", 2, T + 7)


def dead_letter_lost(made: Made) -> None:
    delivered(made)
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
    made.ran("t2", 1, 3, 4)


def without_a_reason(made: Made) -> None:
    delivered(made)
    made.held("t2", 3, 7, deliveries=2)
    made.end("t2", 3, 8)


def out_of_order(made: Made) -> None:
    for number, (token, priority) in enumerate(((2, 5), (3, 2**62), (4, 2**62 + 1)), start=2):
        made.ran(f"t{number}", token, 3 + token, 4 + token, pushed=2, priority=priority)


def given_back_and_passed_over(made: Made) -> None:
    made.push("t2", 2)
    made.held("t2", 2, 3, priority=9, pushed=2)
    made.end("t2", 2, 3.5, "release", seconds=1)
    made.ran("t3", 3, 5, 6, pushed=2, priority=1)
    made.held("t2", 4, 7, priority=9, pushed=2, deliveries=2)
    made.end("t2", 4, 8)


def over_a_limit(made: Made) -> None:
    for number in range(2, 8):  # 2 a second, and 6 of them in 0.9 s
        at = 1 + 0.18 * (number - 2)
        made.ran(f"t{number}", number, at, at + 0.01, queue=LIMITED, group="slow")


def over_a_limit_by_cost(made: Made) -> None:
    for number in (2, 3):
        made.ran(f"t{number}", number, 1 + number / 10, 4, queue=LIMITED, group="slow", cost=3)


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


def before_its_backoff(made: Made) -> None:
    returned(made, "fail", 2, 5.1, attempt=2)


def before_retry_after(made: Made) -> None:
    returned(made, "limited", 2, 5.1, attempt=1, deferrals=1)


def before_its_lease_was_over(made: Made) -> None:
    delivered(made)
    made.fault("kill", 3.5, 3.5, "worker.1")
    made.held("t2", 3, 5.9, deliveries=2, actor="worker.2")
    made.end("t2", 3, 6, actor="worker.2")


def before_its_time_by_any_clock(made: Made) -> None:
    made.fault("step", 20, 20, 4000)
    made.ran("t2", 2, 22.9, 24, pushed=19, delay=8, queue=STEPPED, clock=4)


def failure_not_counted(made: Made) -> None:
    returned(made, "fail", 1, 5, attempt=1)


def end_of_lease_not_counted(made: Made) -> None:
    delivered(made)
    made.fault("kill", 3.5, 3.5, "worker.1")
    made.held("t2", 3, 7, deliveries=2, actor="worker.2", attempt=1)
    made.end("t2", 3, 8, actor="worker.2")


def unseen_delivery_not_counted(made: Made) -> None:
    delivered(made)
    made.fault("restart", 3.5, 10)
    made.held("t2", 4, 12, deliveries=3, attempt=2)
    made.end("t2", 4, 12.1)


def release_counted(made: Made) -> None:
    returned(made, "release", 1, 5, attempt=2)


def deferral_not_counted(made: Made) -> None:
    returned(made, "set_visibility", 1, 5, attempt=1)


def release_deferred(made: Made) -> None:
    returned(made, "release", 1, 5, attempt=1, deferrals=1)


def quiet(made: Made, at: float, *, delay: float = 0, number: int = 3) -> None:
    """The quiet queue has begun; then a task is pushed at 10, and delivered then."""
    made.ran("t2", 2, 1, 1.1, pushed=1, queue=QUIET)
    made.ran(f"t{number}", 3, at, at + 0.1, pushed=10, delay=delay, queue=QUIET)


def nobody_woken(made: Made) -> None:
    quiet(made, 11.2)


def nobody_woken_for_what_is_due(made: Made) -> None:
    quiet(made, 13.2, delay=2)


def late_beyond_the_stall(made: Made) -> None:
    quiet(made, 12)
    made.fault("slow", 10.2, 10.4, "worker-soak-quiet.1")


def late_after_a_return(made: Made) -> None:
    quiet(made, 10.01)
    returned(made, "set_visibility", 1, 5.4, queue=QUIET, attempt=1, deferrals=1)


def tried_too_often(made: Made) -> None:
    returned(made, "fail", 1, 5, queue=QUIET, attempt=QUIET_ATTEMPTS + 1)


def dead_too_soon(made: Made) -> None:
    made.push("t2", 1, queue=QUIET)
    made.dies("t2", QUIET_ATTEMPTS - 1)


def out_of_order_among_groups(made: Made) -> None:
    for number, (token, priority) in enumerate(((2, 5), (3, 2**62), (4, 2**62 + 1)), start=2):
        at = 3 + token
        made.ran(f"t{number}", token, at, at + 0.1, pushed=2, queue=GROUPED, priority=priority)


def too_many_leases_of_a_group(made: Made) -> None:
    for number in (2, 3):
        made.ran(f"t{number}", number, 3, 4, pushed=2, queue=GROUPED, group=NARROW)


def over_the_limit_of_a_group(made: Made) -> None:
    for number in range(2, 9):
        made.ran(f"t{number}", number, 1 + number / 10, 4, queue=GROUPED, group=LANE)


@pytest.mark.parametrize(
    ("what", "plant"),
    [
        ("too early", before_its_delay),
        ("too early", before_its_return),
        ("too early", before_its_backoff),
        ("too early", before_retry_after),
        ("too early", before_its_lease_was_over),
        ("too early", before_its_time_by_any_clock),
        ("attempts counted wrong", failure_not_counted),
        ("attempts counted wrong", end_of_lease_not_counted),
        ("attempts counted wrong", unseen_delivery_not_counted),
        ("attempts counted wrong", release_counted),
        ("deferrals counted wrong", deferral_not_counted),
        ("deferrals counted wrong", release_deferred),
        ("too late", nobody_woken),
        ("too late", nobody_woken_for_what_is_due),
        ("too late", late_beyond_the_stall),
        ("too late", late_after_a_return),
        ("tried too often", tried_too_often),
        ("dead too soon", dead_too_soon),
        ("out of order", out_of_order_among_groups),
        ("over the concurrency", too_many_leases_of_a_group),
        ("over the limit", over_the_limit_of_a_group),
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
        made.ran(f"t{number}", number, 4 + number / 10, 6, queue=LIMITED, group=CREW)
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
    # Its first answer was lost: it was sent again when that copy was done.
    made.ran("t5", 5, 5.5, 6, pushed=5, took=1.5)
    made.held("t5", 6, 7, pushed=6.5)
    made.end("t5", 6, 8)
    # The same, and its producer was killed before it heard the second answer.
    made.held("t9", 11, 5.2, pushed=5.1)
    made.line("producer.1", "try", STRICT, "producer.1", 9, 1, T + 5)
    made.end("t9", 11, 5.3)
    made.held("t9", 12, 6.2, pushed=6.1)
    made.end("t9", 12, 6.3)
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


def test_a_push_that_nobody_heard_of_excuses_no_second_delivery(made: Made) -> None:
    """A copy has its own moment of the push: one push, acked and delivered again, is a fault."""
    made.line("producer.1", "try", STRICT, "producer.1", 9, 1, T + 5)
    for token, at in ((11, 5.2), (12, 6.2)):
        made.held("t9", token, at, pushed=5.1)
        made.end("t9", token, at + 0.1)
    assert made.found() == {"acknowledged, and delivered again", "finished twice"}


def test_a_step_back_repeats_no_window(made: Made) -> None:
    """Grants before and after a step back are apart by the time that has passed between them."""
    made.fault("step", 20, 20, -6000)

    def grant(number: int, at: float, clock: float) -> None:
        made.ran(f"t{number}", number, at, at + 0.01, queue=STEPPED, clock=clock)

    most = int(STEPPED_LIMIT.rate) + STEPPED_LIMIT.burst - 1
    for number in range(2, 2 + most):
        grant(number, 16 + number / 400, 0)
        grant(number + 200, 22 + number / 400, -6)
    assert made.found() == set()
    reached = made.judged().reached[STEPPED, "44 in 1 s, burst 4"]
    assert (reached.most, reached.allowed, reached.full) == (most, most, 2 * STEPPED_LIMIT.burst)
    grant(2 + most, 16.3, 0)
    assert made.found() == {"over the limit"}


@pytest.mark.parametrize(
    ("at", "faults"),
    [
        (12.4, [("slow", 10.5, 11, "producer.1")]),  # a busy machine: four stalls as the longest
        (13, [("late", 10.5, 10.9, "worker-soak-quiet.1")]),
        (14, [("restart", 9, 10.2, "-")]),  # consumers are on their way back
        (15, [("kill", 10.1, 10.1, "plain-soak-quiet.1")]),  # it may have taken the wake-up along
        (15, [("pause", 8, 12.5, "async-soak-quiet.1")]),
    ],
)
def test_what_the_machine_or_a_fault_has_delayed_is_not_late(
    made: Made, at: float, faults: list[Any]
) -> None:
    """Lateness is judged by what the machine did, and where no consumer may have been away."""
    for fault in faults:
        made.fault(*fault)
    quiet(made, at)
    assert made.found() == set()


def test_faults_of_others_excuse_nothing(made: Made) -> None:
    """What happens to consumers of other queues, or to a replica, delays nothing here."""
    made.fault("kill", 10.1, 10.1, "plain-soak-strict.1")
    made.fault("replica", 10, 11)
    made.fault("flush", 10, 10)
    quiet(made, 11.2)
    assert made.found() == {"too late"}


def test_a_call_that_nobody_heard_of_may_have_been_executed(made: Made) -> None:
    """Its holder was killed while it gave the task back: both attempts will do, and its delay."""
    delivered(made)
    made.gives("t2", 2, 3.4, "release", 0.5)
    made.fault("kill", 3.5, 3.5, "worker.1")
    made.held("t2", 3, 4, deliveries=2, attempt=1, actor="worker.2")
    made.gives("t2", 3, 4.1, "fail", 1)
    made.fault("kill", 4.2, 4.2, "worker.2")
    made.held("t2", 4, 5.2, deliveries=3, attempt=2, actor="worker.3")
    made.end("t2", 4, 5.3, actor="worker.3")
    assert made.found() == set()


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
    quiet(made, 10.4, number=5)
    assert made.found() == set()
