# Made from exchange_async.py by `make twins`: change that file, not this one.
"""Exchanges: one request on the wire, from its permit to the end of its body.

The transports for HTTP clients call it. All of them do the same:

    take(request, host)    wait for a permit; the limiter may refuse, or be away
    send(...)              send the request, then report the answer; of a limit that names no time
                           in its headers, the report waits for the body, which may name one
    hear(part)             read each part of the body, as the caller reads it
    end()                  the body has ended: report what was spent, end the permit

Once the request is sent, no error of the limiter is raised: it is logged. An error of the client,
or an interrupt, ends the permit and closes the answer.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from redis.exceptions import RedisError

from dpq.http.wire import Options
from dpq.limits.answers import meaning_of, parts_of
from dpq.limits.usage import Answer, BodyReader
from dpq.link.shared import THROWN_AWAY
from dpq.model.errors import ConfigurationError, DPQError
from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.queue.permits import Permit, take_permit
from dpq.queue.queue import DPQ

S = TypeVar("S")
"""The client's type of responses."""

log = logging.getLogger(__name__)


class Exchange:
    """One request of a blocking client."""

    def __init__(self, queue: Any, options: Options[Any, Permit]) -> None:
        if not isinstance(queue, DPQ):
            raise ConfigurationError(f"queue is {queue!r}: this client needs an {DPQ.__name__}")
        self.permit: Any = None  # None if the request passes without one
        self._queue = queue
        self._options = options
        self._reader: BodyReader | None = None
        self._answer: tuple[int, Any, Any] = (0, {}, None)  # status, headers, response
        self._unreported = False

    @property
    def ends_with_body(self) -> bool:
        """True if the permit is to end, or to report the answer, with the body of the answer."""
        return self.permit is not None and (self.permit.leased or self._unreported)

    @property
    def reads_body(self) -> bool:
        """True if `hear` must get the parts of the body."""
        return self._reader is not None

    def read_body(self, encoding: str | None = None) -> None:
        """Begin to read what the answer has spent, if that is asked for, or when to come again."""
        if self._options.spent or self._unreported:
            self._reader = BodyReader(self._answer[1].get("Content-Type") or "", encoding or "")

    def hear(self, part: bytes) -> None:
        """Read a part of the body, on its way to the caller."""
        if self._reader:
            self._reader.read(part)

    def body_ended(self) -> None:
        """Note that the body came to its end."""
        if self._reader:
            self._reader.end()

    def take(self, request: Any, host: str | None) -> None:
        """Wait for a permit."""
        wanted, outage = self._options.permit_for(request, host), self._options.outage
        if outage.asks():
            try:
                self.permit = take_permit(self._queue, wanted)
            except RedisError as error:
                outage.begin(self._queue.queue_name, error)
            else:
                outage.end(self._queue.queue_name)

    def send(
        self,
        request: Any,
        send: Callable[[], S],
        close: Callable[[S], object],
    ) -> S:
        """Prepare and send the request, and report its answer; `close` closes an answer."""
        response: S | None = None
        try:
            if self._options.prepare and self.permit is not None:
                self._options.prepare(request, self.permit)
            response = send()
            if self.permit is not None:
                status, headers, body = parts_of(response)
                self._answer = status, headers, response
                self._unreported = not body and meaning_of(status, headers).asks_body
                if not self._unreported:
                    self._report(body)
        except THROWN_AWAY:
            raise
        except BaseException as error:
            try:
                self.end(error)
            finally:
                if response is not None:  # an interrupt: the caller has no answer to close
                    close(response)
            raise
        return response

    def _report(self, body: bytes | str) -> None:
        status, headers, _ = self._answer
        try:
            self.permit.report(status, headers, body=body)
        except DPQError as error:
            self._log("read an answer", error)

    def end(self, error: BaseException | None = None) -> None:
        """Report what was spent, and end the permit; safe to repeat."""
        if self.permit is not None:
            reader, self._reader = self._reader, None
            unreported, self._unreported = self._unreported, False
            if reader and (unreported or self.permit.leased):
                answer = reader.answer(*self._answer)
                self._tell_spent(answer)
                if unreported:
                    self._report(answer.body)
            self.permit.end(error)

    def end_soon(self) -> None:
        """Report what was spent, and end the permit, without waiting for the server."""
        if self.ends_with_body:
            self._queue._finish(self.end)

    def _tell_spent(self, answer: Answer) -> None:
        if not self._options.spent:
            return
        try:
            cost = self._options.spent(answer)
            if cost is not None:
                self.permit.spent(cost)
            elif answer.complete and answer.status < 400:
                self._options.say_unsaid(self._queue.queue_name, self.permit.group)
        except Exception as error:  # the caller's function: its error must not spoil the answer
            self._log("say what an answer has spent", error, trace=True)

    def _log(self, what: str, error: Exception, *, trace: bool = False) -> None:
        log.warning(
            "%s: cannot %s of group %r: %s",
            *(self._queue.queue_name, what, self.permit.group, error_line(error)),
            exc_info=trace,
            extra=fields(
                "permit_not_told",
                queue=self._queue.queue_name,
                group=self.permit.group,
                member=self.permit.member,
                reason=what,
                error=error_line(error),
            ),
        )
