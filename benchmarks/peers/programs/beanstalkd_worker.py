"""beanstalkd, with the least client that its protocol needs: a job is reserved, then deleted."""

import socket
import threading
from collections.abc import Sequence

from common import AT_ONCE, BODIES, BULKS, TASKS, URL, WHAT, measured, seen

ADDRESS = ("127.0.0.1", int(URL.rpartition(":")[2]))


def connect() -> socket.socket:
    link = socket.create_connection(ADDRESS)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def put(bodies: Sequence[str]) -> None:
    """Put jobs in one write: time to run 30 s, as DPQ's lease."""
    text = bytearray()
    for body in bodies:
        text += b"put 0 0 30 %d\r\n%s\r\n" % (len(body), body.encode())
    link.sendall(text)
    for _ in bodies:
        assert replies.readline().startswith(b"INSERTED")


def consume() -> None:
    link = connect()
    replies = link.makefile("rb")
    while seen.count < TASKS:
        link.sendall(b"reserve\r\n")
        _, job, length = replies.readline().split()
        replies.read(int(length) + 2)
        seen()
        link.sendall(b"delete %s\r\n" % job)
        assert replies.readline() == b"DELETED\r\n"


link = connect()
replies = link.makefile("rb")
if WHAT == "push":
    with measured():
        for body in BODIES:
            put([body])
elif WHAT == "push_many":
    with measured():
        for some in BULKS:
            put(some)
else:
    link.close()
    for _ in range(AT_ONCE):
        threading.Thread(target=consume, daemon=True).start()
    threading.Event().wait()
