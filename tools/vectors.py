"""Writes the conformance vectors of the protocol, from real runs: part of `make protocol`.

A vector is one call on a queue that calls before it have made. A file of `clients/vectors/` has the
vectors of one script:

    keys      the keys of each script, in the order of KEYS; the queue is named `vectors`
    vectors   name     the property that it shows
              before   the calls before: {"script": ..., "args": [...]}, or {"redis": [...]}, a
                       plain command that stands in for damage or another program
              call     the call as a person would say it: times in ms, priorities as text
              command  the script and its arguments as they are sent
              reply    the reply of the server: texts, numbers, lists; {"error": ...}
              result   the meaning of the reply for a caller

The clock is planted as ARGV[1], ids are given, and tokens follow the clock. So nothing differs from
run to run. `tests/contract/test_vectors.py` fails if a file is not what this program makes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import NoScriptError, ResponseError

from dpq.model.cost import write_cost
from dpq.model.errors import DPQError, DuplicateTaskError, LeaseLostError, QueueFullError
from dpq.model.payload import codec_of
from dpq.model.priority import decode_priority, encode_priority
from dpq.model.task import Push, Task
from dpq.operations.description import Description
from dpq.operations.pushing import PushChecker
from dpq.operations.settings import agree
from dpq.protocol import replies
from dpq.protocol.command import Command, parsed, same
from dpq.protocol.keys import STORAGE_FORMAT, key_of
from dpq.protocol.packing import script_call
from dpq.protocol.scripts import script
from dpq.server import Server

FOLDER = Path(__file__).resolve().parent.parent / "clients" / "vectors"

NAME = "vectors"
"""The name of the queue in all files."""

START_MS = 1_700_000_000_000
"""The planted clock of the first call of each vector."""

LEASE_MS = 30_000

JsonObject = dict[str, Any]


class Call(NamedTuple):
    """One call of a script.

    Attributes:
        verb: The name of the script; "redis" for a plain command.
        at: ms since `START_MS`.
        says: The arguments, as the field `call` of a vector has them.
    """

    verb: str
    at: int
    says: JsonObject


class Vector(NamedTuple):
    """A named call, and the calls before it."""

    name: str
    before: list[Call]
    call: Call


def token(at: int, number: int = 1) -> str:
    """Return the token of the task with this number of a pop at `at` ms."""
    return str((START_MS + at) * 1000 + number)


# The calls


def configure(create: str = "1", at: int = 0, **settings: str) -> Call:
    """Make the call that creates the queue."""
    return Call("configure", at, {"create": create, "settings": settings})


def push(task_id: str, payload: Any = "x", priority: str = "0", at: int = 0, **more: Any) -> Call:
    """Make the call that adds one task."""
    return Call("push", at, {"id": task_id, "payload": payload, "priority": priority, **more})


def pop(most: int = 1, at: int = 0, visibility_ms: int = LEASE_MS, **more: Any) -> Call:
    """Make the call that takes tasks."""
    return Call("pop", at, {"most": most, "visibility_ms": visibility_ms, **more})


def ack(*tasks: tuple[str, str], at: int = 1000) -> Call:
    """Make the call that finishes tasks, each by its id and its token."""
    return Call("ack", at, {"tasks": [list(each) for each in tasks]})


def fail(task_id: str, its: str, delay_ms: int = 2000, error: str = "", at: int = 1000) -> Call:
    """Make the call that counts a failed attempt."""
    return Call("fail", at, {"id": task_id, "token": its, "delay_ms": delay_ms, "error": error})


def bury(task_id: str, its: str, reason: str, at: int = 1000) -> Call:
    """Make the call that gives a task up."""
    return Call("bury", at, {"id": task_id, "token": its, "reason": reason})


def limited(task_id: str, its: str, ms: int = 60_000, at: int = 1000, **more: Any) -> Call:
    """Make the call after a 429."""
    says = {"id": task_id, "token": its, "retry_after_ms": ms, "scope": "group", **more}
    return Call("rate_limited", at, says)


def extend(task_id: str, its: str, ms: int = 60_000, at: int = 1000) -> Call:
    """Make the call that sets a new end of a lease."""
    return Call("extend", at, {"id": task_id, "token": its, "ms": ms})


def other(verb: str, *args: str | int, at: int = 0) -> Call:
    """Make a call of a script that only prepares a queue; `args` stand behind the time."""
    return Call(verb, at, {"args": list(args)})


def plain(*words: str) -> Call:
    """Make a plain command; PART stands for the key of a part of the queue."""
    return Call("redis", 0, {"words": list(words)})


MADE = [configure()]
ONE = [*MADE, push("A")]
TAKEN = [*ONE, pop()]
LIVE = ("A", token(0))
LIMIT = other("set_limit", "group:g", "0|1 60000 1", 0, "set", 0, "", "")
DELAYED = push("A", delay_ms=2000)
IN_GROUP = [*MADE, push("A", group="g"), push("B", group="g"), push("C", group="other")]

VECTORS: dict[str, list[Vector]] = {
    "configure": [
        Vector("a new queue gets its format", [], configure()),
        Vector("a setting is stored", [], configure(order="lifo")),
        Vector("a client that names no setting follows", [configure(order="lifo")], configure()),
        Vector(
            "a setting that contradicts changes nothing",
            [configure(order="lifo")],
            configure(order="fifo"),
        ),
        Vector("lost settings come back", [*ONE, plain("DEL", "conf")], configure("2")),
    ],
    "push": [
        Vector("without a queue nothing is stored", [], push("A")),
        Vector("a plain task", MADE, push("A", {"body": "hello"}, "17")),
        Vector("a negative priority has a positive score", MADE, push("A", "x", "-3")),
        Vector("a payload in UTF-8", MADE, push("A", {"grüße": "日本 🎉"}, "1")),
        Vector("a payload of null", MADE, push("A", None)),
        Vector("a payload over 512 bytes makes no plain task", MADE, push("A", "y" * 600)),
        Vector("2^53 is exact", MADE, push("A", "x", str(2**53))),
        Vector("2^53 + 1 is better than its double", MADE, push("A", "x", str(2**53 + 1))),
        Vector("2^63 - 1 is worse than its double", MADE, push("A", "x", str(2**63 - 1))),
        Vector("-2^63 is exact", MADE, push("A", "x", str(-(2**63)))),
        Vector("a nanosecond", MADE, push("A", "x", "1764193252123456789")),
        Vector("a float", MADE, push("A", "x", "2.5")),
        Vector("a large float keeps its type", MADE, push("A", "x", "1e+16")),
        Vector("a delay", MADE, push("A", delay_ms=2000)),
        Vector("a group stands in a plain task", MADE, push("A", group="example.com")),
        Vector("max_attempts stands in a plain task", MADE, push("A", max_attempts=3)),
        Vector("no bound of attempts", MADE, push("A", max_attempts=None)),
        Vector("a key", MADE, push("A", key="page/1")),
        Vector("a cost in requests", MADE, push("A", cost={"": 2})),
        Vector("a cost in units", MADE, push("A", cost={"": 1, "usd": 9, "tokens": 1800})),
        Vector("a time to start within", MADE, push("A", expires_in_ms=60_000)),
        Vector("the same id again is not added twice", ONE, push("A")),
        Vector("a holder of the key is kept", [*MADE, push("A", key="k")], push("B", key="k")),
        Vector(
            "a holder of the key gets the better priority",
            [*MADE, push("A", key="k")],
            push("B", "y", "5", key="k", on_duplicate="raise_priority"),
        ),
        Vector(
            "a holder of the key is updated",
            [*MADE, push("A", key="k")],
            push("B", "new", "5", key="k", on_duplicate="update"),
        ),
        Vector(
            "a taken key is an error",
            [*MADE, push("A", key="k")],
            push("B", key="k", on_duplicate="error"),
        ),
        Vector(
            "a holder of the key in another group",
            [*MADE, push("A", key="k", group="g")],
            push("B", key="k", group="h"),
        ),
        Vector("a full queue", [*ONE, configure("3", max_tasks="1")], push("B")),
        Vector("another storage format", [*ONE, plain("HSET", "conf", "format", "04")], push("B")),
        Vector(
            "another number of partitions", [configure(partition_count="4")], push("A", key="k")
        ),
        Vector("an option that no script knows", MADE, push("A", unknown={"colour": "red"})),
        Vector("a name that is too long", MADE, push("A", unknown={"group": "g" * 201})),
    ],
    "pop": [
        Vector("no queue", [], pop()),
        Vector("an empty queue", MADE, pop()),
        Vector("a plain task", [*MADE, push("A", {"body": "hello"}, "17")], pop(at=500)),
        Vector("a payload in UTF-8", [*MADE, push("A", {"grüße": "日本 🎉"}, "1")], pop()),
        Vector("a long payload", [*MADE, push("A", "y" * 600)], pop()),
        Vector(
            "the best first, exactly, then the oldest",
            [
                *MADE,
                push("A", 1, str(2**53)),
                push("B", 2, str(2**53 + 1)),
                push("C", 3, "9007199254740992.0"),
                push("D", 4, str(2**63 - 1)),
                push("E", 5, "-0.5"),
                push("F", 6, "0"),
                push("G", 7, str(-(2**63))),
            ],
            pop(7),
        ),
        Vector("no more tasks than are ready", [*ONE, push("B", delay_ms=5000)], pop(5)),
        Vector("a task is due later", [*MADE, push("A", delay_ms=2000)], pop(at=500)),
        Vector("a delayed task is due", [*MADE, push("A", delay_ms=2000)], pop(at=2000)),
        Vector("a lease holds the only task", TAKEN, pop(at=1000)),
        Vector("a lease ran out, and counted", TAKEN, pop(at=LEASE_MS)),
        Vector(
            "a lease ran out, and was the last attempt",
            [*MADE, push("A", max_attempts=1), pop()],
            pop(at=LEASE_MS),
        ),
        Vector(
            "more is due than one step moves",
            [*MADE, push("A", delay_ms=1000), push("B", delay_ms=1000)],
            pop(at=1000, batch=1),
        ),
        Vector("a paused queue", [*ONE, other("pause", "inf", "")], pop()),
        Vector("a queue that is paused for a time", [*ONE, other("pause", 5000, "")], pop(at=1)),
        Vector(
            "one limit holds its group, and hides no other",
            [*IN_GROUP, LIMIT, pop()],
            pop(5, at=1000),
        ),
        Vector(
            "a limit holds all that is left",
            [*MADE, push("A", group="g"), push("B", group="g"), LIMIT, pop()],
            pop(at=1000),
        ),
        Vector(
            "the limit grants the next unit",
            [*MADE, push("A", group="g"), push("B", group="g"), LIMIT, pop(), ack(LIVE)],
            pop(at=60_000),
        ),
        Vector(
            "a full record: key, cost, float, its own lease, the last error",
            [
                *MADE,
                push(
                    "A",
                    [1],
                    "2.5",
                    key="k",
                    group="g",
                    cost={"": 2, "tokens": 9},
                    visibility_ms=90_000,
                    max_attempts=4,
                    backoff_ms=[1000, 5000],
                ),
                pop(),
                fail("A", token(0), error="no route: ü", delay_ms=0),
            ],
            pop(at=2000),
        ),
        Vector(
            "no marker has the moment: the waiter watches it",
            [*ONE, other("pause", 5000, "")],
            pop(waiter="-"),
        ),
        Vector(
            "a marker has the moment: the waiter looks later, in case its taker is dead",
            [*MADE, DELAYED],
            pop(at=500, waiter="-"),
        ),
        Vector(
            "both moments have their waiters: this one waits for a marker",
            [*MADE, DELAYED, pop(at=500, waiter="-")],
            pop(at=600, waiter="-"),
        ),
        Vector(
            "a waiter comes at its moment",
            [*MADE, DELAYED, pop(at=500, waiter="-")],
            pop(at=2000, waiter=f"{START_MS + 2000}.000"),
        ),
        Vector("a task without a bound of attempts", [*MADE, push("A", max_attempts=None)], pop()),
        Vector("the settings are lost", [*ONE, plain("DEL", "conf")], pop()),
        Vector("another storage format", [*ONE, plain("HSET", "conf", "format", "04")], pop()),
        Vector("another number of partitions", [configure(partition_count="4")], pop()),
        Vector(
            "a family with another queue",
            [*ONE, plain("HSET", "conf", "family", "CONF\nOTHER_CONF")],
            pop(),
        ),
    ],
    "ack": [
        Vector("a task is finished", TAKEN, ack(LIVE)),
        Vector("the second ack finds it gone", [*TAKEN, ack(LIVE)], ack(LIVE)),
        Vector("another delivery has it", [*TAKEN, pop(at=LEASE_MS)], ack(LIVE, at=LEASE_MS + 1)),
        Vector("a late ack is good", TAKEN, ack(LIVE, at=LEASE_MS + 1)),
        Vector(
            "each task by itself",
            [*TAKEN, pop(at=LEASE_MS), push("B", at=LEASE_MS), pop(at=LEASE_MS)],
            ack(("A", token(0)), ("B", token(LEASE_MS, 2)), ("Z", "5"), at=LEASE_MS + 1),
        ),
        Vector("a dead letter", [*TAKEN, bury(*LIVE, "broken")], ack(LIVE, at=2000)),
        Vector("a recurring task", [*MADE, push("A", every_ms=60_000), pop()], ack(LIVE)),
        Vector(
            "a cron task wants the next times",
            [*MADE, push("A", cron="0 * * * * UTC", first=START_MS), pop()],
            ack(LIVE),
        ),
        Vector(
            "a cron task with the next times",
            [*MADE, push("A", cron="0 * * * * UTC", first=START_MS), pop()],
            ack(("A", f"{token(0)}\t0 * * * * UTC\t{START_MS} {START_MS + 3_600_000}")),
        ),
    ],
    "fail": [
        Vector("a task comes back later", TAKEN, fail(*LIVE, error="no route: ü")),
        Vector("the same call again", [*TAKEN, fail(*LIVE)], fail(*LIVE, at=1500)),
        Vector(
            "attempts are spent",
            [*MADE, push("A", max_attempts=1), pop()],
            fail(*LIVE, error="no route"),
        ),
        Vector("another verb has ended it", [*TAKEN, bury(*LIVE, "broken")], fail(*LIVE, at=2000)),
        Vector("another delivery has it", [*TAKEN, pop(at=LEASE_MS)], fail(*LIVE, at=LEASE_MS + 1)),
        Vector("it was cancelled", [*TAKEN, other("cancel", "A", "", "1")], fail(*LIVE)),
    ],
    "bury": [
        Vector("a dead letter", TAKEN, bury(*LIVE, "broken page")),
        Vector("the same call again", [*TAKEN, bury(*LIVE, "broken")], bury(*LIVE, "broken")),
        Vector("another delivery has it", [*TAKEN, pop(at=LEASE_MS)], bury(*LIVE, "x", LEASE_MS)),
    ],
    "rate_limited": [
        Vector("the group closes", [*IN_GROUP, pop()], limited("A", token(0))),
        Vector("the queue closes", [*IN_GROUP, pop()], limited("A", token(0), scope="queue")),
        Vector("only this task waits", TAKEN, limited(*LIVE, scope="task")),
        Vector("a 503 that names a time", TAKEN, limited(*LIVE, status="503")),
        Vector(
            "the same call again",
            [*IN_GROUP, pop(), limited("A", token(0))],
            limited("A", token(0), at=1500),
        ),
        Vector(
            "another delivery has it", [*TAKEN, pop(at=LEASE_MS)], limited(*LIVE, at=LEASE_MS + 1)
        ),
    ],
    "rate_limited_after": [
        Vector(
            "a closed group hides no other task",
            [*IN_GROUP, pop(), limited("A", token(0))],
            pop(5, at=2000),
        ),
        Vector(
            "a closed group says when it opens",
            [*MADE, push("A", group="g"), pop(), limited("A", token(0))],
            pop(at=2000),
        ),
        Vector(
            "a closed queue says when it opens",
            [*IN_GROUP, pop(), limited("A", token(0), scope="queue")],
            pop(at=2000),
        ),
        Vector(
            "after the closing one task is the probe",
            [*IN_GROUP, pop(), limited("A", token(0))],
            pop(5, at=61_000),
        ),
        Vector(
            "a probe that was acked opens the group",
            [
                *MADE,
                push("A", group="g"),
                push("B", group="g"),
                pop(),
                limited("A", token(0)),
                pop(5, at=61_000),
                ack(("A", token(61_000)), at=62_000),
            ],
            pop(5, at=62_000),
        ),
    ],
    "extend": [
        Vector("a lease ends later", TAKEN, extend(*LIVE)),
        Vector("a lease that ran out is held again", TAKEN, extend(*LIVE, at=LEASE_MS + 1)),
        Vector("another delivery has it", [*TAKEN, pop(at=LEASE_MS)], extend(*LIVE, at=LEASE_MS)),
        Vector("an ended delivery", [*TAKEN, fail(*LIVE)], extend(*LIVE, at=1500)),
        Vector("it was cancelled", [*TAKEN, other("cancel", "A", "", "1")], extend(*LIVE)),
    ],
}


# From a call to its command


def _times(says: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in ("delay", "expires_in", "visibility", "every"):
        if f"{name}_ms" in says:
            yield name, says[f"{name}_ms"] / 1000


def _pushed(says: Mapping[str, Any]) -> list[Any]:
    """Write one task as DPQ itself does."""
    more = {name: says[name] for name in ("group", "key", "on_duplicate", "cost") if name in says}
    if "max_attempts" in says:
        more["max_attempts"] = says["max_attempts"] or float("inf")
    if "backoff_ms" in says:
        more["backoff"] = [ms / 1000 for ms in says["backoff_ms"]]
    priority = decode_priority(says["priority"])
    checker: PushChecker[Any] = PushChecker(Description(NAME))
    spec, body = checker.check(Push(says["payload"], priority, **more, **dict(_times(says))))
    by_hand = says.get("unknown", {}) | {n: says[n] for n in ("cron", "first") if n in says}
    if by_hand:
        spec = {"priority": says["priority"], **by_hand}  # type: ignore[typeddict-item]
        body = checker.check(Push(says["payload"], key="k"))[1]
    text = spec if isinstance(spec, str) else json.dumps(spec, separators=(",", ":"))
    return [says["id"], text, body.decode()]


WRITERS: dict[str, Callable[[JsonObject], list[Any]]] = {
    "configure": lambda says: [
        STORAGE_FORMAT,
        says["create"],
        *(text for pair in says["settings"].items() for text in pair),
    ],
    "push": _pushed,
    "pop": lambda says: [
        says["most"], says["visibility_ms"], 4 * 1024 * 1024,
        says.get("batch", 100), says.get("waiter", ""), "1",
    ],
    "ack": lambda says: [text for pair in says["tasks"] for text in pair],
    "fail": lambda says: [says["id"], says["token"], says["delay_ms"], says["error"]],
    "bury": lambda says: [says["id"], says["token"], says["reason"]],
    "rate_limited": lambda says: [
        says["id"], says["token"], says["retry_after_ms"], says["scope"],
        *(["", says["status"]] if "status" in says else []),
    ],
    "extend": lambda says: [says["id"], says["token"], says["ms"]],
}  # fmt: skip


def arguments(call: Call) -> list[str]:
    """Write the arguments of a call, the planted clock first."""
    write = WRITERS.get(call.verb, lambda says: says["args"])
    return [str(START_MS + call.at), *map(str, write(call.says))]


# From a reply to its meaning


def _task(task: Task[Any]) -> JsonObject:
    most = task.max_attempts
    return {
        "id": task.id,
        "payload": task.payload,
        "priority": encode_priority(task.priority)[0],
        "group": task.group,
        "key": task.key,
        "attempt": task.attempt,
        "max_attempts": None if most == float("inf") else most,
        "deliveries": task.deliveries,
        "deferrals": task.deferrals,
        "cost": str(write_cost({"": task.cost, **(task.costs or {})})),
        "enqueued_at_ms": round(task.enqueued_at.timestamp() * 1000),
        "visible_until_ms": round(task.visible_until.timestamp() * 1000)
        if task.visible_until
        else None,
        "last_error": task.last_error,
        "token": str(task.token),
    }


def _popped(says: JsonObject, reply: list[Any]) -> JsonObject:
    batch = replies.read_batch(codec_of(Any, 1000), reply, says["visibility_ms"])
    if batch.again or batch.joined or batch.lost:
        return {"again": batch.again, "joined": batch.joined, "lost": batch.lost}
    if batch.tasks:
        return {"tasks": [_task(task) for task in batch.tasks]}
    return {"tasks": [], "wait_ms": batch.next_event_ms, "recheck_ms": batch.recheck_ms}


def _ids(says: JsonObject, reply: list[Any]) -> JsonObject:
    ids = [says["id"]]
    if replies.read_ids(NAME, ids, {0: says.get("key", "")}, reply):
        return {"missing": True}
    return {"id": ids[0]}


def _acked(says: JsonObject, reply: list[Any]) -> JsonObject:
    codes = replies.read_codes([task_id for task_id, _ in says["tasks"]], reply)
    texts = {replies.DONE: "done", 0: "gone", -1: "lost"}
    return {"tasks": [texts[code] if isinstance(code, int) else "later" for code in codes]}


def _ended(says: JsonObject, reply: Any) -> JsonObject:
    code = replies.read_lease("call", says["id"])(reply)
    return {"done": bool(code)}


READERS: dict[str, Callable[[JsonObject, Any], Any]] = {
    "configure": lambda says, reply: agree(NAME, says["settings"], reply),
    "push": _ids,
    "pop": _popped,
    "ack": _acked,
    "fail": _ended,
    "bury": _ended,
    "rate_limited": _ended,
    "extend": lambda says, reply: {"until_ms": replies.read_lease("", says["id"])(reply[0])},
}


def meaning(call: Call, keys: tuple[str, ...], reply: Any) -> JsonObject:
    """Read a reply as DPQ itself does."""
    if isinstance(reply, ResponseError):
        return {"error": "ResponseError"}
    command = Command(script(call.verb), keys, (), lambda raw: READERS[call.verb](call.says, raw))
    try:
        found: JsonObject = parsed(command, reply)
    except LeaseLostError as error:
        return {"error": "LeaseLostError", "cancelled": error.cancelled}
    except DuplicateTaskError as error:
        return {"error": "DuplicateTaskError", "key": error.key, "id": error.task_id}
    except QueueFullError as error:
        told = {"size": error.size, "bound": error.bound, "group": error.group}
        return {"error": "QueueFullError", **told}
    except DPQError as error:
        return {"error": type(error).__name__}
    return found


# Running


def as_json(reply: Any) -> Any:
    """Write a reply as a file has it."""
    if isinstance(reply, ResponseError):
        return {"error": str(reply).removeprefix("ERR ")}
    if isinstance(reply, list):
        return [as_json(each) for each in reply]
    return reply.decode() if isinstance(reply, bytes) else reply


def send(redis: Redis, name: str, verb: str, args: list[str]) -> Any:
    """Call a script by its hash, as a client does; return the reply, or the server's error."""
    called = script(verb)
    command = Command(called, tuple(key_of(name, part) for part in called.parts), args, same)
    try:
        try:
            return redis.execute_command(*script_call(command, as_text=False))
        except NoScriptError:
            return redis.execute_command(*script_call(command, as_text=True))
    except ResponseError as error:
        return error


def _plain(name: str, words: list[str]) -> list[str]:
    """Write a plain command: the part of a queue becomes its key."""
    named = {"CONF\nOTHER_CONF": "\n".join([key_of(name, "conf"), f"dpq:{{{name}}}b:conf"])}
    command, part, *rest = words
    return [command, key_of(name, part), *(named.get(word, word) for word in rest)]


def run(redis: Redis, name: str, vector: Vector) -> JsonObject:
    """Run a vector on an empty queue; return it as its file has it."""
    before: list[JsonObject] = []
    for each in vector.before:
        if each.verb == "redis":
            words = _plain(name, each.says["words"])
            redis.execute_command(*words)
            before.append({"redis": words})
        else:
            reply = send(redis, name, each.verb, arguments(each))
            if isinstance(reply, ResponseError):
                raise reply
            before.append({"script": each.verb, "args": arguments(each)})
    call = vector.call
    args = arguments(call)
    reply = send(redis, name, call.verb, args)
    keys = tuple(key_of(name, part) for part in script(call.verb).parts)
    says = {"verb": call.verb, "at_ms": START_MS + call.at, **call.says}
    return {
        "name": vector.name,
        "before": before,
        "call": says,
        "command": {"script": call.verb, "args": args},
        "reply": as_json(reply),
        "result": meaning(call, keys, reply),
    }


def drop(redis: Redis, name: str) -> None:
    """Remove all keys of a queue."""
    redis.delete(*(key_of(name, part) for part in script("drop").parts))


def made(redis: Redis, file: str, name: str) -> str:
    """Run all vectors of a file on a server; return the text of the file.

    Args:
        redis: A client of the server.
        file: The name of the file, without its ending.
        name: The name of a queue that is not stored. It is removed after each vector.
    """
    found = []
    for vector in VECTORS[file]:
        try:
            found.append(run(redis, name, vector))
        finally:
            drop(redis, name)
    scripts = {
        each["script"] for v in found for each in [*v["before"], v["command"]] if "script" in each
    }
    keys = {each: [key_of(name, part) for part in script(each).parts] for each in sorted(scripts)}
    text = _layout({"format": STORAGE_FORMAT, "keys": keys, "vectors": found})
    return text.replace(f"{{{name}}}", f"{{{NAME}}}")


def _layout(data: JsonObject) -> str:
    """Write JSON that a person can read: a line for each call and each reply."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    keys = ",\n".join(f"    {line(name)}: {line(of)}" for name, of in data["keys"].items())
    vectors = []
    for each in data["vectors"]:
        before = ",\n".join(f"        {line(call)}" for call in each["before"])
        rows = [f'      "name": {line(each["name"])}']
        rows.append(f'      "before": [\n{before}\n      ]' if before else '      "before": []')
        rows += [
            f"      {line(k)}: {line(each[k])}" for k in ("call", "command", "reply", "result")
        ]
        vectors.append("    {\n" + ",\n".join(rows) + "\n    }")
    return (
        f'{{\n  "format": {line(data["format"])},\n  "keys": {{\n{keys}\n  }},\n  "vectors": [\n'
        + ",\n".join(vectors) + "\n  ]\n}\n"
    )  # fmt: skip


def main() -> None:
    """Write all files, on a server that is started for that."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Server.start() as server, Redis.from_url(server.url) as redis:
        for file in VECTORS:
            (FOLDER / f"{file}.json").write_text(made(redis, file, NAME), encoding="utf-8")


if __name__ == "__main__":
    main()
