# Made from httpx_like_async.py by `make twins`: change that file, not this one.
"""Transports for httpx and for httpx2, which are alike: the part that imports neither of them.

`dpq.httpx` and `dpq.httpx2` complete these classes with the types of their client.
"""

from collections.abc import Iterator
from typing import Any, Self

from dpq.http.exchange import Exchange
from dpq.http.wire import PERMIT, Options


class Body:
    """The body of an answer; the end of the body ends the permit."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    def __iter__(self) -> Iterator[bytes]:
        for part in self._inner:
            self._exchange.hear(part)
            yield part
        self._exchange.body_ended()

    def close(self) -> None:
        """Close the body, and end the permit."""
        try:
            self._inner.close()
        finally:
            self._exchange.end()


class Routes:
    """The transports of a client that was made without any, so `HTTP_PROXY` and its kin count."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def handle_request(self, request: Any) -> Any:
        """Send a request, as the client would."""
        return self._client._transport_for_url(request.url).handle_request(request)

    def close(self) -> None:
        """Close the transports of the client."""
        self._client.close()


class TransportBase:
    """A transport that takes units of a queue's limits, over another one, which sends."""

    _body: type[Body]  # and a stream of the client

    def __init__(self, queue: Any, options: Options[Any, Any], inner: Any) -> None:
        self._queue, self._options, self._inner = queue, options, inner

    def handle_request(self, request: Any) -> Any:
        """Wait for the units, send the request, report its answer."""
        exchange = Exchange(self._queue, self._options)
        exchange.take(request, request.url.raw_host.decode())
        sent = self._request_to_send(request, exchange)
        response = exchange.send(
            sent,
            lambda: self._inner.handle_request(sent),
            lambda response: response.close(),
        )
        self._follow(response, exchange)
        return response

    def __enter__(self) -> Self:
        if hasattr(self._inner, "__enter__"):
            self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        ends = getattr(self._inner, "__exit__", None)
        (ends(*error) if ends else self._inner.close())

    def close(self) -> None:
        """Close the inner transport; the queue stays open."""
        self._inner.close()

    def _request_to_send(self, request: Any, exchange: Exchange) -> Any:
        """Put the permit beside the request, and return a copy that may be changed."""
        request.extensions = {**request.extensions, PERMIT: exchange.permit}
        sent = type(request)(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        if self._options.spent:  # the parts of a body pass here as they were sent
            sent.headers["Accept-Encoding"] = "identity"
        return sent

    def _follow(self, response: Any, exchange: Exchange) -> None:
        """Follow the body of a response, if needed."""
        response.extensions = {**response.extensions, PERMIT: exchange.permit}
        if exchange.ends_with_body and response.is_closed:  # a double for tests has sent it
            exchange.read_body()
            exchange.hear(response.content)
            exchange.body_ended()
            exchange.end()
        elif exchange.ends_with_body:
            exchange.read_body(response.headers.get("Content-Encoding"))
            response.stream = self._body(response.stream, exchange)
