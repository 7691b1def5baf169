"""Ids of tasks: the client makes them, so that a retried push is harmless. Knows no queue.

It reads this machine's clock, so that a person can see the time in an id. The order of tasks comes
from the server.

The ids of one process sort in the order in which they were made, also within a millisecond: then
the last part counts up, from a random number. Ids of several processes sort by their ms only.
"""

import os
import secrets
import string
import threading
import time
from binascii import b2a_base64

_BASE64 = (string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode()
_URLSAFE = bytes.maketrans(b"+/", b"-_")
# The digits in the order in which sorted sets and people sort them.
_AS_SORTED = bytes.maketrans(_BASE64, bytes(sorted(_BASE64.translate(_URLSAFE))))

BACK_MS = 10_000
"""Ms that the clock may go back unnoticed: ids keep the later time meanwhile, and count up."""


class _Maker:
    """The last id of this process, as its ms and its number."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.last_ms = self.last = 0


_maker = _Maker()


def _forked() -> None:
    """Begin anew in a forked child: another thread of the parent may have held the lock."""
    global _maker
    _maker = _Maker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def new_ids(count: int) -> list[str]:
    """Make ids: the time, and 72 bits behind it, which are random in the first id of a ms."""
    maker, step = _maker, int.from_bytes(os.urandom(5), "big") + 1
    with maker.lock:
        now = time.time_ns() // 1_000_000
        if not maker.last_ms - BACK_MS <= now <= maker.last_ms:
            # Half of all numbers, so that 2^31 steps find room behind each.
            maker.last_ms, maker.last = now, secrets.randbits(71)
        number = maker.last
        maker.last = number + count * step
        moment = maker.last_ms.to_bytes(6, "big")
    made = []
    for _ in range(count):
        number += step
        digits = b2a_base64(moment + number.to_bytes(9, "big"), newline=False)
        # The first digit is left out: the 7 others of the time, 42 bits, are enough until 2109.
        made.append(digits.translate(_AS_SORTED)[1:].decode())
    return made
