"""Push ten greetings of random priority, each due within three seconds.

python examples/producer.py [redis://localhost:6379]     or embedded:./queue: no Redis needed
"""

import os
import random
import sys

from dpq import DPQ

URL = (sys.argv[1:] or [os.environ.get("REDIS_URL", "redis://localhost:6379")])[0]

q = DPQ.from_url(URL, "my_queue")
for number in range(10):
    priority, delay = random.randint(0, 49), random.choice([0, 1, 2, 3])
    task_id = q.push({"body": f"greeting {number}"}, priority=priority, delay=delay)
    print(f"pushed {task_id}: greeting {number}, priority {priority}, due in {delay} s")
