"""Work through what producer.py pushed, at most four tasks a second, until Ctrl-C.

python examples/consumer.py [redis://localhost:6379]
"""

import os
import sys
import time
from contextlib import suppress

from redis import Redis

from dpq import DPQ, RateLimited, Task

URL = (sys.argv[1:] or [os.environ.get("REDIS_URL", "redis://localhost:6379")])[0]
recent = [float("-inf")] * 4  # when the four latest calls were made


def process(task: Task) -> None:
    """Stand in for a call of an API that takes four calls in any second."""
    if (wait := recent[0] + 1 - time.monotonic()) > 0:
        raise RateLimited(wait)
    recent[:] = [*recent[1:], time.monotonic()]


q = DPQ(redis=Redis.from_url(URL), queue_name="my_queue")
with suppress(KeyboardInterrupt):
    while True:
        task, on_success, set_visibility = q.pop(timeout=5)
        if task is None:
            print("nothing to do", flush=True)
            continue
        try:
            process(task)
            on_success()
            print(f"done: {task.payload['body']}, priority {task.priority}", flush=True)
        except RateLimited as limit:
            set_visibility(limit.retry_after)
