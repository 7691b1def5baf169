"""Requests of Scrapy as JSON payloads: the same request comes back, or a refusal by name."""

import json
from typing import Any

import pytest
from kit.each import each

scrapy = pytest.importorskip("scrapy", reason="no scrapy here: pip install '.[scrapy]'")

from scrapy.http import FormRequest, JsonRequest  # noqa: E402
from scrapy.settings import Settings  # noqa: E402

from dpq.model.errors import PayloadError  # noqa: E402
from dpq.scrapy.payload import Payloads  # noqa: E402

URL = "https://a.example/7"


class Spider(scrapy.Spider):
    name = "pages"

    def page(self, response: Any) -> None:
        """A callback."""

    def broken(self, failure: Any) -> None:
        """An errback."""


class Book(scrapy.Item):  # type: ignore[misc]
    title = scrapy.Field()


SPIDER = Spider()  # without settings: its own `from_crawler` may leave them out
PAYLOADS = Payloads(SPIDER, Settings())

REQUESTS: list[Any] = [
    scrapy.Request(URL),
    scrapy.Request(
        URL,
        callback=SPIDER.page,
        errback=SPIDER.broken,
        method="PUT",
        headers={"Accept": ["text/html", "x/y"], "X-Ünï": "ä"},
        body="grüße",
        cookies={"a": "b"},
        meta={"depth": 3, "page": {"list": [1, 2.5, None, True, "x"]}},
        cb_kwargs={"n": 1},
        priority=-7,
        dont_filter=True,
        flags=["x"],
        encoding="latin-1",
    ),
    scrapy.Request(URL, method="POST", body=b"\xff\x00\xfe"),
    scrapy.Request(URL, body="€".encode(), encoding="ascii"),
    FormRequest(URL, formdata={"a": "1"}),
    JsonRequest(URL, data={"a": [1, 2]}),
]


@each("request_", REQUESTS)
def test_a_request_comes_back_as_it_was(request_):
    """All parts of a request survive the way through JSON, its class included."""
    payload = json.loads(json.dumps(PAYLOADS.write(request_)))
    back = PAYLOADS.read(payload, request_.priority)
    assert type(back) is type(request_)
    assert back.to_dict(spider=SPIDER) == request_.to_dict(spider=SPIDER)


def test_a_plain_request_is_short():
    """Parts that are as usual are not stored; what the scheduler adds is not, either."""
    request = scrapy.Request(URL, SPIDER.page, priority=5, meta={"dpq": {"id": "x"}})
    assert PAYLOADS.write(request) == {"url": URL, "callback": "page"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"meta": {"page": {"session": object()}}}, r"meta\['page'\]\['session'\] is a object"),
    ({"cb_kwargs": {"when": [1, {2}]}}, r"cb_kwargs\['when'\]\[1\] is a set"),
    ({"meta": {"rate": float("nan")}}, r"meta\['rate'\] is nan"),
    ({"meta": {"of": {1: "a"}}}, r"meta\['of'\] has the key 1: keys of JSON are text"),
    ({"meta": {"item": Book(title="x")}}, r"meta\['item'\] is a Book"),
    ({"cookies": {"a": b"b"}}, r"cookies\['a'\] is a bytes"),
    ({"callback": lambda response: None}, "lambda.* is not an instance method"),
    ({"headers": {"X": b"\xff"}}, r"headers\['X'\]|headers\[b'X'\]"),
]


@each("case", REFUSED)
def test_what_is_no_json_is_refused_by_name(case):
    """The error names the part: nobody has to look for it."""
    parts, text = case
    with pytest.raises(PayloadError, match=text):
        PAYLOADS.write(scrapy.Request(URL, **parts))


NO_REQUESTS: list[tuple[Any, str]] = [
    (7, "no 'url'"),
    ({"meta": {}}, "no 'url'"),
    ({"url": URL, "limit": 3, "job": 1}, "the payload has job, limit"),
    ({"url": URL, "callback": "missing"}, "callback is 'missing': the spider 'pages' has no"),
    ({"url": URL, "errback": "name"}, "errback is 'name'"),
    ({"url": URL, "body": {"base64": "?"}}, "'body' is neither"),
    ({"url": URL, "_class": "subprocess.Popen"}, "_class is 'subprocess.Popen': DPQ_"),
    ({"url": URL, "_class": "no.such"}, "_class is 'no.such': DPQ_REQUEST_CLASSES does not"),
    ({"url": "no address"}, "[Mm]issing scheme"),
    ({"url": URL, "meta": 7}, "no request"),
]


@each("case", NO_REQUESTS)
def test_a_payload_that_is_no_request_says_why(case):
    """A payload from elsewhere never runs as something else."""
    payload, text = case
    with pytest.raises(PayloadError, match=text):
        PAYLOADS.read(payload, 0)


def test_an_address_alone_is_a_request():
    """`dpq push '"https://..."'` is enough; the priority is that of the task, as a whole number."""
    request = PAYLOADS.read(URL, 2.9)
    assert (request.url, request.priority, request.callback) == (URL, 2, None)
