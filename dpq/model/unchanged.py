"""The comparison of a payload with what JSON gives back: nothing changes in silence. No I/O."""

from dataclasses import fields, is_dataclass
from functools import lru_cache
from math import isnan
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

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
