"""Usage of an answer: what it says it has spent, read while its caller reads the body. No I/O.

The transports for HTTP clients call it. Of a body it keeps `MOST_BYTES` at most, and it changes
nothing of what the caller gets.

    reader = BodyReader("text/event-stream", "")
    reader.read(b'data: {"usage": {"total_tokens": 12}}\\n\\n')   # as each part comes
    reader.read(b"data: [DONE]\\n\\n")
    reader.answer(200, {}, None).usage                           # {"total_tokens": 12}
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpq.limits.answers import Headers

MOST_BYTES = 1 << 20
"""Bytes of a body, or of one event of a stream, that are kept: its last ones. An answer with text
is smaller. Of larger ones, such as embeddings, the usage stands at the end."""

_LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete", "response.failed")
"""Types of events after which a stream says no more; its client may not read its very end."""

_LONGEST_LAST_EVENT = 200
"""Bytes of an event without a usage that may be the last one."""

_GZIP_OR_ZLIB = 47
"""The window bits by which zlib finds out which of the two it reads."""


@dataclass(frozen=True)
class Answer:
    """An answer whose body has ended, for a function `spent`.

    Attributes:
        status: The status.
        headers: The headers, as the client gives them.
        response: The client's own response. Its body has been read by the caller, or is closed.
        complete: The body came to its end; False if the caller left it before.
        usage: The `usage` of a JSON body, or of all events of a stream, where the last value of
            each name holds; empty if there is none.
        body: The body, if it is no stream and has 1 MiB at most; else `b""`.
    """

    status: int
    headers: Headers
    response: Any
    complete: bool
    usage: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""


def openai_usage(answer: Answer) -> dict[str, int] | None:
    """Read the tokens of an answer of OpenAI, or of an API of that form; None if it says none.

    It serves chat completions, responses and embeddings. A stream of chat completions says its
    usage only if it was asked for: `stream_options={"include_usage": True}`.

    Returns:
        The units `tokens`, `input_tokens` and `output_tokens`.
    """
    usage = answer.usage if answer.complete else {}
    given = _count(usage, "prompt_tokens", "input_tokens")
    made = _count(usage, "completion_tokens", "output_tokens")
    return _tokens(given, made, _count(usage, "total_tokens"))


def anthropic_usage(answer: Answer) -> dict[str, int] | None:
    """Read the tokens of an answer of Anthropic; None if it says none.

    Tokens that are read from the cache count towards no limit, so they are left out.

    Returns:
        The units `tokens`, `input_tokens` and `output_tokens`.
    """
    usage = answer.usage if answer.complete else {}
    given, written = _count(usage, "input_tokens"), _count(usage, "cache_creation_input_tokens")
    if given is not None:
        given += written or 0
    return _tokens(given, _count(usage, "output_tokens"), None)


def _tokens(given: int | None, made: int | None, total: int | None) -> dict[str, int] | None:
    if given is None and made is None and total is None:
        return None
    both = (given or 0) + (made or 0)
    return {
        "tokens": both if total is None else total,
        "input_tokens": given or 0,
        "output_tokens": made or 0,
    }


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    counts = (usage.get(name) for name in names)
    return next(filter(is_count, counts), None)


def is_count(value: object) -> bool:
    """Return True for a whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class BodyReader:
    """Reads a body part by part, beside its caller.

    Args:
        content_type: The header; events are read of `text/event-stream`, else one JSON document.
        encoding: The header `Content-Encoding`, if the parts are packed; else "".
    """

    def __init__(self, content_type: str, encoding: str = "") -> None:
        self._stream = content_type.lower().startswith("text/event-stream")
        self._packed = encoding.strip().lower() not in ("", "identity")
        self._kept = bytearray()  # bytes of the body, or of the line that has not ended
        self._cut = False  # something before it was dropped
        self._usage: dict[str, Any] = {}
        self._complete = False

    def read(self, part: bytes) -> None:
        """Read a part of the body."""
        lines = part.replace(b"\r", b"\n").split(b"\n") if self._stream else [part]
        for i, line in enumerate(lines):
            if i:
                self._end_line()
            self._kept += line[-MOST_BYTES:]
            if len(self._kept) > MOST_BYTES or len(line) > MOST_BYTES:
                self._cut = True
                del self._kept[:-MOST_BYTES]

    def end(self) -> None:
        """Note that the body came to its end."""
        self._complete = True
        if self._stream:
            self._end_line()

    def answer(self, status: int, headers: Headers, response: Any) -> Answer:
        """Return what was read."""
        body = b""
        if not self._stream:
            kept = _unpacked(self._kept) if self._packed else bytes(self._kept)
            self._usage = _usage_in(kept, cut=self._cut)
            body = b"" if self._cut else kept
        return Answer(status, headers, response, self._complete, self._usage, body)

    def _end_line(self) -> None:
        line, cut = bytes(self._kept), self._cut
        self._kept.clear()
        self._cut = False
        if cut or line.startswith(b"data:"):
            data = line if cut else line[5:].strip()
            if b'"usage"' in data:
                self._usage.update(_usage_in(data, cut=cut))
            self._complete = self._complete or _is_last(data)


def _unpacked(body: bytes | bytearray) -> bytes:
    """Unpack a body that is packed although it was asked for plain; b"" if it cannot be read."""
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, MOST_BYTES)
    except zlib.error:
        return b""


def _is_last(data: bytes) -> bool:
    """Return True for the last event of a stream; a long one that says a usage ends it as well."""
    if data == b"[DONE]":
        return True
    if len(data) > _LONGEST_LAST_EVENT and b'"usage"' not in data:
        return False
    document = _read_json(data)
    return isinstance(document, dict) and document.get("type") in _LAST_EVENTS


def _usage_in(data: bytes | bytearray, *, cut: bool) -> dict[str, Any]:
    """Find the usage in a document; of one whose beginning was cut off, the last one in it."""
    if cut:
        text = data.decode("utf-8", "replace")
        _, _, rest = text.rpartition('"usage"')
        document: Any = {"usage": _read_json(rest.lstrip(" \t\r\n:"))}
    else:
        document = _read_json(data) if b'"usage"' in data else None
    places = [document]
    if isinstance(document, dict):
        places += [document.get("message"), document.get("response")]
    found: dict[str, Any] = {}
    for place in places:
        usage = place.get("usage") if isinstance(place, dict) else None
        if isinstance(usage, dict):
            found.update({name: value for name, value in usage.items() if value is not None})
    return found


def _read_json(data: str | bytes | bytearray) -> Any:
    """Read a document, or its beginning as far as it is one; None if it is none."""
    try:
        text = data if isinstance(data, str) else data.decode()
        return json.JSONDecoder().raw_decode(text.strip())[0]
    except (ValueError, RecursionError):
        return None
