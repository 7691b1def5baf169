"""beanstalkd, with the least client that its protocol needs: a job is reserved, then deleted."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable

from _measured import SOCKET, TASKS, Seen, bulks, payload, rate, tell

BINARY, CORES = sys.argv[4], sys.argv[5]  # where its server runs: "0" or "0,1"; "" for anywhere

server = subprocess.Popen([BINARY, "-l", f"unix:{SOCKET}"], stderr=subprocess.DEVNULL)
link = socket.socket(socket.AF_UNIX)


def put(bodies: Iterable[str]) -> None:
    """Put jobs: time to run 30 s, as DPQ's lease."""
    sent = 0
    text = bytearray()
    for body in bodies:
        text += b"put 0 0 30 %d\r\n%s\r\n" % (len(body), body.encode())
        sent += 1
    link.sendall(text)
    for _ in range(sent):
        assert replies.readline().startswith(b"INSERTED")


def push() -> None:
    for number in range(TASKS):
        put([payload(number)])


def push_many() -> None:
    for some in bulks():
        put(some)


def resident() -> int:
    with open(f"/proc/{server.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


try:
    if CORES:
        os.sched_setaffinity(server.pid, map(int, CORES.split(",")))
    until = time.monotonic() + 10
    while link.connect_ex(SOCKET):
        assert time.monotonic() < until, "beanstalkd does not listen"
        time.sleep(0.01)
    replies = link.makefile("rb")
    used = resident()
    pushed = rate(push)
    memory = (resident() - used) / TASKS
    many = rate(push_many)
    seen = Seen(2 * TASKS)
    while seen.count < 2 * TASKS:
        link.sendall(b"reserve\r\n")
        _, job, length = replies.readline().split()
        seen(replies.read(int(length) + 2))
        link.sendall(b"delete %s\r\n" % job)
        assert replies.readline() == b"DELETED\r\n"
    consumed = seen.rate()
    asked = subprocess.run([BINARY, "-v"], capture_output=True, text=True, check=True)
    version = asked.stdout.split()[-1]
    tell(version=version, push=pushed, push_many=many, consume=consumed, bytes=memory)
finally:
    server.kill()
    server.wait()
