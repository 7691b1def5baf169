"""A delayed priority queue with visibility timeouts on Redis, for work against rate limits."""

import logging

from dpq._work import Context
from dpq.dead import DeadLetters
from dpq.dead_async import AsyncDeadLetters
from dpq.errors import (
    ConfigurationError,
    DPQError,
    DuplicateTaskError,
    LeaseLostError,
    NotConfirmedError,
    PayloadError,
    RateLimited,
    Reject,
    Retry,
    ServerWarning,
    Signal,
    TaskNotFoundError,
)
from dpq.limits import Adaptive, LimitState, RateLimit, Reserve
from dpq.models import (
    DeadTask,
    Fairness,
    OnDuplicate,
    Order,
    Popped,
    Problem,
    Push,
    QueueStats,
    Task,
    TaskState,
    WorkerInfo,
)
from dpq.policy import Backoff
from dpq.queue import DPQ, known_queues
from dpq.queue_async import AsyncDPQ
from dpq.scheduler import Scheduler
from dpq.tasks import TaskFunction, Tasks
from dpq.worker import Worker
from dpq.worker_async import AsyncWorker

__version__ = "0.1.0"

__all__ = [
    "DPQ",
    "Adaptive",
    "AsyncDPQ",
    "AsyncDeadLetters",
    "AsyncWorker",
    "Backoff",
    "ConfigurationError",
    "Context",
    "DPQError",
    "DeadLetters",
    "DeadTask",
    "DuplicateTaskError",
    "Fairness",
    "LeaseLostError",
    "LimitState",
    "NotConfirmedError",
    "OnDuplicate",
    "Order",
    "PayloadError",
    "Popped",
    "Problem",
    "Push",
    "QueueStats",
    "RateLimit",
    "RateLimited",
    "Reject",
    "Reserve",
    "Retry",
    "Scheduler",
    "ServerWarning",
    "Signal",
    "Task",
    "TaskFunction",
    "TaskNotFoundError",
    "TaskState",
    "Tasks",
    "Worker",
    "WorkerInfo",
    "known_queues",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())
