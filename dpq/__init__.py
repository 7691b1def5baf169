"""A delayed priority queue with visibility timeouts on Redis, for work against rate limits.

`import dpq` loads hardly anything of DPQ, and nothing of Redis or pydantic: a name is loaded when
it is first used. So pytest, which imports the package for its plugin, and programs that use one
half of DPQ do not pay for the rest. The types of what calls return are in `dpq.types`.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from dpq.model.display import CleanRecords

if TYPE_CHECKING:
    from dpq.limits.limits import Adaptive, Quota, RateLimit, Reserve
    from dpq.limits.signals import RateLimited, Reject, Release, Retry, Signal
    from dpq.model.backoff import Backoff
    from dpq.model.errors import (
        BatchFinishedError,
        BatchNotFoundError,
        ConfigurationError,
        CostWarning,
        DPQError,
        DuplicateTaskError,
        ExportFileError,
        ImportConflictError,
        LeaseLostError,
        LimitTimeoutError,
        NotConfirmedError,
        PayloadError,
        QueueFullError,
        ResultTimeoutError,
        ServerWarning,
        TaskDeadError,
        TaskNotFoundError,
    )
    from dpq.model.filter import Filter
    from dpq.model.results import NO_RESULT
    from dpq.model.task import Popped, Push, Task, TaskState
    from dpq.queue.first import pop_first
    from dpq.queue.first_async import pop_first_async
    from dpq.queue.queue import DPQ
    from dpq.queue.queue_async import AsyncDPQ
    from dpq.registry.all_queues import known_queues
    from dpq.scheduler import Scheduler
    from dpq.tasks import Tasks
    from dpq.worker.handlers import Context
    from dpq.worker.worker import Worker
    from dpq.worker.worker_async import AsyncWorker

__version__: str
"""The version with the commit that it was built from, as it was installed."""

__all__ = [
    "DPQ",
    "NO_RESULT",
    "Adaptive",
    "AsyncDPQ",
    "AsyncWorker",
    "Backoff",
    "BatchFinishedError",
    "BatchNotFoundError",
    "ConfigurationError",
    "Context",
    "CostWarning",
    "DPQError",
    "DuplicateTaskError",
    "ExportFileError",
    "Filter",
    "ImportConflictError",
    "LeaseLostError",
    "LimitTimeoutError",
    "NotConfirmedError",
    "PayloadError",
    "Popped",
    "Push",
    "QueueFullError",
    "Quota",
    "RateLimit",
    "RateLimited",
    "Reject",
    "Release",
    "Reserve",
    "ResultTimeoutError",
    "Retry",
    "Scheduler",
    "ServerWarning",
    "Signal",
    "Task",
    "TaskDeadError",
    "TaskNotFoundError",
    "TaskState",
    "Tasks",
    "Worker",
    "known_queues",
    "pop_first",
    "pop_first_async",
]

_HOMES = {
    "limits.limits": ("Adaptive", "Quota", "RateLimit", "Reserve"),
    "limits.signals": ("RateLimited", "Reject", "Release", "Retry", "Signal"),
    "model.backoff": ("Backoff",),
    "model.errors": (
        "BatchFinishedError",
        "BatchNotFoundError",
        "ConfigurationError",
        "CostWarning",
        "DPQError",
        "DuplicateTaskError",
        "ExportFileError",
        "ImportConflictError",
        "LeaseLostError",
        "LimitTimeoutError",
        "NotConfirmedError",
        "PayloadError",
        "QueueFullError",
        "ResultTimeoutError",
        "ServerWarning",
        "TaskDeadError",
        "TaskNotFoundError",
    ),
    "model.filter": ("Filter",),
    "model.results": ("NO_RESULT",),
    "model.task": ("Popped", "Push", "Task", "TaskState"),
    "queue.first": ("pop_first",),
    "queue.first_async": ("pop_first_async",),
    "queue.queue": ("DPQ",),
    "queue.queue_async": ("AsyncDPQ",),
    "registry.all_queues": ("known_queues",),
    "scheduler": ("Scheduler",),
    "tasks": ("Tasks",),
    "worker.handlers": ("Context",),
    "worker.worker": ("Worker",),
    "worker.worker_async": ("AsyncWorker",),
}
"""The module of this package that defines each public name."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_MODULES = (
    *("aiohttp", "httpx", "httpx2", "metrics", "otel", "requests"),
    *("scheduler", "server", "tasks", "testing", "types"),
)
"""Modules that are attributes after `import dpq` alone, as `dpq.testing`."""

logging.getLogger(__name__).addHandler(CleanRecords())

if not TYPE_CHECKING:  # a type checker would take any name for one of this module

    def __getattr__(name):
        """Load a public name, or a module of the package, at its first use."""
        if name in _MODULES:
            return import_module(f"dpq.{name}")
        if name == "__version__":
            metadata = import_module("importlib.metadata")
            try:
                globals()[name] = metadata.version("delayed-priority-queue")
            except metadata.PackageNotFoundError:  # a checkout that is run and was not installed
                globals()[name] = "0.0"
            return globals()[name]
        if name not in _HOME_OF:
            raise AttributeError(f"module 'dpq' has no attribute {name!r}", name=name)
        value = getattr(import_module(f"dpq.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        """List the public names, loaded or not."""
        return sorted({*globals(), *__all__, *_MODULES, "__version__"})
