"""Results of finished tasks, and progress of running ones: values, bounds and texts. No I/O.

A result is JSON, as a payload is. An ack sends it as one line: the ms to keep it, and the JSON.
"""

from typing import Any

from dpq.model.errors import PayloadError
from dpq.model.validation import number, one_line

DEFAULT_KEEP = 3600.0
"""Seconds that a result is kept: an hour, for a caller that was away meanwhile."""

MAX_KEEP_SECONDS = 2_592_000
"""Seconds that a result is kept at most: 30 days. A database keeps it longer."""

MAX_RESULT_BYTES = 1024 * 1024
"""Bytes of the longest result: 1 MiB. All results of a queue have 64 MiB; see keep_results.lua."""

MAX_PROGRESS_BYTES = 200
"""Bytes of the text of a progress; a longer text is cut."""


class NoResult:
    """The type of `NO_RESULT`: `ack` has no result to keep. None is a result."""

    def __repr__(self) -> str:
        return "NO_RESULT"


NO_RESULT = NoResult()
"""The value for an ack without a result. None is a result."""


def keep_seconds(keep: float, name: str = "keep") -> float:
    """Check how long a result is to be kept."""
    number(name, keep, "seconds", 0.001, MAX_KEEP_SECONDS, " (30 days)")
    return keep


def result_line(result: Any, keep: float, task: object) -> str:
    """Write a result as ack sends it; "" for `NO_RESULT`."""
    if result is NO_RESULT:
        return ""
    from pydantic_core import PydanticSerializationError, from_json, to_json

    ms = round(keep_seconds(keep) * 1000)
    kind, task_id = type(result).__name__, getattr(task, "id", None)
    try:
        body = to_json(result, inf_nan_mode="constants")
        from_json(body, allow_inf_nan=False)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise PayloadError(
            f"the result of task {task_id} is a {kind}, which has no JSON form, as NaN and "
            f"infinity have none: {error}. The task is not finished: ack it with another result, "
            "or without one",
            task_id=task_id,
        ) from error
    if len(body) > MAX_RESULT_BYTES:
        raise PayloadError(
            f"the result of task {task_id} is {len(body)} bytes, and the bound is "
            f"{MAX_RESULT_BYTES}: store the data elsewhere, and give its address. The task is not "
            "finished: ack it with another result, or without one",
            task_id=task_id,
        )
    return f"{ms} {body.decode()}"


def progress_text(done: float, total: float | None = None, text: object = "") -> str:
    """Write a progress as it is stored."""
    number("done", done, "units", 0, 1e15)
    if total is not None:
        number("total", total, "units", 0, 1e15)
    line = one_line(text).encode()[:MAX_PROGRESS_BYTES].decode(errors="ignore")
    return f"{done:.15g} {'-' if total is None else f'{total:.15g}'} {line}"
