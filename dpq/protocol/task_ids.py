"""Ids of tasks: the client makes them, so that a retried push is harmless. Knows no queue.

`Partition` calls it. It reads this machine's clock, so that a person can see the time in an id. The
order of tasks comes from the server.
"""

import secrets
import string
import time
from binascii import b2a_base64

from dpq.protocol.placement import DIGITS, PLAIN_ID_LENGTH

_BASE64 = (string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode()
# The digits in the order in which sorted sets and people sort them.
_AS_SORTED = bytes.maketrans(_BASE64, bytes(sorted(DIGITS.encode())))

TIME_DIGITS = 7
"""Digits for the ms since 1970 in an id: 42 bits, enough until 2109."""


def new_ids(count: int, mark: str | None) -> list[str]:
    """Make ids: the time, and 72 random bits behind it, so that ids sort by their time.

    The ids of one call sort in their order, too. The time is the ms of this machine's clock. It is
    only for people to read, so a wrong clock does no harm.

    Args:
        count: The number of ids.
        mark: The mark of a partition. Then ids begin with it and have no time, so that older
            clients can read them.
    """
    text = secrets.token_urlsafe(9 * count)
    made = [text[i : i + PLAIN_ID_LENGTH] for i in range(0, len(text), PLAIN_ID_LENGTH)]
    if mark is not None:
        return [mark + each for each in made]
    moment = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    digits = b2a_base64(moment, newline=False).translate(_AS_SORTED)[-TIME_DIGITS:].decode()
    return [digits + each for each in (sorted(made) if count > 1 else made)]
