"""Text for people: stored text, errors and tracebacks, without characters that control a terminal.

The command line calls `shown` for all that it writes. `CleanRecords` calls it for all that DPQ
logs, whatever log handlers the program has. It must not change stored data, and it must stay light:
`import dpq` loads this module.
"""

import logging
import math
import re
from textwrap import indent
from traceback import format_exception

from dpq.model.log_fields import FIELDS

_STEERS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""The characters to escape: C0 (without tab and line feed), DEL and C1; marks, separators and
controls of writing direction; halves of surrogate pairs."""

_IN_LINES = re.compile(f"[{_STEERS}]")
_IN_A_LINE = re.compile(f"[\t\n{_STEERS}]")
_NAMES = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def shown(text: object, *, lines: bool = False) -> str:
    """Return a text as one line (or `lines`) that is safe to show: `\\x1b` stands for an escape."""
    return (_IN_LINES if lines else _IN_A_LINE).sub(_escape, str(text))


def shown_json(text: str) -> str:
    """Return JSON with the same meaning that is safe at a terminal."""
    return _IN_A_LINE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _NAMES.get(found[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def attempt_of(attempt: int, most: float) -> str:
    """Say which attempt of how many: `3 of 10`, or `3, no limit`."""
    return f"{attempt}, no limit" if most == math.inf else f"{attempt} of {most}"


class CleanRecords(logging.Handler):
    """A log handler of the logger `dpq` that cleans records before other handlers see them.

    In a program that has no other, warnings go to stderr, as Python does it for such loggers.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Clean a record, and write it if no other handler does."""
        self.clean(record)
        last = logging.lastResort
        if last and record.levelno >= last.level and self._is_alone(record.name):
            last.handle(record)
        return True

    def _is_alone(self, name: str) -> bool:
        """Return True if no other handler sees the records of a logger."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True

    def clean(self, record: logging.LogRecord) -> None:
        """Escape what controls a terminal; a record whose message cannot be made stays as it is."""
        try:
            message = record.getMessage()
        except Exception:
            return
        if _IN_A_LINE.search(message):
            record.msg, record.args = shown(message), None
        for name in FIELDS:  # a formatter of the program may write them
            value = record.__dict__.get(name)
            if isinstance(value, str) and _IN_A_LINE.search(value):
                record.__dict__[name] = shown(value)
        if record.exc_info and not record.exc_text:
            text = "".join(format_exception(*record.exc_info)).rstrip("\n")
            record.exc_text = indent(shown(text, lines=True), "  ")  # no line reads as a record
