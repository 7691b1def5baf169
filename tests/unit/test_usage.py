"""What an answer says it has spent: bodies and streams, in parts of any size, in bounded memory."""

import gzip
import json
import tracemalloc
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq.limits.usage import MOST_BYTES, Answer, BodyReader, anthropic_usage, openai_usage

SSE = "text/event-stream; charset=utf-8"


def read(
    parts: Any, kind: str = "application/json", encoding: str = "", *, ends: bool = True
) -> Answer:
    """The answer of a body in parts."""
    reader = BodyReader(kind, encoding)
    for part in parts:
        reader.read(part)
    if ends:
        reader.end()
    return reader.answer(200, {}, None)


def events(*documents: Any, end: str = "\n\n") -> bytes:
    texts = (each if isinstance(each, str) else json.dumps(each) for each in documents)
    return "".join(f"event: x{end[0]}data: {text}{end}" for text in texts).encode()


OPENAI_STREAM = events(
    {"choices": [{"delta": {"content": 'a "usage": {"total_tokens": 1}'}}], "usage": None},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}},
    "[DONE]",
)
ANTHROPIC_STREAM = events(
    {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "content_block_delta", "delta": {"text": "hello"}},
    {"type": "message_delta", "usage": {"input_tokens": None, "output_tokens": 30}},
    {"type": "message_stop"},
)
RESPONSES_STREAM = events(
    {"type": "response.created", "response": {"usage": None}},
    {"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 4}}},
)
STREAMS = [
    (OPENAI_STREAM, openai_usage, (11, 5, 6)),
    (ANTHROPIC_STREAM, anthropic_usage, (39, 9, 30)),
    (RESPONSES_STREAM, openai_usage, (7, 3, 4)),
]


@pytest.mark.parametrize(("stream", "spent", "tokens"), STREAMS)
@given(cuts=st.lists(st.integers(0, 600)), newline=st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_stream_in_any_parts(stream, spent, tokens, cuts, newline):
    """It says the same however it is cut, with each end of lines, also before its very end."""
    stream = stream.replace(b"\n", newline.encode())
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    answer = read((stream[a:b] for a, b in pairwise(bounds)), SSE, ends=False)
    assert answer.complete
    total, given_, made = tokens
    assert spent(answer) == {"tokens": total, "input_tokens": given_, "output_tokens": made}
    assert answer.body == b""


@pytest.mark.parametrize(("stream", "spent", "tokens"), STREAMS)
def test_a_stream_that_is_left(stream, spent, tokens):
    """What its beginning says is no final count, so it says nothing."""
    answer = read([stream[: stream.rindex(b"event: x")]], SSE, ends=False)
    assert not answer.complete
    assert spent(answer) is None


@given(
    size=st.integers(1, 40), encoding=st.sampled_from(["", "gzip", "deflate", " GZIP", "x-gzip"])
)
def test_a_body_in_any_parts(size, encoding):
    """It is unpacked, and whole for a function of one's own."""
    plain = b' {"text": "hi", "usage": {"prompt_tokens": 2, "completion_tokens": 3}} '
    packed = {"": plain, "deflate": zlib.compress(plain)}.get(encoding, gzip.compress(plain))
    answer = read((packed[i : i + size] for i in range(0, len(packed), size)), encoding=encoding)
    assert openai_usage(answer) == {"tokens": 5, "input_tokens": 2, "output_tokens": 3}
    assert answer.body == plain


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", ""),
        (b"null", ""),
        (b'{"usage": 7}', ""),
        (b'{"usage": {"total_tokens": true}}', ""),
        (b'{"usage": {"total_tokens": "7"}}', ""),
        (b'{"usage"', ""),
        (b"\xff\xfe\x00", ""),
        (b"[" * 200_000 + b'"usage"', ""),
        (b"not packed", "gzip"),
        (gzip.compress(b'{"usage": {}}', mtime=0)[:-12], "gzip"),
        (gzip.compress(b"x" * 10**7), "gzip"),
        (b"anything", "br"),
        (b"anything", "gzip, br"),
    ],
)
def test_bodies_that_say_nothing(body, encoding):
    """They raise nothing, and say nothing."""
    for kind in ("application/json", SSE):
        answer = read([body, b"more"], kind, encoding)
        assert openai_usage(answer) is None
        assert anthropic_usage(answer) is None


@pytest.mark.parametrize("kind", ["application/json", SSE])
@pytest.mark.parametrize("packed", [True, False])
def test_memory_is_bounded(kind, packed):
    """A body of 60 MB, packed into 60 kB or not, takes a few times what is kept at most."""
    part = b"x" * 60_000
    reader = BodyReader(kind, "gzip" if packed else "")
    bomb = gzip.compress(part * 1000)
    tracemalloc.start()
    try:
        for each in [bomb] if packed else (part for _ in range(1000)):
            reader.read(each)
        reader.end()
        reader.answer(200, {}, None)
        assert tracemalloc.get_traced_memory()[1] < 8 * MOST_BYTES
    finally:
        tracemalloc.stop()
