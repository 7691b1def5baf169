# Made from telling_async.py by `make twins`: change that file, not this one.
"""The loop in which a worker tells its queues of itself and of the progress of its handlers."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from dpq.link.endpoint import Event, heard
from dpq.model.log_fields import fields
from dpq.queue.inside import leases_of, operations_of
from dpq.verbs.workers import Doing, Heard
from dpq.worker.handler_calls import Call, Held
from dpq.worker.run_state import BEAT_SECONDS, HEARTBEAT, ProgressNotes, RunState

if TYPE_CHECKING:
    from dpq.script.command import Steps

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks for progress to send: a person who looks does not see more."""

REMEMBER_SECONDS = 60.0
"""Seconds between two slots of a queue's history that a worker stores."""

FIRST_JITTER, JITTER = 0.5, 0.1
"""The largest random share that is taken off the time to the second heartbeat, and to later ones.

Workers that began together must not send together. The first heartbeat tells the queues at once
that the worker is there, so the second one spreads them."""


class Telling:
    """Tells queues of one run of a worker."""

    def __init__(
        self,
        state: RunState,
        session: Any,
        progress: ProgressNotes,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.on_beat: Callable[[], None] | None = None  # called after each heartbeat
        self._state, self._session, self._progress = state, session, progress
        self._name, self._queues = state.name, state.queues
        self._chance, self._jitter = chance, FIRST_JITTER
        self._began, self._remembered = time.monotonic(), -REMEMBER_SECONDS
        self._run_id = secrets.token_urlsafe(9)
        self._gone, self._over = False, Event()

    def run(self, held: Callable[[], Sequence[Held]], heed: Callable[[], None]) -> None:
        """Send heartbeats at the beginning, every 10 s at most, and at the end.

        They say what is `held`; `heed` is called when a queue tells the worker to be quiet.
        """
        while not self._gone:
            self._state.pulse.move(HEARTBEAT)
            if self._heard(self._send(self._beat(held()))):
                heed()
            next_beat = time.monotonic() + self.pause(BEAT_SECONDS)
            while not self._gone and (left := next_beat - time.monotonic()) > 0:
                heard(self._over, min(left, LOOK_SECONDS))
                if told := self._progress.take():
                    self._send(told)
        self._send([operations_of(queue).leave(self._run_id) for queue in self._queues])

    def end(self) -> None:
        self._gone = True
        self._over.set()

    def _beat(self, holdings: Sequence[Held]) -> list[Steps[Any]]:
        """Make a heartbeat for each queue, with the tasks that the worker holds of it."""
        now = time.monotonic()
        host, pid, version = socket.gethostname(), os.getpid(), sys.modules["dpq"].__version__
        version += self._state.version and f"/{self._state.version}"
        about = (self._run_id, self._name, host, pid, version)
        beats: list[Steps[Any]] = []
        for queue in self._queues:
            held = [each for each in holdings if each.queue is queue]
            running = [(each.began, each.task.id) for each in held if isinstance(each, Call)]
            doing = Doing(list(dict.fromkeys((each.task.id, each.task.token) for each in held)))
            if running:
                began, task_id = min(running)
                doing = Doing(doing.leases, max(0, round((now - began) * 1000)), task_id)
            counts = (len(running), self._state.concurrency, now - self._began)
            quiet = queue in self._state.quiet
            beats.append(operations_of(queue).beat(*about, *counts, doing, quiet))
        if now - self._remembered >= REMEMBER_SECONDS:
            self._remembered = now
            beats += [operations_of(queue).remember() for queue in self._queues]
        return beats

    def pause(self, seconds: float) -> float:
        """Return the seconds until the next heartbeat, at most `seconds`."""
        jitter, self._jitter = self._jitter, JITTER
        return seconds * (1 - jitter * self._chance())

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
        before = self._state.quiet
        self._state.quiet = now_quiet = frozenset(
            queue
            for queue, answer in zip(self._queues, answers, strict=False)
            if (answer.quiet if isinstance(answer, Heard) else queue in before)
        )
        for queue in now_quiet ^ before:
            event, does = "worker_unquiet", "takes tasks again"
            if queue in now_quiet:
                event, does = "worker_quiet", "is quiet, and takes no new tasks"
            about = fields(event, worker=self._name, queue=queue.queue_name)
            log.info("%s: %s of %r", self._name, does, queue.queue_name, extra=about)
