"""Schedules of recurring tasks in words, for all screens. No I/O."""

import re
from datetime import UTC, datetime

from cronsim import CronSim

from dpq.model.rates import span

_WEEKDAYS = re.compile("(?<!it's )on Monday through Friday$")
"""The words of CronSim for each weekday; not where they narrow another day down."""


def say_schedule(every: float | None, cron: str | None) -> str:
    """Write a schedule in words: `every 1 m 30 s`, `at 09:00 every weekday (Europe/Berlin)`."""
    if cron is None:
        return f"every {span(every)}" if every else ""
    fields, _, timezone = cron.rpartition(" ")
    try:
        words = CronSim(fields, datetime(2000, 1, 1, tzinfo=UTC)).explain()
    except Exception:  # another program has written it, or CronSim has no words
        return cron
    words = _WEEKDAYS.sub("every weekday", words)
    return f"{words[:1].lower()}{words[1:]} ({timezone})"
