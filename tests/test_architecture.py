"""What keeps DPQ readable: import direction, the scripts' contracts and keys, the wheel.

Source: docs/design.md, "Rooms".
"""

import ast
import inspect
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import lupa.lua51
import pytest
from hatchling.builders.wheel import WheelBuilder
from kit.each import each
from kit.workers import note_calls

import dpq.types
from dpq import DPQ, NO_RESULT, Push, Task, TaskState
from dpq.model.filter import Filter
from dpq.model.producer import Producer
from dpq.queue.admin import Admin
from dpq.registry.all_queues import Sieve, glance
from dpq.script.assembly import needs_of, script, script_names
from dpq.script.keys import PARTS
from dpq.types import WorkerInfo

PACKAGE = Path(dpq.__file__).parent
ROOT = PACKAGE.parent
SCRIPTS = script_names()
LUA = PACKAGE / "script" / "lua"
LUA_FILES = sorted(LUA.rglob("*.lua"))
SHARED = [path for path in LUA_FILES if path.parent != LUA]

# Imports point one way

ROOMS = [
    {"model"},
    {"limits"},
    {"script"},
    {"server"},
    {"verbs", "link"},
    {"explain"},
    {"queue"},
    {"worker", "registry", "http"},
    {"scheduler", "tasks", "testing", "httpx", "httpx2", "requests", "aiohttp", "scrapy"},
    {"", "types"},  # dpq itself: the public names
    {"views", "batch"},
    {"metrics"},
    {"web", "otel", "fastapi", "django"},
    {"cli"},
    {"__main__", "demo", "pytest_plugin"},
]
"""A room imports from those above it in this list, and from itself."""

RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
WITHOUT_IO = ("model", "limits", "script", "verbs", "explain")
MODULES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """The name below `dpq`: "" for the package, "cli.look" inside of another one."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, *, for_types: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that one imports when it runs, or for its types, too."""
    tree = tree_of(path)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ["dpq", *path.relative_to(PACKAGE).parts[:-1]]
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                as_path = ROOT.joinpath(*base.split("."), alias.name)
                is_module = as_path.is_dir() or as_path.with_suffix(".py").exists()
                yield node.lineno, f"{base}.{alias.name}" if is_module else base


def room(name: str) -> str:
    return name.split(".")[0]


@each("path", MODULES)
def test_imports_point_to_the_rooms_below(path):
    """A module imports from its own room and from rooms below, and no other room's `_name`."""
    name = module_name(path)
    assert room(name) in RANK, f"{name} is in no room: see ROOMS and docs/design.md"
    for line, imported in imports(path):
        if imported.split(".")[0] == "dpq":
            target = room(imported.removeprefix("dpq").removeprefix("."))
            own = target == room(name)
            assert own or RANK[target] < RANK[room(name)], f"{path}:{line} imports {imported}"
            assert own or not re.search(r"\._[a-z]", imported), f"{path}:{line}: {imported}"


QUEUES = r"(.*\.)?(queue|queues\[.*\]|q)"


UNDOCUMENTED = re.compile(
    r"nodes_manager|NEVER_DECODE|maint_notifications|redis\._|"
    r"connection\._(?:sock|writer|reader|parser)\b"
)
"""Names of redis-py that it does not document."""


def test_undocumented_names_of_redis_py_stand_in_one_file():
    """So a new redis-py asks for a look at dpq/link/internals.py only."""
    kernel = [path for room in ("link", "queue") for path in (PACKAGE / room).glob("*.py")]
    found = [path.name for path in kernel if UNDOCUMENTED.search(path.read_text(encoding="utf-8"))]
    assert found == ["internals.py"]


@each("path", [path for path in MODULES if room(module_name(path)) != "queue"])
def test_of_a_queue_other_rooms_use_no_private_name(path):
    """They ask for its session, operations and leases by the functions of queue/inside.py."""
    used = {
        node.attr
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and re.match("_[a-z]", node.attr)
        and re.fullmatch(QUEUES, ast.unparse(node.value))
    }
    assert used == set()


def ways_down(*, for_types: bool = False) -> dict[str, set[str]]:
    """Which modules of DPQ each one imports."""
    return {
        module_name(path): {
            name.removeprefix("dpq").removeprefix(".")
            for _, name in imports(path, for_types=for_types)
            if name.split(".")[0] == "dpq" and name.removeprefix("dpq") != module_name(path)
        }
        for path in MODULES
    }


def longest(ways: dict[str, set[str]]) -> dict[str, int]:
    """Modules on the longest way down from each.

    Raises:
        graphlib.CycleError: A way leads back to a module that it has passed.
    """
    found: dict[str, int] = {}
    for name in TopologicalSorter(ways).static_order():
        found[name] = 1 + max((found[below] for below in ways[name]), default=0)
    return found


def test_no_way_is_long_and_none_is_a_circle():
    """From a worker down to what imports nothing a reader passes at most 14 modules."""
    ways = longest(ways_down())
    assert ways["worker.worker"] <= 14
    assert ways["worker.worker_async"] <= 14


def test_there_is_no_circle_for_types_either():
    """No two modules know each other's names."""
    longest(ways_down(for_types=True))


@each("path", [p for p in MODULES if p.parent.name in WITHOUT_IO])
def test_no_io(path):
    """What is below link cannot reach a server, wait, or look at a clock."""
    found = {imported.split(".")[0] for _, imported in imports(path)}
    banned = {"redis", "asyncio", "threading", "time", "os", "socket", "subprocess"}
    if path.stem == "task_ids":  # which sort by time for the eye: nothing depends on it
        banned -= {"time", "threading", "os"}  # one counter for all threads, another after a fork
    assert not found & banned


# The contract on top of every script


class Contract(NamedTuple):
    title: str
    keys: list[str]
    args: list[str]
    open_end: bool  # the last argument repeats
    prose: str


def header_of(name: str) -> Contract:
    """The header of a script, parsed; any line that does not fit fails."""
    lines = []
    for line in (LUA / f"{name}.lua").read_text().splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].strip())
    args: list[str] = []
    open_end = False
    for line in lines:
        slot = re.match(r"ARGV\[(\d+)(\.\.)?\] +(\w+)?", line)
        if slot:
            number, dots, label = slot.groups()
            assert int(number) == len(args) + 1, f"{name}: {line}"
            assert not open_end, f"{name}: a slot after an open end: {line}"
            args.append(label or "")
            open_end = bool(dots)
    prose = "\n".join(lines)
    keys = re.findall(r"^Keys: ((?:[a-z_]+\s+)+)(?=ARGV|$)", f"{prose}\n", re.MULTILINE)
    assert len(keys) == 1, name
    return Contract(lines[0], keys[0].split(), args, open_end, prose)


@each("name", SCRIPTS)
def test_header(name):
    """A header has a title, numbered slots, what it returns, and what a lost reply does."""
    contract = header_of(name)
    assert re.match(rf"{name}: \w.*\S", contract.title)
    assert set(contract.keys) <= {*PARTS, "queues", "queues_tick"}
    assert contract.keys
    assert re.search(r"^Returns \S", contract.prose, re.MULTILINE)
    assert re.search(r"^Lost reply: \S", contract.prose, re.MULTILINE)


@each("name", SCRIPTS)
def test_slots_are_used(name):
    """A script reads each key and each argument by its name in the header."""
    contract = header_of(name)
    code = "\n".join(script(name).text.splitlines()[1 + bool(contract.args) :])
    assert not re.search(r"\bARGV\b", code)
    args = [*contract.args[:-1], "args"] if contract.open_end else contract.args
    assert [each for each in contract.keys + args if not re.search(rf"\b{each}\b", code)] == []


@each("path", LUA_FILES)
def test_short(path):
    """No Lua file has more than 100 lines of code; those over 60, the aim, are printed."""
    lines = path.read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith("--")]
    if len(code) > 60:
        print(f"{path.name}: {len(code)} lines of code")
    assert len(code) <= 100


@each("path", LUA_FILES)
def test_begins_with_its_name(path):
    """A file says at once what it is; a line is at most 120 characters, without tabs or CR."""
    text = path.read_text()
    assert text.startswith(f"-- {path.stem}: ")
    assert max(map(len, text.splitlines())) <= 120
    assert "\t" not in text
    assert "\r" not in text


# What the Lua may do, by its compiled form


class Function(NamedTuple):
    reads: set[str]
    writes: set[str]
    scopes: list[tuple[str, int, int]]  # a local and the instructions in which it lives
    code: tuple[int, ...]
    constants: tuple[str, ...]


class Bytecode:
    """Reads the functions of a compiled Lua 5.1 chunk, which knows exactly what is global."""

    def __init__(self, code: str) -> None:
        runtime = lupa.lua51.LuaRuntime(encoding=None)
        dump = runtime.eval(b"function(code) return string.dump(assert(loadstring(code))) end")
        self.data = bytes(dump(code.encode()))
        self.at = 12  # behind the header
        self.size_t = self.data[8]
        self.functions: list[Function] = []
        self._function()

    def _int(self, size: int = 4) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def _text(self) -> str:
        size = self._int(self.size_t)
        self.at += size
        return self.data[self.at - size : self.at - 1].decode() if size else ""

    def _constant(self) -> str:
        kind = self._int(1)
        if kind == 4:
            return self._text()
        self.at += {0: 0, 1: 1, 3: 8}[kind]
        return ""

    def _function(self) -> None:
        self._text()
        self.at += 8 + 4
        code = [self._int() for _ in range(self._int())]
        constants = [self._constant() for _ in range(self._int())]
        for _ in range(self._int()):
            self._function()
        lines = self._int()
        self.at += 4 * lines
        scopes = [(self._text(), self._int(), self._int()) for _ in range(self._int())]
        for _ in range(self._int()):
            self._text()
        get, put = 5, 7  # GETGLOBAL and SETGLOBAL
        names = {
            op: {constants[word >> 14] for word in code if word & 63 == op} for op in (get, put)
        }
        self.functions.append(
            Function(names[get], names[put], scopes, tuple(code), tuple(constants))
        )


ALLOWED = {
    *("redis", "KEYS", "ARGV", "string", "table", "math"),
    *("tonumber", "ipairs", "pairs", "next", "unpack", "rawget", "rawset", "setmetatable"),
    *("type", "cjson"),
}


@each("name", SCRIPTS)
def test_no_globals(name):
    """A script sets no global, and reads those only that every server and fakeredis have."""
    functions = Bytecode(script(name).text).functions
    assert set().union(*(function.writes for function in functions)) == set()
    assert set().union(*(function.reads for function in functions)) <= ALLOWED


@each("name", SCRIPTS)
def test_no_local_hides_another(name):
    """No local of a function hides another one of the same name: an include could do it unseen."""
    for function in Bytecode(script(name).text).functions:
        scopes = [scope for scope in function.scopes if scope[0][0] not in "_("]
        for i, (inner, start, _) in enumerate(scopes):
            hidden = [s for s in scopes[:i] if s[0] == inner and s[1] <= start < s[2]]
            assert not hidden, f"{inner} is declared twice"


@each("path", LUA_FILES)
def test_no_local_hides_what_is_needed(path):
    """No local has the name of what another file gives: the assembly replaces such names."""
    needs = set(needs_of(path.read_text()))
    foreign = {name for name, giver in GIVEN_BY.items() if giver.stem in needs}
    assert path in SHARED or not foreign & set(header_of(path.stem).args)
    for function in Bytecode(path.read_text()).functions:
        assert not foreign & {scope[0] for scope in function.scopes}


HOT = {"push_plain", "pop_plain", "ack_plain"}
"""The scripts that serve most calls."""


@each("name", SCRIPTS)
def test_sent_once(name):
    """No function of some length stands twice in a script, and no script is large."""
    bodies = Counter(
        (function.code, function.constants)
        for function in Bytecode(script(name).text).functions
        if len(function.code) > 12
    )
    assert not [constants for (_, constants), times in bodies.items() if times > 1]
    assert len(script(name).text) <= (60_000 if name in HOT else 200_000)


@cache
def global_names(path: Path) -> tuple[set[str], set[str]]:
    """The names that a file reads and sets but does not declare."""
    functions = Bytecode(path.read_text()).functions
    reads = set().union(*(function.reads for function in functions))
    return reads - ALLOWED, set().union(*(function.writes for function in functions))


def given_by(path: Path) -> list[str]:
    """The names that a file gives to whoever needs it."""
    return [
        name
        for names in re.findall(r"^local (?:function )?(\w+(?:, \w+)*)", path.read_text(), re.M)
        for name in names.split(", ")
    ]


GIVEN_BY = {name: path for path in SHARED for name in given_by(path)}
"""Which file gives a name."""

KEY_NAMES = {*PARTS, "queues", "queues_tick"}


def test_each_name_is_given_once():
    """Whoever reads a name knows which file it is from; and no two files have the same name."""
    assert len(GIVEN_BY) == sum(len(given_by(path)) for path in SHARED)
    assert len({path.stem for path in SHARED}) == len(SHARED)


@each("path", SHARED)
def test_shared_files_only_define(path):
    """At its top it only declares locals, so it leaves no script; and it sets no foreign name."""
    code = re.sub(r"--.*", "", path.read_text())
    outermost = set(re.findall(r"^\w+", code, re.M))
    assert outermost <= {"local", "end"}
    assert not global_names(path)[1]


@each("path", LUA_FILES)
def test_needs_are_named(path):
    """A file names exactly those files that it uses itself."""
    text = path.read_text()
    reads = global_names(path)[0] - set([] if path in SHARED else header_of(path.stem).args)
    others = {name for name in reads if GIVEN_BY.get(name, path) != path}
    if path in SHARED:
        assert reads - others <= ({"time"} if path.stem == "now" else KEY_NAMES)
        assert "\n  -- Needs" not in text
    needs = needs_of(text)
    if path not in SHARED and "now" in needs:  # it says where the clock is read
        needs.remove("now")
        others -= {"now", "instant", "stamp"}
    assert set(needs) == {GIVEN_BY[name].stem for name in others}


@each("path", SHARED)
def test_a_shared_file_says_what_it_gives(path):
    """Its header names all that others use; and somebody does."""
    used = {name for other in LUA_FILES if other != path for name in global_names(other)[0]}
    header = re.match(r"(?:--.*\n)*", path.read_text())[0]  # type: ignore[index]
    gives = header.partition("-- Gives: ")[2]
    theirs = used & set(given_by(path))
    assert theirs
    assert {name for name in theirs if not re.search(rf"\b{name}\b", gives)} == set()


FORBIDDEN = r"\b(bit|cmsgpack|struct|sha1hex|setresp|FUNCTION|EVAL_RO|goto|random)\b|ZMPOP|^#!"


@each("path", LUA_FILES)
def test_portable(path):
    """No Lua file uses what a server or fakeredis lacks; JSON is for options and views."""
    code = re.sub(r"--.*", "", path.read_text())
    assert "cjson" not in code or path.name in ("options.lua", "view_of.lua")  # payloads are opaque
    assert not re.search(FORBIDDEN, code, re.MULTILINE)
    assert set(re.findall(r"\bredis\.(\w+)", code)) <= {"call", "pcall", "error_reply"}
    assert not re.findall(r"\.\. *(now|score|priority) *\.\.", code)  # keeps 14 digits only


def test_commands_exist(server, redis):
    """Every server, the oldest too, knows each Redis command that a script calls."""
    called = set()
    for path in LUA_FILES:
        for first in re.findall(r"(?:redis\.call|scan)\(([^,)]*)", path.read_text()):
            called |= set(re.findall(r"'(\w+)'", first))
    assert {"ZADD", "HMGET", "TIME"} <= called
    known = redis.execute_command("COMMAND INFO", *sorted(called))
    assert len(known) == len(called)
    assert None not in (known.values() if isinstance(known, dict) else known)


# Every key that a script touches is declared


def pushed_and_popped(q: DPQ) -> Task:
    """A running task of the highest priority."""
    q.push("x", 1e9, group="new")
    task = q.pop().task
    assert task
    return task


def workers_of(q: DPQ) -> list[WorkerInfo]:
    """The workers of a queue that has one."""
    q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0)
    return q.admin.workers()


def permits_of(q: DPQ) -> None:
    """Permits with and without a lease, booked ones, and one that meets a 429."""
    q.set_limit(9, 1, group="permits", concurrency=9)
    for _ in range(2):
        with q.acquire("permits", timeout=1) as permit:
            q._session.run(q._operations.extend_many, [(permit._held, 9)])
    with q.acquire("permits") as permit:
        permit.report(429, {"retry-after": "1"})
    with q.acquire(timeout=0) as permit:
        permit.report(429, {"retry-after": "1"})
    q.resume()


def bounded(q: DPQ) -> Any:
    """Pushes into a full group and into a full queue."""
    q.admin.set_bounds(max_waiting=1, when_full="drop_worst")
    q.push_many([Push(i, group="full") for i in range(3)])
    q.admin.set_bounds(max_tasks=1)
    with pytest.raises(dpq.QueueFullError):
        q.push("x")
    q._session.run(q._operations.await_room, Producer(0, None))  # set_bounds calls it
    bounds = q.admin.bounds()
    q.admin.set_bounds(max_tasks=0, max_waiting=0)
    return bounds


def browsed(q: DPQ) -> list[Any]:
    """All read-only operations of the dashboard."""
    browser = q._operations
    id_ = q.push("x", group="a")
    return [
        *(q._session.run(browser.search, Filter(state, text="x")) for state in TaskState),
        *(q._session.run(browser.groups_by, way) for way in ("largest", "name", "closed")),
        q._session.run(q._operations.overview),
        q._session.run(q._operations.names),
        q._session.run(browser.kinds),
        q._session.run(browser.own_limits),
        q._session.run(browser.states, ["a"]),
        q._session.run(q._operations.explained, id_),
    ]


def seen_key(q: DPQ, key: str) -> bool:
    """Leave a seen key: its task is acked."""
    q.push("seen", 999, key=key, unique_for=9)
    return q.ack(q.pop().task)


def use_everything(q: DPQ, clock: Any) -> dict[str, Any]:
    """Call every public method of a queue, in the states in which it has most to do."""
    for i in range(6):
        q.push(i, priority=i, group="ab"[i % 2], key=f"k{i}")
        q.push(i, delay=i + 0.5, expires_in=20)
    for mode in ("keep", "update", "raise_priority", "rerun"):
        q.push("again", 9, 1, key="k1", group="b", on_duplicate=mode)
    q.push_many([Push(payload=i, group=None if i % 2 else "c") for i in range(5)])
    for _ in range(3):  # the short ways are tried after such tasks
        q.push("plain", 99)
        q.pop().on_success()
    tasks = q.pop_many(3)
    done = {
        "push": None,
        "push_many": None,
        "pop_many": None,
        "extend": q.extend(tasks[0], 50),
        "set_visibility": q.set_visibility(tasks[1], 1),
        "spent": q.spent(tasks[2], tokens=3),
        "progress": q.progress(tasks[0], 1, 2, "page"),
        "ack": q.ack(tasks[0], result=1),
        "ack_many": q.ack_many(tasks[1:], results=[2, NO_RESULT]),
        "result": q.result(tasks[0].id),
        "results": q.results(),
        "pop": q.pop(),
        "release": q.release(q.pop_many(1)[0], 1, priority=2),
        "fail": q.fail(q.pop_many(1)[0], "error", 1),
        "bury": q.bury(q.pop_many(1)[0], "reason"),
        "update": q.update(q.push("x", group="a"), priority=3, delay=1),
        "cancel": q.cancel(q.push("x", 99, group="a")),
        "seen": [seen_key(q, key) for key in ("s", "t")],
        "forget": q.admin.forget("s"),
        "bulk": q.admin.bulk("update", Filter(group="a", older_than=0), priority=4),
        "count": q.admin.count(Filter(key_prefix="k")),
        "export": (lines := list(q.admin.export())),
        "import_": q.admin.import_(lines),
        "cron": q.push("x", cron="* * * * *", key="cron"),
        "get": q.get(q.push("x")),
        "peek": [q.peek(state=state) for state in TaskState],
        "batch": (q.push("x", batch="b"), q.batch("b")),
        "seal_batch": (q.seal_batch("c"), q.seal_batch("b", on_finish=Push("end"))),
        "batches": q.admin.batches(),
        "size": q.size(),
        "stats": q.stats(),
        "pause": q.pause(),
        "resume": q.resume(),
        "delay_group": q.delay_group("a", 2),
        "observe": q.observe("a", headers={"X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1"}),
        "next_event": q.next_event(),
        "set_limit": q.set_limit(9, 1, 9, group="*", concurrency=9),
        "bounds": bounded(q),
        "set_bounds": None,
        "clear_limit": q.clear_limit("c"),
        "rate_limited": q.rate_limited(pushed_and_popped(q), 1),
        "limits": q.admin.limits(),
        "groups": q.admin.groups(),
        "group": q.admin.group("a"),
        "why": q.why(q.push("x", group="a", cost=2)),
        "history": q.admin.history(),
        "events": q.admin.events(),
        "drain": q.admin.drain(),
        "workers": workers_of(q),
        "acquire": permits_of(q),
        "held": q.admin.held(),
        "release_held": q.admin.release_held([]),
        "quiet": q.admin.quiet("w"),
        "unquiet": q.admin.unquiet("w"),
        "register": q.admin.register(),
        "absent": q._session.send(Sieve().is_queue(q.queue_name)),
        "glance": q._session.send(glance([q._operations], names=False)),
        "browse": browsed(q),  # as the dashboard does
    }
    q.push("loop", 99)
    with q.leases() as loop:
        done["leases"] = next(loop)
    with q.lease():
        q.push("rerun", 99, key="k5", group="b", on_duplicate="rerun")
    clock.advance(100)
    done |= {"lease": None, "promote": q.promote(), "check": q.check()}
    clock.advance(100)
    q.pop(timeout=0.01)
    q.dead.list()
    q.dead.replay(rate=1)
    q.push("x", max_attempts=1)
    q.bury(q.pop().task, "reason")
    q.dead.purge()
    done |= {"purge": q.purge(), "dead": q.dead}
    q.push("left")
    q._session.run(q._operations.remember)
    return done | {"drop": q.admin.drop()}


def test_every_key_is_declared(server, redis, q, clock):
    """What MONITOR sees a script touch is among the KEYS of that call, over every method of DPQ."""
    sent: list[tuple[str, int]] = []

    note_calls(q, lambda commands: sent.extend((c.script.name, len(c.args)) for c in commands))
    named = DPQ(redis, q.queue_name, order="fifo", clock=clock)  # at once
    with redis.monitor() as monitor:
        done = use_everything(q, clock)
        redis.echo(q.queue_name)
        touched, called = watched(monitor.listen(), q.queue_name)
    named.close()

    methods = {
        name
        for each in (DPQ, Admin)
        for name in dir(each)
        if name[0] != "_" and callable(getattr(each, name))
    }
    methods -= {"from_url", "close"}
    assert methods <= set(done), "add the new methods to use_everything"
    assert called == set(SCRIPTS), "a script was not called"
    for name, arguments in sent:
        contract = header_of(name)
        optional = " ".join(contract.prose.split()).count("; or left out")
        least = len(contract.args) - contract.open_end - optional
        assert least <= arguments, name
        assert contract.open_end or arguments == least, name
    keys_of: dict[tuple[str, ...], list[str]] = {}
    for declared, command in touched:
        shape = (command[0], *command[1:2])
        if command[0].upper() in ("TIME", "INFO"):
            continue
        if shape not in keys_of or command[0].upper() in ("UNLINK", "EXISTS"):
            keys_of[shape] = redis.execute_command("COMMAND GETKEYS", *command)
        used = {str(key) for key in keys_of[shape]}
        assert used
        assert used <= declared, f"{command} touches an undeclared key"
    assert len(touched) > 200


def watched(
    lines: Iterator[dict[str, Any]], end: str
) -> tuple[list[tuple[set[str], list[str]]], set[str]]:
    """The commands of scripts, each with the keys that its script was given; and the scripts."""
    by_sha = {script(name).sha: name for name in SCRIPTS}
    by_title = {script(name).text[:40]: name for name in SCRIPTS}
    touched: list[tuple[set[str], list[str]]] = []
    called: set[str] = set()
    declared: set[str] = set()
    for line in lines:
        words = line["command"].split(" ")
        if line["client_type"] == "lua" and words[0].upper() == "PUBLISH":
            continue  # a channel is no key
        if line["client_type"] == "lua":
            touched.append((declared, words))
        elif words[0].upper() in ("EVALSHA", "EVAL"):
            text = line["command"].split(" ", 1)[1].replace("\\n", "\n")
            name = by_sha.get(words[1]) or next(by_title[t] for t in by_title if t in text)
            called.add(name)
            declared = set(re.findall(r"(?:dpq:\{\w+\}|\{dpq\}):\w+", line["command"]))
        elif words[0].upper() == "ECHO" and words[1] == end:
            return touched, called
    raise AssertionError("the monitor ended early")


# The public face


@each("name", dpq.__all__ + dpq.types.__all__)
def test_documented(name):
    """Every public name, and every public method of its classes, says what it is for."""
    public = getattr(dpq if name in dpq.__all__ else dpq.types, name)
    if not (inspect.isclass(public) or inspect.isroutine(public)):
        homes = [
            PACKAGE / "model" / file for file in ("task.py", "queue_settings.py", "results.py")
        ]
        source = [node for home in homes for node in tree_of(home).body]
        follows = {
            ast.unparse(node.targets[0]): after
            for node, after in pairwise(source)
            if isinstance(node, ast.Assign)
        }
        docstring = ast.literal_eval(follows[name].value)  # type: ignore[attr-defined]
        assert isinstance(docstring, str)
        return
    assert public.__doc__
    assert not public.__doc__.startswith(f"{name}(")  # what a dataclass makes up
    undocumented = [
        member
        for member, value in vars(public).items()
        if member[0] != "_"
        and (inspect.isroutine(value) or isinstance(value, property | classmethod))
        and not value.__doc__
    ]
    assert not undocumented


QUESTIONS = "what|who|whom|whose|which|how|whether|why|when|where"
"""Words with which no docstring begins: it says what the thing is or does, and asks nothing."""


@each("path", MODULES)
def test_docstrings_begin_with_a_verb_or_a_noun(path):
    """No docstring begins with What, Who, How, Whether: a reader wants the answer at once."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(rf'^ *"""\W*(?:as )?(?:{QUESTIONS})\b.*', text, re.IGNORECASE | re.M)
    assert not found


# The package


SHOWN = ("templates", "static")
"""The folders of what browsers are shown."""


def test_wheel(tmp_path):
    """A built wheel has every module, every script and the marker of a typed package."""
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".lua") or path.name == "py.typed" or path.parent.name in SHOWN
    }
    assert wanted <= names
    folder = ROOT / "examples"
    examples = {f"dpq/examples/{path.relative_to(folder)}" for path in folder.rglob("*.py")}
    assert {name for name in names if name.startswith("dpq/")} - examples == wanted
