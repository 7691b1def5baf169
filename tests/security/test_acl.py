"""The users of docs/security.md: each may do all that its role needs, and no more."""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import roles
from hypothesis import settings
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from roles import CALLS, ROLES, Stage, furnished
from typer.testing import CliRunner

import dpq
from dpq import DPQ
from dpq._keys import REGISTRY, key_of
from dpq.cli import app
from dpq.server import Server

PAGE = (Path(dpq.__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
LINES = re.findall(r"^ACL SETUSER (\S+) reset on >PASSWORD (.*)$", PAGE, re.MULTILINE)
NAMES = [name for name, _ in LINES]
TABLE = {
    cells[0].strip(" `"): [cell.strip() for cell in cells[1:]]
    for cells in (
        row.strip("|").split("|") for row in re.findall(r"^\| `.*\|$", PAGE, re.MULTILINE)
    )
    if cells[0].strip(" `") in CALLS
}

HARMLESS = {"info", "client|setinfo", "client"}
"""What redis-py and DPQ ask for, and do without."""

NOT_ALLOWED = r"permission|NOPERM|ACL failure|can't (run|access)|not allowed"
"""How the servers say it; inside of a script some do not send a NOPERM."""

SHOWN = ["dpq-plain-producer", "dpq-producer", "dpq-consumer", "dpq-scheduler", "dpq-overview"]
SHOWN += ["dpq-dashboard", "dpq-admin"]


def words_of(role: str, queue_name: str) -> list[str]:
    """The rules of a line, for another queue; a selector in brackets is one word."""
    rules = dict(LINES)[role].replace("emails", queue_name)
    return re.findall(r"\([^)]*\)|\S+", rules)


Login = Callable[..., Stage]


@pytest.fixture
def login(server: Server, redis: Redis, queue_name: str) -> Iterator[Login]:
    """Makes the user of a role, and logs in."""
    clients: list[Redis] = []

    def make(role: str, *more: str) -> Stage:
        words = words_of(role, queue_name)
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


def without_selectors(server: Server, role: str) -> None:
    if "(" in dict(LINES)[role] and server.binary.version.startswith("6."):
        pytest.skip("Redis 6.2 knows no selectors")


def denied(redis: Redis) -> set[str]:
    """What the server has refused since the last login, but for what nobody needs."""
    return {str(entry["object"]) for entry in redis.acl_log()} - HARMLESS


def test_the_page_has_a_line_for_each_role():
    """No line of the page goes untested."""
    assert sorted(NAMES) == sorted(ROLES)


@pytest.mark.parametrize("role", NAMES)
def test_enough(server, login, role):
    """A user of each line can do all that its role does, waits and workers included."""
    without_selectors(server, role)
    stage = login(role)
    stage.root.script_flush()  # what a client finds after a restart
    ROLES[role](stage)
    # a daemon that meets a queue between its making and its entry in the registry would enter it
    assert denied(stage.root) <= ({"sadd"} if role == "dpq-scheduler" else set())
    stage.owner().drop()


@pytest.mark.parametrize("role", NAMES)
def test_no_more_commands_than_needed(server, login, role, monkeypatch):
    """Each command of a line is needed: without it, something that the role does is refused."""
    if server.binary.version.startswith("6."):
        pytest.skip("one engine of each kind will do")
    slow = role in ("dpq-admin", "dpq-consumer", "dpq-scheduler") or "(" in dict(LINES)[role]
    if slow and settings.get_current_profile_name() != "soak":
        pytest.skip("slow: make soak-tests tries them")
    monkeypatch.setattr(roles, "PATIENCE_S", 0.5)
    stage = login(role)
    spare = []
    for word in words_of(role, stage.name):
        if word[0] == "+" and word != "+eval":
            login(role, f"-{word[1:]}")
            stage.owner().drop()
            stage.user.connection_pool.disconnect()
            try:
                ROLES[role](stage)
            except (ResponseError, AssertionError, ValueError):  # what it looks for is not there
                continue
            if not denied(stage.root):
                spare.append(word)
    assert spare == []
    stage.owner().drop()


SERVER_COMMANDS = [
    "FLUSHALL",
    "FLUSHDB",
    "KEYS *",
    "SCAN 0",
    "CONFIG GET *",
    "CONFIG SET maxmemory 1",
    "ACL LIST",
    "ACL SETUSER default on nopass ~* +@all",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "CLIENT PAUSE 1",
    "SCRIPT FLUSH",
    "SCRIPT KILL",
    "DEBUG SLEEP 0",
    "MONITOR",
    "SAVE",
    "REPLICAOF NO ONE",
    "SWAPDB 0 1",
    "PUBLISH a b",
    "GET {0}",
    "DEL {0}",
    "RENAME {0} x",
    "DUMP {0}",
    "EXPIRE {0} 1",
]


@pytest.mark.parametrize("role", NAMES)
def test_nothing_of_the_server(server, login, role):
    """No role may run a command of the server, or one that DPQ does not use, by hand or by EVAL."""
    without_selectors(server, role)
    stage = login(role)
    stage.owner().push(1)
    for line in SERVER_COMMANDS:
        words = line.format(key_of(stage.name, "meta")).split()
        with pytest.raises(ResponseError, match=NOT_ALLOWED):
            stage.user.execute_command(*words)
        text = ", ".join(f"'{word}'" for word in words)
        with pytest.raises(ResponseError):
            stage.user.eval(f"return redis.call({text})", 0)
    assert stage.root.ping()
    assert stage.owner().stats().ready == 1


@pytest.mark.parametrize("role", NAMES)
def test_no_other_keys(server, login, role):
    """No role touches keys that are not DPQ's; those for one queue touch no other queue's."""
    without_selectors(server, role)
    stage = login(role)
    other = stage.name + "-other"
    DPQ(stage.root, other).push("not yours")
    stage.root.hset("another-program", "a", 1)
    keys = ["another-program"]
    one_queue = "~dpq:*" not in dict(LINES)[role]
    if one_queue:
        keys += [key_of(other, "meta"), key_of(other, "payload")]
    for key in keys:
        for run in (
            functools.partial(stage.user.execute_command, "HGET", key, "a"),
            functools.partial(stage.user.execute_command, "HSET", key, "a", 2),
            functools.partial(stage.user.eval, "return redis.call('HGET', KEYS[1], 'a')", 1, key),
            functools.partial(stage.user.eval, f"return redis.call('HGET', '{key}', 'a')", 0),
        ):
            with pytest.raises(ResponseError, match=NOT_ALLOWED):
                run()
    if role not in ("dpq-admin",):
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
            lambda q: q.drop(),
        ):
            with pytest.raises(ResponseError, match=NOT_ALLOWED):
                call(DPQ(stage.user, other))
    assert DPQ(stage.root, other).peek()[0].payload == "not yours"
    assert stage.root.hget("another-program", "a") == b"1"
    stage.root.delete("another-program")


def matrix(login: Login) -> dict[str, list[str]]:
    """Which role may run which call."""
    found: dict[str, list[str]] = {}
    stages = [login(role) for role in SHOWN]
    for call, run in CALLS.items():
        found[call] = []
        for stage in stages:
            task = furnished(stage)
            try:
                run(stage.queue(), task)
            except ResponseError as error:
                found[call].append("-" if re.search(NOT_ALLOWED, str(error)) else str(error))
            else:
                found[call].append("yes")
    return found


def test_the_table_says_who_may_call_what(login):
    """The table of the page is what the server allows, call by call and role by role."""
    assert matrix(login) == TABLE


def test_looking_changes_nothing(server, login, redis, queue_name):
    """Whatever a dashboard's user runs, refused or not, what is stored stays the same."""
    for role in ("dpq-overview", "dpq-dashboard"):
        stage = login(role)
        task = furnished(stage)
        keys = sorted(redis.keys("*"))
        before = [redis.dump(key) for key in keys]
        for run in CALLS.values():
            try:
                run(stage.queue(), task)
            except ResponseError:
                continue
        with pytest.raises(ResponseError, match=NOT_ALLOWED):
            stage.user.hset(key_of(queue_name, "conf"), "paused_until", "inf")
        assert sorted(redis.keys("*")) == keys
        assert [redis.dump(key) for key in keys] == before


def test_a_blind_producer_reads_no_payload(server, login):
    """With selectors, a producer can push and not look."""
    without_selectors(server, "dpq-blind-producer")
    stage = login("dpq-blind-producer")
    id_ = stage.queue().push("secret")
    for look in (lambda q: q.get(id_), lambda q: q.peek(), lambda q: q.pop()):
        with pytest.raises(ResponseError, match=NOT_ALLOWED):
            look(stage.queue())
    for words in (("HGET", id_), ("HGETALL",), ("HMGET", id_), ("HSCAN", 0)):
        with pytest.raises(ResponseError, match=NOT_ALLOWED):
            stage.user.execute_command(words[0], key_of(stage.name, "payload"), *words[1:])
    assert stage.owner().pop().task.payload == "secret"


@pytest.mark.parametrize("role", ["dpq-consumer", "dpq-producer"])
def test_without_eval(server, redis, login, role):
    """A user without EVAL runs no script of its own; DPQ's must be loaded, by `dpq scripts`."""
    stage = login(role, "-eval")
    stage.owner().push(1)
    redis.script_flush()
    with pytest.raises(ResponseError, match=NOT_ALLOWED):
        stage.user.eval("return 1", 0)
    with stage.queue() as q, pytest.raises(NoPermissionError, match="eval"):
        q.push(2)
    result = CliRunner().invoke(app, ["--url", server.url, "scripts"])
    assert (result.exit_code, int(result.stdout) > 20) == (0, True)
    ROLES[role](stage)
    assert denied(redis) == {"eval"}
    stage.owner().drop()


def test_a_wrong_password_is_told_without_it(server, login, queue_name):
    """A login that fails is a clear error that shows no password."""
    stage = login("dpq-consumer")
    url = stage.url.replace("PASSWORD", "not-the-one")
    with DPQ.from_url(url, queue_name) as q, pytest.raises(AuthenticationError) as refused:
        q.pop()
    assert "not-the-one" not in str(refused.value)


HALF_DONE = {("dpq-plain-producer", "push(group)")}
"""Refused in the middle: the record of a task that was not accepted stays, in no state."""


def test_what_a_refused_call_leaves_behind(login):
    """What a script has written before it was refused breaks no invariant, but as the page says."""
    found = set()
    for role in SHOWN:
        stage = login(role)
        for call, run in CALLS.items():
            task = furnished(stage)
            try:
                run(stage.queue(), task)
            except ResponseError:
                with stage.owner() as owner:
                    if owner.check():
                        found.add((role, call))
    assert found == HALF_DONE
