"""A job: what is sent where, within which limits, and how its answers are saved."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from dpq import Quota, RateLimit
from dpq.limits.answers import window_of
from dpq.model.errors import ConfigurationError
from dpq.model.validation import attempt_bound, label, milliseconds, whole_number
from dpq.worker.base import MAX_CONCURRENCY

BURST_SHARE = 0.15
"""Of a rate: if answers use 59 % of what is reserved, a batch reaches 0.79 of its rate at 0.05 of
it, 0.94 at 0.1, 1.01 at 0.15, with the burst itself: measured once."""

HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)  # RFC 9110, 5.6.2
KINDS_OF_KEY = ("bearer", "basic", "token", "key", "api-key")  # of Authorization: the key follows


@dataclass
class BatchJob:
    """A file of requests for one API. The options of `dpq run` have the same names.

    Attributes:
        file: The requests: the body of one on each line; or a vendor's batch form.
        url: The address of the API.
        save: The file of answers, one JSON line each; by default FILE.results.jsonl.
        limits: The limits of the API, for all machines together.
        headers: Headers of each request. Their values are shown and stored nowhere.
        server: The URL of the queue's server; by default a private one, in SAVE.queue.
        queue: The queue's name; by default it is of the file and its content.
        group: The name of what shares the limits in the queue; by default the API's host, without a
            port, as the transports for HTTP clients name it.
        also: Files of answers of other machines.
        workers: Requests that are open at once, here.
        cost_from: The field of a line that says its tokens; None estimates them.
        timeout: Seconds that an answer may take.
        attempts: Failed attempts until a request is a dead letter; a 429 is none.
        visibility: Seconds after which requests of a process that was killed are sent again.
        ordered: Put the answers into the order of the file, at the end.
        again: Send what has no answer, though this queue has worked on the file.
        retry_dead: Send the dead letters of the queue again.

    Raises:
        ConfigurationError: An argument is out of its bounds, `url` is no address of HTTP, or a
            header has no value that can be sent.
    """

    file: Path
    url: str
    save: Path | None = None
    limits: Sequence[RateLimit | Quota] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    server: str = field(default="", repr=False)
    queue: str = ""
    group: str = ""
    also: Sequence[Path] = ()
    workers: int = 64
    cost_from: str | None = None
    timeout: float = 600.0
    attempts: int = 10
    visibility: float = 30.0
    ordered: bool = False
    again: bool = False
    retry_dead: bool = False
    host: str = field(default="", init=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            known = parts.scheme in ("http", "https") and parts.port != 0
            self.host = (parts.hostname or "").rstrip(".").encode("idna").decode()
        except ValueError:  # a port that is no number, half an IPv6 address, no name of a host
            known = False
        if not (known and self.host):
            raise ConfigurationError("url must begin with http:// or https://, and name a host")
        if "#" in self.url:
            raise ConfigurationError("url has a #, which is not sent: write it as %23")
        for name, value in self.headers.items():
            if not (isinstance(name, str) and HEADER_NAME.fullmatch(name)):
                raise ConfigurationError(f"header {name!r}: its name must be letters, digits and -")
            known = isinstance(value, str) and value.isascii() and value.isprintable()
            if not (known and value.strip()):
                raise ConfigurationError(f"header {name} is empty, or no printable ASCII text")
            if name.lower() == "authorization" and value.strip().lower() in KINDS_OF_KEY:
                raise ConfigurationError(f"header {name} has no key behind its first word")
        whole_number("workers", self.workers, 1, MAX_CONCURRENCY)
        milliseconds("timeout", self.timeout, least=0.001)
        attempt_bound("attempts", self.attempts)
        milliseconds("visibility", self.visibility, least=0.001)
        if not isinstance(self.cost_from, str | None):
            raise ConfigurationError(f"cost_from is {self.cost_from!r}: it must be a name, or None")
        for limit in self.limits:
            if not isinstance(limit, RateLimit | Quota):
                raise ConfigurationError(f"limits has {limit!r}: it must be RateLimits and Quotas")
        self.file = Path(self.file)
        self.save = Path(self.save or self.file.with_suffix(".results.jsonl"))
        self.also = [Path(each) for each in self.also]
        self.group = label("group", self.group or self.host)
        self.server = self.server or f"embedded:{self.save}.queue"

    @property
    def is_private(self) -> bool:
        """True if the queue's server is that of this file of answers alone."""
        return self.server == f"embedded:{self.save}.queue"

    @property
    def answers(self) -> Path:
        """The file of answers."""
        return Path(self.save or "")


def fitted(window: RateLimit | Quota, largest: Mapping[str, int], host: str) -> RateLimit | Quota:
    """Make a plain rate the kind of window that its host has; of tokens, a bucket by default."""
    if isinstance(window, Quota) or window.burst != 1 or window.adaptive or window.moving:
        return window
    kind = window_of(host)
    if kind == "moving" and float(window.rate).is_integer():
        return replace(window, moving=True)
    if not (kind or window.unit):
        return window
    burst = max(1, round(window.rate * BURST_SHARE), largest.get(window.unit, 1))
    return replace(window, burst=burst)
