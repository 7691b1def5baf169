"""codec: payload to bytes and back; anything else is a PayloadError."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from dpq import PayloadError
from dpq.model.payload import MAX_PAYLOAD_BYTES, Codec, bytes_text, codec_of

text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=20,
)


class Page(BaseModel):
    url: str
    depth: int = 0


@given(json_values)
def test_any_json_value(value):
    """Whatever JSON can say comes back equal and of the same type."""
    codec: Codec[Any] = Codec(Any, MAX_PAYLOAD_BYTES)
    back = codec.decode(codec.encode(value), "id")
    assert back == value
    assert type(back) is type(value)


def cycle() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize("payload", [object(), b"\xff", "\ud800", cycle(), lambda: 0])
def test_no_json_form(payload):
    """What has no JSON form is refused with the name of its type."""
    with pytest.raises(PayloadError, match=type(payload).__name__) as caught:
        Codec(Any, 1000).encode(payload)
    assert caught.value.task_id is None


def test_typed_both_ways():
    """With a type a payload is validated on the way in and is that type on the way out."""
    codec: Codec[Page] = Codec(Page, 1000)
    assert codec.decode(codec.encode(Page(url="u")), "id") == Page(url="u")
    assert codec.decode(b'{"url": "u", "depth": 3}', "id") == Page(url="u", depth=3)
    with pytest.raises(PayloadError, match="depth"):
        codec.encode({"url": "u", "depth": "deep"})  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b'{"depth": 1}', b"[]", b"", b"{", b"\xff", b"null"])
def test_typed_refuses_what_is_stored(body):
    """A stored payload that does not validate names its task."""
    with pytest.raises(PayloadError, match="stored payload") as caught:
        Codec(Page, 1000).decode(body, "the-id")
    assert caught.value.task_id == "the-id"


def test_length_bound():
    """The bound counts encoded bytes, itself allowed, and the error says both numbers."""
    codec: Codec[Any] = Codec(Any, 10)
    assert codec.encode("x" * 8) == b'"xxxxxxxx"'
    with pytest.raises(PayloadError, match=r"11 bytes.*max_payload_bytes is 10"):
        codec.encode("x" * 9)
    with pytest.raises(PayloadError, match=r"12 bytes"):
        codec.encode("é" * 5)


@given(st.binary(max_size=100))
def test_bytes(payload):
    """Bytes come back, as a JSON string a third longer; screens say how many bytes they are."""
    codec = codec_of(bytes, MAX_PAYLOAD_BYTES)
    body = codec.encode(payload)
    assert codec.decode(body, "id") == payload
    assert len(body) == 15 + -(-len(payload) // 3) * 4
    said = bytes_text(json.loads(body))
    assert said == f"{len(payload)} byte{'s' * (len(payload) != 1)}, base64"
    assert codec.decode(body.replace(b"/", b"\\/"), "id") == payload  # as other writers escape it
