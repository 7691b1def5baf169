"""redis-py alone: ZADD and ZPOPMIN. It has no leases, and loses what a dying consumer took."""

import threading

import redis
from common import AT_ONCE, BODIES, BULKS, TASKS, URL, WHAT, measured, seen

client = redis.Redis.from_url(URL)


def consume() -> None:
    while seen.count < TASKS and client.zpopmin("raw"):
        seen()


if WHAT == "push":
    client.ping()
    with measured():
        for body in BODIES:
            client.zadd("raw", {body: 0})
elif WHAT == "push_many":
    client.ping()
    with measured():
        for some in BULKS:
            pipe = client.pipeline(transaction=False)
            for body in some:
                pipe.zadd("raw", {body: 0})
            pipe.execute()
else:
    threads = [threading.Thread(target=consume) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threading.Event().wait()  # until `seen` ends this program
