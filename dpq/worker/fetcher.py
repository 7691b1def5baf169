"""The fetcher of a `Worker`: the only object that asks the server for tasks, for all threads.

Each thread of the runner asks for its next task itself. The first to ask also asks for all threads
that are idle then, and sends the acks of finished tasks along. So a single thread makes one round
trip for each task, and busy threads share round trips. Only one idle thread waits at the server;
the others wait for that thread. It must not decide which queue is asked: fetch_plan.py does.

    fetcher.next_task()   a task, once there is one; None at a stop
    fetcher.add(done)     a handler has ended; the next exchange takes its ack along
"""

import math
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Literal

from redis.exceptions import RedisError

from dpq.limits.signals import RateLimited
from dpq.link.watches import time_left
from dpq.model.backoff import FIRST_PAUSE_SECONDS
from dpq.script.durability import CONFIRM_SECONDS
from dpq.worker.deliveries import Taken
from dpq.worker.exchanges import Ahead, Exchange, Role, SentAhead
from dpq.worker.fetch_plan import FetchPlan, PopRound, none_live
from dpq.worker.heartbeats import Holding
from dpq.worker.outcomes import Done, GivenBack, hits_limit
from dpq.worker.run_state import (
    EXCHANGE,
    LEAVE_SECONDS,
    STOP_CHECK_SECONDS,
)
from dpq.worker.wakeups import WakeUps

Step = Literal[
    "end",
    "turn",
    "take",
    "ask",
    "send ends",
    "wait for wake-up",
    "stop waiting",
    "wait for threads",
]
"""The next step of a thread that wants a task."""


class Fetcher:
    """Gets tasks for the threads of one run of a worker, and sends the ends of their deliveries.

    Args:
        plan: The plan of what to ask.
        session: The session that sends.
        wakeups: The waiter for all queues.
        lock: The lock of the worker. Whatever the threads share changes under it.

    Attributes:
        ends: The deliveries whose end is to be sent.
    """

    def __init__(self, plan: FetchPlan, session: Any, wakeups: WakeUps, lock: Any) -> None:
        self.ends: list[Done] = []
        self._plan = plan
        self._deliveries = plan.deliveries
        self._state = plan.state
        self._session = session
        self._wakeups = wakeups
        self._lock = lock
        self._prefetch = plan.prefetch
        self._confirms = plan.confirms
        self._changed = threading.Condition(lock)  # notified when an idle thread may go on
        # Notified when a pausing thread has an end to send.
        self._end_added = threading.Condition(lock)
        self._taken: deque[Taken] = deque()
        self._idle = 0  # threads that want a task
        self._look = False  # True if an idle thread is to ask the server
        self._asker = Role(lock)  # the thread that asks the server
        self._sleeper = Role(lock)  # the idle thread that waits for a wake-up
        self._sender = Role(lock)  # the idle thread that sends ends of deliveries
        self._timing = False  # True while an idle thread waits for the moment of a task
        self._ahead = Ahead(plan, session)
        self._sending = 0  # threads that send ends of deliveries and nothing else

    # Tasks

    def next_task(self) -> Taken | None:
        """Return the next task to handle, or None at a stop; wait or ask the server as needed."""
        with self._lock:
            plenty = 0 < self._ahead.size < len(self._taken)
            busy = self._wakeups.watches or self._state.stopping or self._plan.is_turning
            if plenty and not busy:
                return self._taken.popleft()
            self._idle += 1
            if not self._prefetch and self._plan.asks_after_end(self._wakeups.watches):
                self._look = True  # the exchange takes the acks along
            try:
                while (step := self._next_step()) != "take":
                    if step == "ask":
                        self._exchange()
                    elif step == "turn":
                        self._turn()
                    elif step == "wait for threads":
                        self._wait_for_threads()
                    elif step == "wait for wake-up":
                        self._wait_for_wakeup()
                    elif step == "stop waiting":
                        self._stop_waiting()
                    elif step == "send ends":
                        with self._sender:
                            self.send_ends()
                    else:
                        return None
                if len(self._taken) == self._ahead.size and not self._ahead.sent:
                    self._ask_ahead()
                taken = self._taken.popleft()
                if self._taken:
                    self._changed.notify()  # another thread waits for the next moment
                return taken
            finally:
                self._idle -= 1

    def _next_step(self) -> Step:
        """Decide the next step of a thread that wants a task."""
        if self._state.stopping:
            return "end"
        watching = bool(self._wakeups.watches)
        asking = self._asker.taken
        if self._plan.is_turning and not (asking or self._sleeper.taken):
            return "ask" if self._ahead.sent else "turn"
        if self._taken and self._taken[0].at <= time.monotonic():
            return "stop waiting" if watching and self._idle == 1 and not asking else "take"
        calls = bool(self.ends) if self._plan.all_quiet else not watching
        self._look = self._look or calls or self._ahead.sent is not None
        if self._look and not asking and (self._room + self._plan.beyond > 0 or not self._taken):
            return "ask"
        late = self._plan.ends_are_late(self._wakeups.watches, self.ends)
        if late and not (asking or self._sender.taken):
            return "send ends"
        if watching and not (asking or self._sleeper.taken):
            return "wait for wake-up"
        return "wait for threads"

    @property
    def _room(self) -> int:
        """The number of tasks that idle threads want."""
        return self._idle - self._sleeper.taken + self._prefetch - len(self._taken)

    def _wait_for_threads(self) -> None:
        """Wait for a change; one thread also waits for the moment of the next task."""
        if self._timing or not self._taken:
            self._changed.wait()
            return
        self._timing = True
        try:
            self._changed.wait(max(0.0, self._taken[0].at - time.monotonic()))
        finally:
            self._timing = False

    def _wait_for_wakeup(self) -> None:
        """Wait at the server, at most `STOP_CHECK_SECONDS`; the lock is released meanwhile."""
        due = False
        until = self._taken[0].at if self._taken else math.inf
        with self._sleeper:
            due = self._wakeups.wait(min(STOP_CHECK_SECONDS, until - time.monotonic()))
        self._look = self._look or due

    def _stop_waiting(self) -> None:
        """Stop waiting at the server, since every thread has work; the lock is free meanwhile."""
        try:
            with self._asker:
                self._wakeups.stop()
        finally:
            self._changed.notify_all()

    def _turn(self) -> None:
        """Ask other queues from now on; the lock is free meanwhile."""
        self._give_back_quiet()
        try:
            with self._asker:
                self._wakeups.stop()
                if self._plan.turn():
                    self._wakeups.follow(self._plan.markers())
        finally:
            self._look = True
            self._changed.notify_all()

    def _give_back_quiet(self) -> None:
        """Let the tasks be given back that no handler has begun, of queues that say "quiet"."""
        quiet = self._state.quiet
        taken, self._taken = self._taken, deque()
        self._taken.extend(each for each in taken if each.queue_index not in quiet)
        back = [each for each in taken if each.queue_index in quiet]
        self.ends += self._deliveries.claim_back(back)

    def heed(self) -> None:
        """Follow what queues say by their answers to heartbeats: `RunState.quiet`."""
        with self._lock:
            self._give_back_quiet()
            self._look = True
            self._changed.notify_all()
        self.send_ends()

    def look_again(self) -> None:
        """Let an idle thread ask the server: perhaps no task is left to wait for."""
        with self._lock:
            self._look = True
            self._changed.notify_all()

    # Exchanges

    def _exchange(self) -> None:
        """Send the ends of deliveries, and take tasks for all idle threads."""
        sleeping = self._sleeper.taken
        room = self._room
        sent, self._ahead.sent = self._ahead.sent, None
        if sent:
            exchange: Exchange = sent
        elif self._confirms:
            exchange = Exchange([])
        else:
            exchange, self.ends = Exchange(self.ends), []
        try:
            if sent and self._ahead.plenty and room >= 2 * self._ahead.size:
                self._ask_ahead()  # the server works while this thread reads a reply
            self._look = False
            self._state.pulse.move(EXCHANGE)
            with self._asker:
                if sent:
                    self._read(sent)
                else:
                    self._ask(exchange, room, waits=not sleeping)
        finally:
            self._state.pulse.rest(EXCHANGE)
            self.ends += exchange.done
            self._taken = deque(sorted([*self._taken, *exchange.taken], key=lambda each: each.at))
            watching = sleeping or self._wakeups.watches
            if exchange.taken and len(exchange.taken) < self._idle and not watching:
                self._look = True  # a thread that got no task waits for more
            self._changed.notify_all()

    def _ask(self, exchange: Exchange, room: int, *, waits: bool) -> None:
        """Ask queue after queue until no room is left; if `waits`, watch queues without tasks."""
        if self._confirms:
            self.send_ends()
        if hits_limit(exchange.done) or self._plan.all_quiet:
            exchange.done = self._send(exchange.done)
            if exchange.done and self._plan.all_quiet:  # no pop fails, which would pause
                with self._lock:
                    self._end_added.wait(0 if self._state.stopping else FIRST_PAUSE_SECONDS)
        wakeups, deliveries = self._wakeups, self._deliveries
        beyond, before = max(0, room + self._plan.beyond - max(1, room)), wakeups.watches
        by_end = bool(before) and time_left(before, math.inf) > 0
        # `run_all` opens the queue.
        send = self._session.send_all if waits else self._session.run_all
        round_ = PopRound(
            *(self._plan, max(1, room), wakeups.watches, exchange.taken), waits=waits, beyond=beyond
        )
        for pop in round_:
            endings = deliveries.endings(exchange.done)
            began = time.monotonic()
            *answers, batch = send([*[each.operation for each in endings], pop])
            self._plan.timed(began)
            exchange.done = deliveries.answered(endings, answers)
            if isinstance(batch, RedisError):
                self._pause(batch, round_.queue_index)
                return
            round_.receive(batch)
        self._look = self._look or round_.failed  # more tasks may stand behind the refused task
        self._plan.learn(by_end, before, round_.taken)
        if not round_.taken and self._state.until_empty and self._all_gone():
            self._state.end()
        elif not waits:
            pass  # the thread that sleeps has the watches
        elif not round_.taken or round_.may_wait:
            wakeups.watches = round_.watches
        elif (owed := round_.owed) or wakeups.watches:
            wakeups.stop(owed)

    def _all_gone(self) -> bool:
        return none_live(self._session.run_all(self._plan.counts()))

    def _ask_ahead(self) -> None:
        """Send the next exchange while there are tasks to begin; its reply is read later."""
        if self._state.stopping or self._plan.is_turning or hits_limit(self.ends):
            return
        done = [] if self._confirms else self.ends
        self._ahead.send(done)
        if done:
            self.ends = []

    def _read(self, sent: SentAhead) -> None:
        """Read the reply to an exchange that was sent ahead."""
        *answers, batch = sent.receive()
        sent.done = self._deliveries.answered(sent.endings, answers)
        if isinstance(batch, RedisError):
            self._pause(batch, sent.queue_index)
        else:
            sent.taken = self._plan.receive(sent.queue_index, batch)
            # More tasks may stand behind the refused task.
            self._look = self._look or bool(batch.failed)
        self._ahead.plenty = len(sent.taken) == self._ahead.size

    def _pause(self, error: RedisError, queue_index: int | None = None) -> None:
        """Wait after an error of the server; but send the ends of deliveries meanwhile."""
        until = time.monotonic() + self._plan.pause_after(error, queue_index)
        self._look = True
        answered = True
        while not self._state.stopping and (left := until - time.monotonic()) > 0:
            if self.ends and answered:  # send the ends of deliveries during the pause
                answered = self.send_ends()
                continue
            with self._lock:
                if not (self._state.stopping or (self.ends and answered)):
                    self._end_added.wait(left)

    # What is held

    @property
    def held(self) -> list[Holding]:
        """The tasks that no handler has begun, and those whose end is to be sent."""
        with self._lock:
            taken = [Holding(each.queue_index, each.lease.task) for each in self._taken]
            return taken + [Holding(each.queue_index, each.task) for each in self.ends]

    # Ends of deliveries

    def took(self, seconds: float) -> None:
        """Take in how long a handler ran; the lock is held."""
        self._plan.handled(seconds)

    def add(self, done: Done) -> None:
        """Take over the end of a delivery; the lock is held."""
        self.ends.append(done)
        if self._asker.taken:  # the asking thread may be in a pause
            self._end_added.notify()
        if (self._prefetch or self._taken) and isinstance(done.error, RateLimited):
            self._give_back_alike(done)

    def confirm(self) -> None:
        """Send the ends of deliveries now, if they wait for a confirmation."""
        if self._confirms:
            self.send_ends()

    def send_ends(self) -> bool:
        """Send the ends of deliveries without a pop; False if some must be sent once more."""
        with self._lock:
            done, self.ends = self.ends, []
            if not done:
                return True
            self._sending += 1
        try:
            with suppress(RedisError):  # on an error, all ends must be sent once more
                done = self._send(done)
        finally:
            with self._lock:
                self._sending -= 1
                self.ends += done
                self._look = self._look or self._state.until_empty  # perhaps no task is left
                self._changed.notify_all()
        return not done

    def send_late(self) -> None:
        """Send what has waited for `LATEST_ACK_SECONDS`, and read the replies to it."""
        with self._lock:
            if self._ahead.late and not self._asker.taken:
                self._exchange()
        self.send_ends()

    def _send(self, done: list[Done]) -> list[Done]:
        """Send the ends of deliveries; return those that must be sent once more."""
        endings = self._deliveries.endings(done)
        results = self._session.run_all([each.operation for each in endings])
        return self._deliveries.answered(endings, results)

    def _give_back_alike(self, done: Done) -> None:
        """Give back the prefetched tasks that would hit the same limit; the lock is held."""
        while self._ahead.sent and not self._asker.taken:
            self._exchange()
        fetched, self._taken = self._taken, deque()
        for taken in fetched:
            back = Done(taken.queue_index, taken.lease.task, GivenBack())
            if not done.closes(taken.queue_index, back.task):
                self._taken.append(taken)
            elif self._deliveries.claim(back):
                self.ends.append(back)

    # The end of a run

    def stop(self) -> None:
        """Wake all threads, so that they see the stop."""
        with self._lock:
            self._changed.notify_all()
            self._end_added.notify_all()

    def give_back_unbegun(self) -> None:
        """Give back the tasks that no handler has begun, once no thread asks for more."""
        with self._lock:
            while self._asker.taken or self._idle:
                self.wait_for_change(STOP_CHECK_SECONDS / 5)
            while self._ahead.sent:
                self._exchange()
            unbegun, self._taken = self._taken, deque()
            self.ends += self._deliveries.claim_back(unbegun)
        self.send_ends()

    def wait_for_change(self, seconds: float) -> None:
        """Wait until a thread has added or sent something, at most so long; the lock is held."""
        self._changed.wait(seconds)

    def wait_for_confirmations(self) -> None:
        """Wait until ended handlers have the confirmation of their acks; the lock is held."""
        self._changed.wait_for(lambda: not self._sending, CONFIRM_SECONDS + LEAVE_SECONDS)

    def close(self) -> None:
        """Leave what could not be sent to its leases, and stop waiting."""
        self.send_ends()
        self._deliveries.forget(self.ends)
        self._wakeups.close()
