"""What do a waiting consumer, an idle worker and a scheduler send while nothing happens?"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks._harness import Bench, Result, Target, run_one
from dpq import Scheduler, Worker
from dpq.script.assembly import script

EACH = 5  # consumers and workers, a sample each
QUEUES = 100
WINDOW = 30.0  # seconds: a waiter looks again by itself every 10 s, and a block lasts 30 s
SETTLED = 12.0  # seconds from the beginning: a waiter's first look without a marker is over


def measure(bench: Bench) -> list[Result]:
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


if __name__ == "__main__":
    run_one("idle")
