"""Lost replies: each script does what the "Lost reply:" line of its header says.

A proxy between client and server lets a script run, swallows its reply and cuts the connection; the
client sends the call again. It does so once, on DPQ's own connection, or twice, by the client too.
"""

import ast
import contextlib
import inspect
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kit.each import each
from kit.moments import task_after
from kit.workers import note_calls
from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection
from redis.retry import Retry

from dpq import DPQ, Adaptive, Backoff, Push, RateLimit, TaskNotFoundError
from dpq.limits.rules import LimitRules
from dpq.link.internals import socket_of
from dpq.model.producer import Producer
from dpq.registry.all_queues import Sieve, glance
from dpq.script.assembly import script, script_names
from dpq.script.keys import REGISTRY, key_of
from dpq.views.limits import make


class Proxy:
    """Listens on a socket of its own and passes everything on, but for the replies it loses."""

    def __init__(self, path: str, upstream: Redis) -> None:
        self.path = path
        self.lost = 0
        self._upstream = upstream
        self._losing = b""
        self._more = 0
        self._sockets: list[socket.socket] = []
        self._connections: list[AbstractConnection] = []
        self._threads: list[threading.Thread] = []
        self._listener = self._keep(socket.socket(socket.AF_UNIX))
        self._listener.bind(path)
        self._listener.listen()
        self._start(self._accept)

    @contextlib.contextmanager
    def losing(self, name: str, times: int) -> Iterator[None]:
        """Lose the next replies of one script; all of them must have come at the end."""
        self._losing, self._more, self.lost = script(name).sha.encode(), times, 0
        yield
        assert self.lost == times, f"{self.lost} replies of {name} were lost, not {times}"

    def close(self) -> None:
        """Cut everything, and wait for the threads."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
            assert not thread.is_alive()
        for one in self._sockets:
            one.close()

    def _keep(self, new: socket.socket) -> socket.socket:
        self._sockets.append(new)
        return new

    def _start(self, run, *args) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._keep(self._listener.accept()[0])
                server = self._keep(self._connect())
                self._start(self._serve, client, server)

    def _connect(self) -> socket.socket:
        """As the client of the server does: with its TLS, its user and its database."""
        connection = self._upstream.connection_pool.make_connection()
        self._connections.append(connection)  # with it, its socket would be closed
        connection.connect()
        return socket_of(connection)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """One connection: a request, its reply, a request, ... as redis-py sends them."""
        swallow = False
        pumps = {client: server, server: client}
        with contextlib.suppress(OSError):
            while True:
                for source in self._readable(client, server):
                    data = source.recv(1 << 20)
                    if not data or (source is server and swallow):
                        self.lost += bool(data)
                        client.shutdown(socket.SHUT_RDWR)
                        server.shutdown(socket.SHUT_RDWR)
                        return
                    if source is client and self._more and self._losing in data:
                        self._more -= 1
                        swallow = True
                    pumps[source].sendall(data)

    @staticmethod
    def _readable(*pair: socket.socket) -> list[socket.socket]:
        return select.select(pair, [], [])[0]


@pytest.fixture
def proxy(server, redis) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="dpq-proxy-", dir="/tmp") as directory:
        running = Proxy(f"{directory}/s", redis)
        yield running
        running.close()


@pytest.fixture
def lossy_redis(proxy, redis) -> Iterator[Redis]:
    for name in script_names():
        redis.script_load(script(name).text)  # so that a lost reply is never NOSCRIPT
    with Redis(unix_socket_path=proxy.path, retry=Retry(NoBackoff(), 3)) as client:
        yield client


@pytest.fixture
def lossy(lossy_redis, q, clock) -> Iterator[DPQ]:
    """The queue of `q`, by way of the proxy; it is open already."""
    queue = DPQ(lossy_redis, q.queue_name, clock=clock, backoff=Backoff(jitter=0))
    queue.purge()
    yield queue
    queue.close()


@pytest.fixture(params=[1, 2], ids=["once", "twice"])
def times(request) -> int:
    return request.param


@pytest.fixture
def lose(proxy, times):
    return lambda name: proxy.losing(name, times)


def test_absent(server, q, lossy, lose):
    """A look is safe to repeat: what is there stays, and only a name without anything goes."""
    q.push("x")
    q.redis.sadd(REGISTRY, q.queue_name)
    with lose("absent"):
        assert lossy._session.send(Sieve().is_queue(q.queue_name)) is True
    assert q.redis.sismember(REGISTRY, q.queue_name)
    q.admin.drop()
    q.redis.sadd(REGISTRY, q.queue_name)
    with lose("absent"):
        assert lossy._session.send(Sieve().is_queue(q.queue_name)) is False
    assert not q.redis.sismember(REGISTRY, q.queue_name)


def test_ack(server, q, probe, lossy, lose):
    """The second call finds the task gone, and answers 0 for it."""
    q.push("x" * 600)  # of a long record the short way knows nothing
    task = probe.pop()
    with lose("ack"):
        assert lossy.ack(task) is False
    assert (q.size(), q.stats().acked) == (0, 1)


def test_ack_of_a_task_that_runs_again(server, q, probe, lossy, lose):
    """The second call leaves the new task of a `rerun` alone."""
    q.push("x", key="k")
    task = probe.pop()
    q.push("y", key="k", on_duplicate="rerun")
    with lose("ack"):
        assert lossy.ack(task) is False
    assert probe.drain() == ["y"]


def test_beat(server, q, clock, lossy, lose):
    """The worker stands there once, seen at the second call; or it is gone."""
    with lose("beat"):
        lossy._session.run(lossy._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0)
    [worker] = q.admin.workers()
    assert (worker.running, worker.seen.timestamp() * 1000) == (2, clock.ms)
    with lose("beat"):
        lossy._session.run(lossy._operations.leave, "w")
    assert q.admin.workers() == []


def test_cancel(server, q, lossy, lose):
    """The second call answers that no such task lives; it is gone."""
    task_id = q.push("x")
    with lose("cancel"), pytest.raises(TaskNotFoundError):
        lossy.cancel(task_id)
    assert q.size() == 0


def test_configure(server, q, clock, lossy_redis, probe, lose):
    """The second answer is the same: the settings stand, and nothing contradicts itself."""
    with lose("configure"):
        queue = DPQ(lossy_redis, q.queue_name, order="lifo", dead_max_tasks=5, clock=clock)
    assert (queue.settings.order, queue.settings.dead_max_tasks) == ("lifo", 5)
    assert probe.stored()["conf"][b"order"] == b"lifo"
    queue.close()


def test_delay_group(server, q, probe, lossy, lose):
    """The group is closed, its head moved once."""
    q.push("x", group="g")
    q.push("y", group="g")
    with lose("delay_group"):
        lossy.delay_group("g", 60)
    assert (probe.count("waiting"), q.next_event()) == (2, 60)
    with lose("delay_group"):
        lossy.delay_group("g", 0)
    assert probe.drain() == ["x", "y"]


def test_observe(server, q, probe, lossy, lose):
    """What is left is the same, whatever runs; no lease counts twice."""
    q.push_many(Push(n, group="g") for n in range(9))
    task = q.pop_many(3)[0]
    with lose("observe"):
        lossy.observe(task, headers={"x-ratelimit-remaining": "5", "x-ratelimit-reset": "60"})
    assert q.admin.group("g").budgets[0].left == 3
    assert len(q.pop_many(9)) == 3


def test_drop(server, q, probe, lossy, lose):
    """The queue is gone."""
    q.push("x")
    with lose("drop"):
        lossy.admin.drop()
    assert probe.stored() == {}


def test_import(server, q, probe, lossy, lose):
    """Each task is there once, and the lines count as imported before."""
    q.push_many([Push(n, n, key=f"k{n}") for n in range(3)])
    lines = list(q.admin.export())
    q.admin.drop()
    with lose("import"):
        report = lossy.admin.import_(lines)
    assert (report.added, report.before) == (0, 3)
    assert q.stats().ready == 3
    assert probe.drain() == [2, 1, 0]
    assert lossy.admin.import_(lines).before == 3
    assert q.size() == 0


def test_glance(server, q, lossy, lose):
    """A look is safe to repeat."""
    q.push("x", delay=7)
    with lose("glance"):
        found = lossy._session.send(glance([q._operations], names=True))
    assert found.names == q.redis.scard(REGISTRY) >= 1
    assert len(found.waits) == 1


ONCE: list[tuple[str, int, Callable[[DPQ, Any], Any], Callable[[DPQ, Any], Any], Any]] = [
    ("bury", 5, lambda q, t: q.bury(t, "r"), lambda q, t: t.reason, "r"),
    ("extend", 5, lambda q, t: q.extend(t, 50), lambda q, _: q.next_event(), 50),
    ("fail", 5, lambda q, t: q.fail(t, "e", 9), lambda q, t: (t.attempt, t.state), (2, "delayed")),
    ("fail", 1, lambda q, t: q.fail(t, "e", 9), lambda q, t: (t.attempt, t.state), (2, "dead")),
    ("release", 5, lambda q, t: q.release(t, 9), lambda q, t: (t.attempt, q.next_event()), (1, 9)),
    ("set_visibility", 5, lambda q, t: q.set_visibility(t, 9), lambda q, t: t.deferrals, 1),
    ("progress", 5, lambda q, t: q.progress(t, 1, 2), lambda q, t: t.progress.total, 2),
    ("update", 5, lambda q, t: q.update(t.id, priority=5), lambda q, t: t.priority, 5),
]
"""The script, the most attempts, a call for a running task, a look at it, and what that shows."""


@pytest.mark.parametrize(("name", "most", "call", "look", "shown"), ONCE)
def test_once(server, q, probe, lossy, lose, name, most, call, look, shown):
    """What a call does to a task is done once."""
    q.push("x", max_attempts=most)
    task = probe.pop()
    with lose(name):
        call(lossy, task)
    assert look(q, q.get(task.id)) == shown
    stats = q.stats()
    assert max(stats.buried, stats.failed, stats.deferred) <= 1


def test_pause(server, q, probe, lossy, lose):
    """The queue is paused, or goes on."""
    q.push("x")
    with lose("pause"):
        lossy.pause(10)
    assert q.pop().task is None
    with lose("pause"):
        lossy.resume()
    assert probe.drain() == ["x"]


def test_quiet(server, q, probe, lossy, lose):
    """The worker is told once, or told to go on once: each has one event."""
    q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0)
    with lose("quiet"):
        assert lossy.admin.quiet("name") == 1
    assert q.admin.workers()[0].quiet_since
    with lose("quiet"):
        assert lossy.admin.unquiet("name") == 1
    assert q.admin.workers()[0].quiet_since is None
    assert [event.kind for event in q.admin.events()] == ["quieted", "unquieted"]


def test_pop(server, q, clock, probe, lossy, lose, times):
    """What was popped without an answer is leased to nobody until its lease ends; that counts."""
    for i in range(times + 1):
        q.push(i)
    with lose("pop"):
        assert lossy.pop(visibility=20).task.payload == times
    assert q.stats().invisible == times + 1
    clock.advance(20)
    again = q.pop_many(times)
    assert [(task.payload, task.attempt) for task in again] == [(i, 2) for i in range(times)]


def test_pop_plain(server, q, clock, lossy, lose, times):
    """As test_pop, where the short way is expected."""
    for i in range(times + 3):
        q.push(i)
    assert [lossy.pop(visibility=20).task.payload for _ in range(2)] == [0, 1]
    with lose("pop_plain"):
        assert lossy.pop(visibility=20).task.payload == times + 2
    clock.advance(20)
    assert [(task.payload, task.attempt) for task in q.pop_many(9)][1:] == [
        (i, 2) for i in range(1, times + 3)
    ]


def test_ack_plain(server, q, lossy, lose):
    """As test_ack, where the short way is expected: the second call finds the task gone."""
    for i in range(2):
        q.push(i)
    assert lossy.pop().on_success() is True
    with lose("ack_plain"):
        assert lossy.pop().on_success() is False
    assert (q.size(), q.stats().acked) == (0, 2)


def test_promote(server, q, clock, lossy, lose):
    """What was due is ready; the second call moves only what is due then."""
    q.push("x", delay=1)
    q.push("y", delay=5)
    clock.advance(1)
    with lose("promote"):
        assert lossy.promote() == 0
    assert (q.stats().ready, q.stats().delayed) == (1, 1)


def test_remember(server, q, lossy, lose):
    """The second call finds the slot of the first."""
    q.push("x")
    with lose("remember"):
        assert lossy._session.run(lossy._operations.remember) == 0
    assert len(q.admin.history()) == 1


def test_purge(server, q, lossy, lose):
    """The second call removes the next ones, so no more go than there were."""
    for i in range(5):
        q.push(i)
        q.push(i, delay=9)
    with lose("purge"):
        lossy.purge("ready")
    assert (q.stats().ready, q.stats().delayed) == (0, 5)


@pytest.mark.parametrize("mode", ["keep", "update", "raise_priority", "rerun", "error"])
def test_push(server, q, lossy, lose, mode):
    """An id that is stored already is left alone: nothing is added twice, no key meets itself."""
    pushes = [Push(payload=i, key=f"k{i}", on_duplicate=mode) for i in range(3)]
    with lose("push"):
        ids = lossy.push_many([*pushes, Push(payload=3, delay=9)])
    assert [task.id for task in q.peek()] == ids[:3]
    assert (q.size(), q.stats().pushed) == (4, 4)


def test_push_plain(server, q, probe, clock, lossy_redis, lose):
    """The first push of a queue makes it known, even when it has to be sent again."""
    queue = DPQ(lossy_redis, q.queue_name, clock=clock)
    with lose("push_plain"):
        queue.push("x")
    assert probe.redis.sismember(REGISTRY, q.queue_name)
    assert q.stats().pushed == 1
    queue.close()


def test_push_update(server, q, probe, lossy, lose):
    """A repeated update sets the same once more."""
    q.push("x", key="k")
    with lose("push"):
        lossy.push("y", 5, 7, key="k", on_duplicate="update")
    [task] = q.peek(state="delayed")
    assert (task.payload, task.priority, q.next_event()) == ("y", 5, 7)


def test_push_rerun(server, q, probe, lossy, lose):
    """A repeated rerun of a task that goes on running runs it once more after the ack."""
    q.push("x", key="k")
    task = probe.pop()
    with lose("push"):
        lossy.push("y", key="k", on_duplicate="rerun")
    q.ack(task)
    assert probe.drain() == ["y"]


@pytest.mark.parametrize("scope", ["group", "queue", "task"])
def test_rate_limited(server, q, clock, probe, lossy, lose, scope):
    """The deferral is counted once, a learned rate halved once; the time counts from the last."""
    q.set_limit(16, 1, group="g", adaptive=Adaptive(1, 16))
    q.set_limit(16, 1, adaptive=Adaptive(1, 16))
    q.push("x", group="g")
    task = probe.pop()
    with lose("rate_limited"):
        lossy.rate_limited(task, 9, scope)
    found = q.get(task.id)
    assert (found.deferrals, found.attempt, q.stats().deferred) == (1, 1, 1)
    halved = {"group": (16, 8), "queue": (8, 16), "task": (16, 16)}[scope]
    assert (q.admin.limits()[0].rate, q.admin.group("g").rate) == halved
    assert task_after(q, clock, 9).id == task.id


def test_rate_limited_again_and_again(server, q, clock, probe, lossy, lose):
    """Each refusal as a probe counts once; the second call for a dead letter finds it done."""
    bad = q.push("bad", 9, group="g")
    q.push_many(Push(n, group="g") for n in range(3))

    def refuse(seconds):
        clock.advance(seconds)
        task = probe.pop()
        assert task.id == bad
        with lose("rate_limited"):
            lossy.rate_limited(task, 5)

    for seconds in (0, 5, 5):
        assert probe.state(bad) != "delayed"
        refuse(seconds)
    for _ in range(3):
        assert (probe.state(bad), q.get(bad).visible_until.timestamp() * 1000) == (
            "delayed",
            clock.ms + 15000,
        )
        clock.advance(5)
        q.ack(probe.pop())
        refuse(10)
        refuse(5)
    assert (probe.state(bad), q.stats().buried) == ("dead", 1)
    assert q.check() == []


def test_register(server, q, clock, lossy_redis, probe, lose):
    """The queue is known."""
    queue = DPQ(lossy_redis, q.queue_name, clock=clock)
    with lose("register"):
        queue.push("x")
    assert probe.redis.sismember(REGISTRY, q.queue_name)
    assert q.size() == 1
    queue.close()


def test_spent(server, q, probe, lossy, lose):
    """It is given back once, and the second call says that it was told before."""
    q.set_limit([RateLimit(60, 60, 100, unit="t", slack=0)], group="g")
    q.push("x", group="g", cost={"t": 50})
    task = probe.pop()
    with lose("spent"):
        assert lossy.spent(task, t=20) is False
    assert q.admin.group("g").units_left == (80,)


@pytest.mark.parametrize("verb", ["ack", "fail", "bury", "release", "rate_limited"])
def test_an_end_that_tells_what_was_spent(server, q, probe, lossy, lose, verb):
    """The second call gives nothing back a second time."""
    q.set_limit([RateLimit(60, 60, 100, unit="t", slack=0)], group="g")
    for n in range(2):
        q.push(n, group="g", cost={"t": 40}, max_attempts=1)
    task = probe.pop()
    probe.pop()
    more = {"release": [9], "bury": ["no"], "rate_limited": [9, "task"], "fail": ["no"]}
    with lose(verb):
        getattr(lossy, verb)(task, *more.get(verb, []), cost={"t": 30})
    assert q.admin.group("g").units_left == (30,)


@pytest.mark.damaged
def test_check(server, q, probe, lossy, lose):
    """Both calls name the same damage."""
    task_id = q.push("x")
    probe.redis.zadd(probe.key("waiting"), {f"g\t{'8' * 18}1{'0' * 15}{task_id}": 0})
    probe.redis.delete(probe.key("ready"))
    with lose("check"):
        assert [problem.kind for problem in lossy.check()] == ["in 0 states", "stale place"]


@pytest.mark.damaged
def test_check_limits(server, q, probe, lossy, lose):
    """Both calls name the same damage."""
    q.set_limit(1, 10, group="g")
    q.push("x", group="g")
    probe.redis.hdel(probe.key("conf"), "gated")
    with lose("check"):
        assert [problem.subject for problem in lossy.check()] == ["gated"]


def test_seal_batch(server, q, probe, lossy, lose):
    """The batch is sealed; one task waits for its end, and runs once."""
    q.push("x", batch="b")
    with lose("seal_batch"):
        assert lossy.seal_batch("b").sealed
    with lose("push"):
        lossy.seal_batch("b", on_finish=Push("end"))
    with lose("ack"):
        assert lossy.ack(probe.pop()) is False
    assert (q.batch("b").done, q.batch("b").left) == (1, 0)
    assert probe.drain() == ["end"]


def test_replay(server, q, probe, lossy, lose):
    """Ids that are dead no more are left alone."""
    task_id = q.push("x")
    q.bury(probe.pop(), "r")
    with lose("replay"):
        assert lossy.dead.replay(task_id) == 0
    assert (probe.state(task_id), q.stats().replayed) == ("ready", 1)


@pytest.mark.parametrize("group", [None, "g", "*"])
def test_set_limit(server, q, probe, lossy, lose, group):
    """The limit stands, what was granted and the leases that are out counted once."""
    q.push_many(Push(payload=i, group="g") for i in range(4))
    q.pop()
    with lose("set_limit"):
        lossy.set_limit(1, 10, burst=2, concurrency=2, group=group)
    assert (len(q.pop_many(9)), q.stats().invisible) == (1, 2)
    with lose("set_limit"):
        lossy.clear_limit(group)
    assert len(q.pop_many(9)) == 2


@pytest.mark.parametrize("group", [None, "g", "*"])
def test_set_limit_with_what_was_seen(server, q, lossy, lose, group):
    """The rules of the call then stand, which is no change by somebody else; one event tells it."""
    rules = LimitRules.checked(5, 1, group=group)
    q.set_limit(10, 1, group=group)
    with lose("set_limit"):
        make(lossy, group, rules, "ada", "0|10 1000 1")
    with lose("set_limit"):
        make(lossy, group, None, "ada", "0|5 1000 1")
    assert not any(state.windows for state in q.admin.limits())
    assert [event.before for event in q.admin.events()] == ["", "0|10 1000 1", "0|5 1000 1"]


@pytest.mark.damaged
def test_types(server, q, probe, lossy, lose):
    """Both calls name the key."""
    q.push("x")
    probe.redis.delete(probe.key("wake"))
    probe.redis.set(probe.key("wake"), "junk")
    with lose("types"):
        assert [problem.kind for problem in lossy.check()] == ["wrong type"]


def test_unregister(server, q, probe, lossy, lose):
    """The name is gone."""
    q.push("x")
    with lose("unregister"):
        lossy.admin.drop()
    assert not probe.redis.sismember(REGISTRY, q.queue_name)


def test_ack_with_a_result(server, q, probe, lossy, lose):
    """The result is kept, once, though the second call finds the task gone."""
    q.push("x")
    task = probe.pop()
    with lose("ack"):
        assert lossy.ack(task, result=[1]) is False
    assert q.result(task.id) == [1]
    assert [result.value for result in q.results()] == [[1]]


def test_forget(server, q, probe, lossy, lose):
    """The key is free, though the second call finds it so; a purge removes all results."""
    q.push("x", key="k", unique_for=9)
    q.ack(probe.pop(), result=1)
    with lose("forget"):
        assert lossy.admin.forget("k") is False
    with lose("forget"):
        lossy.purge()
    assert q.results() == []
    assert q.push("x", key="k") == probe.pop().id


LOOKS: dict[str, tuple[Callable[[DPQ], object], object]] = {
    "batches": (lambda q: q.admin.batches(), []),
    "dead_kinds": (lambda q: q._session.run(q._operations.kinds).kinds, []),
    "find_groups": (lambda q: q._session.run(q._operations.groups_by, "name"), []),
    "drain": (lambda q: (q.admin.drain().backlog, q.admin.drain().state), (1, "unknown")),
    "history": (lambda q: q.admin.history(), []),
    "events": (lambda q: [event.kind for event in q.admin.events()], ["limit_set"]),
    "export": (lambda q: len(list(q.admin.export())), 7),
    "get": (lambda q: q.get(key="k").payload, "ready"),
    "held": (lambda q: [(lease.group, lease.worker) for lease in q.admin.held()], [("g", None)]),
    "next_event": (lambda q: q.next_event(), 7),
    "search": (lambda q: [task.payload for task in q.peek()], ["ready"]),
    "names": (lambda q: isinstance(q._session.run(q._operations.names), list), True),
    "survey": (lambda q: q._session.run(q._operations.survey).limits, 1),
    "scopes": (lambda q: [state.group for state in q.admin.limits()], [None, "g"]),
    "stats": (lambda q: (q.stats().ready, q.stats().invisible, q.stats().delayed), (1, 1, 1)),
    "result": (lambda q: q._session.run(q._operations.outcome, q.get(key="k").id).state, "live"),
    "results": (lambda q: q.results(), []),
    "view": (lambda q: q.admin.group("g").units_left, (2,)),
    "why": (lambda q: q.why(q.get(key="k").id), "it is ready: next"),
    "workers": (lambda q: [worker.id for worker in q.admin.workers()], ["w"]),
}
"""By script: a look, and what it shows. It is safe to repeat."""


@pytest.mark.parametrize("name", LOOKS)
def test_look(server, q, clock, probe, lossy, lose, name):
    """The second look shows what is there, nothing of it twice, and changes nothing: neither then
    nor when everything is overdue."""
    q.set_limit(1, 10, burst=3, concurrency=2, group="g")
    q.push("running", group="g")
    q.pop()
    q.push("ready", key="k")
    q.push("delayed", delay=7)
    q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0)
    before = probe.stored()
    look, shown = LOOKS[name]
    with lose(name):
        assert look(lossy) == shown
    clock.advance(100)
    look(lossy)
    assert probe.stored() == before


def replies_lost_by(test: Callable[..., None]) -> set[str]:
    """The scripts whose replies a test here loses, by what it says to `lose` or `losing`."""
    tree = ast.parse(inspect.getsource(test))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [(getattr(c.func, "id", "") or getattr(c.func, "attr", ""), c.args[:1]) for c in calls]
    return {ast.literal_eval(args[0]) for name, args in names if name in ("lose", "losing")}


def test_acquire(server, q, clock, lossy, lose, times):
    """Units are charged for each call; no lease stays longer than its time."""
    q.set_limit(60, 60, burst=9, group="g", concurrency=9)
    with lose("acquire"), lossy.acquire("g", lease=20):
        pass
    assert q.admin.group("g").units_left == (9 - 1 - times,)
    clock.advance(21)
    with lossy.acquire("g", lease=20):
        assert q.check() == []


def test_permit(server, q, clock, probe, lossy, lose):
    """An end is one end; an extension goes on, though the lease has another name by then."""
    q.set_limit(concurrency=1, group="g")
    with lossy.acquire("g", lease=20) as permit:
        with lose("permit"):
            kept = lossy._session.run(lossy._operations.extend_many, [(permit._held, 30)])
        assert kept == [True]
    assert probe.count("tracked") == 0
    with lossy.acquire("g", lease=20) as permit, lose("permit"):
        permit.close()
    assert probe.count("tracked") == 0


def test_met_limit(server, q, clock, lossy, lose):
    """The closing counts from the last call, and slack is learned once."""
    q.set_limit(10, 1, group="g")
    with lossy.acquire("g") as permit, lose("met_limit"):
        permit.report(429, {"retry-after": "30"})
    state = q.admin.group("g")
    assert state.reason == "rate limited"
    assert 0.05 <= state.slack < 0.06


@each("name", sorted(set(script_names()) - LOOKS.keys() - {name for name, *_ in ONCE}))
def test_no_script_is_left_out(name):
    """Each script that is no look has its test here, which loses its reply, and looks then."""
    test = globals()[f"test_{name}"]
    assert name in replies_lost_by(test)
    assert "assert" in inspect.getsource(test)


class OtherClient(Redis):
    """DPQ sends through the client itself when it is not a plain `Redis`."""


@pytest.mark.parametrize("kind", [Redis, OtherClient])
def test_script_flush(server, redis, q, clock, kind):
    """A server that forgets all scripts between any two calls changes nothing."""
    with kind.from_url(server.url) as client:
        queue = DPQ(client, q.queue_name, clock=clock)
        note_calls(queue, lambda _: redis.script_flush())
        ids = queue.push_many([Push(payload=i, priority=i, group="g") for i in range(4)])
        task, on_success, set_visibility = queue.pop()
        assert task.id == ids[3]
        set_visibility(5)
        queue.extend(task, 5)
        assert on_success() is True
        queue.fail(queue.pop().task, "e", 1)
        queue.update(ids[0], priority=9)
        queue.release(queue.pop().task)
        queue.bury(queue.pop().task, "r")
        clock.advance(1)
        assert (queue.promote(), queue.dead.replay(), queue.check()) == (1, 1, [])
        queue.cancel(ids[1])
        assert [task.id for task in queue.pop_many(5)] == [ids[0], ids[2]]
        queue.close()


def test_await_room(server, q, lossy, lose):
    """A producer keeps its place, and stands in the line once; the next one may come twice."""
    q.admin.set_bounds(max_tasks=1)
    q.push("x")
    producer = Producer(0, None)
    operations = lossy._operations
    assert lossy._session.run(operations.await_room, producer)
    place = producer.place
    with lose("await_room"):
        assert lossy._session.run(operations.await_room, producer)
    assert (producer.place, q.redis.zcard(key_of(q.queue_name, "tracked"))) == (place, 1)
    with lose("await_room"):
        assert not lossy._session.run(operations.await_room, producer, leave=True)
    assert not q.redis.exists(key_of(q.queue_name, "tracked"))
