"""The pause of blocking code, and what ends it for good. pauses_async.py is the counterpart."""

import time

THROWN_AWAY: tuple[type[BaseException], ...] = ()
"""The errors after which nothing can be sent any more: none."""

pause = time.sleep
"""Sleeps for so many seconds."""
