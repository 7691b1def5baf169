# Made from telling_async.py by `make twins`: change that file, not this one.
"""The loop in which a worker tells its queues of itself and of the progress of its handlers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from dpq.link.endpoint import Event, heard
from dpq.model.log_fields import fields
from dpq.queue.inside import leases_of, operations_of
from dpq.verbs.workers import Heard
from dpq.worker.heartbeats import SEND_SECONDS, Heartbeats, Holding, ProgressNotes
from dpq.worker.run_state import BEAT_SECONDS, HEARTBEAT, RunState

if TYPE_CHECKING:
    from dpq.queue.base import QueueBase
    from dpq.script.command import Steps

log = logging.getLogger(__name__)


class Telling:
    """Tells queues of one run of a worker; `noted` wakes it when there is progress to tell."""

    def __init__(
        self,
        name: str,
        queues: Sequence[QueueBase[Any]],
        concurrency: int,
        state: RunState,
        session: Any,
        progress: ProgressNotes,
    ) -> None:
        self.noted = Event()
        self.on_beat: Callable[[], None] | None = None  # called after each heartbeat
        self._name, self._queues, self._state = name, queues, state
        self._operations = [operations_of(queue) for queue in queues]
        self._beats = Heartbeats(name, concurrency, self._operations)
        self._session = session
        self._progress = progress
        self._gone, self._over = False, Event()

    def run(self, held: Callable[[], Sequence[Holding]], heed: Callable[[], None]) -> None:
        """Send heartbeats at the beginning, every 10 s at most, and at the end.

        They say what is `held`; `heed` is called when a queue tells the worker to be quiet.
        """
        while not self._gone:
            self._state.pulse.move(HEARTBEAT)
            answers = self._send(self._beats.beat(held(), self._state.quiet))
            if self._heard(answers):
                heed()
            next_beat = time.monotonic() + self._beats.pause(BEAT_SECONDS)
            while not self._gone and (left := next_beat - time.monotonic()) > 0:
                heard(self.noted, left)
                if told := self._progress.take(self._operations):
                    self._send(told)
                    heard(self._over, SEND_SECONDS)
        self._send(self._beats.leave())

    def end(self) -> None:
        """Let `run` send the last heartbeat, and return."""
        self._gone = True
        self._over.set()
        self.noted.set()

    def _send(self, operations: Sequence[Steps[Any]]) -> list[Any]:
        try:
            answers: list[Any] = self._session.send_all(operations)
        except Exception as error:  # a worker that cannot tell of itself works on
            about = fields("not_told", worker=self._name)
            log.debug("%s: cannot tell of itself", self._name, exc_info=True, extra=about)
            answers = [error] * len(operations)
        return answers

    def _heard(self, answers: Sequence[Any]) -> bool:
        """Take in the answers to a heartbeat; return True if the worker is, or was, quiet."""
        silent = (isinstance(a, Exception) and not isinstance(a, ResponseError) for a in answers)
        self._state.pulse.hear(answered=not any(silent))
        for queue, answer in zip(self._queues, answers, strict=False):
            if isinstance(answer, Heard):
                leases_of(queue).cancel(answer.cancelled)
        before = self._state.quiet
        if not self._state.stopping:
            self._be_quiet(answers)
        if self.on_beat:
            self.on_beat()
        # Each time, not only after a change: with `until_empty`, only a look shows the end.
        return bool(before or self._state.quiet) and not self._state.stopping

    def _be_quiet(self, answers: Sequence[Any]) -> None:
        """Be quiet for the queues that say so; if an answer was lost, the last one holds."""
        state, before = self._state, self._state.quiet
        state.quiet = frozenset(
            index
            for index, answer in enumerate(answers[: len(self._queues)])
            if (answer.quiet if isinstance(answer, Heard) else index in before)
        )
        for index in state.quiet ^ before:
            queue, quiet = self._queues[index].queue_name, index in state.quiet
            does = "is quiet, and takes no new tasks" if quiet else "takes tasks again"
            event = "worker_quiet" if quiet else "worker_unquiet"
            about = fields(event, worker=self._name, queue=queue)
            log.info("%s: %s of %r", self._name, does, queue, extra=about)
