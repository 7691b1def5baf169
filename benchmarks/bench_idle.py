"""How many calls does a consumer make that waits at an empty queue?"""

import threading

from benchmarks._harness import ROUNDS, Bench, Result, Target, run_one, wait_until

WINDOW = 16.0  # seconds: a waiter looks again by itself every 5 s, so three times in it


def measure(bench: Bench) -> list[Result]:
    queues = [bench.queue() for _ in range(ROUNDS)]
    waiting = [
        threading.Thread(target=queue.pop, args=(WINDOW + 10,), daemon=True) for queue in queues
    ]
    for thread in waiting:
        thread.start()
    blocked = len(queues)
    wait_until(lambda: bench.redis.info("clients")["blocked_clients"] == blocked, "all wait")
    calls = dict.fromkeys((queue.queue_name for queue in queues), 0)
    shared = 0
    with bench.client(socket_timeout=WINDOW + 10).monitor() as monitor:
        bell = threading.Timer(WINDOW, lambda: bench.redis.echo("over"))
        bell.start()
        for seen in monitor.listen():
            if seen["command"] == "ECHO over":
                break
            if seen["client_type"] != "lua":  # what a script does is part of one call
                name = next((name for name in calls if name in seen["command"]), None)
                if name:
                    calls[name] += 1
                else:
                    shared += 1
        bell.join()
    for queue in queues:
        queue.push(None)  # ends the waits
    for thread in waiting:
        thread.join()
    samples = [(count + shared / len(queues)) / WINDOW for count in calls.values()]
    name = "calls of a consumer waiting at an empty queue"
    return [Result(name, "/s", Target("at most", 1), samples, f"over {WINDOW:g} s")]


if __name__ == "__main__":
    run_one("idle")
