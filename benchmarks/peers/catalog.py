"""The peers: what each is, what is installed for it, and which programs run it.

Each range of versions begins with the version that the programs were written for, and ends before
the next one that may change what they call.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["own", "python", "node", "debian"]


@dataclass(frozen=True)
class Peer:
    """One peer.

    Attributes:
        name: Its word on the command line.
        title: Its name in a table.
        kind: Where it comes from: this Python, PyPI, npm or Debian.
        packages: What is installed; the version of the first one is printed.
        tasks: The program of the first comparison, and its own arguments; empty: it has no queue.
        bulk: Whether it pushes many tasks in one call.
        asks: The program of the second comparison; empty: it takes no part.
        note: How it is set up for the first comparison, in a few words.
        way: How it stays below the limit in the second one.
    """

    name: str
    title: str
    kind: Kind
    packages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    bulk: bool = False
    asks: str = ""
    note: str = ""
    way: str = ""

    @property
    def package(self) -> str:
        """Return the name of the package whose version is printed."""
        return self.packages[0].partition(">")[0].partition("[")[0].partition("@")[0]


PEERS = (
    Peer("raw", "redis-py alone", "own", tasks=("raw.py",), bulk=True, note="loses what it took"),
    Peer(
        *("dpq", "DPQ", "own"),
        tasks=("dpq_worker.py",),
        bulk=True,
        asks="asks_dpq.py",
        note="as it is by default",
        way='`set_limit("200/s,moving")` for both workers together',
    ),
    Peer(
        *("dpq-prefetch", "DPQ, prefetch=100", "own"),
        tasks=("dpq_worker.py", "100"),
        bulk=True,
        note="leases 100 tasks ahead",
    ),
    Peer(
        *("rq", "RQ", "python", ("rq>=3.0,<4", "hiredis>=3")),
        tasks=("rq_worker.py",),
        bulk=True,
        asks="asks_rq.py",
        note="SimpleWorker; ten at once: a pool of ten",
        way="RateLimit of 4 at once, since it has no rate; Retry after a 429",
    ),
    Peer(
        *("celery", "Celery", "python", ("celery[redis]>=5.7,<6", "hiredis>=3")),
        tasks=("celery_worker.py",),
        asks="asks_celery.py",
        note="threads, acks late",
        way="rate_limit 100/s in each worker; retry after a 429",
    ),
    Peer(
        *("dramatiq", "Dramatiq", "python", ("dramatiq[redis]>=2.2,<3", "hiredis>=3")),
        tasks=("dramatiq_worker.py",),
        note="threads",
    ),
    Peer(
        *("huey", "Huey", "python", ("huey>=3.5,<4", "redis>=8,<9", "hiredis>=3")),
        tasks=("huey_worker.py",),
        note="PriorityRedisHuey, threads; no acks",
    ),
    Peer(
        *("arq", "arq", "python", ("arq>=0.28,<0.29", "hiredis>=3")),
        tasks=("arq_worker.py",),
        note="polls each 10 ms",
    ),
    Peer(
        *(
            "saq",
            "SAQ",
            "python",
            ("saq[redis]>=0.26,<0.27", "typing-extensions>=4", "aiolimiter>=1.2,<2"),
        ),
        tasks=("saq_worker.py",),
        asks="asks_saq.py",
        note="as it is by default",
        way="no rate: aiolimiter 100/s in each worker; retries after a 429",
    ),
    Peer(
        *("streaq", "streaq", "python", ("streaq>=7.2,<8",)),
        tasks=("streaq_worker.py",),
        bulk=True,
        note="results not kept",
    ),
    Peer(
        *("taskiq", "taskiq-redis", "python", ("taskiq-redis>=1.2,<2", "hiredis>=3")),
        tasks=("taskiq_worker.py",),
        note="RedisStreamBroker",
    ),
    Peer(
        *("docket", "docket", "python", ("pydocket>=0.27,<1", "hiredis>=3")),
        tasks=("docket_worker.py",),
        bulk=True,
        asks="asks_docket.py",
        note="checks each 10 ms; what has ended is not kept",
        way="RateLimit(200, 1 s) for both workers together; Retry after a 429",
    ),
    Peer(
        *("bullmq", "BullMQ", "node", ("bullmq@6", "ioredis@5")),
        tasks=("bullmq_worker.cjs",),
        bulk=True,
        asks="asks_bullmq.cjs",
        note="finished jobs are removed",
        way="limiter 200 in 1 s for both workers together; rateLimit() at a 429",
    ),
    Peer(
        *("beanstalkd", "beanstalkd", "debian", ("beanstalkd",)),
        tasks=("beanstalkd_worker.py",),
        bulk=True,
        note="in memory; a client of 30 lines, bulk: 100 puts in one write",
    ),
    Peer(
        *("scrapy", "Scrapy", "python", ("scrapy>=2.19,<3",)),
        asks="asks_scrapy.py",
        way="AutoThrottle, DOWNLOAD_DELAY 10 ms, JOBDIR; half of the requests each",
    ),
    Peer(
        *("aiolimiter", "aiolimiter", "python", ("aiolimiter>=1.2,<2",)),
        asks="asks_aiolimiter.py",
        way="100/s in each process, waits at a 429; half of the requests each",
    ),
    Peer(
        *("tenacity", "tenacity", "python", ("tenacity>=9,<10",)),
        asks="asks_tenacity.py",
        way="exponential waits with jitter, no limiter; half of the requests each",
    ),
)
BY_NAME = {peer.name: peer for peer in PEERS}
