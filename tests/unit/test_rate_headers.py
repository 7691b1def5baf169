"""RateLimited, and what it reads from an answer's status and headers."""

import http.client
import io
import math
import pickle
import sys
import time
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpq import ConfigurationError, RateLimited
from dpq.model.rate_headers import DEFAULT_RETRY_AFTER, MAX_RETRY_AFTER

NOW = 1_730_221_000
"""Tue, 29 Oct 2024 16:56:40 GMT: the `Date` of every case that has a Date."""

DATE = {"Date": "Tue, 29 Oct 2024 16:56:40 GMT"}
RFC_9110 = "https://www.rfc-editor.org/rfc/rfc9110"
DRAFT = "https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-"
GITHUB = "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api"
X = "https://docs.x.com/fundamentals/rate-limits"
DISCORD = "https://docs.discord.com/developers/topics/rate-limits"
REDDIT = "https://github.com/reddit-archive/reddit/wiki/API"
OPENAI = "https://platform.openai.com/docs/guides/rate-limits"
ANTHROPIC = "https://docs.anthropic.com/en/api/rate-limits"
SHOPIFY = "https://shopify.dev/docs/api/admin-rest/usage/rate-limits"
OKTA = "https://developer.okta.com/docs/reference/rl-best-practices/"
ZENDESK = (
    "https://developer.zendesk.com/documentation/api-basics/best-practices/"
    "best-practices-for-avoiding-rate-limiting"
)
ATLASSIAN = "https://developer.atlassian.com/cloud/jira/platform/rate-limiting"
SLACK = "https://docs.slack.dev/apis/web-api/rate-limits"
STRIPE = "https://docs.stripe.com/rate-limits"
GOOGLE = "https://cloud.google.com/storage/docs/retry-strategy"
GITLAB = "https://gitlab.com/gitlab-org/gitlab/-/issues/199738"
LINEAR = "https://linear.app/developers/rate-limiting"
COSMOS = (
    "https://learn.microsoft.com/en-us/rest/api/cosmos-db/common-cosmosdb-rest-response-headers"
)
AZURE_SDK = "https://github.com/Azure/azure-sdk-for-js, throttlingRetryStrategy.ts"
MAILERLITE = "https://developers-classic.mailerlite.com/docs/api-rate-limits"
LEMLIST = "https://developer.lemlist.com/api-reference/getting-started/rate-limits"
CONTENTFUL = "https://www.contentful.com/developers/docs/references/content-management-api/"
WHOOP = "https://developer.whoop.com/docs/developing/rate-limiting"
KONG = "https://developer.konghq.com/plugins/rate-limiting/"
OURS = "dpq/model/rate_headers.py"


class Case(NamedTuple):
    name: str
    source: str
    status: int
    headers: dict[str, str] | list[tuple[str, str]]
    wait: float | None


def limited(name: str, source: str, wait: float, *lines: str, status: int = 429) -> Case:
    """An answer with a Date and these header lines."""
    pairs = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return Case(name, source, status, [*DATE.items(), *pairs], wait)


def free(name: str, source: str, status: int, *lines: str) -> Case:
    """An answer that is no limit."""
    return limited(name, source, 0, *lines, status=status)._replace(wait=None)


CASES = [
    # Which answers are limits
    limited("429 bare", "https://www.rfc-editor.org/rfc/rfc6585#section-4", DEFAULT_RETRY_AFTER),
    free("503 bare", RFC_9110 + "#section-15.6.4", 503),
    free("529 bare", ANTHROPIC, 529),
    free("503 with garbage", OURS, 503, "retry-after: soon", "ratelimit-reset: never"),
    free("503 some left", OURS, 503, "x-ratelimit-remaining: 1", "x-ratelimit-reset: 60"),
    free("503 with a policy only", DRAFT + "10.txt", 503, 'RateLimit-Policy: "a";q=9;w=60'),
    limited("503", RFC_9110 + "#section-10.2.3", 120, "Retry-After: 120", status=503),
    limited("503 spent", DRAFT + "10.txt", 9, 'RateLimit: "a";r=0;t=9', status=503),
    limited("503 with a reset only", DRAFT + "03.txt", 50, "RateLimit-Reset: 50", status=503),
    free("403 with a reset only", DRAFT + "03.txt", 403, "RateLimit-Reset: 50"),
    free("200 spent", GITHUB, 200, "x-ratelimit-remaining: 0", f"x-ratelimit-reset: {NOW + 9}"),
    free("301", RFC_9110 + "#section-10.2.3", 301, "Retry-After: 120"),
    free("301 spent", DRAFT + "10.txt", 301, 'RateLimit: "problemPolicy";r=0;t=10'),
    free("500", OURS, 500, "Retry-After: 120"),
    free("403 forbidden", GITHUB, 403),
    free("403 some left", GITHUB, 403, "x-ratelimit-remaining: 1", "x-ratelimit-reset: 60"),
    free("403 with garbage", OURS, 403, "retry-after: soon", "x-ratelimit-remaining: none"),
    free("403 with a policy only", DRAFT + "10.txt", 403, 'RateLimit-Policy: "a";q=9;w=60'),
    # Retry-After
    limited("seconds", RFC_9110 + "#section-10.2.3", 120, "Retry-After: 120"),
    limited("zero", RFC_9110 + "#section-10.2.3", 0, "Retry-After: 0"),
    Case(
        "date",
        RFC_9110 + "#section-10.2.3",
        503,
        {
            "Date": "Fri, 31 Dec 1999 23:58:29 GMT",
            "Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT",
        },
        90,
    ),
    *(
        Case(name, RFC_9110 + "#section-5.6.7", 429, {"Date": date, "Retry-After": until}, 37)
        for name, date, until in [
            ("IMF-fixdate", "Sun, 06 Nov 1994 08:49:00 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("RFC 850 date", "Sunday, 06-Nov-94 08:49:00 GMT", "Sunday, 06-Nov-94 08:49:37 GMT"),
            ("asctime date", "Sun Nov  6 08:49:00 1994", "Sun Nov  6 08:49:37 1994"),
        ]
    ),
    limited("past date", OURS, 0, "Retry-After: Tue, 29 Oct 2024 16:56:39 GMT"),
    limited("date beyond a day", OURS, 86_400, "Retry-After: Tue, 29 Oct 2124 16:56:40 GMT"),
    limited("seconds beyond a day", OURS, 86_400, "Retry-After: 86401"),
    limited("epoch as Retry-After", OURS, 30, f"Retry-After: {NOW + 30}"),
    limited("no such day", OURS, DEFAULT_RETRY_AFTER, "Retry-After: Fri, 30 Feb 2026 00:00:00 GMT"),
    limited("repeated", OURS, 60, "Retry-After: 30", "Retry-After: 60", "Retry-After: x"),
    limited("joined", RFC_9110 + "#section-5.3", 60, "Retry-After: 30, 60"),
    limited("decimals", SHOPIFY, 2, "Retry-After: 2.0", "X-Shopify-Shop-Api-Call-Limit: 40/40"),
    limited("Slack", SLACK, 30, "Retry-After: 30"),
    limited("Stripe", STRIPE, DEFAULT_RETRY_AFTER, "Stripe-Rate-Limited-Reason: global-rate"),
    limited("Google", GOOGLE, DEFAULT_RETRY_AFTER, "Server: UploadServer"),
    limited("Cosmos DB", COSMOS, 0.54, "x-ms-retry-after-ms: 540"),
    limited("Azure OpenAI", AZURE_SDK, 1, "retry-after-ms: 540", "retry-after: 1"),
    limited("MailerLite", MAILERLITE, 59, "X-RateLimit-Retry-After: 59"),
    limited(
        "Retry-After wins",
        DRAFT + "10.txt",
        7,
        'RateLimit: "default";r=0;t=30',
        "X-RateLimit-Remaining: 0",
        f"X-RateLimit-Reset: {NOW + 60}",
        "Retry-After: 7",
        "X-RateLimit-Retry-After: 8",
    ),
    limited(
        "an invalid one does not",
        DRAFT + "10.txt",
        30,
        'RateLimit: "default";r=0;t=30',
        "Retry-After: later",
    ),
    # The IETF drafts
    limited("draft 10", DRAFT + "10.txt", 30, 'RateLimit: "default";r=0;t=30'),
    limited("draft 08", DRAFT + "08.txt", 30, "RateLimit: default;r=0;t=30"),
    limited("403 spent", DRAFT + "10.txt", 30, 'RateLimit: "default";r=0;t=30', status=403),
    limited(
        "several policies",
        DRAFT + "10.txt",
        23,
        'RateLimit: "permin";r=0;t=23, "persec";r=0;t=1, "perhr";r=399;t=2402',
    ),
    limited(
        "several headers",
        DRAFT + "10.txt",
        23,
        'RateLimit: "permin";r=0;t=23',
        'RateLimit: "perhr";r=399;t=2402',
    ),
    limited(
        "the window of the one that is spent",
        DRAFT + "10.txt",
        3600,
        'RateLimit-Policy: "permin";q=50;w=60,"perhr";q=1000;w=3600',
        'RateLimit: "permin";r=20;t=23, "perhr";r=0',
    ),
    limited(
        "partition key and quota unit",
        DRAFT + "10.txt",
        10,
        'RateLimit-Policy: "peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:',
        'RateLimit: "peruser";r=0;pk=:sdfjLJUOUH==:',
    ),
    limited(
        "windows only: the shortest",
        DRAFT + "10.txt",
        60,
        'RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400',
    ),
    limited(
        "something is left",
        DRAFT + "10.txt",
        DEFAULT_RETRY_AFTER,
        'RateLimit: "default";r=50;t=30',
    ),
    limited(
        "names with separators",
        "https://www.rfc-editor.org/rfc/rfc8941#section-3.3.3",
        9,
        r'RateLimit: "a,b;r=0;t=99,\"";r=1;t=8, "c=d";r=0;t=9',
    ),
    limited("draft 07", DRAFT + "07.txt", 30, "RateLimit: limit=100, remaining=0, reset=30"),
    limited(
        "draft 07, no reset",
        DRAFT + "07.txt",
        10,
        "RateLimit: limit=100, remaining=0",
        "RateLimit-Policy: 100;w=10",
    ),
    limited(
        "draft 03",
        DRAFT + "03.txt",
        50,
        "RateLimit-Limit: 100, 100;w=60",
        "RateLimit-Remaining: 0",
        "RateLimit-Reset: 50",
    ),
    limited("draft 03, parameters", DRAFT + "03.txt", 50, 'RateLimit-Reset: 50;comment="x"'),
    limited("draft 03, reset only", DRAFT + "03.txt", 50, "RateLimit-Reset: 50"),
    # Real hosts
    limited(
        "GitHub primary",
        GITHUB,
        1200,
        "x-ratelimit-limit: 5000",
        "x-ratelimit-remaining: 0",
        "x-ratelimit-used: 5000",
        f"x-ratelimit-reset: {NOW + 1200}",
        "x-ratelimit-resource: core",
        status=403,
    ),
    limited("GitHub secondary", GITHUB, 60, "retry-after: 60", status=403),
    limited(
        "GitHub secondary, some of the primary left",
        GITHUB,
        60,
        "x-ratelimit-remaining: 14",
        f"x-ratelimit-reset: {NOW + 1200}",
        "retry-after: 60",
        status=403,
    ),
    limited(
        "GitHub past reset",
        GITHUB,
        0,
        "x-ratelimit-remaining: 0",
        f"x-ratelimit-reset: {NOW - 1}",
        status=403,
    ),
    limited(
        "GitLab",
        GITLAB,
        61,
        "RateLimit-Limit: 600",
        "RateLimit-Observed: 600",
        "RateLimit-Remaining: 0",
        f"RateLimit-Reset: {NOW + 61}",
        "RateLimit-ResetTime: Tue, 29 Oct 2024 16:57:41 GMT",
    ),
    limited(
        "GitLab, which told of another limit",
        GITLAB,
        DEFAULT_RETRY_AFTER,
        "RateLimit-Limit: 600",
        "RateLimit-Remaining: 595",
        f"RateLimit-Reset: {NOW + 61}",
    ),
    limited(
        "X, Twitter",
        X,
        900,
        "x-rate-limit-limit: 900",
        "x-rate-limit-remaining: 0",
        f"x-rate-limit-reset: {NOW + 900}",
    ),
    limited(
        "X, Twitter, by day",
        X,
        43_200,
        "x-rate-limit-remaining: 847",
        f"x-rate-limit-reset: {NOW + 900}",
        "x-app-limit-24hour-remaining: 0",
        f"x-app-limit-24hour-reset: {NOW + 43_200}",
    ),
    limited(
        "Discord",
        DISCORD,
        1,
        "X-RateLimit-Limit: 5",
        "X-RateLimit-Remaining: 0",
        f"X-RateLimit-Reset: {NOW + 1}",
        "X-RateLimit-Reset-After: 1",
        "X-RateLimit-Bucket: abcd1234",
    ),
    limited(
        "Discord, reset after only",
        DISCORD,
        0.25,
        "X-RateLimit-Remaining: 0",
        "X-RateLimit-Reset-After: 0.25",
    ),
    limited(
        "Discord, global",
        DISCORD,
        65,
        "Retry-After: 65",
        "X-RateLimit-Global: true",
        "X-RateLimit-Scope: global",
    ),
    limited(
        "Reddit",
        REDDIT,
        171,
        "X-Ratelimit-Used: 600",
        "X-Ratelimit-Remaining: 0.0",
        "X-Ratelimit-Reset: 171",
    ),
    limited(
        "OpenAI, both",
        OPENAI,
        360,
        "x-ratelimit-remaining-requests: 0",
        "x-ratelimit-remaining-tokens: 0",
        "x-ratelimit-reset-requests: 1s",
        "x-ratelimit-reset-tokens: 6m0s",
    ),
    limited(
        "OpenAI, requests",
        OPENAI,
        0.02,
        "x-ratelimit-remaining-requests: 0",
        "x-ratelimit-remaining-tokens: 149984",
        "x-ratelimit-reset-requests: 20ms",
        "x-ratelimit-reset-tokens: 6m0s",
    ),
    limited(
        "Anthropic",
        ANTHROPIC,
        20,
        "anthropic-ratelimit-requests-limit: 1000",
        "anthropic-ratelimit-requests-remaining: 0",
        "anthropic-ratelimit-requests-reset: 2024-10-29T16:57:00Z",
        "anthropic-ratelimit-input-tokens-remaining: 80000",
        "anthropic-ratelimit-input-tokens-reset: 2024-10-29T16:59:00Z",
    ),
    limited(
        "Anthropic, retry-after",
        ANTHROPIC,
        12,
        "retry-after: 12",
        "anthropic-ratelimit-requests-remaining: 0",
        "anthropic-ratelimit-requests-reset: 2024-10-29T16:57:00Z",
    ),
    limited(
        "Okta",
        OKTA,
        33,
        "X-Rate-Limit-Limit: 1200",
        "X-Rate-Limit-Remaining: 0",
        f"X-Rate-Limit-Reset: {NOW + 33}",
    ),
    limited(
        "Zendesk",
        ZENDESK,
        41,
        "x-rate-limit: 700",
        "ratelimit-limit: 700",
        "x-rate-limit-remaining: 0",
        "ratelimit-remaining: 0",
        "ratelimit-reset: 41",
    ),
    limited(
        "Zendesk, one endpoint",
        ZENDESK,
        17,
        "ratelimit-remaining: 600",
        "ratelimit-reset: 41",
        "zendesk-ratelimit-tickets-index: total=100; remaining=0; resets=17",
    ),
    limited(
        "Atlassian",
        ATLASSIAN,
        1800,
        'Beta-RateLimit-Policy: "global-app-quota";q=65000;w=3600',
        'Beta-RateLimit: "global-app-quota";r=0;t=1800',
        "RateLimit-Reason: jira-quota-global-based",
    ),
    limited(
        "Atlassian, no r while plenty is left",
        ATLASSIAN,
        DEFAULT_RETRY_AFTER,
        'Beta-RateLimit: "global-app-quota";t=3200',
        "RateLimit-Reason: jira-burst-based",
    ),
    limited(
        "Atlassian, reset without seconds",
        "https://jira.atlassian.com/browse/JRACLOUD-69262",
        200,
        "X-RateLimit-Remaining: 0",
        "X-RateLimit-Reset: 2024-10-29T17:00Z",
    ),
    limited(
        "Linear, epoch milliseconds",
        LINEAR,
        1800.5,
        "X-RateLimit-Requests-Remaining: 0",
        f"X-RateLimit-Requests-Reset: {NOW * 1000 + 1_800_500}",
    ),
    limited(
        "lemlist, as JavaScript prints dates",
        LEMLIST,
        2,
        "X-RateLimit-Remaining: 0",
        "X-RateLimit-Reset: Tue Oct 29 2024 17:56:42 GMT+0100 (Central European Standard Time)",
    ),
    limited("Contentful", CONTENTFUL, 1, "X-Contentful-RateLimit-Reset: 1"),
    limited(
        "WHOOP",
        WHOOP,
        3,
        "X-RateLimit-Limit: 100, 100;window=60, 10000;window=86400",
        "X-RateLimit-Remaining: 0",
        "X-RateLimit-Reset: 3",
    ),
    limited(
        "Kong",
        KONG,
        37,
        "X-RateLimit-Remaining-Hour: 0",
        "X-RateLimit-Remaining-Minute: 20",
        "RateLimit-Remaining: 0",
        "RateLimit-Reset: 37",
    ),
    # Two hands wrote the headers
    limited(
        "gateway and service, joined",
        OURS,
        30,
        "X-RateLimit-Remaining: 12, 0",
        "X-RateLimit-Reset: 10, 30",
    ),
    limited(
        "overdrawn", OURS, 30, "X-RateLimit-Remaining: -3", "X-RateLimit-Reset: 30", status=403
    ),
    limited(
        "Azure's -1 for unknown",
        "https://learn.microsoft.com/en-us/answers/questions/5625878/",
        0,
        "x-ratelimit-remaining-tokens: -1",
        "x-ratelimit-reset-tokens: 0",
    ),
    limited(
        "one limit in two spellings",
        OURS,
        DEFAULT_RETRY_AFTER,
        "X-RateLimit-Remaining: 5",
        "X-Rate-Limit-Reset: 60",
        "X-RateLimit-Reset-After: 60",
        "X-RateLimit-Reset-Time: 60",
    ),
    limited("another kind of reset", OURS, DEFAULT_RETRY_AFTER, "X-Password-Reset: 60"),
    limited(
        "spent, but until when is told elsewhere",
        OURS,
        41,
        "X-RateLimit-Remaining: 0",
        "RateLimit-Reset: 41",
    ),
    # Hostile values of all kinds: the bounds, or as if absent
    *(
        limited(f"hostile {i}", OURS, wait, f"Retry-After: {value}", f"X-RateLimit-Reset: {value}")
        for i, (value, wait) in enumerate(
            [
                ("-1", DEFAULT_RETRY_AFTER),
                ("-1e9", DEFAULT_RETRY_AFTER),
                ("1e999", DEFAULT_RETRY_AFTER),
                ("nan", DEFAULT_RETRY_AFTER),
                ("inf", DEFAULT_RETRY_AFTER),
                ("Infinity", DEFAULT_RETRY_AFTER),
                ("", DEFAULT_RETRY_AFTER),
                (" ", DEFAULT_RETRY_AFTER),
                ("0x10", DEFAULT_RETRY_AFTER),
                ("1_000", DEFAULT_RETRY_AFTER),
                ("3\x000", DEFAULT_RETRY_AFTER),
                ("٣٠", DEFAULT_RETRY_AFTER),
                ("³", DEFAULT_RETRY_AFTER),
                ("Tue, ٢٩ Oct 2024 16:57:40 GMT", DEFAULT_RETRY_AFTER),
                (f"Tue, 29 Oct 2024 {'9' * 20}:00:00 GMT", DEFAULT_RETRY_AFTER),
                ("5 minutes", DEFAULT_RETRY_AFTER),
                ("30,", DEFAULT_RETRY_AFTER),
                ("Sun, 06", DEFAULT_RETRY_AFTER),
                ("99999-01-01T00:00:00Z", DEFAULT_RETRY_AFTER),
                ("1" * 1_000_000, DEFAULT_RETRY_AFTER),
                ("1" * 999, MAX_RETRY_AFTER),
                ("9" * 20, MAX_RETRY_AFTER),
                ("9" * 400 + "h", MAX_RETRY_AFTER),
                ("9999-12-31T23:59:59-23:59", MAX_RETRY_AFTER),
                ("0001-01-01T00:00:00+23:59", 0),
                ("1000000000", 0),
                ("999999999", MAX_RETRY_AFTER),
            ]
        )
    ),
]


def wait_of(status: Any, headers: Any) -> float | None:
    signal = RateLimited.from_headers(status, headers)
    return None if signal is None else signal.retry_after


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(case):
    """Every documented answer is read as its source means it."""
    assert case.source
    assert wait_of(case.status, case.headers) == pytest.approx(case.wait, abs=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_shape_reads_alike(case):
    """Pairs, http.client's headers, bytes, and joined headers are read as text headers are."""
    pairs = list(dict(case.headers).items())
    message = Message()
    joined: dict[str, str] = {}
    for name, value in [*case.headers.items()] if isinstance(case.headers, dict) else case.headers:
        if value.isprintable() and value.isascii():
            message[name] = value
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    wanted = wait_of(case.status, pairs)
    as_bytes = [(name.encode(), value.encode()) for name, value in pairs]
    assert wait_of(case.status, as_bytes) == wanted
    assert wait_of(case.status, dict(as_bytes)) == wanted
    assert wait_of(case.status, iter(pairs)) == wanted
    assert wait_of(case.status, [list(pair) for pair in pairs]) == wanted
    assert wait_of(case.status, message) == wait_of(case.status, case.headers)
    if case.name != "repeated":  # where one of the values is garbage
        assert wait_of(case.status, joined) == wait_of(case.status, case.headers)


def test_without_a_date():
    """Without a Date that can be read, a moment counts from this machine's clock."""
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=100)
    for headers in (
        {"Retry-After": format_datetime(moment, usegmt=True)},
        {"Retry-After": format_datetime(moment, usegmt=True), "Date": "yesterday"},
        {"X-RateLimit-Reset": str(int(moment.timestamp()))},
    ):
        before = time.time()
        wait = wait_of(429, headers)
        after = time.time()
        assert wait is not None
        assert moment.timestamp() - after - 0.01 <= wait <= moment.timestamp() - before + 0.01


@pytest.fixture
def in_tokyo(monkeypatch):
    """The local time of this process is far from UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("moment", ["Tue Oct 29 16:57:40 2024", "2024-10-29 16:57:40"])
def test_a_moment_without_a_zone_is_utc(in_tokyo, moment):
    """Where this process is makes no difference to a moment that names no zone."""
    assert wait_of(429, {**DATE, "Retry-After": moment}) == 60


# The classes of HTTP clients


def test_http_client():
    """A response of http.client is read as it is, also its repeated headers."""
    lines = b"Retry-After: 3\r\nretry-after: 5\r\n\r\n"
    headers = http.client.parse_headers(io.BytesIO(lines))
    response = SimpleNamespace(status=429, headers=headers)
    signal = RateLimited.from_response(response, "task")
    assert signal is not None
    assert (signal.retry_after, signal.scope) == (5, "task")


def test_urllib():
    """An HTTPError of urllib is read as it is."""
    headers = http.client.parse_headers(io.BytesIO(b"Retry-After: 3\r\n\r\n"))
    with urllib.error.HTTPError("http://x", 503, "busy", headers, io.BytesIO()) as error:
        signal = RateLimited.from_response(error)
    assert signal is not None
    assert signal.retry_after == 3


@pytest.mark.parametrize(
    "response",
    [
        None,
        SimpleNamespace(headers={}),
        SimpleNamespace(status_code=429),
        SimpleNamespace(status="429 Too Many Requests", headers={}),
    ],
)
def test_no_response(response):
    """What has no status or no headers is a mistake, and said to be one."""
    with pytest.raises(ConfigurationError, match="status_code, status or code"):
        RateLimited.from_response(response)


# The signal itself


def test_scope():
    """The scope is kept, and is the member's when none is given."""
    assert RateLimited(1).scope == "member"
    for scope in ("member", "group", "queue", "task"):
        signal = RateLimited.from_headers(429, {}, scope)
        assert signal is not None
        assert signal.scope == RateLimited(1, scope).scope == scope


@pytest.mark.parametrize("scope", ["host", "", None, 1, "GROUP", []])
def test_wrong_scope(scope):
    """A wrong scope is named with its choices, also when the answer is no limit."""
    for make in (
        lambda: RateLimited(1, scope),
        lambda: RateLimited.from_headers(200, {}, scope),
        lambda: RateLimited.from_response(SimpleNamespace(status=200, headers={}), scope),
    ):
        with pytest.raises(
            ConfigurationError, match=r"scope is .*'member', 'group', 'queue' or 'task'"
        ):
            make()


def test_pickle():
    """A signal that a process pool carries over is the same on the other side."""
    there = RateLimited(1.5, "queue", 503)
    signal = pickle.loads(pickle.dumps(there))  # noqa: S301 - our own bytes
    assert (signal.retry_after, signal.scope, signal.status) == (1.5, "queue", 503)
    assert str(signal) == str(RateLimited(1.5))


def test_subclass():
    """A subclass reads headers into its own kind."""

    class HostLimited(RateLimited):
        pass

    assert type(HostLimited.from_headers(429, {})) is HostLimited


@pytest.mark.parametrize("status", [99, 1000, "503", 5.0])
def test_wrong_status(status):
    """A status that is none is named with its bounds, before a task is given back with it."""
    with pytest.raises(ConfigurationError, match="it must be an int from 100 to 999"):
        RateLimited(1, status=status)
    if isinstance(status, int):
        with pytest.raises(ConfigurationError, match="it must be an int from 100 to 999"):
            RateLimited.from_headers(status, {}, statuses=[status])


# Whatever a host sends

NAMES = sorted({name for case in CASES for name, _ in dict(case.headers).items()})
VALUES = sorted({v for case in CASES for v in dict(case.headers).values() if len(v) < 1000})
mixed_case = st.sampled_from(NAMES).flatmap(
    lambda name: st.sampled_from([name, name.lower(), name.upper(), name.swapcase()])
)
fragments = st.lists(st.sampled_from([*'"\\,;=-.:rtw019 ', *VALUES]), max_size=12).map("".join)
values = st.sampled_from(VALUES) | fragments | st.text() | st.integers().map(str)
nonsense = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)
statuses = st.sampled_from([429, 503, 529, 403, 200, True, "429", None, math.nan]) | st.integers()
pairs = st.lists(st.tuples(mixed_case, values), max_size=8)
raw_pairs = st.lists(st.tuples(mixed_case.map(str.encode), st.binary()), max_size=8)
wild_pairs = st.lists(st.tuples(mixed_case | nonsense, values | nonsense) | nonsense, max_size=8)


@given(statuses, pairs | raw_pairs | wild_pairs | pairs.map(dict) | nonsense)
@example(429, dict)
@example(429, [("Retry-After", "1" * 2_000_000)])
@example(429, [("Retry-After", "1" * 2_000)] * 200)
@example(429, [("RateLimit", '"' + "\\" * 998)] * 200)
def test_bounds(status, headers):
    """No status and no headers raise; a wait is from 0 to a day, and only limits have one."""
    wait = wait_of(status, headers)
    assert wait is None or 0 <= wait <= MAX_RETRY_AFTER
    assert status in (429, 503, 529, 403) or wait is None
    assert wait is not None or status != 429


@given(statuses, pairs)
def test_case_of_names_does_not_matter(status, headers):
    """Upper and lower case of the names make no difference."""
    headers = [*DATE.items(), *headers]
    wanted = wait_of(status, headers)
    assert wait_of(status, [(name.upper(), value) for name, value in headers]) == wanted
    assert wait_of(status, [(name.lower(), value) for name, value in headers]) == wanted


@pytest.mark.parametrize("attribute", ["status_code", "status", "code"])
@given(status=st.sampled_from([429, 503, 403, 200]), headers=pairs)
def test_a_response_is_its_headers(attribute, status, headers):
    """from_response reads any headers as from_headers does, whatever the status is called."""
    headers = [*DATE.items(), *headers]
    response = SimpleNamespace(**{attribute: status}, headers=headers)
    signal = RateLimited.from_response(response, "queue")
    assert (None if signal is None else signal.retry_after) == wait_of(status, headers)
    assert signal is None or signal.scope == "queue"


SHORTEST = ["a;r;t=1,", '"";r=0,', "a;w=1,", "1,", "1s", "a=,", ",", ";", '"', '"\\', "1", "a;a;a,"]
"""What costs most for each character, as far as anybody has found."""


@given(
    st.sampled_from([*NAMES, "RateLimit", "RateLimit-Policy", "X-RateLimit-Foo"]),
    st.sampled_from(SHORTEST) | st.text('ar01st;,=" .:-', min_size=1, max_size=12),
)
@example("RateLimit", '"";r=0,')
@example("X-RateLimit-Foo", "a;w=1,")
def test_hostile_headers_cost_little(name, piece):
    """A hundred headers full of short pieces are no more work than a few, counted in calls."""
    calls = 0

    def count(_frame, event, _arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    hostile = [(name, piece * (1000 // len(piece)))] * 128
    sys.setprofile(count)
    try:
        RateLimited.from_headers(429, hostile)
    finally:
        sys.setprofile(None)
    assert calls < 100_000  # some 10 ms; without a bound on the text 1 700 000


def test_what_is_said_late_is_read():
    """Other headers, however many and long, leave room for those about limits."""
    headers = [("Set-Cookie", "c" * 900)] * 50 + [("X-RateLimit-Foo", "?" * 900)] * 50
    assert wait_of(429, [*headers, ("Retry-After", "7")]) == 7


def test_endless_headers():
    """Headers without an end are read for a bounded time."""

    def endless() -> Any:
        while True:
            yield "X-RateLimit-Reset", "7"

    assert wait_of(429, endless()) == 7
