"""The types of what DPQ returns, and of some arguments: for annotations.

    from dpq.types import LimitState, Verdict

What programs make, raise and catch is in `dpq` itself. A name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from dpq.model.late import late

if TYPE_CHECKING:
    from dpq.explain.drain import Drain as Drain
    from dpq.explain.verdict import Verdict as Verdict
    from dpq.explain.verdict import VerdictState as VerdictState
    from dpq.limits.budget import Budget as Budget
    from dpq.limits.states import LimitState as LimitState
    from dpq.limits.states import MemberState as MemberState
    from dpq.limits.states import QuotaState as QuotaState
    from dpq.model.history import Event as Event
    from dpq.model.history import Slot as Slot
    from dpq.model.history import Times as Times
    from dpq.model.queue_settings import Bounds as Bounds
    from dpq.model.queue_settings import Fairness as Fairness
    from dpq.model.queue_settings import Order as Order
    from dpq.model.queue_settings import Payloads as Payloads
    from dpq.model.queue_settings import Settings as Settings
    from dpq.model.reports import BatchState as BatchState
    from dpq.model.reports import BulkProgress as BulkProgress
    from dpq.model.reports import Health as Health
    from dpq.model.reports import Imported as Imported
    from dpq.model.reports import LeaseInfo as LeaseInfo
    from dpq.model.reports import Problem as Problem
    from dpq.model.reports import QueueStats as QueueStats
    from dpq.model.reports import WorkerInfo as WorkerInfo
    from dpq.model.task import Cost as Cost
    from dpq.model.task import DeadTask as DeadTask
    from dpq.model.task import OnDead as OnDead
    from dpq.model.task import OnDuplicate as OnDuplicate
    from dpq.model.task_data import Progress as Progress
    from dpq.model.task_data import Result as Result
    from dpq.queue.admin import Admin as Admin
    from dpq.queue.admin import DeadLetters as DeadLetters
    from dpq.queue.admin_async import AsyncAdmin as AsyncAdmin
    from dpq.queue.admin_async import AsyncDeadLetters as AsyncDeadLetters
    from dpq.queue.permits import Permit as Permit
    from dpq.queue.permits_async import AsyncPermit as AsyncPermit
    from dpq.tasks import TaskFunction as TaskFunction

_HOMES = {
    "explain.drain": "Drain",
    "explain.verdict": "Verdict VerdictState",
    "limits.budget": "Budget",
    "limits.states": "LimitState MemberState QuotaState",
    "model.history": "Event Slot Times",
    "model.queue_settings": "Bounds Fairness Order Payloads Settings",
    "model.reports": (
        "BatchState BulkProgress Health Imported LeaseInfo Problem QueueStats WorkerInfo"
    ),
    "model.task": "Cost DeadTask OnDead OnDuplicate",
    "model.task_data": "Progress Result",
    "queue.admin": "Admin DeadLetters",
    "queue.admin_async": "AsyncAdmin AsyncDeadLetters",
    "queue.permits": "Permit",
    "queue.permits_async": "AsyncPermit",
    "tasks": "TaskFunction",
}
"""The module of DPQ that defines each name."""

__all__ = [name for names in _HOMES.values() for name in names.split()]

if not TYPE_CHECKING:  # a type checker would take any name for one of this module
    __getattr__ = late(__name__, _HOMES)
