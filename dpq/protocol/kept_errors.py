"""The kept errors of a task: what a client sends of an error, and how stored errors are read.

`operations` calls it; lua/lib/keep_error.lua stores them. It must not send anything. A stored error
is a line, and the newest stands first:

    1795360535662 2 f TAB worker-1 TAB ValueError: no name TAB app/pages.py:40 in fetch TAB ...
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from dpq.model.failure_data import TaskFailure
from dpq.model.moments import moment_of
from dpq.model.validation import one_line

MOST_FRAMES = 5
"""The frames of an error that are kept: the four innermost, and that of the handler."""

MOST_FRAME_BYTES = 118
"""Bytes of a frame: with TABs between them five are less than the bound of keep_error.lua."""

MOST_WORKER_BYTES = 100
"""Bytes of a worker's name; lua/lib/keep_error.lua has the same number."""

KINDS = {"f": "failed", "b": "buried", "x": "lease expired", "d": "rate limited"}
"""The kinds of errors, by their letters in a stored line."""

_LETTERS = {kind: letter for letter, kind in KINDS.items()}

MOST_ERRORS, MOST_BYTES = 8, 1101
"""Errors of a task, and bytes of the text and the frames of one: the bounds of keep_error.lua."""

_LINE = re.compile(r"(\d{1,15}) (\d{1,13}) ([fbxd])\t([^\t]{0,100})\t([^\x00-\x08\x0a-\x1f]*)")


def source_of(error: object, worker: str = "") -> str:
    """Say where an error comes from, as scripts take it; "" if nothing is known of that."""
    frames = frames_of(error) if isinstance(error, BaseException) else []
    return "\t".join((_cut(worker, MOST_WORKER_BYTES), *frames)) if worker or frames else ""


def frames_of(error: BaseException) -> list[str]:
    """List the last frames of an error, the innermost first, and at the end the handler's.

    The handler's frame is the first one that is not of DPQ.
    """
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


def read_errors(stored: bytes) -> tuple[TaskFailure, ...]:
    """Read the errors of a task; leave out what another program has damaged."""
    return tuple(_read(stored))


def _read(stored: bytes) -> Iterator[TaskFailure]:
    said = ""
    for line in stored.decode("utf-8", "ignore").split("\n"):
        if found := _LINE.fullmatch(line):
            at, attempt, kind, worker, text = found.groups()
            said = said if text == "=" else text
            words, *frames = said.split("\t")
            yield TaskFailure.model_construct(
                at=moment_of(int(at)),
                attempt=int(attempt),
                kind=KINDS[kind],
                worker=worker or None,
                text=words,
                frames=tuple(filter(None, frames)),
            )


def fields_of_errors(stored: bytes) -> list[dict[str, Any]]:
    """Make the fields of the errors of a task, for an export."""
    return [
        {
            "at_ms": round(each.at.timestamp() * 1000),
            "attempt": each.attempt,
            "kind": each.kind,
            "worker": each.worker or "",
            "text": each.text,
            "frames": list(each.frames),
        }
        for each in read_errors(stored)
    ]


def errors_of_fields(fields: Any) -> str:
    """Write the errors of an export as they are stored.

    Raises:
        ValueError: They are not what `fields_of_errors` makes.
    """
    lines: list[str] = []
    before = None
    listed: list[Any] = fields if isinstance(fields, list) else [None]
    for each in listed:
        try:
            letter = _LETTERS[each["kind"]]
            said = letter, "\t".join((each["text"], *(each["frames"] or ("",))))
            head = f"{each['at_ms']} {each['attempt']} {letter}\t{each['worker']}\t"
        except (KeyError, TypeError):
            raise ValueError(f"must be a list of errors: {each!r:.100} is none") from None
        if not _LINE.fullmatch(head + said[1]) or len(said[1].encode()) > MOST_BYTES:
            raise ValueError(f"must be a list of errors: {each!r:.100} is none")
        lines.append(head + ("=" if said == before else said[1]))
        before = said
    if len(lines) > MOST_ERRORS:
        raise ValueError(f"must have up to {MOST_ERRORS} errors")
    return "\n".join(lines)
