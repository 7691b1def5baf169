"""Ids of tasks: made by the client, so that a retried push is harmless. Knows no queue.

The one module of the core that looks at a clock: for the eye alone. Order comes from the server.
"""

import secrets
import time

from dpq.protocol.placement import DIGITS, PLAIN_ID_LENGTH

_SORTED = "".join(sorted(DIGITS))  # as sets and people sort

TIME_DIGITS = 7
"""Of the ms since 1970 in an id: 42 bits, which last until 2109."""


def new_ids(count: int, mark: str | None) -> list[str]:
    """Make ids: 72 random bits each, behind the time, so that they sort by it.

    Those of one call sort in their order, too. The time is that of this machine, in ms. It serves
    nothing but the eye, so a clock that steps does no harm.

    Args:
        count: So many.
        mark: Of a partition, whose ids begin with it and have no time: older clients read them.
    """
    text = secrets.token_urlsafe(9 * count)
    made = [text[i : i + PLAIN_ID_LENGTH] for i in range(0, len(text), PLAIN_ID_LENGTH)]
    if mark is not None:
        return [mark + each for each in made]
    left, digits = time.time_ns() // 1_000_000, ""
    for _ in range(TIME_DIGITS):
        left, digit = divmod(left, 64)
        digits = _SORTED[digit] + digits
    return [digits + each for each in (sorted(made) if count > 1 else made)]
