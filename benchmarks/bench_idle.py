"""What do a waiting consumer, an idle worker and a scheduler send while nothing happens?

Also, without a target: what a scheduler costs at rest, if 100 000 queues are in its list.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks._harness import Bench, Result, Target, run_one, server_clock, wait_until
from dpq import Push, Scheduler, Worker
from dpq.queue.base import operations_named
from dpq.registry.all_queues import after_opening
from dpq.script.assembly import script
from dpq.server import Server

EACH = 5  # consumers and workers, a sample each
QUEUES = 100
WINDOW = 30.0  # seconds: a waiter looks again by itself every 10 s, and a block lasts 30 s
SETTLED = 12.0  # seconds from the beginning: a waiter's first look without a marker is over

MANY = 100_000
MANY_WINDOW = 20.0
A_CALL = 500
SENT = ("evalsha", "eval", "bzpopmin", "sscan", "script|exists", "script|load", "scard")
"""What a scheduler sends, and its scripts do not call."""


def measure(bench: Bench) -> list[Result]:
    return [*together(bench), *many()]


def together(bench: Bench) -> list[Result]:
    """Count what all three kinds send at the same time, seen by MONITOR."""
    consumers = [bench.queue() for _ in range(EACH)]
    served = [bench.queue() for _ in range(EACH)]
    for queue in (*consumers, *served, *(bench.queue() for _ in range(QUEUES - 2 * EACH))):
        queue.push(None)
        queue.pop().on_success()  # it exists, and is empty
    workers = [Worker(queue, lambda task: None, concurrency=4) for queue in served]
    scheduler = Scheduler(bench.client())
    waits: list[Callable[[], object]] = [partial(queue.pop, None) for queue in consumers]
    runs = [partial(worker.run, signals=False) for worker in workers]
    threads = [
        threading.Thread(target=work, daemon=True) for work in (*waits, *runs, scheduler.run)
    ]
    for thread in threads:
        thread.start()
    time.sleep(SETTLED)
    if (found := len(scheduler._upkeep.queues)) != QUEUES:
        raise RuntimeError(f"the scheduler serves {found} queues")
    owners = {queue.queue_name: str(n) for n, queue in enumerate((*consumers, *served))}
    sent: Counter[str] = Counter(owner_of(command, owners) for command in seen(bench, WINDOW))
    if stray := sent.pop("", 0):
        raise RuntimeError(f"{stray} commands of nobody")
    for queue in consumers:
        queue.push(None)  # ends the waits
    for each in (*workers, scheduler):
        each.stop()
    for thread in threads:
        thread.join()
    rates = [sent[str(n)] / WINDOW for n in range(2 * EACH)]
    over = f"over {WINDOW:g} s, all at once"
    return [
        Result(*row("an idle consumer sends", 0.2), rates[:EACH], over),
        Result(*row("an idle worker with its heartbeat sends", 0.4), rates[EACH:], over),
        Result(*row(f"a scheduler over {QUEUES} queues sends", 0.4), [sent["s"] / WINDOW], over),
    ]


def row(measure: str, most: float) -> tuple[str, str, Target]:
    return measure, "/s", Target("at most", most)


def seen(bench: Bench, seconds: float) -> Iterator[str]:
    """What clients send within some seconds; what a script does is part of one command."""
    with bench.client(socket_timeout=None).monitor() as monitor:
        client = bench.client()
        client.ping()  # its connection is made before
        bell = threading.Timer(seconds, lambda: client.echo("over"))
        bell.start()
        for line in monitor.listen():
            command = line["command"]
            if command == "ECHO over":
                break
            if line["client_type"] != "lua" and command.split(" ")[0] not in OF_THE_BELL:
                yield command
        bell.join()


OF_THE_BELL = ("HELLO", "CLIENT", "PING")  # no consumer connects anew while nothing happens


def owner_of(command: str, owners: dict[str, str]) -> str:
    """Whose command it is: `s` for the scheduler's, "" for nobody's."""
    words = command.split(" ")
    scripts = {script(name).sha for name in ("glance", "promote", "absent")}
    if words[0] in ("SSCAN", "SCRIPT") or (words[0] == "EVALSHA" and words[1] in scripts):
        return "s"
    if words[0] == "BZPOPMIN" and words[1].endswith(":tick"):
        return "s"
    return next((owner for name, owner in owners.items() if name in command), "")


def many() -> list[Result]:
    """What a scheduler costs at rest that finds many names: commands, and processor time."""
    with private() as bench:
        redis = bench.redis
        scheduler = Scheduler(bench.client())
        send = scheduler._session.send_all
        for at in range(0, MANY, A_CALL):
            queues = [operations_named(f"q{n}") for n in range(at, at + A_CALL)]
            send([queue.open(create=True) for queue in queues])
            send([after_opening(q, lambda q: q.push_many([Push(payload=1)])) for q in queues])
            redis.sadd("{dpq}:queues", *(f"q{n}" for n in range(at, at + A_CALL)))
        thread = threading.Thread(target=scheduler.run, daemon=True)
        thread.start()
        wait_until(lambda: rested(scheduler), "the scheduler has stepped its queues", 300)
        time.sleep(15)
        server = server_clock(bench.server.pid)
        before = sent_by(bench), server(), time.process_time()
        time.sleep(MANY_WINDOW)
        after = sent_by(bench), server(), time.process_time()
        calls, there, here = ((b - a) / MANY_WINDOW for a, b in zip(before, after, strict=True))
        served = len(scheduler._upkeep.queues)
        scheduler.stop()
        thread.join()
    what = f"a scheduler at rest, {MANY} queues"
    detail = f"it serves {served}, over {MANY_WINDOW:g} s"
    return [
        Result(f"{what}: sends", "/s", None, [calls], detail),
        Result(f"{what}: processor time of the server", "ms/s", None, [there * 1000], detail),
        Result(f"{what}: its own processor time", "ms/s", None, [here * 1000], detail),
    ]


def rested(scheduler: Scheduler) -> bool:
    """All its queues are opened and stepped, and its walk over the names has ended."""
    queues = list(scheduler._upkeep.queues.values())
    return (
        len(queues) == 10_000
        and not scheduler._names.walking
        and all(queue.settings is not None for queue in queues)
    )


def sent_by(bench: Bench) -> int:
    stats = bench.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in SENT)


@contextmanager
def private() -> Iterator[Bench]:
    """A benchmark with a server of its own."""
    with Server.start() as server:
        yield Bench(server)


if __name__ == "__main__":
    run_one("idle")
