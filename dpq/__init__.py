"""A delayed priority queue with visibility timeouts on Redis, for work against rate limits.

`import dpq` loads hardly anything of DPQ, and nothing of Redis or pydantic: a name is loaded when
it is first used. So pytest, which imports the package for its plugin, and programs that use one
half of DPQ do not pay for the rest. The types of what calls return are in `dpq.types`.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from dpq.model.display import CleanRecords
from dpq.model.late import late

if TYPE_CHECKING:
    from dpq.limits.limits import Adaptive as Adaptive
    from dpq.limits.limits import Quota as Quota
    from dpq.limits.limits import RateLimit as RateLimit
    from dpq.limits.limits import Reserve as Reserve
    from dpq.limits.signals import RateLimited as RateLimited
    from dpq.limits.signals import Reject as Reject
    from dpq.limits.signals import Release as Release
    from dpq.limits.signals import Retry as Retry
    from dpq.limits.signals import Signal as Signal
    from dpq.model.backoff import Backoff as Backoff
    from dpq.model.errors import BatchFinishedError as BatchFinishedError
    from dpq.model.errors import BatchNotFoundError as BatchNotFoundError
    from dpq.model.errors import ConfigurationError as ConfigurationError
    from dpq.model.errors import CostWarning as CostWarning
    from dpq.model.errors import DPQError as DPQError
    from dpq.model.errors import DuplicateTaskError as DuplicateTaskError
    from dpq.model.errors import ExportFileError as ExportFileError
    from dpq.model.errors import ImportConflictError as ImportConflictError
    from dpq.model.errors import LeaseLostError as LeaseLostError
    from dpq.model.errors import LimitTimeoutError as LimitTimeoutError
    from dpq.model.errors import NotConfirmedError as NotConfirmedError
    from dpq.model.errors import PayloadError as PayloadError
    from dpq.model.errors import QueueFullError as QueueFullError
    from dpq.model.errors import ResultTimeoutError as ResultTimeoutError
    from dpq.model.errors import ServerWarning as ServerWarning
    from dpq.model.errors import TaskDeadError as TaskDeadError
    from dpq.model.errors import TaskNotFoundError as TaskNotFoundError
    from dpq.model.filter import Filter as Filter
    from dpq.model.results import NO_RESULT as NO_RESULT
    from dpq.model.task import Popped as Popped
    from dpq.model.task import Push as Push
    from dpq.model.task import Task as Task
    from dpq.model.task import TaskState as TaskState
    from dpq.queue.queue import DPQ as DPQ
    from dpq.queue.queue import pop_first as pop_first
    from dpq.queue.queue_async import AsyncDPQ as AsyncDPQ
    from dpq.queue.queue_async import pop_first_async as pop_first_async
    from dpq.registry.all_queues import known_queues as known_queues
    from dpq.scheduler import Scheduler as Scheduler
    from dpq.tasks import Tasks as Tasks
    from dpq.worker.handlers import Context as Context
    from dpq.worker.worker import Worker as Worker
    from dpq.worker.worker_async import AsyncWorker as AsyncWorker

__version__: str
"""The version with the commit that it was built from, as it was installed."""

_HOMES = {
    "limits.limits": "Adaptive Quota RateLimit Reserve",
    "limits.signals": "RateLimited Reject Release Retry Signal",
    "model.backoff": "Backoff",
    "model.errors": (
        "BatchFinishedError BatchNotFoundError ConfigurationError CostWarning DPQError "
        "DuplicateTaskError ExportFileError ImportConflictError LeaseLostError LimitTimeoutError "
        "NotConfirmedError PayloadError QueueFullError ResultTimeoutError ServerWarning "
        "TaskDeadError TaskNotFoundError"
    ),
    "model.filter": "Filter",
    "model.results": "NO_RESULT",
    "model.task": "Popped Push Task TaskState",
    "queue.queue": "DPQ pop_first",
    "queue.queue_async": "AsyncDPQ pop_first_async",
    "registry.all_queues": "known_queues",
    "scheduler": "Scheduler",
    "tasks": "Tasks",
    "worker.handlers": "Context",
    "worker.worker": "Worker",
    "worker.worker_async": "AsyncWorker",
}
"""The module of this package that defines each public name."""

__all__ = sorted(name for names in _HOMES.values() for name in names.split())

_MODULES = (
    *("aiohttp", "httpx", "httpx2", "metrics", "otel", "requests"),
    *("scheduler", "server", "tasks", "testing", "types"),
)
"""Modules that are attributes after `import dpq` alone, as `dpq.testing`."""

logging.getLogger(__name__).addHandler(CleanRecords())

_load = late(__name__, _HOMES)

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
        return _load(name)

    def __dir__():
        """List the public names, loaded or not."""
        return sorted({*globals(), *__all__, *_MODULES, "__version__"})
