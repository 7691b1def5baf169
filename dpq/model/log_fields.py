"""The fields of DPQ's log records, for log handlers of other programs, and for `--log json`.

    log.info("%s: ...", name, extra=fields("rate_limited", queue=name, task_id=task.id))

Each record that tells of a change has an `event`, and what it is about. docs/operations.md lists
them: names and meanings hold. Must stay light: `import dpq` loads this module.
"""

import math
from typing import Any

FIELDS = (
    *("event", "worker", "queue", "task_id", "task", "group", "member", "attempt", "max_attempts"),
    *("ms", "reason", "error", "scope", "status", "seconds", "until", "count"),
)
"""The names of all fields, in the order in which they are written."""


def fields(event: str, **values: Any) -> dict[str, Any]:
    """Make the `extra` of a log record: the event, and the fields that have a value.

    `max_attempts` is left out if it is `math.inf`: there is no limit.
    """
    named = {name: value for name, value in values.items() if value is not None}
    if named.get("max_attempts") == math.inf:
        del named["max_attempts"]
    for name in named.keys() - set(FIELDS):
        raise KeyError(name)
    return {"event": event, **named}
