"""A run: a queue of its own on somebody's server, all measures, and the way back.

`dpq bench` calls it. Whatever ends the run, the queue and the keys of the raw commands are removed.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any, NamedTuple
from uuid import uuid4

from redis import RedisCluster
from redis.exceptions import NoPermissionError, RedisError

from dpq import DPQ, DPQError
from dpq.bench.distance import QUIET, Distance, ping_ms, target_of, url_through
from dpq.bench.measures import HUNDRED, Measures, Plan, raw_keys
from dpq.bench.rows import Latency, Memory, Throughput
from dpq.protocol.keys import key_of
from dpq.queue.inside import session_of
from dpq.transport.cluster import ask, reachable
from dpq.transport.connect import open_url
from dpq.transport.url import read_url

Row = Throughput | Latency | Memory

VISIBILITY_S = 600.0
"""Seconds of a lease: no lease may end while its task is measured."""

STEPS = (  # in the order of the run
    "delayed tasks",
    "memory",
    "single calls",
    f"calls of {HUNDRED} tasks",
)


class Server(NamedTuple):
    """The facts that a run has learned of the server.

    Attributes:
        family: `Redis`, `Valkey` or what the server calls itself; None if it may not be asked.
        version: Its version.
        others: The connections of other programs; None if the server may not be asked.
        ping_ms: The round trip of a quiet PING, with what `--rtt` adds.
    """

    family: str | None
    version: str | None
    others: int | None
    ping_ms: float


class NotRemoved(DPQError):
    """The queue of a run could not be removed; the message names what is left."""


def measured(
    url: str,
    plan: Plan,
    rtt_ms: float = 0.0,
    *,
    step: Callable[[str], object] = lambda name: None,
    met: Callable[[Server], object] = lambda server: None,
    removing: Callable[[], Any] = nullcontext,
) -> Generator[Row]:
    """Measure a server; yield each row when it is known.

    Args:
        url: The server, in any form of `DPQ.from_url`.
        plan: What to measure, and how long.
        rtt_ms: Milliseconds that a proxy on this machine adds to each round trip; 0 is no proxy.
        step: It gets the name of each step that begins.
        met: It gets what is known of the server, before anything is written.
        removing: A context in which everything is removed, such as one that no signal interrupts.

    Raises:
        ConfigurationError: The URL is wrong, or its way cannot be made longer.
        NotRemoved: Something of the run may be left on the server.
    """
    with _opened(url, rtt_ms) as (client, ping):
        name = f"bench-{uuid4().hex[:16]}"
        met(_look(client, name, ping, own=2 if rtt_ms else 1))
        queue = DPQ[Any](client, name, default_visibility=VISIBILITY_S)
        try:
            measures = Measures(queue, client, ping, plan)
            step(STEPS[0])
            measures.prepare()
            yield measures.lateness()
            step(STEPS[1])
            if memory := measures.memory():
                yield memory
            step(STEPS[2])
            yield from measures.one_by_one()
            step(STEPS[3])
            yield from measures.in_hundreds()
        finally:
            with removing():
                _remove(queue, client)


@contextmanager
def _opened(url: str, rtt_ms: float) -> Iterator[tuple[Any, Callable[[], object]]]:
    """Open a client of the server, and a function that sends it one PING."""
    with ExitStack() as stack:
        near = stack.enter_context(closing(open_url(url)))
        if not rtt_ms:
            yield near.client, _ping_of(near.client)
            return
        where = near.server.url if near.server else url
        settings = read_url(where).settings
        distance = stack.enter_context(closing(Distance(target_of(where, settings))))
        far = stack.enter_context(closing(open_url(url_through(where, settings, distance.path))))
        round_trip = ping_ms(_ping_of(near.client), QUIET) + rtt_ms
        distance.set(round_trip, _ping_of(far.client))
        yield far.client, _ping_of(far.client)


def _ping_of(client: Any) -> Callable[[], object]:
    """Return a function that sends one PING; on a cluster to one node, not to all."""

    def ping() -> object:
        one = {"target_nodes": RedisCluster.RANDOM} if isinstance(client, RedisCluster) else {}
        with reachable():
            return client.ping(**one)

    return ping


def _look(client: Any, queue_name: str, ping: Callable[[], object], own: int) -> Server:
    """Ask the server what it is, and how many connections are not the run's own."""
    took = ping_ms(ping, 0.5)
    probe = DPQ[Any](client, queue_name)
    here = session_of(probe).connections.aimed(key_of(queue_name, "conf"))
    probe.close()
    try:
        with reachable():
            info = client.info("server", **here)
            clients = client.info("clients", **here)
    except NoPermissionError:
        return Server(None, None, None, took)
    family = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version", info.get("redis_version")))
    return Server(family, version, max(0, int(clients["connected_clients"]) - own), took)


def _remove(queue: DPQ[Any], client: Any) -> None:
    try:
        ask(client, "UNLINK", *raw_keys(queue.queue_name))  # first: no refused drop keeps them
        queue.drop()
    except (RedisError, DPQError, OSError) as error:
        raise NotRemoved(
            f"the keys dpq:{{{queue.queue_name}}}:* may be left on the server, since it does not "
            f"answer as it should: {error}"
        ) from error
    finally:
        queue.close()


__all__ = ["NotRemoved", "Plan", "Row", "Server", "measured"]
