"""Run functions by name, later: `execute_later` of the reference documents, in three lines.

python examples/execute_later.py [redis://localhost:6379]     or embedded:./queue
"""

import os
import sys
from typing import Any

from dpq import DPQ, Tasks, Worker

URL = (sys.argv[1:] or [os.environ.get("REDIS_URL", "redis://localhost:6379")])[0]

tasks = Tasks()


@tasks.task()
def greet(name: str, times: int = 1) -> None:
    print(f"hello {name}, " * times, flush=True)


def execute_later(queue: DPQ, name: str, args: list[Any], delay: float = 0) -> str:
    [task_id] = queue.push_many([tasks[name].prepare(*args, delay=delay)])
    return task_id


q = DPQ.from_url(URL, "later")
calls: list[tuple[float, list[Any]]] = [(0.2, ["Ada", 2]), (0.1, ["Grace"]), (0, ["Barbara"])]
for delay, args in calls:
    print(f"in {delay} s: {execute_later(q, 'greet', args, delay)}", flush=True)

Worker(q, tasks).run(until_empty=True)
