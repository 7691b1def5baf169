"""The types of what DPQ returns, and of some arguments: for annotations.

    from dpq.types import LimitState, Verdict

What programs make, raise and catch is in `dpq` itself. A name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from dpq.model.late import late

if TYPE_CHECKING:
    from dpq.explain.drain import Drain
    from dpq.explain.verdict import Verdict, VerdictState
    from dpq.limits.budget import Budget
    from dpq.limits.states import LimitState, MemberState, QuotaState
    from dpq.model.batch_state import BatchState
    from dpq.model.history import Event, Slot, Times
    from dpq.model.queue_settings import Bounds, Fairness, Order, Payloads, Settings
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
    from dpq.model.task import Cost, DeadTask, OnDead, OnDuplicate
    from dpq.queue.admin import Admin
    from dpq.queue.admin_async import AsyncAdmin
    from dpq.queue.dead import DeadLetters
    from dpq.queue.dead_async import AsyncDeadLetters
    from dpq.queue.permits import Permit
    from dpq.queue.permits_async import AsyncPermit
    from dpq.tasks import TaskFunction

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncDeadLetters",
    "AsyncPermit",
    "BatchState",
    "Bounds",
    "Budget",
    "BulkProgress",
    "Cost",
    "DeadLetters",
    "DeadTask",
    "Drain",
    "Event",
    "Fairness",
    "Health",
    "Imported",
    "LeaseInfo",
    "LimitState",
    "MemberState",
    "OnDead",
    "OnDuplicate",
    "Order",
    "Payloads",
    "Permit",
    "Problem",
    "Progress",
    "QueueStats",
    "QuotaState",
    "Result",
    "Settings",
    "Slot",
    "TaskFunction",
    "Times",
    "Verdict",
    "VerdictState",
    "WorkerInfo",
]

_HOMES = {
    "explain.drain": ("Drain",),
    "explain.verdict": ("Verdict", "VerdictState"),
    "limits.budget": ("Budget",),
    "limits.states": ("LimitState", "MemberState", "QuotaState"),
    "model.batch_state": ("BatchState",),
    "model.history": ("Event", "Slot", "Times"),
    "model.queue_settings": ("Bounds", "Fairness", "Order", "Payloads", "Settings"),
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
    "model.task": ("Cost", "DeadTask", "OnDead", "OnDuplicate"),
    "queue.admin": ("Admin",),
    "queue.admin_async": ("AsyncAdmin",),
    "queue.dead": ("DeadLetters",),
    "queue.dead_async": ("AsyncDeadLetters",),
    "queue.permits": ("Permit",),
    "queue.permits_async": ("AsyncPermit",),
    "tasks": ("TaskFunction",),
}
"""The module of DPQ that defines each name."""

if not TYPE_CHECKING:  # a type checker would take any name for one of this module
    __getattr__ = late(__name__, _HOMES)
