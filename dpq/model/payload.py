"""Payloads: JSON bytes on the server, validated values here. Never pickle."""

from binascii import a2b_base64, b2a_base64
from dataclasses import fields, is_dataclass
from functools import lru_cache
from math import isnan
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json

from dpq.model.errors import ConfigurationError, PayloadError
from dpq.model.validation import whole_number

P = TypeVar("P")

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Bytes of a payload at most: 64 MiB. A larger value would hold up all clients of the server."""


class Codec(Generic[P]):
    """Writes and reads the payloads of one queue; the type's adapter is built once.

    If the type is `Any`, each value with a JSON form is taken as it is. Any other type validates
    payloads when they are written and when they are read. Each is read back once as it is written.
    """

    def __init__(self, payload_type: Any, max_bytes: int) -> None:
        self.max_bytes = whole_number("max_payload_bytes", max_bytes, 1, MAX_PAYLOAD_BYTES)
        self._adapter: TypeAdapter[P] | None = None
        self._payload_type = payload_type
        if payload_type is not Any:
            try:
                self._adapter = TypeAdapter(payload_type)
            except Exception as error:  # pydantic fails in many ways at what is no type
                raise ConfigurationError(
                    f"payload_type is {payload_type!r}: pydantic has no schema for it"
                ) from error

    def encode(self, payload: P) -> bytes:
        """Encode a payload for storage."""
        try:
            if self._adapter is None:
                valid: Any = payload
                body = to_json(payload, inf_nan_mode="null")
                back: Any = from_json(body)
            else:
                valid = self._adapter.validate_python(payload)
                body = self._adapter.dump_json(valid, by_alias=True)
                back = self._adapter.validate_json(body)  # pop must be able to read it
                if b"NaN" in body or b"Infinity" in body:
                    from_json(body, allow_inf_nan=False)  # others cannot read such numbers
            changed = "" if back == valid else change(valid, back)
        except PydanticUserError as error:
            raise self._incomplete(error) from error
        except ValidationError as error:
            raise PayloadError(f"the payload does not fit the queue's type: {error}") from error
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            hint = " (push data; Tasks push calls of functions)" if callable(payload) else ""
            raise PayloadError(
                f"a {type(payload).__name__} has no JSON form{hint}: {error}"
            ) from error
        if changed:
            raise PayloadError(f"the payload would not come back as it is: {changed}")
        if len(body) > self.max_bytes:
            raise PayloadError(
                f"the payload is {len(body)} bytes, and max_payload_bytes is {self.max_bytes}: "
                "store the data elsewhere and push its address, or raise max_payload_bytes"
            )
        return body

    def _incomplete(self, error: PydanticUserError) -> ConfigurationError:
        """Make the error for a type that names another one, which does not exist (yet)."""
        return ConfigurationError(
            f"payload_type is {self._payload_type!r}, which is not complete: {error.message}"
        )

    def decode(self, body: bytes, task_id: str) -> P:
        """Decode a stored payload."""
        try:
            if self._adapter is None:
                return cast("P", from_json(body))
            return self._adapter.validate_json(body)
        except PydanticUserError as error:
            raise self._incomplete(error) from error
        except (ValueError, RecursionError) as error:
            raise PayloadError(
                f"the stored payload cannot be read: {complaint(error, 'payload')}", task_id=task_id
            ) from error


BYTES_BEGIN = "data:;base64,"
"""The beginning of bytes as a JSON string: a data URL (RFC 2397), which tells every reader what it
is."""


class BytesCodec(Codec[bytes]):
    """Writes and reads payloads that are bytes, as `"data:;base64,AP8="`: a third longer."""

    def encode(self, payload: bytes) -> bytes:
        """Encode bytes for storage."""
        if not isinstance(payload, bytes | bytearray):
            raise PayloadError(
                f"the payload is a {type(payload).__name__}, and payload_type is bytes: give "
                "bytes, as text.encode() makes them, or leave payload_type out"
            )
        body = b'"%b%b"' % (BYTES_BEGIN.encode(), b2a_base64(payload, newline=False))
        if len(body) > self.max_bytes:
            raise PayloadError(
                f"the payload is {len(payload)} bytes, which are stored as {len(body)} bytes of "
                f"base64, and max_payload_bytes is {self.max_bytes}: store the data elsewhere and "
                "push its address, or raise max_payload_bytes"
            )
        return body

    def decode(self, body: bytes, task_id: str) -> bytes:
        """Decode stored bytes."""
        try:
            text = from_json(body)
            if isinstance(text, str) and text.startswith(BYTES_BEGIN):
                return a2b_base64(text.removeprefix(BYTES_BEGIN), strict_mode=True)
        except (ValueError, RecursionError):
            pass
        raise PayloadError(
            "the stored payload cannot be read: payload_type is bytes, which are stored as base64 "
            f"behind {BYTES_BEGIN}",
            task_id=task_id,
        )


def bytes_text(payload: Any) -> str | None:
    """Say how many bytes a payload is, as in `3 bytes, base64`; None for any other payload."""
    if not isinstance(payload, str) or not payload.startswith(BYTES_BEGIN):
        return None
    digits = len(payload) - len(BYTES_BEGIN)
    size = digits * 3 // 4 - payload[-2:].count("=") if digits else 0
    return f"{size} {'byte' if size == 1 else 'bytes'}, base64"


def codec_of(payload_type: Any, max_bytes: int) -> Codec[Any]:
    """Make the codec of a payload type."""
    return (BytesCodec if payload_type is bytes else Codec)(payload_type, max_bytes)


def complaint(error: Exception, whole: str) -> str:
    """Say in one line what does not fit, without the values, which may be secrets."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )


# Nothing changes in silence

_adapter_of = lru_cache(maxsize=500)(TypeAdapter)


def change(given: Any, back: Any, path: str = "payload") -> str:
    """Say what has changed on its way through JSON, without the values; "" for nothing.

    A tuple may come back as a list. Where the queue names no type, a value may come back in its
    JSON form, if the value's own type reads the same from that.
    """
    kind: Any = type(given)
    if isinstance(given, dict) and isinstance(back, dict):
        for key in given:
            if key not in back:
                return f"{path} has the key {key!r}, and keys of JSON are text"
        parts = [(value, back[key], f"{path}[{key!r}]") for key, value in given.items()]
    elif isinstance(given, list | tuple) and isinstance(back, list) and len(given) == len(back):
        parts = [(*both, f"{path}[{n}]") for n, both in enumerate(zip(given, back, strict=True))]
    elif (names := _names(given)) and _names(back):
        if kind is not type(back):
            return f"{path} is a {kind.__name__}, and comes back as a {type(back).__name__}"
        parts = [(getattr(given, n), getattr(back, n, None), f"{path}.{n}") for n in names]
    elif given == back or kind.__eq__ is object.__eq__:
        return ""
    else:
        return _of_one_value(given, back, path)
    return next(filter(None, (change(*part) for part in parts)), "")


def _of_one_value(given: Any, back: Any, path: str) -> str:
    kind: Any = type(given)
    if isinstance(given, float):
        both = isinstance(back, float) and isnan(given) and isnan(back)
        return "" if both else f"{path} is {given}, and JSON has no such number"
    if kind is not type(back):
        try:
            again = _adapter_of(kind).validate_json(to_json(given))
            return "" if again == given else change(given, again, path)
        except PydanticUserError:  # a type that pydantic does not know
            return ""
        except ValidationError:
            return f"{path} is a {kind.__name__}, which cannot be read back"
    secret = ": a secret is stored as stars" if hasattr(given, "get_secret_value") else ""
    return f"{path} comes back as another value{secret}"


def _names(value: Any) -> list[str]:
    """List the fields of a model or a dataclass."""
    if isinstance(value, BaseModel):
        return [*type(value).model_fields, *(value.model_extra or ())]
    return [each.name for each in fields(value)] if is_dataclass(value) else []
