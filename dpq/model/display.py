"""What reaches a person: stored text, errors and tracebacks, without what would steer a terminal.

`shown` is the one function for it. The command line calls it for all that it writes, `CleanRecords`
for all that DPQ logs, whatever handlers the program has. Stored data are never changed by it.
Must stay light: `import dpq` loads this module.
"""

import logging
import re
from textwrap import indent
from traceback import TracebackException

from dpq.model.interrupts import raise_interruption

_STEERS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""C0 (but for tab and line feed), DEL and C1; marks, separators and controls of writing direction;
halves of surrogate pairs."""

_IN_LINES = re.compile(f"[{_STEERS}]")
_IN_A_LINE = re.compile(f"[\t\n{_STEERS}]")
_NAMES = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def shown(text: object, *, lines: bool = False) -> str:
    """Return a text as one line that a terminal or a log may show: `\\x1b` stands for an escape.

    Args:
        text: Anything that has a text.
        lines: Leave tabs and ends of lines as they are: of a traceback, say.
    """
    return (_IN_LINES if lines else _IN_A_LINE).sub(_escape, str(text))


def shown_json(text: str) -> str:
    """Return JSON that means the same and is safe at a terminal."""
    return _IN_A_LINE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _NAMES.get(found[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


class CleanRecords(logging.NullHandler):
    """A handler that writes nothing, and cleans records before other handlers see them.

    A logger's own handlers run before those of its parents: this one stands at the logger `dpq`.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Replace the message and the traceback, where they hold what steers a terminal.

        A record whose message cannot be made is left to the other handlers: logging says on stderr
        what is wrong with it, and the call that logs goes on.
        """
        try:
            message = record.getMessage()
        except Exception as error:
            raise_interruption(error)
            return True
        if _IN_A_LINE.search(message):
            record.msg, record.args = shown(message), None
        if record.exc_info and not record.exc_text:
            trace = TracebackException(*record.exc_info)
            text = "".join(trace.format()).rstrip("\n")
            if _more_lines(trace):  # one of them might be read as a record
                record.exc_text = shown(indent(text, "  "), lines=True)
            elif _IN_LINES.search(text):
                record.exc_text = shown(text, lines=True)
        return True


def _more_lines(trace: TracebackException) -> bool:
    """Has an error of a traceback a text of several lines?"""
    rest: list[TracebackException | None] = [trace]
    while rest:
        if error := rest.pop():
            if "".join(error.format_exception_only()).rstrip("\n").count("\n"):
                return True
            rest += [error.__cause__, error.__context__, *(error.exceptions or ())]
    return False
