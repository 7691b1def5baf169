"""A cluster of three masters and three replicas for all tests here; whoever breaks it, heals it.

On the first server of the run (`--server`).
"""

import gc
import uuid
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import RedisCluster
from topology import Cluster

from dpq import DPQ
from dpq.server import find_binary
from dpq.testing import QueueFactory

UNCLOSED = "ignore:unclosed Connection:ResourceWarning"
"""redis-py's asyncio client closes what it has open to a node that it no longer knows in a task of
its own, which the end of an event loop cancels. Outside of this folder it is an error."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings(UNCLOSED))


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """What such a client has left is found here, and not in another folder's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" in metafunc.fixturenames:
        binary = find_binary()
        name = f"{binary.family}-{binary.version}"
        metafunc.parametrize("cluster", [binary], ids=[name], indirect=True, scope="session")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with closing(Cluster(request.param)) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RedisCluster]:
    """A caller's own client, as redis-py makes it."""
    with cluster.client() as client:
        yield client


@pytest.fixture
def names(cluster: Cluster) -> list[str]:
    """A queue name on each of the masters."""
    own = uuid.uuid4().hex
    return [cluster.name_on(node, own) for node in cluster.masters()]


@pytest.fixture
def queues(client: RedisCluster, names: list[str]) -> Iterator[list[DPQ]]:
    """A queue on each of the masters."""
    with QueueFactory(client) as make:
        yield [make(name) for name in names]
