"""The meaning of a host's answer: whom it is about, when to come again, and what is left.

`RateLimited.from_response`, the transports, `dpq run`, the Scrapy scheduler and the workers ask it;
nothing else reads a header. What a vendor alone does stands in a table, with its source. Nothing
here raises: what cannot be read counts as absent. The seconds are read in this order of trust:

1. `Retry-After` (seconds, a span, a date) or `Retry-After-Ms`; then its kin:
   `X-RateLimit-Retry-After`, `X-Ms-Retry-After-Ms`.
2. The longest reset of the limits that are spent, over all of `RateLimit: "name";r=0;t=30`, the
   older `RateLimit: remaining=0, reset=30`, and every pair `...-Remaining` and `...-Reset` whose
   name has "limit" in it. Without a reset it is the window of the same name in `RateLimit-Policy`,
   or the window in the name, as in `x-ratelimit-remaining-req-minute`.
3. The longest `...-Reset` of a limit that does not say how many units are left. A limit that has
   units left is ignored: it was not the one that was hit.
4. The beginning of the body: `"retry_after": 3`, "Please try again in 6m0s".
5. The shortest window of `RateLimit-Policy`, since the spent one is not named.
6. `DEFAULT_RETRY_AFTER`. This, and a wait below a second, is a guess: the server doubles it with
   each closing in a row.

A moment counts from the answer's own `Date`, so that no two clocks need agree.

Source: RFC 9110, 10.2.3 and 5.6.7; draft-ietf-httpapi-ratelimit-headers, versions 00 to 10; the
documents of the hosts that tests/unit/test_answers.py names beside its cases.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from dpq.limits.header_values import SPAN, list_in, longest, moment_in, numbers_in, span_in, wait_in
from dpq.model.errors import ConfigurationError

MAX_RETRY_AFTER = 86_400.0
"""Seconds that an answer can close a group at most. A host that asks for more says so again after
the day, and that costs one request: the probe."""

DEFAULT_RETRY_AFTER = 5.0
"""Seconds to wait if a limited host does not say how long. A guess that is too short costs one
request, the probe; one that is too long leaves a ready host idle."""

LEAST_RETRY_AFTER = 1.0
"""Seconds to wait at least, whatever a host says: "now" was just refused."""

MAX_BODY = 8192
"""Bytes of a body that are read. Errors are shorter, but for pages of HTML."""

_MAX_HEADERS = 128  # http.client stops at 100
_MAX_CHARACTERS = 1000  # characters of a name or a value; a longer header counts as absent
_MAX_TEXT = 4000  # characters of all headers that are read; hosts send a few hundred

About = Literal["", "request", "resource", "account", "host"]
"""The part that a refusal is about: none (a good answer), this request alone, the model or the
resource that it asked for, the account or its key, or the host."""


# What vendors do. The sources were read on 28 and 29 November 2026; "in code" is a text of an
# answer that stands on no page, but in public programs that meet it.

LIMITS = (420, 429)
"""The statuses that say that a limit was hit, whatever the headers say."""

OVERLOADED = (430, 503, 509, 529)
"""The statuses that are limits with a time to come again. 430 is Shopify's, of requests that look
like an attack, 509 that of hosting panels, 529 Anthropic's (shopify.dev/docs/api/usage/
response-codes, platform.claude.com/docs/en/api/errors)."""

ACCOUNT = (401, 402)
"""The statuses that no other request would escape: the key is wrong, or there is no money."""

AGAIN = (408, 409, 425, 498)
"""The statuses below 500 after which the same request may succeed. The libraries of OpenAI and
Anthropic repeat a 409; 498 is Groq's, of its flexible tier (console.groq.com/docs/flex-processing).
"""

FINAL = (400, 404, 405, 410, 413, 414, 415, 422)
"""The statuses of a request that is wrong in itself: RFC 9110, 15.5."""

SAID: dict[str, About] = {
    # Of several vendors
    r"account\b.{0,40}\b(?:not active|suspended|deactivated|disabled|in arrears)": "account",
    r"insufficient[ _](?:balance|credits?|funds)|out of credits|invalid_api_key": "account",
    r"spend(?:ing)?[ _]limit|budget_exceeded|budget has been exceeded": "account",
    r"models?\b.{0,80}\b(?:not found|not exist|deprecated|decommissioned|retired)": "resource",
    r"request[ _]too[ _]large": "request",  # more than a limit will ever allow
    # https://developers.openai.com/api/docs/guides/spend-limits; the others in code
    "insufficient_quota|billing_not_active|billing_hard_limit|account_deactivated": "account",
    "credit_balance_exhausted|organization_usage_limit|unsupported_country": "account",
    "model_not_found": "resource",
    "context_length_exceeded": "request",
    "blocked_api_access": "account",  # https://console.groq.com/docs/spend-limits
    "model_decommissioned": "resource",  # Groq, in code
    # https://platform.claude.com/docs/en/api/errors; the texts in code
    "authentication_error|billing_error|credit balance is too low": "account",
    "specified api usage limits|organization has been dis": "account",
    "(?:extra usage is|usage credits are) required": "request",
    "^not_found_error model:": "resource",
    # Gemini, in code
    "api_key_invalid|api key not valid|service_disabled|location is not supported": "account",
    "key limit exceeded": "account",  # OpenRouter, in code
    "no endpoints found": "resource",  # OpenRouter, in code
    "used all available credits": "account",  # xAI, in code
    "exceeded_current_quota_error|access_terminated": "account",  # Moonshot, in code
    "arrearage": "account",  # Alibaba, in code
    "expiredtokenexception|unrecognizedclientexception": "account",  # AWS, in code
    "invalid_model": "resource",  # https://github.com/mistralai/mistral-vibe/issues/617
    "deploymentnotfound": "resource",  # https://github.com/MicrosoftDocs/azure-docs/issues/114013
}
"""Patterns of a failure's codes and message, in lower case, that say whom it is about; the first
holds. No other try of the same request helps, but a 429 about the account is waited for."""

LIMIT_IN_BODY: dict[str, float] = {
    r'(?:^|"message"\s*:\s*"|>)[^"<>]{0,80}secondary rate limit': 60.0,  # GitHub, in code
    # https://developers.google.com/workspace/drive/api/guides/handle-errors
    r'[">#]\w*ratelimitexceeded\w*[":<]': DEFAULT_RETRY_AFTER,
    # https://developers.google.com/youtube/v3/docs/errors; a day's limit in code
    r'"reason"\s*:\s*"(?:quota|dailylimit)exceeded"': 300.0,
    # Meta: https://github.com/python-social-auth/social-core/issues/859, and
    # https://github.com/singer-io/tap-facebook/issues/192
    r'"message"\s*:\s*"\(#\d+\) (?:\w+ request limit reached|there have been too many calls)': 60.0,
    r'"message"\s*:\s*"totalrequests limit exceeded': 300.0,  # Salesforce, in code
    r'[">#]throttlingexception[":<]': DEFAULT_RETRY_AFTER,  # AWS, in code
}
"""Patterns of bodies, in lower case, that make a 400 or a 403 a limit, and the seconds if it names
none. A text of the request that a body repeats has other forms: in JSON its quotes are escaped."""

IN_BODY = (
    # Discord, Telegram, Matrix, Google's RetryInfo, monday.com: seconds, a span, or with its unit
    r'"(?:retry[_-]?(?:after|delay|in)|estimated_time)[_-]?(ms|seconds)?"\s*:\s*"?([^",}\]]{1,40})',
    # OpenAI, Azure, Gemini, litellm, Django REST framework, Replicate: "Please try again in 6m0s."
    r"\b(?:(?:again|retry|available|resets?) (?:in|after)|(?:again|retry|wait) for|wait):?()"
    rf" (?:~|about )?({SPAN})",
)
"""The waits in bodies: patterns of a unit and a value.

Source: https://docs.discord.com/developers/topics/rate-limits; the changelog of
https://developer.monday.com/api-reference ("retry_in_seconds"); the others in code.
"""

FORMS = {
    # https://docs.bigcommerce.com/developer/docs/overview/api-fundamentals/rate-limits
    "x-ratelimit-requests-left": "x-ratelimit-remaining={0}",
    "x-ratelimit-requests-quota": "x-ratelimit-limit={0}",
    "x-ratelimit-time-reset": "x-ratelimit-reset={0} ms",
    # https://developers.strava.com/docs/rate-limits: from each full quarter of an hour, by day
    "x-ratelimit-limit": "x-ratelimit-limit-15min={0},x-ratelimit-limit-day={1}",
    "x-ratelimit-usage": "x-ratelimit-used-15min={0},x-ratelimit-calendar-15min=900,"
    "x-ratelimit-used-day={1},x-ratelimit-calendar-day=86400",
    "x-readratelimit-limit": "x-readratelimit-limit-15min={0},x-readratelimit-limit-day={1}",
    "x-readratelimit-usage": "x-readratelimit-used-15min={0},x-readratelimit-calendar-15min=900,"
    "x-readratelimit-used-day={1},x-readratelimit-calendar-day=86400",
    # https://shopify.dev/docs/api/admin-rest/usage/rate-limits: 40, and 2 a second come back
    "x-shopify-shop-api-call-limit": "shop-ratelimit-used={0},shop-ratelimit-limit={1},"
    "shop-ratelimit-reset=20s",
    # Salesforce, in code
    "sforce-limit-info": "sforce-ratelimit-used-day={0},sforce-ratelimit-limit-day={1}",
    # https://bybit-exchange.github.io/docs/v5/rate-limit
    "x-bapi-limit-status": "bapi-ratelimit-remaining={0}",
    "x-bapi-limit-reset-timestamp": "bapi-ratelimit-reset={0}",
    # https://developers.etsy.com/documentation/essentials/rate-limits
    "x-remaining-this-second": "etsy-ratelimit-remaining-second={0}",
    "x-remaining-today": "etsy-ratelimit-remaining-day={0}",
    # https://developer.xero.com/faq/limits
    "x-minlimit-remaining": "xero-ratelimit-remaining-minute={0}",
    "x-appminlimit-remaining": "xero-ratelimit-remaining-app-minute={0}",
    "x-daylimit-remaining": "xero-ratelimit-remaining-day={0}",
}
"""Headers of one vendor, and what they say in the common form; {0} is the first number in them.
"rate-limit" is spelled "ratelimit" here, and "-ms" at the end stands in the value."""

WINDOWS: dict[str, Literal["bucket", "moving"]] = {
    # "the token bucket algorithm": platform.claude.com/docs/en/api/rate-limits, as others quote it
    "api.anthropic.com": "bucket",
    # https://shopify.dev/docs/api/usage/limits: "a leaky bucket algorithm"
    "myshopify.com": "bucket",
    # https://docs.pyannote.ai/ratelimits: "a sliding window of 1 minute"
    "api.pyannote.ai": "moving",
    # https://docs.nomic.ai/api/getting-started/rate-limits: "5-minute rolling window"
    "api-atlas.nomic.ai": "moving",
}
"""The windows of hosts that say how they count. For all others an even pace is right: OpenAI and
Azure, too, enforce a rate of a minute within seconds, "quantized"
(platform.openai.com/docs/guides/rate-limits, as others quote it)."""

EVENLY = ("anthropic-",)
"""The names whose units come back evenly, although their reset is a moment: see `WINDOWS`."""

REJECTED = ("rejected",)
"""The states of a limit that is spent, where others are not: those of Anthropic's subscriptions,
`anthropic-ratelimit-unified-5h-status`, in code."""

_NO_UNIT = re.compile(
    r"requests?|reqs?|limit|limits|user|app|project|org|organization|ip|global|default|account|core"
    r"|unified|[0-9]*-?(?:s|m|h|d|sec|min|(?:second|minute|hour|day|week|month)(?:s|ly)?|daily)"
    r"|per|usage|based|[0-9]+"  # OpenAI's tokens_usage_based, in code
)
"""Words of a header's name that say whose limit it is, or of which window: no unit."""

_WHOSE_KEY = re.compile("api-(?:key|token)")

_LONGEST_IN_NAME = 3600.0
"""Seconds of a window that only stands in a name, at most: nobody says when the day has begun."""


# What an answer means


class _Items(Protocol):
    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers = _Items | Iterable[tuple[str | bytes, str | bytes]]
"""Headers as HTTP clients give them: a mapping, another object with `items()`, or pairs."""

_Fields = defaultdict[str, list[str]]


class HostLimit(NamedTuple):
    """One limit of a host; None for what it does not say."""

    left: float | None  # units
    wait: float | None  # seconds until there are more
    name: str = ""  # the words that say what it counts, as "input-tokens"
    even: bool = False  # the units come back evenly until then
    size: float | None = None  # units of the whole limit
    window: float | None = None  # seconds

    @property
    def unit(self) -> str | None:
        """The unit that it counts, "" for requests; None if no task names it, or uses it up."""
        words = re.findall("[a-z0-9]+", _WHOSE_KEY.sub("", self.name.lower()))
        unit = "_".join(word for word in words if not _NO_UNIT.fullmatch(word))
        is_known = not unit or re.fullmatch("[a-z][a-z0-9_]{0,15}", unit)
        return unit if is_known and not {"concurrent", "concurrency"}.intersection(words) else None


class Meaning(NamedTuple):
    """The meaning of an answer."""

    about: About = ""  # whom a refusal is about
    again: bool = False  # the same request may succeed later
    wait: float | None = None  # seconds until then, up to `MAX_RETRY_AFTER`; None if not said
    guessed: bool = False  # nobody has named `wait`: it grows with each refusal in a row
    final: bool = False  # no other try of this request can succeed, wherever and whenever

    @property
    def is_limit(self) -> bool:
        """Other requests would be refused, too, until `wait` is over."""
        return self.again and self.wait is not None and self.about not in ("", "request")

    @property
    def asks_body(self) -> bool:
        """The headers of a refusal name no time: its body may, or say that it is a limit."""
        return self.about != "" and (self.wait is None or self.guessed)


def meaning_of(
    status: int,
    headers: Headers,
    body: bytes | str = b"",
    statuses: Container[int] | None = None,
    least: float = LEAST_RETRY_AFTER,
) -> Meaning:
    """Say what an answer means.

    Args:
        status: The status; what is no int means nothing.
        headers: The headers.
        body: The body, or its beginning, as far as it is known.
        statuses: The limits that need no header, in place of 420, 429, and of those that do.
        least: Seconds to wait at least.
    """
    if not isinstance(status, int):
        return Meaning()
    is_limit = status in (LIMITS if statuses is None else statuses)
    if status < 400 and not is_limit:
        return Meaning()
    fields, body_text = _read(headers), beginning(body)
    now, text = _now(fields), body_text.lower()
    words, usual = _words(text), []
    if status in (400, 403):
        usual = [wait for said, wait in LIMIT_IN_BODY.items() if re.search(said, text)]
    is_limit = is_limit or bool(usual)
    limits = _limits(fields)
    may_be = is_limit or status == 403 or (statuses is None and status in OVERLOADED)
    may_pass = status >= 500 or status in AGAIN
    spent = [each.wait for each in limits if may_be and each.left is not None and each.left < 1]
    named = _first(
        _asked(fields, now),
        longest(spent),
        longest(limit.wait for limit in limits if limit.left is None and may_be and status != 403),
        _in_body((body_text, text if is_limit else words), now) if may_be or may_pass else None,
    )
    hit = is_limit or (may_be and (bool(spent) or named is not None))
    words = words[:_MAX_CHARACTERS]
    told = next((whom for pattern, whom in SAID.items() if re.search(pattern, words)), None)
    about = told or _WHOM.get(status, "resource" if hit else "request")
    should = {value.lower() for value in fields["x-should-retry"]}
    if "true" in should or "false" in should:  # the libraries of OpenAI and Anthropic obey it first
        again = "true" in should
        about = about if again or about == "account" else "request"
    else:
        again = about == "account" and is_limit if told else hit or may_pass or named is not None
    if hit and named is None:
        named = _shortest_window(fields)
    if not again or not (hit or named is not None):
        final = about == "request" and not again and bool(told or should or status in FINAL)
        return Meaning(about, again, final=final)
    wait = min(named, MAX_RETRY_AFTER) if named is not None else max([*usual, DEFAULT_RETRY_AFTER])
    return Meaning(about, True, max(wait, least), named is None or named < least)


_WHOM: dict[int, About] = {
    **dict.fromkeys(ACCOUNT, "account"),
    **dict.fromkeys(OVERLOADED, "host"),
}
_IN_BODY = [re.compile(pattern, re.ASCII | re.IGNORECASE) for pattern in IN_BODY]


def _first(*waits: float | None) -> float | None:
    return next((wait for wait in waits if wait is not None), None)


def window_of(host: str) -> str:
    """Return the kind of a host's windows: "bucket" or "moving"; "" is an even pace."""
    return next((kind for name, kind in WINDOWS.items() if f".{host}".endswith(f".{name}")), "")


def beginning(body: object) -> str:
    """Return the text with which a body begins; "" if it is none."""
    if not isinstance(body, str | bytes | bytearray):
        return ""
    start = body[:MAX_BODY]
    return start if isinstance(start, str) else start.decode("utf-8", "replace")


_SAYS = (
    *("type", "code", "status", "message", "detail", "msg", "__type"),
    *("description", "error_description", "error_message"),
)
"""The names in JSON of what an error says, the codes first."""


def _words(text: str) -> str:
    """Find the codes and the texts of an error; nothing of a request that it repeats."""
    from pydantic_core import from_json  # not above: programs that only push start without it

    try:
        error = from_json(text, allow_partial=True)  # of a long body only the beginning is there
    except ValueError:
        return text
    error = error[0] if isinstance(error, list) and error else error
    if not isinstance(error, Mapping):
        return text
    inner: Any = error.get("error")
    listed: Any = error.get("errors")
    first = listed[0] if isinstance(listed, list) and listed else listed
    places = [each for each in (inner, error, first) if isinstance(each, Mapping)]
    words = [each.get(name) for each in places for name in _SAYS]
    return " ".join(each for each in (*words, inner, first) if isinstance(each, str))


def _in_body(texts: tuple[str, str], now: float) -> float | None:
    """Read the longest wait of the first form that a body has: a value in JSON, or prose."""
    found = (
        [wait_in(v.strip() + "ms" * (u.lower() == "ms"), now) for u, v in pattern.findall(text)]
        for pattern, text in zip(_IN_BODY, texts, strict=True)
    )
    return next((wait for wait in map(longest, found) if wait is not None), None)


def limits_in(headers: Headers) -> list[HostLimit]:
    """Read all limits that an answer names."""
    return _limits(_read(headers))


def parts_of(response: Any) -> tuple[int, Any, bytes | str]:
    """Read the status, the headers and what is known of the body of any HTTP client's answer.

    A body that was not read yet stays where it is.

    Raises:
        ConfigurationError: It has no status or no headers.
    """
    told = (getattr(response, name, None) for name in ("status_code", "status", "code"))
    status = next((status for status in told if isinstance(status, int)), None)
    headers = getattr(response, "headers", None)
    if status is None or headers is None:
        raise ConfigurationError(
            f"response is {response!r:.200}: it must have headers, and an int as status_code, "
            "status or code"
        )
    # requests and httpx, aiohttp, Scrapy: their public names would read from the network, or raise
    bodies = (getattr(response, name, None) for name in ("_content", "_body", "body"))
    return status, headers, next((body for body in bodies if isinstance(body, str | bytes)), b"")


# The headers


def _read(headers: Headers) -> _Fields:
    """Collect the readable headers by name, in lower case, as `FORMS` says."""
    fields: _Fields = defaultdict(list)
    room = _MAX_TEXT
    with suppress(TypeError):  # the caller's object holds no pairs, or no more pairs
        items = getattr(headers, "items", None)
        pairs: Any = items() if callable(items) else headers
        for name, value in islice(_pairs(islice(pairs, _MAX_HEADERS)), _MAX_HEADERS):
            size = len(name) + len(value)
            says = name in ("date", "x-should-retry") or name in FORMS
            says = says or "limit" in name or "retry-after" in name
            if says and size <= room:
                room -= size
                fields[name].append(value)
                with suppress(IndexError):  # fewer numbers than the form has
                    for form in FORMS[name].split(",") if name in FORMS else ():
                        common, _, said = form.format(*_NUMBER.findall(value)).partition("=")
                        fields[common].append(said)
    return fields


def _pairs(pairs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """List names and values as text; Scrapy's headers have a list of values for each name."""
    for pair in pairs:
        if isinstance(pair, tuple | list) and len(pair) == 2:
            name = _text(pair[0]).lower().replace("rate-limit", "ratelimit")
            base = _MS.sub("", name)
            for value in pair[1] if isinstance(pair[1], list) else (pair[1],):
                yield base, _text(value) + ("" if base == name else " ms")


def _text(value: object) -> str:
    """Convert a name or a value to ASCII text; "" if it is no such text, or too long."""
    if not isinstance(value, str | bytes) or len(value) > _MAX_CHARACTERS:
        return ""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return text.strip(" \t\r\n") if text.isascii() else ""


def _now(fields: _Fields) -> float:
    date = longest(map(moment_in, fields["date"]))
    return datetime.now(UTC).timestamp() if date is None else date


_MS = re.compile("-(?:ms|milliseconds)$")
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)


def _asked(fields: _Fields, now: float) -> float | None:
    """Read Retry-After, else the longest of the headers like it."""
    exact = (v.replace(",", "") if _THOUSANDS.fullmatch(v) else v for v in fields["retry-after"])
    kin = (
        wait_in(value, now)
        for name, values in fields.items()
        for value in values
        if name.endswith("-retry-after")
    )
    return _first(longest(wait_in(value, now) for value in exact), longest(kin))


def _limits(fields: _Fields) -> list[HostLimit]:
    """Read all limits. If none names a reset, their windows count as resets."""
    now = _now(fields)
    limits = [*_paired(fields, now), *_listed(fields, now)]
    if any(limit.wait is not None for limit in limits):
        return limits
    return [each._replace(wait=each.window or _window_in(each.name)) for each in limits]


_PART = re.compile(
    r"-(remaining|used|reset|window|interval|calendar|status)"
    r"(?:-?(?:after|time|date|timestamp|size))?(?=-|$)"
)
_SIZE = re.compile(r"-(limit|max)(?=-|$)")
_COMPACT = re.compile(r"(?:[0-9.]+[a-z]+)+")
"""A span as Go writes it and OpenAI: 6m0s."""


def _paired(fields: _Fields, now: float) -> Iterator[HostLimit]:
    """Read the limits that stand in several headers, whose names differ in one word."""
    limits: defaultdict[str, _Fields] = defaultdict(lambda: defaultdict(list))
    for name, values in fields.items():
        word = ("limit" in name and _PART.search(name)) or (
            "ratelimit" in name and _SIZE.search(name)
        )
        if word:
            part = {"interval": "window", "max": "limit"}.get(word[1], word[1])
            limits[name[: word.start()] + name[word.end() :]][part] += values
    for name, limit in limits.items():
        resets = limit["reset"]
        of: defaultdict[str, list[float]] = defaultdict(list)
        for part, values in limit.items():
            of[part] = [number for value in values for number in numbers_in(value)]
        size, left = min(of["limit"], default=None), of["remaining"]
        if size is not None and of["used"]:
            left.append(max(0.0, size - max(of["used"])))
        if any(state in REJECTED for state in limit["status"]):
            left = [0.0]
        elif limit["status"] or not (left or resets):
            continue
        waits = [wait_in(value, now) for value in resets]
        waits += [length - now % length for length in of["calendar"] if length]
        yield HostLimit(
            min(left, default=None),
            longest(waits),
            name.partition("limit")[2],
            name.startswith(EVENLY) or all(map(_COMPACT.fullmatch, resets or [""])),
            size,
            longest(wait_in(value, now) for value in limit["window"]),
        )


def _window_in(name: str) -> float | None:
    """Read the window in a name, as "minute" in req-minute, or 15min: an hour at most."""
    spans = (span_in(word) or span_in(f"1{word}") for word in name.split("-"))
    window = _first(*spans)
    return None if window is None else min(window, _LONGEST_IN_NAME)


def _listed(fields: _Fields, now: float) -> Iterator[HostLimit]:
    """Read the limits of `RateLimit`, in the syntax of any draft, and of headers like it."""
    policies = _policies(fields)
    for name, values in fields.items():
        if "ratelimit" in name and not _PART.search(name) and not name.endswith("-policy"):
            for policy, params in list_in(", ".join(values)):
                said = {**policies.get(policy, {}), **params}
                left = numbers_in(said.get("r") or said.get("remaining", ""))
                wait = wait_in(said.get("t") or said.get("reset") or said.get("resets", ""), now)
                if left:  # Atlassian leaves it out while plenty is left
                    window = wait_in(said.get("w", ""), 0) or None
                    sizes = numbers_in(said.get("q") or said.get("limit", ""))
                    yield HostLimit(
                        min(left),
                        window if wait is None else wait,
                        said.get("qu", ""),
                        size=min(sizes, default=None),
                        window=window,
                    )


def _policies(fields: _Fields) -> dict[str, dict[str, str]]:
    """Read the parameters of each policy: its units (`q`), its window (`w`), its unit (`qu`)."""
    texts = (", ".join(v) for name, v in fields.items() if name.endswith("ratelimit-policy"))
    return {policy: params for text in texts for policy, params in list_in(text)}


def _shortest_window(fields: _Fields) -> float | None:
    windows = (wait_in(policy.get("w", ""), 0) for policy in _policies(fields).values())
    return min(filter(None, windows), default=None)
