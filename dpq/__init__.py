"""A delayed priority queue with visibility timeouts on Redis, for work against rate limits.

`import dpq` loads hardly anything of DPQ, and nothing of Redis or pydantic: a name is loaded when
it is first used. So pytest, which imports the package for its plugin, and programs that use one
half of DPQ do not pay for the rest.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from dpq.model.display import CleanRecords

if TYPE_CHECKING:
    from dpq.explain.drain import Drain
    from dpq.explain.verdict import Verdict, VerdictState
    from dpq.limits.budget import Budget
    from dpq.limits.limits import Adaptive, RateLimit, Reserve
    from dpq.limits.quota import Quota
    from dpq.limits.signals import RateLimited, Reject, Release, Retry, Signal
    from dpq.limits.states import LimitState, MemberState, QuotaState
    from dpq.model.backoff import Backoff
    from dpq.model.batch_state import BatchState
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
    from dpq.model.history import Event, Slot, Times
    from dpq.model.queue_settings import Bounds, Fairness, Order, Payloads
    from dpq.model.reports import (
        BulkProgress,
        Health,
        Imported,
        LeaseInfo,
        Problem,
        QueueStats,
        WorkerInfo,
    )
    from dpq.model.result_data import Progress, Result
    from dpq.model.results import NO_RESULT
    from dpq.model.task import (
        Cost,
        DeadTask,
        OnDead,
        OnDuplicate,
        Popped,
        Push,
        Task,
        TaskState,
    )
    from dpq.queue.dead import DeadLetters
    from dpq.queue.dead_async import AsyncDeadLetters
    from dpq.queue.first import pop_first
    from dpq.queue.first_async import pop_first_async
    from dpq.queue.permits import Permit
    from dpq.queue.permits_async import AsyncPermit
    from dpq.queue.queue import DPQ
    from dpq.queue.queue_async import AsyncDPQ
    from dpq.registry.all_queues import known_queues
    from dpq.scheduler import Scheduler
    from dpq.tasks import TaskFunction, Tasks
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
    "AsyncDeadLetters",
    "AsyncPermit",
    "AsyncWorker",
    "Backoff",
    "BatchFinishedError",
    "BatchNotFoundError",
    "BatchState",
    "Bounds",
    "Budget",
    "BulkProgress",
    "ConfigurationError",
    "Context",
    "Cost",
    "CostWarning",
    "DPQError",
    "DeadLetters",
    "DeadTask",
    "Drain",
    "DuplicateTaskError",
    "Event",
    "ExportFileError",
    "Fairness",
    "Filter",
    "Health",
    "ImportConflictError",
    "Imported",
    "LeaseInfo",
    "LeaseLostError",
    "LimitState",
    "LimitTimeoutError",
    "MemberState",
    "NotConfirmedError",
    "OnDead",
    "OnDuplicate",
    "Order",
    "PayloadError",
    "Payloads",
    "Permit",
    "Popped",
    "Problem",
    "Progress",
    "Push",
    "QueueFullError",
    "QueueStats",
    "Quota",
    "QuotaState",
    "RateLimit",
    "RateLimited",
    "Reject",
    "Release",
    "Reserve",
    "Result",
    "ResultTimeoutError",
    "Retry",
    "Scheduler",
    "ServerWarning",
    "Signal",
    "Slot",
    "Task",
    "TaskDeadError",
    "TaskFunction",
    "TaskNotFoundError",
    "TaskState",
    "Tasks",
    "Times",
    "Verdict",
    "VerdictState",
    "Worker",
    "WorkerInfo",
    "known_queues",
    "pop_first",
    "pop_first_async",
]

_HOMES = {
    "worker.handlers": ("Context",),
    "queue.dead": ("DeadLetters",),
    "queue.dead_async": ("AsyncDeadLetters",),
    "queue.first": ("pop_first",),
    "queue.first_async": ("pop_first_async",),
    "queue.permits": ("Permit",),
    "queue.permits_async": ("AsyncPermit",),
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
    "explain.drain": ("Drain",),
    "model.history": ("Event", "Slot", "Times"),
    "model.filter": ("Filter",),
    "limits.states": ("LimitState", "MemberState", "QuotaState"),
    "limits.limits": ("Adaptive", "RateLimit", "Reserve"),
    "model.queue_settings": ("Bounds", "Fairness", "Order", "Payloads"),
    "limits.quota": ("Quota",),
    "model.reports": (
        "BulkProgress",
        "Health",
        "Imported",
        "LeaseInfo",
        "Problem",
        "QueueStats",
        "WorkerInfo",
    ),
    "model.result_data": ("Progress", "Result"),
    "model.results": ("NO_RESULT",),
    "limits.signals": ("RateLimited", "Reject", "Release", "Retry", "Signal"),
    "model.task": (
        "Cost",
        "DeadTask",
        "OnDead",
        "OnDuplicate",
        "Popped",
        "Push",
        "Task",
        "TaskState",
    ),
    "model.backoff": ("Backoff",),
    "model.batch_state": ("BatchState",),
    "limits.budget": ("Budget",),
    "explain.verdict": ("Verdict", "VerdictState"),
    "queue.queue": ("DPQ",),
    "registry.all_queues": ("known_queues",),
    "queue.queue_async": ("AsyncDPQ",),
    "scheduler": ("Scheduler",),
    "tasks": ("TaskFunction", "Tasks"),
    "worker.worker": ("Worker",),
    "worker.worker_async": ("AsyncWorker",),
}
"""The module of this package that defines each public name."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_MODULES = (
    *("aiohttp", "httpx", "httpx2", "metrics", "otel", "requests"),
    *("scheduler", "server", "tasks", "testing"),
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
            globals()[name] = metadata.version("delayed-priority-queue")
            return globals()[name]
        if name not in _HOME_OF:
            raise AttributeError(f"module 'dpq' has no attribute {name!r}", name=name)
        value = getattr(import_module(f"dpq.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        """List the public names, loaded or not."""
        return sorted({*globals(), *__all__, *_MODULES, "__version__"})
