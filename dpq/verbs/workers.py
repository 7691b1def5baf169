"""The operations about workers: their heartbeats, their list, and their leases. No I/O."""

import heapq
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dpq.model.errors import ConfigurationError
from dpq.model.filter import filter_text
from dpq.model.moments import moment_of
from dpq.model.reports import LeaseInfo, WorkerInfo
from dpq.model.task import Task, TaskState
from dpq.model.validation import MAX_NAME_BYTES, MAX_SECONDS, label, number, one_line, whole_number
from dpq.script.command import CommandMaker, Steps, same, together
from dpq.script.records import UNREADABLE, make_task
from dpq.script.values import in_rows, read_texts

FORGET_SECONDS = 60.0
"""Seconds without a heartbeat after which a worker counts as gone: five heartbeats are missing."""

MOST_NAMED = 1000
"""Leases that one heartbeat names, the oldest first: 17 KB. Further leases are only counted."""

RELEASED_AT_ONCE = 100
"""Leases that are given back in one round trip: about 3 ms of server time."""

TOLD_AT_ONCE = 1000
"""Workers of one name that are told in one round trip: about 3 ms of server time."""

_COUNT = r"\d{1,15}"  # Python may refuse to make an int of more digits

_STORED = re.compile(
    rf"(?P<seen>{_COUNT}) (?P<since>-?{_COUNT}) (?P<running>{_COUNT}) (?P<concurrency>{_COUNT}) "
    rf"(?P<pid>{_COUNT}) (?P<version>[^/\s]+)/?(?P<program>\S*)\t(?P<host>[^\t]*)\t(?P<name>.*)",
    re.DOTALL | re.ASCII,
)

_QUIET = re.compile(rf"{_COUNT}\t({_COUNT})\t(.*)", re.DOTALL | re.ASCII)

_DOING = re.compile(rf"{_COUNT} ({_COUNT}) (-?{_COUNT}) (\S+)(?:\t([\d :]*))?", re.ASCII)


class Doing(NamedTuple):
    """The work of a worker for one queue: its leases (id, token), and its longest handler."""

    leases: Sequence[tuple[str, int]] = ()
    longest_ms: int | None = None
    longest_task: str | None = None

    def text(self) -> str:
        """Write it as beat stores it."""
        if not self.leases and self.longest_ms is None:
            return ""
        tokens = map(str, sorted(token for _, token in self.leases)[:MOST_NAMED])
        ms = -1 if self.longest_ms is None else self.longest_ms
        return f"{len(self.leases)} {ms} {self.longest_task or '-'}\t{' '.join(tokens)}"


NOTHING = Doing()


class Heard(NamedTuple):
    """The answer to a heartbeat: take no new tasks; the tokens of cancelled deliveries."""

    quiet: bool
    cancelled: list[int]


def _heard(reply: Any) -> Heard:
    return Heard(int(reply[0]) == 1, [*map(int, reply[1:])])


class _Told(NamedTuple):
    """The heartbeats of a queue: its workers by id, and the worker of each delivery."""

    workers: dict[str, WorkerInfo]
    holders: dict[str, str]  # the id of the worker by token


class WorkerOperations(CommandMaker):
    def beat(
        self,
        worker: str,
        name: str,
        host: str,
        pid: int,
        version: str,
        running: int,
        concurrency: int,
        age: float,
        doing: Doing = NOTHING,
        quiet: bool = False,
    ) -> Steps[Heard]:
        """Send a heartbeat of a worker; return what the queue says to it."""
        texts = [one_line(text)[:MAX_NAME_BYTES] for text in (host, name)]
        about = "\t".join([f"{running} {concurrency} {pid} {version}", *texts])
        return self._beat(worker, round(age * 1000), about, doing.text(), "1" if quiet else "")

    def leave(self, worker: str) -> Steps[Heard]:
        return self._beat(worker, 0, "", "", "")

    def _beat(self, worker: str, age_ms: int, *texts: str) -> Steps[Heard]:
        about, doing, quiet = texts
        args = [self._now(), worker, age_ms, about, int(FORGET_SECONDS * 1000), doing, quiet]
        return self._ask("beat", args, _heard)

    def workers(self) -> Steps[list[WorkerInfo]]:
        told = yield from self.told("")
        return sorted(told.workers.values(), key=lambda worker: (worker.since, worker.name))

    def quiet(self, worker: str, by: str | None, quiet: bool = True) -> Steps[int]:
        """Tell the runs of a worker to take no new tasks, or to take tasks again; count them."""
        if not isinstance(worker, str) or not worker:
            raise ConfigurationError(f"worker is {worker!r}: it must be the name or id of a worker")
        who = "" if by is None else label("by", by)
        told = yield from self.told("")
        ids = sorted(each.id for each in told.workers.values() if worker in (each.id, each.name))
        there = 0
        for first in range(0, len(ids), TOLD_AT_ONCE):
            args = [self._now(), "1" if quiet else "", who, *ids[first : first + TOLD_AT_ONCE]]
            there += yield from self._ask("quiet", args, same)
        return there

    def told(self, what: str = "leases") -> Steps[_Told]:
        """Read the heartbeats; with "leases" or a token also who has each delivery, or that one."""
        ms = int(FORGET_SECONDS * 1000)
        pages = yield from self._pages(
            "workers", lambda cursor: [self._now(), cursor, ms, what], read_texts
        )
        found = dict(row for _, *page in pages for row in in_rows(page, 2))
        return _read(self.queue_name, found, int(pages[-1][0]))

    def held(
        self, count: int, worker: str | None, older_than: float | None
    ) -> Steps[list[LeaseInfo]]:
        count = whole_number("n", count, 0, 10**9)
        if older_than is not None:
            number("older_than", older_than, "seconds", 0, MAX_SECONDS)
        if worker is not None:
            filter_text("worker", worker)
        page = yield from self.all_leases()
        told = yield from self.told()  # after the leases: a heartbeat may have come meanwhile
        leases = (lease_info(self.queue_name, task, now, told) for task, now in page.values())
        chosen = (
            lease
            for lease in leases
            if lease.held_seconds >= (older_than or 0.0)
            and (worker is None or worker in (lease.worker, lease.worker_id))
        )
        return heapq.nsmallest(
            count, chosen, key=lambda lease: (lease.since, lease.token, lease.id)
        )

    def all_leases(self) -> Steps[dict[str, tuple[Task[Any], float]]]:
        """Read all leases by id, without payloads: each task, and the server's time, ms."""
        found: dict[str, tuple[Task[Any], float]] = {}
        pages = yield from self._pages("held", lambda cursor: [self._now(), cursor], same)
        for now, *page in pages:
            for id_, until, record in in_rows(page, 3):
                name = id_.decode("utf-8", "replace")
                try:
                    end = moment_of(float(until))
                    task = make_task(Task, name, record, None, TaskState.INVISIBLE, end)
                except UNREADABLE:  # check reports the bad record
                    pass
                else:
                    found[name] = (task, float(now))
        return found

    def release_held(self, leases: Iterable[LeaseInfo]) -> Steps[int]:
        """Give leases back, uncounted; return their number, without leases that have ended."""
        done, leases = 0, list(leases) if isinstance(leases, Iterable) else [leases]
        for lease in leases:
            if not isinstance(lease, LeaseInfo):
                raise ConfigurationError(f"a lease is {lease!r}: it must be one that held returned")
        for first in range(0, len(leases), RELEASED_AT_ONCE):
            batch = leases[first : first + RELEASED_AT_ONCE]
            given_back = yield from together([self._released(lease) for lease in batch])
            for result in given_back:
                if isinstance(result, Exception):
                    raise result
                done += result
        return done

    def _released(self, lease: LeaseInfo) -> Steps[bool]:
        args = [self._now(), lease.id, lease.token, 0, "", ""]
        reply = yield self._command("release", args, same)
        return bool(reply >= 0)


def _read(queue_name: str, stored: dict[str, str], now_ms: int) -> _Told:
    workers: dict[str, WorkerInfo] = {}
    holders: dict[str, str] = {}
    for worker, text in stored.items():
        if told := _STORED.fullmatch(text):  # a text of another form was written by another program
            found: dict[str, Any] = told.groupdict()
            seen, since = int(found.pop("seen")), int(found.pop("since"))
            doing = _DOING.fullmatch(stored.get(f"{worker}\t", ""))
            holds, longest_ms, task, tokens = doing.groups() if doing else (0, -1, "", None)
            quiet = _QUIET.fullmatch(stored.get(f"{worker}\tquiet", ""))
            workers[worker] = WorkerInfo(
                id=worker,
                queue=queue_name,
                since=moment_of(since),
                seen=moment_of(seen),
                seen_seconds=max(0, now_ms - seen) / 1000,
                holds=int(holds),
                longest_seconds=None if int(longest_ms) < 0 else int(longest_ms) / 1000,
                longest_task=None if int(longest_ms) < 0 else task,
                quiet_since=moment_of(int(quiet[1])) if quiet else None,
                quiet_by=quiet[2] if quiet else "",
                **found,
            )
            holders |= dict.fromkeys((tokens or "").split(), worker)
    return _Told(workers, holders)


def lease_info(queue_name: str, task: Task[Any], now_ms: float, told: _Told) -> LeaseInfo:
    """Describe a lease, with the holder that a heartbeat names; the token is the pop's time."""
    worker = told.workers.get(told.holders.get(str(task.token), ""))
    holder: dict[str, Any] = {}
    if worker:
        holder = {"worker": worker.name, "worker_id": worker.id}
        holder |= {"host": worker.host, "pid": worker.pid}
    shared = ("id", "token", "group", "attempt", "max_attempts")
    return LeaseInfo(
        **{name: getattr(task, name) for name in shared},
        queue=queue_name,
        since=moment_of(task.token / 1000),
        until=task.visible_until or moment_of(now_ms),
        held_seconds=max(0.0, now_ms / 1000 - task.token / 1e6),
        **holder,
    )
