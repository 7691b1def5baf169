"""The settings of a Scrapy project that the scheduler reads. No I/O."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dpq.model.errors import ConfigurationError

UNBOUNDED = 100
"""The most requests that a spider holds if `CONCURRENT_REQUESTS` is 0, which is no bound."""


@dataclass(frozen=True)
class Options:
    """The checked settings of one spider; docs/scrapy.md has them all."""

    url: str
    queue_name: str
    limits: dict[str | None, dict[str, Any]]  # by group, as arguments of `set_limit`
    unique_for: float | None  # seconds; None: only while its task is stored
    start_once: bool
    idle_seconds: float
    flush: bool
    most: int  # requests that a spider holds
    more: dict[str, Any]  # further arguments of `AsyncDPQ`


def read_options(settings: Any, spider_name: str) -> Options:
    """Read the settings of a crawler.

    Raises:
        ConfigurationError: A setting is missing or wrong. The text names it.
    """
    url = settings.get("DPQ_URL")
    if not url or not isinstance(url, str):
        raise ConfigurationError(
            f"DPQ_URL is {url!r}: name the server in settings.py, as in "
            'DPQ_URL = "redis://localhost"'
        )
    unique_for = _seconds(settings, "DPQ_UNIQUE_FOR", math.inf)
    concurrent = int(settings.getint("CONCURRENT_REQUESTS"))
    return Options(
        url=url,
        queue_name=settings.get("DPQ_QUEUE") or spider_name,
        limits=_limits(settings.getdict("DPQ_LIMITS")),
        unique_for=unique_for or None,
        start_once=settings.getbool("DPQ_START_ONCE"),
        idle_seconds=_seconds(settings, "DPQ_IDLE_BEFORE_CLOSE", 0),
        flush=settings.getbool("DPQ_FLUSH_ON_START"),
        most=min(concurrent, 1000) if concurrent > 0 else UNBOUNDED,
        more=dict(settings.getdict("DPQ_OPTIONS")),
    )


def _seconds(settings: Any, name: str, default: float) -> float:
    """Read seconds; `inf`, as text of the command line too, is for ever."""
    given = settings.get(name, default)
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise ConfigurationError(f"{name} is {given!r}: it must be seconds from 0 up, or inf")
    return seconds


def _limits(given: Mapping[str, Any]) -> dict[str | None, dict[str, Any]]:
    """Read limits: a text, a list, a number for each second, or the arguments of `set_limit`."""
    limits: dict[str | None, dict[str, Any]] = {}
    for name, limit in given.items():
        slot = slot_of(name) or None  # "" is the whole queue
        if slot in limits:
            raise ConfigurationError(f"DPQ_LIMITS names {slot!r} twice: a host has one limit")
        if isinstance(limit, Mapping):
            named = dict(limit)
        elif isinstance(limit, (int, float)):
            named = {"rate": limit, "per": 1}
        else:
            named = {"rate": limit}
        limits[slot] = named
    return limits


def slot_of(name: str) -> str:
    """Return the name of a download slot; that of a host is as Scrapy spells it, with no port."""
    with suppress(ValueError):  # it is no host
        parts = urlsplit(name if "://" in name else f"//{name}")
        is_host = parts.scheme or parts.port or ("." in name and parts.hostname == name.lower())
        if parts.hostname and is_host:
            return parts.hostname.rstrip(".").encode("idna").decode()
    return name


def own_pace(settings: Any) -> str:
    """Name the settings by which Scrapy is slower than the limits of a queue; "" for none."""
    delay, most = settings.getfloat("DOWNLOAD_DELAY"), "CONCURRENT_REQUESTS_PER_DOMAIN"
    return ", ".join(
        [f"DOWNLOAD_DELAY = {delay:g}"] * (delay > 0)
        + [f"{most} = 1"] * (settings.getint(most) == 1)
        + ["AUTOTHROTTLE_ENABLED = True"] * settings.getbool("AUTOTHROTTLE_ENABLED")
    )
