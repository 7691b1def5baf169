"""RateLimited, and what it reads from an answer's status and headers."""

import math
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from dpq.limits.headers import DEFAULT_RETRY_AFTER, MAX_RETRY_AFTER
from hypothesis import example, given
from hypothesis import strategies as st

from dpq import ConfigurationError, RateLimited

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
GITLAB = "https://gitlab.com/gitlab-org/gitlab/-/issues/199738"
LINEAR = "https://linear.app/developers/rate-limiting"
COSMOS = (
    "https://learn.microsoft.com/en-us/rest/api/cosmos-db/common-cosmosdb-rest-response-headers"
)
AZURE_SDK = "https://github.com/Azure/azure-sdk-for-js, throttlingRetryStrategy.ts"
MAILERLITE = "https://developers-classic.mailerlite.com/docs/api-rate-limits"
LEMLIST = "https://developer.lemlist.com/api-reference/getting-started/rate-limits"
WHOOP = "https://developer.whoop.com/docs/developing/rate-limiting"
KONG = "https://developer.konghq.com/plugins/rate-limiting/"
OURS = "dpq/limits/headers.py"


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


ANSWERS = r"""
# Which answers are limits
429 bare | 429 | default | https://www.rfc-editor.org/rfc/rfc6585#section-4
503 bare | 503 | - | RFC_9110 #section-15.6.4
529 bare | 529 | - | ANTHROPIC
503 | 503 | 120 | RFC_9110 #section-10.2.3
  Retry-After: 120
503 spent | 503 | 9 | DRAFT 10.txt
  RateLimit: "a";r=0;t=9
503 with a reset only | 503 | 50 | DRAFT 03.txt
  RateLimit-Reset: 50
200 spent | 200 | - | GITHUB
  x-ratelimit-remaining: 0
  x-ratelimit-reset: 1730221009
301 spent | 301 | - | DRAFT 10.txt
  RateLimit: "problemPolicy";r=0;t=10
500 | 500 | - | OURS
  Retry-After: 120
403 forbidden | 403 | - | GITHUB

# Retry-After
seconds | 429 | 120 | RFC_9110 #section-10.2.3
  Retry-After: 120
zero | 429 | 0 | RFC_9110 #section-10.2.3
  Retry-After: 0
past date | 429 | 0 | OURS
  Retry-After: Tue, 29 Oct 2024 16:56:39 GMT
date beyond a day | 429 | 86400 | OURS
  Retry-After: Tue, 29 Oct 2124 16:56:40 GMT
no such day | 429 | default | OURS
  Retry-After: Fri, 30 Feb 2026 00:00:00 GMT
repeated | 429 | 60 | OURS
  Retry-After: 30
  Retry-After: 60
  Retry-After: x
joined | 429 | 60 | RFC_9110 #section-5.3
  Retry-After: 30, 60
decimals | 429 | 2 | SHOPIFY
  Retry-After: 2.0
  X-Shopify-Shop-Api-Call-Limit: 40/40
Cosmos DB | 429 | 0.54 | COSMOS
  x-ms-retry-after-ms: 540
Azure OpenAI | 429 | 1 | AZURE_SDK
  retry-after-ms: 540
  retry-after: 1
MailerLite | 429 | 59 | MAILERLITE
  X-RateLimit-Retry-After: 59
Retry-After wins | 429 | 7 | DRAFT 10.txt
  RateLimit: "default";r=0;t=30
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 1730221060
  Retry-After: 7
  X-RateLimit-Retry-After: 8

# The IETF drafts
draft 10 | 429 | 30 | DRAFT 10.txt
  RateLimit: "default";r=0;t=30
draft 08 | 429 | 30 | DRAFT 08.txt
  RateLimit: default;r=0;t=30
403 spent | 403 | 30 | DRAFT 10.txt
  RateLimit: "default";r=0;t=30
several policies | 429 | 23 | DRAFT 10.txt
  RateLimit: "permin";r=0;t=23, "persec";r=0;t=1, "perhr";r=399;t=2402
the window of the one that is spent | 429 | 3600 | DRAFT 10.txt
  RateLimit-Policy: "permin";q=50;w=60,"perhr";q=1000;w=3600
  RateLimit: "permin";r=20;t=23, "perhr";r=0
windows only: the shortest | 429 | 60 | DRAFT 10.txt
  RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
draft 07 | 429 | 30 | DRAFT 07.txt
  RateLimit: limit=100, remaining=0, reset=30
draft 03 | 429 | 50 | DRAFT 03.txt
  RateLimit-Limit: 100, 100;w=60
  RateLimit-Remaining: 0
  RateLimit-Reset: 50

# Real hosts
GitHub primary | 403 | 1200 | GITHUB
  x-ratelimit-limit: 5000
  x-ratelimit-remaining: 0
  x-ratelimit-used: 5000
  x-ratelimit-reset: 1730222200
  x-ratelimit-resource: core
GitHub secondary | 403 | 60 | GITHUB
  retry-after: 60
GitLab | 429 | 61 | GITLAB
  RateLimit-Limit: 600
  RateLimit-Observed: 600
  RateLimit-Remaining: 0
  RateLimit-Reset: 1730221061
  RateLimit-ResetTime: Tue, 29 Oct 2024 16:57:41 GMT
X, Twitter | 429 | 900 | X
  x-rate-limit-limit: 900
  x-rate-limit-remaining: 0
  x-rate-limit-reset: 1730221900
X, Twitter, by day | 429 | 43200 | X
  x-rate-limit-remaining: 847
  x-rate-limit-reset: 1730221900
  x-app-limit-24hour-remaining: 0
  x-app-limit-24hour-reset: 1730264200
Discord | 429 | 1 | DISCORD
  X-RateLimit-Limit: 5
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 1730221001
  X-RateLimit-Reset-After: 1
  X-RateLimit-Bucket: abcd1234
Reddit | 429 | 171 | REDDIT
  X-Ratelimit-Used: 600
  X-Ratelimit-Remaining: 0.0
  X-Ratelimit-Reset: 171
OpenAI, both | 429 | 360 | OPENAI
  x-ratelimit-remaining-requests: 0
  x-ratelimit-remaining-tokens: 0
  x-ratelimit-reset-requests: 1s
  x-ratelimit-reset-tokens: 6m0s
OpenAI, requests | 429 | 0.02 | OPENAI
  x-ratelimit-remaining-requests: 0
  x-ratelimit-remaining-tokens: 149984
  x-ratelimit-reset-requests: 20ms
  x-ratelimit-reset-tokens: 6m0s
Anthropic | 429 | 20 | ANTHROPIC
  anthropic-ratelimit-requests-limit: 1000
  anthropic-ratelimit-requests-remaining: 0
  anthropic-ratelimit-requests-reset: 2024-10-29T16:57:00Z
  anthropic-ratelimit-input-tokens-remaining: 80000
  anthropic-ratelimit-input-tokens-reset: 2024-10-29T16:59:00Z
Okta | 429 | 33 | OKTA
  X-Rate-Limit-Limit: 1200
  X-Rate-Limit-Remaining: 0
  X-Rate-Limit-Reset: 1730221033
Zendesk | 429 | 41 | ZENDESK
  x-rate-limit: 700
  ratelimit-limit: 700
  x-rate-limit-remaining: 0
  ratelimit-remaining: 0
  ratelimit-reset: 41
Atlassian | 429 | 1800 | ATLASSIAN
  Beta-RateLimit-Policy: "global-app-quota";q=65000;w=3600
  Beta-RateLimit: "global-app-quota";r=0;t=1800
  RateLimit-Reason: jira-quota-global-based
Atlassian, reset without seconds | 429 | 200 | https://jira.atlassian.com/browse/JRACLOUD-69262
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 2024-10-29T17:00Z
Linear, epoch milliseconds | 429 | 1800.5 | LINEAR
  X-RateLimit-Requests-Remaining: 0
  X-RateLimit-Requests-Reset: 1730222800500
lemlist, as JavaScript prints dates | 429 | 2 | LEMLIST
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: Tue Oct 29 2024 17:56:42 GMT+0100 (Central European Standard Time)
WHOOP | 429 | 3 | WHOOP
  X-RateLimit-Limit: 100, 100;window=60, 10000;window=86400
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 3
Kong | 429 | 37 | KONG
  X-RateLimit-Remaining-Hour: 0
  X-RateLimit-Remaining-Minute: 20
  RateLimit-Remaining: 0
  RateLimit-Reset: 37

# Two hands wrote the headers
gateway and service, joined | 429 | 30 | OURS
  X-RateLimit-Remaining: 12, 0
  X-RateLimit-Reset: 10, 30
Azure's -1 for unknown | 429 | 0 | https://learn.microsoft.com/en-us/answers/questions/5625878/
  x-ratelimit-remaining-tokens: -1
  x-ratelimit-reset-tokens: 0
"""
"""Each: its name, the status, the seconds to wait, the source; then its headers."""


def read(answers: str) -> Iterator[Case]:
    """Read the answers, each of which has a Date."""
    for block in re.split(
        r"\n(?! )", re.sub(r"^(#.*)?\n", "", answers, flags=re.MULTILINE).rstrip()
    ):
        head, *lines = block.split("\n")
        name, status, wait, source = head.split(" | ")
        page, _, section = source.partition(" ")
        pairs = [tuple(line.strip().split(": ", 1)) for line in lines]
        seconds = {"-": None, "default": DEFAULT_RETRY_AFTER}
        yield Case(
            name,
            globals().get(page, page) + section,
            int(status),
            [*DATE.items(), *pairs],
            seconds[wait] if wait in seconds else float(wait),
        )


CASES = [
    *read(ANSWERS),
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
    # Hostile values of all kinds: the bounds, or as if absent
    *(
        limited(f"hostile {i}", OURS, wait, f"Retry-After: {value}", f"X-RateLimit-Reset: {value}")
        for i, (value, wait) in enumerate(
            [
                ("-1", DEFAULT_RETRY_AFTER),
                ("1e999", DEFAULT_RETRY_AFTER),
                ("nan", DEFAULT_RETRY_AFTER),
                ("", DEFAULT_RETRY_AFTER),
                ("1_000", DEFAULT_RETRY_AFTER),
                ("٣٠", DEFAULT_RETRY_AFTER),
                ("Tue, ٢٩ Oct 2024 16:57:40 GMT", DEFAULT_RETRY_AFTER),
                (f"Tue, 29 Oct 2024 {'9' * 20}:00:00 GMT", DEFAULT_RETRY_AFTER),
                ("30,", DEFAULT_RETRY_AFTER),
                ("99999-01-01T00:00:00Z", DEFAULT_RETRY_AFTER),
                ("1" * 1_000_000, DEFAULT_RETRY_AFTER),
                ("1" * 999, MAX_RETRY_AFTER),
                ("9" * 400 + "h", MAX_RETRY_AFTER),
                ("9999-12-31T23:59:59-23:59", MAX_RETRY_AFTER),
                ("0001-01-01T00:00:00+23:59", 0),
                ("1000000000", 0),
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


# The signal itself


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
