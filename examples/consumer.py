"""Work through what producer.py pushed, at most four tasks a second, until Ctrl-C.

python examples/consumer.py [redis://localhost:6379]     or embedded:./queue, as for producer.py
"""

import os
import sys
import time
from contextlib import suppress

from dpq import DPQ, RateLimited, Task

URL = (sys.argv[1:] or [os.environ.get("REDIS_URL", "redis://localhost:6379")])[0]
recent = [float("-inf")] * 4  # when the four latest calls were made


def process(task: Task) -> None:
    """Stand in for a call of an API that takes four calls in any second."""
    if (wait := recent[0] + 1 - time.monotonic()) > 0:
        raise RateLimited(wait)
    recent[:] = [*recent[1:], time.monotonic()]


with suppress(KeyboardInterrupt), DPQ.from_url(URL, "my_queue") as q:
    while True:
        task, on_success, set_visibility = q.pop(timeout=5)
        if task is None:
            print("nothing to do", flush=True)
            continue
        try:
            process(task)
        except RateLimited as limit:
            set_visibility(limit.retry_after)  # uncounted; raised in q.lease() it closes for all
        except Exception as error:
            q.fail(task, error)  # a failed attempt: again after a while, in the end a dead letter
        except BaseException:
            q.release(task)  # Ctrl-C: back at once, uncounted
            raise
        else:
            on_success()
            print(f"done: {task.payload['body']}, priority {task.priority}", flush=True)
