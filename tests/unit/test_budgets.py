"""Budget, and what it reads from good answers; the statuses that are limits."""

from dataclasses import astuple
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq import ConfigurationError, RateLimited
from dpq.types import Budget

NOW = 1_730_221_000
DATE = {"Date": "Tue, 29 Oct 2024 16:56:40 GMT"}  # NOW
RESETS = "2024-10-29T16:57:"

CASES = {
    "GitHub": (
        {
            "x-ratelimit-limit": "5000",
            "x-ratelimit-remaining": "4987",
            "x-ratelimit-reset": str(NOW + 1800),
            "x-ratelimit-used": "13",
            "x-ratelimit-resource": "core",
        },
        {"": (4987, 1800, None, 5000)},
    ),
    "Reddit": (
        {"x-ratelimit-used": "2", "x-ratelimit-remaining": "98.0", "x-ratelimit-reset": "240"},
        {"": (98, 240)},
    ),
    "OpenAI": (
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-requests": "6m0s",
            "x-ratelimit-reset-tokens": "21ms",
        },
        {"": (59, 360, 60), "tokens": (149_984, 0.021, 150_000)},
    ),
    "Anthropic": (
        {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "49",
            "anthropic-ratelimit-requests-reset": RESETS + "00Z",
            "anthropic-ratelimit-tokens-remaining": "40000",
            "anthropic-ratelimit-tokens-reset": RESETS + "10Z",
            "anthropic-ratelimit-input-tokens-remaining": "30000",
            "anthropic-ratelimit-input-tokens-reset": RESETS + "20+00:00",
            "anthropic-ratelimit-output-tokens-remaining": "8000",
            "anthropic-ratelimit-output-tokens-reset": RESETS + "20Z",
        },
        {
            "": (49, 20, 50),
            "tokens": (40_000, 30),
            "input_tokens": (30_000, 40),
            "output_tokens": (8000, 40),
        },
    ),
    "draft 10": (
        {
            "RateLimit-Policy": '"burst";q=100;w=60,"daily";q=1000;w=86400',
            "RateLimit": '"burst";r=50;t=30, "daily";r=700;t=9000',
        },
        {"": (50, 30, None, 100, 60)},
    ),
    "draft 10, a unit": (
        {
            "RateLimit-Policy": '"peruser";q=65535;w=10;qu="content-bytes", '
            '"now";q=5;w=9;qu="concurrent-requests"',
            "RateLimit": '"peruser";r=30000, "now";r=1;t=3',
        },
        {"content_bytes": (30_000, 10, None, 65_535, 10)},
    ),
    "draft 7": ({"RateLimit": "limit=100, remaining=50, reset=5"}, {"": (50, 5, None, 100)}),
    "draft 3": ({"RateLimit-Remaining": "7", "RateLimit-Reset": "5"}, {"": (7, 5)}),
    "X": ({"x-rate-limit-remaining": "7", "x-rate-limit-reset": str(NOW + 9)}, {"": (7, 9)}),
    "a limit below what is left": (
        {"x-ratelimit-limit": "5", "x-ratelimit-remaining": "7", "x-ratelimit-reset": "9"},
        {"": (7, 9)},
    ),
    "a limit of nothing": (
        {"x-ratelimit-limit": "0", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "9"},
        {"": (0, 9)},
    ),
    "a window of years": (
        {"RateLimit-Policy": '"d";q=9;w=999999999', "RateLimit": '"d";r=7;t=9'},
        {"": (7, 9, None, 9, 86_400)},
    ),
    "X, a day": (
        {"x-app-limit-24hour-remaining": "7", "x-app-limit-24hour-reset": str(NOW + 9)},
        {"": (7, 9)},
    ),
    "Kong": (
        {"X-RateLimit-Remaining-Minute": "4", "X-RateLimit-Reset-Minute": "7"},
        {"": (4, 7)},
    ),
    "the tightest": (
        {
            "X-RateLimit-Remaining-Minute": "40",
            "X-RateLimit-Reset-Minute": "7",
            "X-RateLimit-Remaining-Day": "3",
            "X-RateLimit-Reset-Day": "7000",
        },
        {"": (3, 7000)},
    ),
    "spent": ({"X-RateLimit-Remaining": "-1", "X-RateLimit-Reset": "7"}, {"": (0, 7)}),
    "no reset": ({"X-RateLimit-Remaining": "9"}, {}),
    "no number": ({"X-RateLimit-Remaining": "many", "X-RateLimit-Reset": "7"}, {}),
    "only a reset": ({"X-RateLimit-Reset": "7"}, {}),
    "over": ({"X-RateLimit-Remaining": "9", "X-RateLimit-Reset": str(NOW)}, {}),
    "a month": ({"X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "2678400"}, {"": (9, 86_400)}),
    "nothing": ({"Retry-After": "7"}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_hosts_say(name):
    """Of each unit what is left, for how long, and what the whole limit is."""
    headers, budgets = CASES[name]
    read = Budget.from_headers({**DATE, **headers})
    assert {each.unit: astuple(each)[1:] for each in read} == {
        unit: (*said, None, None, None)[:5] for unit, said in budgets.items()
    }
    upper = [(name.upper().encode(), value.encode()) for name, value in headers.items()]
    assert Budget.from_headers([*DATE.items(), *upper]) == read


def test_a_failed_answer_says_nothing():
    """It may come from a machine before the host; a refusal of the host itself says it."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"}
    assert Budget.from_headers(headers, 502) == []
    assert Budget.from_headers(headers, 429) == [Budget("", 0, 7)]
    assert Budget.from_response(SimpleNamespace(status=200, headers=headers)) == [Budget("", 0, 7)]
    with pytest.raises(ConfigurationError, match="it must have headers, and an int as"):
        Budget.from_response("no")


def test_overloaded():
    """529 and 503 are limits if they name a time, and their status is kept; what else is a limit,
    or is none, is the caller's to say."""
    limited = RateLimited.from_headers(529, {"retry-after": "7"})
    assert (limited.retry_after, limited.status) == (7, 529)
    assert RateLimited.from_headers(529, {}) is None
    assert RateLimited.from_headers(503, {}, statuses={429, 503}).retry_after == 5
    assert RateLimited.from_headers(529, {"retry-after": "7"}, statuses={429}) is None
    assert RateLimited.from_headers(418, {"retry-after": "7"}, statuses={418}).retry_after == 7
    assert RateLimited.from_headers(403, {}, statuses=[403]).retry_after == 5
    assert RateLimited.from_headers(403, {"retry-after": "3"}, statuses=()).retry_after == 3
    answer = SimpleNamespace(status_code=420, headers={})
    assert RateLimited.from_response(answer, "queue", statuses=(420,)).scope == "queue"
    assert RateLimited.from_response(answer) is None


words = st.sampled_from(
    [
        "x-",
        "ratelimit",
        "rate-limit",
        "-remaining",
        "-reset",
        "-tokens",
        "-",
        "é",
        "limit",
        ":",
        "D",
    ]
)
names = st.lists(words, max_size=6).map("".join)
values = st.text(st.sampled_from('0123456789.;,"=rtqu -smhdeTZ:'), max_size=30)


@given(st.lists(st.tuples(names, values), max_size=9))
def test_no_headers_raise(pairs):
    """Whatever is said, units have names that costs may have, and numbers are in their bounds."""
    for budget in Budget.from_headers(pairs):
        assert budget.unit == "" or (budget.unit.islower() and len(budget.unit) <= 16)
        assert isinstance(budget.left, int)
        assert 0 <= budget.left <= 10**15
        assert 0 < budget.seconds <= 86_400
