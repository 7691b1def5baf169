"""Stored batches -> `BatchState`. lua/lib/batches.lua says what stands in the text. No I/O."""

import re

from dpq.model.moments import moment_of
from dpq.model.reports import BatchState

_TEXT = re.compile(r"(\d+) (\d+) (\d+) (\d+) ([osf]) (\d+) (\d+) (\d+) [01] (\S*)", re.ASCII)


def read_batch_state(name: str, text: str) -> BatchState | None:
    """Read the text of a batch; None if the batch is unknown, or if its text is damaged."""
    found = _TEXT.fullmatch(text)
    if found is None or len(text) > 400:
        return None
    left, done, dead, removed = map(int, found.groups()[:4])
    state, began, changed, finished, callback = found.groups()[4:]
    return BatchState(
        name=name,
        left=left,
        done=done,
        dead=dead,
        removed=removed,
        sealed=state != "o",
        began_at=moment_of(int(began)),
        changed_at=moment_of(int(changed)),
        finished_at=moment_of(int(finished)) if state == "f" else None,
        callback=callback or None,
    )
