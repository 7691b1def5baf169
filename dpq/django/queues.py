"""The queues of one process of a Django project, its tasks, pushes on commit, answers of views.

A queue is opened at its first use, not at the start: `manage.py migrate` needs no server. All
queues of a process share the client of the first.
"""

import threading
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse

from dpq import DPQ, ConfigurationError, Push, Tasks
from dpq.model.validation import label
from dpq.queue.base import operations_named
from dpq.queue.inside import operations_of, session_of
from dpq.queue.waits import end_of
from dpq.types import TaskFunction
from dpq.views.answers import may_be_id, of_end, of_now, unknown

KNOWN = ("URL", "QUEUE", "OPTIONS")
"""The names in the setting `DPQ`."""


class Settings(NamedTuple):
    """The setting `DPQ` of a project."""

    url: str  # as `DPQ.from_url` takes it
    queue: str  # the name of the queue of `tasks`
    options: dict[str, Any]  # other arguments of `DPQ.from_url`


def settings_read() -> Settings:
    """Read the setting `DPQ`.

    Raises:
        ConfigurationError: It is missing, or a name in it is unknown or has a wrong value.
    """
    told = getattr(settings, "DPQ", None)
    if not isinstance(told, dict):
        raise ConfigurationError(
            "the Django setting DPQ is missing: write "
            'DPQ = {"URL": "redis://localhost", "QUEUE": "the name of a queue"}'
        )
    for name in told:
        if name not in KNOWN:
            raise ConfigurationError(f"DPQ[{name!r}] is unknown: there are {', '.join(KNOWN)}")
    for name in ("URL", "QUEUE"):
        if not isinstance(told.get(name), str):
            raise ConfigurationError(f"DPQ[{name!r}] is {told.get(name)!r}: it must be a string")
    options = told.get("OPTIONS", {})
    if not isinstance(options, dict):
        raise ConfigurationError(f"DPQ['OPTIONS'] is {options!r}: it must be a dict")
    return Settings(told["URL"], label("DPQ['QUEUE']", told["QUEUE"]), options)


class _Queues:
    """The open queues of this process, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[str, DPQ[Any]] = {}  # the first one owns the client
        self._settings: Settings | None = None

    def open(self, name: str | None = None) -> DPQ[Any]:
        """Return a queue of this process, opened at the first call.

        If the setting has changed since, as in a test, all queues are opened anew.

        Args:
            name: The name of the queue; None takes `QUEUE` of the setting `DPQ`.

        Raises:
            ConfigurationError: The setting `DPQ` is missing or wrong.
        """
        read = settings_read()
        wanted = read.queue if name is None else name
        with self._lock:
            if read != self._settings:
                self._close()
                self._settings = read
            if not self._opened:
                self._opened[read.queue] = DPQ.from_url(read.url, read.queue, **read.options)
            if wanted not in self._opened:
                client = self._opened[read.queue].redis
                self._opened[wanted] = DPQ(client, wanted, **read.options)
            return self._opened[wanted]

    def close(self) -> None:
        """Close all queues; the next use opens them again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        for queue in reversed(self._opened.values()):
            queue.close()
        self._opened, self._settings = {}, None


queues = _Queues()
open_queue = queues.open


class ProjectTasks(Tasks):
    """The named tasks of a project; they are pushed to the queue of its settings."""

    @property
    def queue(self) -> DPQ[Any]:
        """The queue, opened at the first push."""
        return open_queue()

    @queue.setter
    def queue(self, value: object) -> None:
        """Refuse another queue; `Tasks` itself sets None."""
        if value is not None:
            raise ConfigurationError("the queue of dpq.django.tasks is the one of the setting DPQ")


tasks = ProjectTasks()
"""The named tasks of all apps."""


class CommitPush:
    """A push that waits for a commit.

    Attributes:
        task_id: The id of the task, once it is pushed; None before, and after a rollback.
    """

    def __init__(self, push: Push[dict[str, Any]]) -> None:
        """Take what will be pushed."""
        self._push = push
        self.task_id: str | None = None

    def __call__(self) -> None:
        """Push the task: Django calls it after the commit."""
        self.task_id = open_queue().push(**self._push._asdict())


def push_on_commit(
    function: TaskFunction[..., Any], /, *args: Any, using: str | None = None, **values: Any
) -> CommitPush:
    """Push a named task once the current transaction is committed; after a rollback, never.

    The arguments are checked now. Outside of a transaction the push is made at once. If the process
    dies between the commit and the push, or the server is away then, the task is lost: what must
    not be lost needs an outbox (docs/transactions.md).

    Args:
        function: A function that `tasks.task()` has registered.
        args: Arguments of the function.
        using: The database whose transaction counts; None takes the default one.
        values: Arguments of the function, and options of `DPQ.push`.

    Returns:
        The push; its `task_id` is known after the commit.

    Raises:
        PayloadError: The arguments do not fit the function; nothing will be pushed.
        ConfigurationError: An option is out of its bounds.
    """
    push = function.prepare(*args, **values)
    next(operations_named("push_on_commit").push_many([push]))  # a check; nothing is sent
    pending = CommitPush(push)
    transaction.on_commit(pending, using=using)
    return pending


def task_response(
    task_id: str, timeout: float = 0, *, queue_name: str | None = None
) -> HttpResponse:
    """Answer with the end of a task, and wait for it on the server.

    The answer is a JSON object. `state` is `done`, with the `result` (200); `dead`, with the
    `reason` (200); or `unknown` (404). If the task has not ended within the timeout, the answer is
    202, with the task's state, attempt and progress.

    Args:
        task_id: The id that `push` returned.
        timeout: Seconds to wait, from 0. The wait holds a thread of the web server: keep it short.
        queue_name: The queue; None takes `QUEUE` of the setting `DPQ`.

    Raises:
        ConfigurationError: The timeout is out of its bounds, or the setting `DPQ` is wrong.
        RedisError: The server is away.
    """
    answer = unknown(task_id)
    if may_be_id(task_id):
        queue = open_queue(queue_name)
        if timeout and (outcome := end_of(queue, task_id, timeout)):
            answer = of_end(task_id, outcome)
        else:
            answer = session_of(queue).run(of_now, operations_of(queue), task_id)
    return HttpResponse(
        answer.body,
        status=answer.status,
        headers=answer.headers,
        content_type="application/json",
    )
