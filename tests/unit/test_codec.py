"""codec: payload to bytes and back; anything else is a PayloadError."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from dpq import NO_RESULT, PayloadError
from dpq.model.payload import MAX_PAYLOAD_BYTES, Codec, bytes_text, codec_of
from dpq.model.results import result_line

text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
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


class Login(BaseModel):
    token: SecretStr = SecretStr("s")


class Hidden(BaseModel):
    part: str = Field(default="d", exclude=True)


class Deeper(Page):
    of: int = 1


@dataclass
class Point:
    x: float


@dataclass
class Point3(Point):
    z: float = 0


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow", ser_json_inf_nan="strings")
    value: Any = None
    number: float = 0
    _cache: object = PrivateAttr(default_factory=object)


class Aliased(BaseModel):
    url: str = Field(alias="URL")


class Color(Enum):
    RED = 1


DAY = datetime(2026, 1, 2, tzinfo=UTC)
CHANGED: list[tuple[Any, Any, str]] = [
    (Login, Login(), r"payload\.token comes back as another value: a secret is stored as stars"),
    (Any, Login(), r"payload\.token .* stars"),
    (Any, {"all": [Login()]}, r"payload\['all'\]\[0\]\.token"),
    (Any, {"key": SecretStr("s")}, r"payload\['key'\] .* stars"),
    (Hidden, Hidden(part="mine"), r"payload\.part comes back as another value"),
    (list[Hidden], [Hidden(), Hidden(part="mine")], r"payload\[1\]\.part"),
    (Page, Deeper(url="u"), "payload is a Deeper, and comes back as a Page"),
    (Point, Point3(1), "payload is a Point3, and comes back as a Point"),
    (dict[str, Point], {"a": Point3(1)}, r"payload\['a'\] is a Point3"),
    (Any, {1: 2}, "payload has the key 1, and keys of JSON are text"),
    (Any, {"a": [{None: 2}]}, r"payload\['a'\]\[0\] has the key None"),
    (Loose, Loose(value={1: 2}), r"payload\.value has the key 1"),
    (Any, math.nan, "payload is nan, and JSON has no such number"),
    (float, math.inf, "payload"),
    (Any, {"a": [1, -math.inf]}, r"payload\['a'\]\[1\] is -inf"),
    (dict[str, Any], {"value": math.nan}, r"payload\['value'\] is nan"),
]
UNCHANGED: list[tuple[Any, Any]] = [
    (Page, Page(url="u")),
    (Aliased, Aliased(URL="u")),
    (Point, Point(1)),
    (dict[int, str], {1: "a"}),
    (Loose, Loose(number=math.nan, value=(1, [2]), more="NaN")),  # its config allows NaN
    (Loose, Loose(value=DAY)),
    (Any, Page(url="u")),
    (Any, {"a": (1, 2), "at": DAY, "id": UUID(int=7), "d": Decimal("1.10"), "p": Path("/a")}),
    (Any, {"s": {1, 2}, "c": Color.RED, "m": [Point(1)], "b": b"text", "big": 2**70}),
    (Any, (n for n in range(3))),
]


@pytest.mark.parametrize(("kind", "payload", "said"), CHANGED)
def test_what_would_come_back_changed_is_refused(kind, payload, said):
    """The error names the part and the reason, and shows no value that may be a secret."""
    with pytest.raises(PayloadError, match=said):
        Codec(kind, 1000).encode(payload)


@pytest.mark.parametrize(("kind", "payload"), UNCHANGED)
def test_what_can_be_read_back_is_taken(kind, payload):
    """Any value that its own type, or the queue's, reads from its JSON form."""
    assert Codec(kind, 1000).encode(payload)


@pytest.mark.parametrize("result", [math.nan, {"a": [math.inf]}])
def test_a_result_is_no_nan(result):
    """Readers in other languages have no such number; a result may be left out."""
    with pytest.raises(PayloadError, match="NaN"):
        result_line(result, 1, None)
    assert result_line(NO_RESULT, 1, None) == ""


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
