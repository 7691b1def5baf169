"""The place where an error comes from, as a client says it: worker and frames. No I/O."""

from __future__ import annotations

from collections import deque

from dpq.model.validation import one_line

MOST_FRAMES = 5
"""The frames of an error that are kept: the four innermost, and that of the handler."""

MOST_FRAME_BYTES = 118
"""Bytes of a frame: with TABs between them five are less than the bound of event.lua."""

MOST_WORKER_BYTES = 100
"""Bytes of a worker's name; lua/lib/event.lua has the same number."""


def source_of(error: object, worker: str = "") -> str:
    """Say where an error comes from, as scripts take it; "" if nothing is known of that."""
    frames = frames_of(error) if isinstance(error, BaseException) else []
    return "\t".join((_cut(worker, MOST_WORKER_BYTES), *frames)) if worker or frames else ""


def frames_of(error: BaseException) -> list[str]:
    """List the last frames of an error, the innermost first, and at the end the handler's."""
    first: list[str] = []
    last: deque[str] = deque(maxlen=MOST_FRAMES - 1)
    at = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        own = str(frame.f_globals.get("__name__")).partition(".")[0] == "dpq"
        if first or not own:
            code = frame.f_code
            path = "/".join(code.co_filename.replace("\\", "/").split("/")[-3:])
            place = _cut(f"{path}:{at.tb_lineno} in {code.co_qualname}", MOST_FRAME_BYTES)
            (last if first else first).append(place)
        at = at.tb_next
    return [*reversed(last), *first]


def _cut(text: str, most: int) -> str:
    line = one_line(text).encode()
    return line.decode() if len(line) <= most else line[-most:].decode(errors="ignore")
