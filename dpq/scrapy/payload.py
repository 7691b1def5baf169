"""Requests of Scrapy as JSON payloads, and payloads as requests. No I/O.

The scheduler writes each request that it stores, and reads each task that it gets. People and other
programs push payloads, too: `{"url": "https://a.example/"}` is one, and so is the address alone.

    {"url": "https://a.example/7", "callback": "parse_page", "meta": {"depth": 1}}
"""

import base64
import binascii
import inspect
import math
from collections.abc import Mapping
from types import FunctionType
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider, http
from scrapy.utils.misc import load_object
from scrapy.utils.request import request_from_dict

from dpq.model.errors import PayloadError

OURS = "dpq"
"""The key of `meta` under which a request says which task it is. It is never stored."""

_BLANK = Request("data:,").to_dict()
"""The values that a request has unless it says otherwise: they are not stored."""

_BESIDE = frozenset({"url", "priority"})
"""Parts of a request that are stored in another way: always, and as the task's priority."""

_NAMES = frozenset({*_BLANK, "_class"})

_OF_SCRAPY = [
    each for each in vars(http).values() if isinstance(each, type) and issubclass(each, Request)
]

_PRIVATE = frozenset({"_callback", "_errback", "_parse_sitemap"})
"""The callbacks of Scrapy's CrawlSpider and SitemapSpider, which begin with an underscore."""


class Payloads:
    """The requests of one spider as payloads; its settings say what they may name."""

    def __init__(self, spider: Spider, settings: Any) -> None:
        own = [load_object(each) for each in settings.getlist("DPQ_REQUEST_CLASSES")]
        self._kinds = {f"{each.__module__}.{each.__name__}": each for each in (*_OF_SCRAPY, *own)}
        self._schemes = settings.getlist("DPQ_SCHEMES", ["http", "https"])
        self._spider = spider

    def write(self, request: Request) -> dict[str, Any]:
        """Write a request as a payload.

        Tuples become lists. Callbacks and errbacks are methods of the spider, and stored by name.

        Raises:
            PayloadError: A part of the request has no JSON form. The text names the part.
        """
        try:
            parts = request.to_dict(spider=self._spider)
        except ValueError as error:
            said = f"{error}: a queue keeps callbacks by the name of a method"
            raise PayloadError(said) from error
        self._allow(parts)
        parts |= {
            "meta": {name: value for name, value in parts["meta"].items() if name != OURS},
            "headers": _headers(request),
            "body": _body(request.body, request.encoding),
        }
        blank = _BLANK | {"headers": {}, "body": ""}
        try:
            kept = {
                name: json_form(value, name)
                for name, value in parts.items()
                if name not in _BESIDE and value != blank.get(name)
            }
        except RecursionError as error:
            raise PayloadError("a part of the request contains itself, or is too deep") from error
        return {"url": request.url, **kept}

    def read(self, payload: Any, priority: float) -> Request:
        """Read a payload, an address or a mapping with `url`, as a request of the spider.

        The priority is that of the task. A fraction is cut off: Scrapy has whole numbers.

        Raises:
            PayloadError: It is no request: the text says which part is wrong.
        """
        if isinstance(payload, str):
            payload = {"url": payload}
        if not isinstance(payload, dict) or not isinstance(payload.get("url"), str):
            raise PayloadError("the payload is no request: it has no 'url'")
        parts = dict(payload)
        names = _NAMES.union(self._allow(parts).attributes)
        if unknown := sorted(map(str, parts.keys() - names)):
            raise PayloadError(f"the payload has {', '.join(unknown)}: no request has that")
        body = parts.get("body")
        if isinstance(body, dict):
            try:
                parts["body"] = base64.b64decode(body["base64"], validate=True)
            except (KeyError, TypeError, binascii.Error) as error:
                raise PayloadError("'body' is neither text nor {'base64': ...}") from error
        parts["priority"] = math.trunc(priority)
        try:
            return request_from_dict(parts, spider=self._spider)
        except (Exception, SystemExit) as error:  # a part of the wrong type or form
            raise PayloadError(f"the payload is no request: {error}") from error

    def _allow(self, parts: Mapping[str, Any]) -> type[Request]:
        """Return the class of a request whose class, callbacks and scheme the spider allows."""
        path = parts.get("_class")
        kind: type[Request] | None = Request if path is None else self._kinds.get(str(path))
        if kind is None:
            raise PayloadError(f"_class is {path!r:.200}: DPQ_REQUEST_CLASSES does not name it")
        for name in ("callback", "errback"):
            method = parts.get(name)
            if method is not None and not _is_callback(method, self._spider):
                raise PayloadError(
                    f"{name} is {method!r:.200}: the spider {self._spider.name!r} has no such "
                    "public method"
                )
        scheme = urlsplit(parts["url"].strip()).scheme.lower()
        if scheme and scheme not in self._schemes:
            allowed = ", ".join(self._schemes)
            raise PayloadError(f"url is {parts['url']!r:.200}: DPQ_SCHEMES allows {allowed} alone")
        return kind


def json_form(value: Any, path: str) -> Any:
    """Return a value as JSON types alone; `path` is its name for people, as in `meta['page']`.

    Raises:
        PayloadError: It has no JSON form that is read back as the same value.
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, dict):  # an Item, say, would come back as a dict
        for key in value:
            if not isinstance(key, str):
                raise PayloadError(f"{path} has the key {key!r}: keys of JSON are text")
        return {key: json_form(each, f"{path}[{key!r}]") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_form(each, f"{path}[{index}]") for index, each in enumerate(value)]
    kind = f"{value!r}" if isinstance(value, float) else f"a {type(value).__name__}"
    raise PayloadError(f"{path} is {kind}: a queue keeps JSON alone")


def _headers(request: Request) -> dict[str, list[str]]:
    given: dict[bytes, list[bytes]] = dict(request.headers)  # `items` looks each name up again
    return {
        _text(name, request.encoding, "headers"): [
            _text(value, request.encoding, f"headers[{name!r}]") for value in values
        ]
        for name, values in given.items()
    }


def _text(raw: bytes, encoding: str, path: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise PayloadError(f"{path} is {raw!r}: that is no text in {encoding}") from error


def _body(raw: bytes, encoding: str) -> str | dict[str, str]:
    """Return a body as text if the same bytes can be made of it, else as base64."""
    try:
        text = raw.decode(encoding)
        if text.encode(encoding) == raw:
            return text
    except UnicodeError:
        pass
    return {"base64": base64.b64encode(raw).decode("ascii")}


def _is_callback(name: Any, spider: Spider) -> bool:
    """Return True for a public method of the spider's class, or a callback of Scrapy's spiders."""
    method = inspect.getattr_static(type(spider), str(name), None)
    if not isinstance(method, FunctionType) or (name in vars(Spider) and name != "parse"):
        return False
    return not str(name).startswith("_") or name in _PRIVATE
