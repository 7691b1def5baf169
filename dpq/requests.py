"""An adapter for requests: each request on the wire takes a unit of a limit, and a 429 is heard.

    session = requests.Session()
    session.mount("https://", dpq.requests.Adapter(q))
    session.mount("http://", dpq.requests.Adapter(q))

A redirect is another request, so it takes a unit of its own. Retries are the caller's: a 429 is
reported to the queue, and returned as it is. The permit is an attribute of the prepared request
and of its response: `dpq_permit`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Unpack
from urllib.parse import urlsplit

from dpq.http.exchange import Exchange
from dpq.http.wire import PERMIT, Group, Options, TransportOptions, missing_extra
from dpq.limits.usage import Answer, anthropic_usage, openai_usage
from dpq.model.errors import ConfigurationError
from dpq.queue.permits import Permit
from dpq.queue.queue import DPQ

try:
    from requests import PreparedRequest, Response
    from requests.adapters import BaseAdapter, HTTPAdapter
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("requests", error) from error

__all__ = ["Adapter", "Answer", "TransportOptions", "anthropic_usage", "openai_usage"]


class Adapter(BaseAdapter):
    """An adapter for `requests.Session` that takes units of a queue's limits."""

    def __init__(
        self,
        queue: DPQ[Any],
        group: Group[PreparedRequest] = None,
        *,
        transport: BaseAdapter | None = None,
        **options: Unpack[TransportOptions[PreparedRequest, Permit]],
    ) -> None:
        """Wrap an adapter.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            transport: The adapter that sends; None makes an `HTTPAdapter`. It must not retry by
                itself (`max_retries`): retries inside of it would take no unit.
            options: `cost`, `timeout` and others, as `TransportOptions` describes them.

        Raises:
            ConfigurationError: An argument is out of its bounds, or `transport` retries.
        """
        super().__init__()
        self._queue = queue
        self._options = Options(group, **options)
        self._inner = HTTPAdapter() if transport is None else transport
        retries = getattr(getattr(self._inner, "max_retries", None), "total", 0)
        if retries:
            raise ConfigurationError(
                f"transport has max_retries={retries}: it must be 0, since such retries take no "
                "unit. Retry around the session instead"
            )

    def send(self, request: PreparedRequest, stream: bool = False, **more: Any) -> Response:  # type: ignore[override]
        """Wait for the units, send the request, report its answer."""
        exchange = Exchange(self._queue, self._options)
        exchange.take(request, urlsplit(request.url or "").hostname)
        sent = request.copy()  # a redirect is made from the other one: it carries no key away
        setattr(sent, PERMIT, exchange.permit)
        response = exchange.send(
            sent,
            lambda: self._inner.send(sent, stream=stream, **more),
            lambda response: response.close(),
        )
        setattr(response, PERMIT, exchange.permit)
        if exchange.ends_with_body:
            exchange.read_body()
            _follow(response, exchange)
        return response

    def close(self) -> None:
        """Close the inner adapter; the queue stays open."""
        self._inner.close()


def _follow(response: Response, exchange: Exchange) -> None:
    """End an exchange when the body was read, or the response is closed."""

    def ends(inner: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> Any:
            try:
                return inner()
            finally:
                exchange.end()

        return both

    vars(response)["close"] = ends(response.close)
    stream = getattr(response.raw, "stream", None)
    release = getattr(response.raw, "release_conn", None)  # urllib3 calls it when the body ends
    if exchange.reads_body and stream:
        vars(response.raw)["stream"] = _reading(stream, exchange)
    elif release:
        vars(response.raw)["release_conn"] = ends(release)
    else:  # an adapter for tests: no connection waits for the end of the body
        exchange.end()


def _reading(
    stream: Callable[..., Iterator[bytes]], exchange: Exchange
) -> Callable[..., Iterator[bytes]]:
    """Wrap the function of urllib3 by which requests reads a body: its parts are unpacked."""

    def parts(*args: Any, **more: Any) -> Iterator[bytes]:
        for part in stream(*args, **more):
            exchange.hear(part)
            yield part
        exchange.body_ended()
        exchange.end()

    return parts
