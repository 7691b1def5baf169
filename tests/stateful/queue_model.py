"""One queue as a plain dict: what the design and the docstrings of `DPQ` promise, without Redis.

Time is handed in. What the server does lazily is lazy here too: a due task moves when upkeep runs,
and upkeep runs in pop and promote only. Ready and waiting are not stored, but follow from groups.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

FREE, DELAYED, INVISIBLE, DEAD = "free", "delayed", "invisible", "dead"  # free: ready or waiting

Number = int | float


@dataclass
class Entry:
    """A stored task."""

    id: str
    payload: Any
    priority: Number
    place: int
    group: str | None
    key: str | None
    max_attempts: int
    enqueued: int
    first_due: int
    expires: int | None
    state: str = FREE
    until: int = 0  # due, lease end or time of death
    token: int = 0
    attempts: int = 0
    deliveries: int = 0
    deferrals: int = 0
    settled: str | None = None  # the verb that settled this delivery
    counted: bool = False  # this delivery has cost an attempt
    deferred: bool = False  # this delivery has been deferred
    rerun: int | None = None  # wanted once more, due then
    reason: str = ""
    error: str | None = None


@dataclass
class Model:
    """The queue beside the queue."""

    lifo: bool = False
    aging: float = 0
    dead_max_tasks: int = 100_000
    dead_max_age: int = 90 * 86_400_000
    tasks: dict[str, Entry] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    paused_until: float = 0
    last_place: int = 0
    totals: Counter[str] = field(default_factory=Counter)

    # Looking

    def rank(self, entry: Entry) -> tuple[Any, int]:
        """The smaller, the sooner it runs."""
        place = -entry.place if self.lifo else entry.place
        if self.aging:
            aged = Fraction(self.aging) * entry.first_due / 1000 - Fraction(entry.priority)
            return aged, place
        return -entry.priority, place

    def in_state(self, state: str) -> list[Entry]:
        """The tasks of one public state, in the order in which peek shows them."""
        if state in (DELAYED, INVISIBLE, DEAD):
            held = [entry for entry in self.tasks.values() if entry.state == state]
            return sorted(held, key=lambda entry: (entry.until, entry.id))
        free = sorted((e for e in self.tasks.values() if e.state == FREE), key=self.rank)
        ready, waiting, headed = [], [], set(self.closed)
        for entry in free:
            if entry.group in headed:
                waiting.append(entry)
            else:
                ready.append(entry)
                if entry.group is not None:
                    headed.add(entry.group)
        if state == "ready":
            return ready
        return sorted(waiting, key=lambda entry: (entry.group or "").encode())

    def state_of(self, entry: Entry) -> str:
        """The public state of one task."""
        if entry.state != FREE:
            return entry.state
        return "ready" if entry in self.in_state("ready") else "waiting"

    def counts(self) -> dict[str, int]:
        """How many tasks each public state has."""
        states = ("ready", "delayed", "invisible", "waiting", "dead")
        return {state: len(self.in_state(state)) for state in states}

    def holder(self, key: str | None) -> Entry | None:
        """The task that holds a unique key."""
        return next((e for e in self.tasks.values() if key and e.key == key), None)

    def next_event(self, now: int) -> int | None:
        """Milliseconds until time alone changes what is ready."""
        moments = [e.until for e in self.tasks.values() if e.state in (DELAYED, INVISIBLE)]
        moments += self.closed.values()
        return max(min(moments) - now, 0) if moments else None

    # Moving

    def put(self, entry: Entry, now: int, wait: int) -> None:
        """Ready now, or due in `wait` ms."""
        entry.state, entry.until = (DELAYED, now + wait) if wait else (FREE, 0)

    def bury(self, entry: Entry, now: int, reason: str) -> None:
        """Into the dead letters, under their caps."""
        entry.state, entry.until, entry.reason = DEAD, now, reason
        self.totals["buried"] += 1
        self.trim(now, 2)

    def trim(self, now: int, most: int) -> int:
        """Drop the longest dead: those over the age, or over the number when those are more."""
        dead = self.in_state(DEAD)
        surplus = len(dead) - self.dead_max_tasks
        drop = [e for e in dead if e.until <= now - self.dead_max_age][:most]
        if surplus > len(drop):
            drop = dead[: min(surplus, most)]
        for entry in drop:
            del self.tasks[entry.id]
        self.totals["dropped"] += len(drop)
        return len(drop)

    def upkeep(self, now: int) -> int:
        """Everything whose time has come moves; how many those are."""
        leases = [e for e in self.in_state(INVISIBLE) if e.until <= now]
        due = [e for e in self.in_state(DELAYED) if e.until <= now]
        opened = [group for group, opens in self.closed.items() if opens <= now]
        for entry in leases:
            self.totals["expired_leases"] += 1
            if not entry.counted:
                entry.attempts, entry.counted = entry.attempts + 1, True
            if entry.attempts >= entry.max_attempts:
                self.bury(entry, now, "lease expired")
            else:
                self.put(entry, now, 0)
        for entry in due:
            if self.too_late(entry, now):
                self.bury(entry, now, "expired")
            else:
                self.put(entry, now, 0)
        for group in opened:
            del self.closed[group]
        return len(leases) + len(due) + len(opened)

    def too_late(self, entry: Entry, now: int) -> bool:
        """It should have started before now, and has not."""
        return entry.expires is not None and entry.deliveries == 0 and entry.expires <= now

    # Adding

    def refusal(self, pushes: list[dict[str, Any]]) -> str | None:
        """Why a batch is refused whole: "duplicate", "group" or not at all."""
        claims: dict[str, str | None] = {}
        for push in pushes:
            key = push["key"]
            if key is None:
                continue
            held = self.holder(key)
            if held is None and key not in claims:
                claims[key] = push["group"]
            elif push["on_duplicate"] == "error":
                return "duplicate"
            elif claims.get(key, held and held.group) != push["group"]:
                return "group"
        return None

    def push(self, new_id: str, push: dict[str, Any], now: int, default_max: int) -> str:
        """Add one task, or do to the key's holder what the push says; whose id answers it."""
        wait = round(push["delay"] * 1000)
        expires = None if push["expires_in"] is None else now + round(push["expires_in"] * 1000)
        most = push["max_attempts"] or default_max
        held = self.holder(push["key"])
        if held is None:
            self.last_place += 1
            entry = Entry(
                id=new_id,
                payload=push["payload"],
                priority=push["priority"],
                place=self.last_place,
                group=push["group"],
                key=push["key"],
                max_attempts=most,
                enqueued=now,
                first_due=now + wait,
                expires=expires,
            )
            self.tasks[new_id] = entry
            self.put(entry, now, wait)
            self.totals["pushed"] += 1
            return new_id
        mode = push["on_duplicate"]
        if mode == "raise_priority" and held.state != DEAD:
            held.priority = max(held.priority, push["priority"])
        if mode in ("update", "rerun"):
            held.payload, held.priority = push["payload"], push["priority"]
            if held.state == DEAD:
                self.start_over(held, now)
                held.first_due, held.max_attempts, held.expires = now + wait, most, expires
                held.reason, held.error = "", None
                self.put(held, now, wait)
            elif held.state == INVISIBLE:
                if mode == "rerun":
                    held.rerun, held.max_attempts, held.expires = now + wait, most, expires
            else:
                self.redate(held, now, wait)
        return held.id

    def start_over(self, entry: Entry, now: int) -> None:
        """As a new task: nothing has been tried, and no old token is live."""
        entry.token = entry.attempts = entry.deliveries = entry.deferrals = 0
        entry.settled, entry.counted, entry.deferred, entry.rerun = None, False, False, None
        entry.enqueued = now

    def redate(self, entry: Entry, now: int, wait: int) -> None:
        """Due in `wait` ms instead; aging counts from the moment it was first due."""
        if now < entry.first_due:
            entry.first_due = now + wait
        self.put(entry, now, wait)

    # Taking and settling

    def pop(self, most: int, now: int, visibility: int) -> list[Entry]:
        """Lease the best of all that is due; tokens are filled in by the caller."""
        if self.paused_until > now:
            return []
        self.upkeep(now)
        taken: list[Entry] = []
        while len(taken) < most and (ready := self.in_state("ready")):
            entry = ready[0]
            if self.too_late(entry, now):
                self.bury(entry, now, "expired")
                continue
            entry.state, entry.until = INVISIBLE, now + visibility
            entry.deliveries += 1
            entry.settled, entry.counted, entry.deferred = None, False, False
            taken.append(entry)
        self.totals["popped"] += len(taken)
        return taken

    def fence(self, task_id: str, token: int, verb: str) -> str:
        """May this delivery act? "go", "done" (the same call once more) or "lost"."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.token != token or token == 0:
            return "lost"
        if entry.settled is not None and entry.settled == verb:
            return "done"
        return "lost" if entry.settled or entry.state == DEAD else "go"

    def ack(self, task_id: str, token: int, now: int) -> str:
        """ "done", "gone" or "lost"."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.token == 0:
            return "gone"
        if entry.token != token:
            return "lost"
        self.totals["acked"] += 1
        if entry.rerun is None:
            del self.tasks[task_id]
            return "done"
        wait = max(entry.rerun - now, 0)
        self.start_over(entry, now)
        self.last_place += 1
        entry.place, entry.first_due, entry.error = self.last_place, now + wait, None
        self.put(entry, now, wait)
        self.totals["pushed"] += 1
        return "done"

    def extend(self, entry: Entry, now: int, lease: int) -> None:
        """The lease now ends `lease` ms from now."""
        entry.state, entry.until = INVISIBLE, now + lease

    def set_visibility(self, entry: Entry, now: int, wait: int) -> None:
        """Hidden, uncounted; one deferral for each delivery."""
        if not entry.deferred:
            entry.deferred = True
            entry.deferrals += 1
            self.totals["deferred"] += 1
        self.put(entry, now, wait)

    def release(self, entry: Entry, now: int, wait: int, priority: Number | None) -> None:
        """Given back, uncounted, in its old place."""
        entry.settled = "release"
        if priority is not None:
            entry.priority = priority
        self.put(entry, now, wait)

    def fail(self, entry: Entry, now: int, wait: int, error: str | None) -> None:
        """One attempt is spent, unless the end of the lease has counted it."""
        if not entry.counted:
            entry.attempts, entry.counted = entry.attempts + 1, True
        entry.settled, entry.error = "fail", error
        self.totals["failed"] += 1
        if entry.attempts >= entry.max_attempts:
            self.bury(entry, now, "attempts spent")
        else:
            self.put(entry, now, wait)

    def give_up(self, entry: Entry, now: int, reason: str) -> None:
        """The holder buries it."""
        entry.settled = "bury"
        self.bury(entry, now, reason)

    # Changing

    def update(
        self, task_id: str, now: int, priority: Number | None, wait: int | None
    ) -> str | None:
        """Change in place; "missing" or "running" when that cannot be."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.state == DEAD:
            return "missing"
        if entry.state == INVISIBLE and wait is not None:
            return "running"
        if priority is not None:
            entry.priority = priority
        if wait is not None:
            self.redate(entry, now, wait)
        return None

    def cancel(self, task_id: str) -> bool:
        """Remove a live task."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.state == DEAD:
            return False
        del self.tasks[task_id]
        return True

    def purge(self, state: str | None) -> int:
        """Remove the tasks of one state, or all."""
        gone = list(self.tasks.values()) if state is None else self.in_state(state)
        for entry in gone:
            del self.tasks[entry.id]
        return len(gone)

    def replay(self, ids: list[str], now: int, spacing: float) -> int:
        """Dead tasks live again, one after the other."""
        done = 0
        for task_id in ids:
            entry = self.tasks.get(task_id)
            if entry is None or entry.state != DEAD:
                continue
            entry.attempts, entry.expires, entry.reason = 0, None, ""
            self.put(entry, now, int(done * spacing))
            done += 1
        self.totals["replayed"] += done
        return done
