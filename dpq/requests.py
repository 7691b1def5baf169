"""An adapter for requests: each request on the wire takes a unit of a limit, and a 429 is heard.

    session = requests.Session()
    session.mount("https://", dpq.requests.Adapter(q))
    session.mount("http://", dpq.requests.Adapter(q))

A redirect is another request, so it takes a unit of its own. Retries are the caller's: a 429 is
reported to the queue, and returned as it is.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dpq.model.errors import ConfigurationError
from dpq.model.task import Cost
from dpq.queue.permits import Permit, take_permit
from dpq.queue.queue import DPQ
from dpq.queue.wire import Options, missing_extra

try:
    from requests import PreparedRequest, Response
    from requests.adapters import BaseAdapter, HTTPAdapter
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("requests", error) from error

__all__ = ["Adapter"]


class Adapter(BaseAdapter):
    """An adapter for `requests.Session` that takes units of a queue's limits."""

    def __init__(
        self,
        queue: DPQ[Any],
        group: str | Callable[[PreparedRequest], str | None] | None = None,
        *,
        cost: Cost | Callable[[PreparedRequest], Cost] = 1,
        timeout: float | None = None,
        priority: float | Callable[[PreparedRequest], float] = 0,
        transport: BaseAdapter | None = None,
    ) -> None:
        """Wrap an adapter.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            cost: Units of each request, or a function of the request.
            timeout: Seconds to wait for the units at most; None waits for ever.
            priority: The priority, or a function of the request.
            transport: The adapter that sends; None makes an `HTTPAdapter`. It must not retry by
                itself (`max_retries`): retries inside of it would take no unit.

        Raises:
            ConfigurationError: An argument is out of its bounds, or `transport` retries.
        """
        super().__init__()
        self._queue = queue
        self._options = Options(group, cost, timeout, priority)
        self._inner = HTTPAdapter() if transport is None else transport
        retries = getattr(getattr(self._inner, "max_retries", None), "total", 0)
        if retries:
            raise ConfigurationError(
                f"transport has max_retries={retries}: it must be 0, since such retries take no "
                "unit. Retry around the session instead"
            )

    def send(self, request: PreparedRequest, stream: bool = False, **more: Any) -> Response:  # type: ignore[override]
        """Wait for the units, send the request, report its answer.

        Raises:
            LimitTimeoutError: The units are not there within the adapter's `timeout`. Nothing was
                sent.
        """
        host = urlsplit(request.url or "").hostname
        permit = take_permit(self._queue, self._options.permit_for(request, host))
        try:
            response = self._inner.send(request, stream=stream, **more)
            permit.report(response)
            if permit.leased:
                _end_with(response, permit)
        except BaseException as error:
            permit.end(error)
            raise
        return response

    def close(self) -> None:
        """Close the inner adapter; the queue stays open."""
        self._inner.close()


def _end_with(response: Response, permit: Permit) -> None:
    """End a permit when the body was read, or the response is closed."""

    def ends(inner: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> Any:
            try:
                return inner()
            finally:
                permit.close()

        return both

    vars(response)["close"] = ends(response.close)
    release = getattr(response.raw, "release_conn", None)  # called at the end of the body
    if release is not None:
        vars(response.raw)["release_conn"] = ends(release)
