"""Callbacks by name, over several queues: the worker of the reference documents.

python examples/callbacks.py [redis://localhost:6379]

The mails go first: the worker asks the second queue only when the first has nothing to do. A name
that has no callback goes to the dead letters.
"""

import sys

from dpq import DPQ, Task, Worker

URL = (sys.argv[1:] or ["embedded:"])[0]


def send_mail(task: Task) -> None:
    to, text = task.payload["args"]
    print(f"mail to {to}: {text}", flush=True)


def count_words(task: Task) -> None:
    [text] = task.payload["args"]
    print(f"{len(text.split())} words", flush=True)


callbacks = {"send_mail": send_mail, "count_words": count_words}

with DPQ.from_url(URL, "mails") as mails:
    reports = DPQ(mails.redis, "reports")  # the queues of a worker share one client
    reports.push({"task": "count_words", "args": ["the quick brown fox"]})
    reports.push({"task": "count_wrods", "args": ["jumps"]})
    mails.push({"task": "send_mail", "args": ["ada", "later"]})
    mails.push({"task": "send_mail", "args": ["grace", "now"]}, priority=1)

    Worker([mails, reports], callbacks).run(until_empty=True)  # without until_empty: for ever
    for dead in reports.dead.list():
        print(f"dead: {dead.reason}", flush=True)
