"""`dpq bench`: what it measures, and that nothing of it stays on the server, however it ends."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from roles import words_of
from support import PATIENCE_S
from typer.testing import CliRunner, Result

from dpq import DPQ
from dpq.bench.distance import Distance, target_of, url_through
from dpq.bench.measures import Measures, Plan, repeated
from dpq.bench.rows import Round, latency, throughput
from dpq.bench.run import measured
from dpq.cli import app
from dpq.server import Server
from dpq.transport.url import read_url

pytestmark = pytest.mark.usefixtures("clean_environment")

Run = Callable[..., Result]


@pytest.fixture
def run(url: str) -> Run:
    def invoke(*words: str, code: int = 0, url: str = url) -> Result:
        result = CliRunner().invoke(app, ["--url", url, "bench", "--seconds", "0.2", *words])
        assert result.exit_code == code, (words, result.stdout, result.stderr, result.exception)
        return result

    return invoke


@pytest.fixture
def left(private: Server) -> Iterator[Callable[[], list[bytes]]]:
    """Lists the keys on the server, but for the marker that DPQ shares among all queues."""
    with closing(Redis.from_url(private.url)) as redis:
        redis.ping()
        yield lambda: [key for key in redis.keys("*") if key != b"{dpq}:tick"]


@pytest.fixture
def held_ms(monkeypatch: pytest.MonkeyPatch) -> float:
    """The round trip that --rtt adds, whatever it is asked: no look at a busy machine's PINGs."""
    monkeypatch.setattr(Distance, "set", lambda self, *_: self.hold(0.001))
    return 2.0


def test_it_measures_beside_raw_commands(run: Run, left: Any, held_ms: float) -> None:
    """Each measure has its raw commands; PINGs through the proxy of --rtt take that longer."""
    result = run("--json", "--groups", "3", "--rtt", "9", "--payload", "300")
    server, *rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert server["kind"] == "server"
    assert server["ping_ms"] >= held_ms
    assert server["others"] == 1  # that of `left`, and none of its own
    of = {kind: [row for row in rows if row["kind"] == kind] for kind in {r["kind"] for r in rows}}
    assert of.keys() == {"latency", "memory", "throughput"}
    delayed, *calls = of["latency"]
    assert "delayed" in delayed["measure"]
    assert [each["measure"] for each in calls] == ["PING", "ZADD", "push", "pop", "ack"]
    for each in calls:
        assert held_ms <= each["p50"] <= each["p95"] <= each["p99"]
    assert [each["measure"].split()[0] for each in of["throughput"]] == [
        *("push,", "pop"),
        *("push_many", "pop_many"),
    ]
    for each in of["throughput"]:
        assert 0 < each["least"] <= each["per_second"] <= each["most"]
        assert each["raw_per_second"] > 0
    (memory,) = of["memory"]
    assert 300 < memory["raw_bytes_per_task"] < memory["bytes_per_task"] < 1500
    assert left() == []


def test_its_tables(run: Run, left: Any) -> None:
    """People get three tables, and hear of the connections that they slow."""
    result = run()
    for title in ("throughput", "latency", "memory of the server"):
        assert f"\n{title}\n" in f"\n{result.stdout}"
    assert "other connections to this server: 1" in result.stderr
    assert "measuring single calls" in result.stderr
    assert left() == []


@pytest.mark.parametrize(
    ("fault", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (RedisConnectionError, 1)]
)
def test_however_it_ends_no_key_stays(
    run: Run, left: Any, monkeypatch: pytest.MonkeyPatch, fault: Any, code: int
) -> None:
    """Not at Ctrl-C, also a second one while it removes its keys, nor at an error."""
    seen: list[list[bytes]] = []

    def end(self: Measures) -> int:
        seen.append(left())
        if isinstance(fault, signal.Signals):
            signal.raise_signal(fault)
        raise fault

    drop = DPQ.drop

    def interrupted_drop(self: DPQ[Any]) -> None:
        signal.raise_signal(signal.SIGINT)
        drop(self)

    monkeypatch.setattr(Measures, "_raw_pop_hundred", end)
    monkeypatch.setattr(DPQ, "drop", interrupted_drop)
    run(code=code)
    assert len(seen[0]) > 4  # its keys were there
    assert any(b":raw" in key for key in seen[0])
    assert left() == []


def test_it_says_what_it_could_not_remove(
    run: Run, left: Any, private: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server goes away meanwhile, the error names the keys that are left."""

    def drop(self: DPQ[Any]) -> None:
        raise RedisConnectionError("gone")

    monkeypatch.setattr(DPQ, "drop", drop)
    result = run(code=1)
    name = left()[0].split(b"}")[0].decode() + "}"
    assert f"the keys {name}:* are left on the server" in " ".join(result.stderr.split())
    monkeypatch.undo()
    with DPQ.from_url(private.url, name.partition("{")[2][:-1]) as queue:
        queue.redis.unlink(*(f"{name}:{part}" for part in ("raw", "raw-payload")))
        queue.drop()
    assert left() == []


def test_its_rights(run: Run, left: Any, private: Server) -> None:
    """The administrator's line and `+ping` suffice; it says what it could not look at."""
    words = words_of("dpq-admin", "any", private.binary.version)
    url = private.url.replace("unix://", "unix://bencher:PASSWORD@")
    with closing(Redis.from_url(private.url)) as redis:
        try:
            redis.execute_command(
                *("ACL", "SETUSER", "bencher", "reset", "on", ">PASSWORD", *words)
            )
            assert "'ping'" in run(url=url, code=1).stderr
            redis.execute_command("ACL", "SETUSER", "bencher", "+ping")
            result = run(url=url)
            assert "needs +info" in result.stderr
            assert "needs +memory|usage" in result.stderr
            assert "memory" not in result.stdout
            assert left() == []
        finally:
            redis.execute_command("ACL", "DELUSER", "bencher")


def test_a_way_that_cannot_be_longer(run: Run) -> None:
    """--rtt refuses URLs of several servers, and TLS, by their name."""
    for url in ("redis+cluster://127.0.0.1:1", "redis+sentinel://h:1/m", "rediss://h:1"):
        assert url in run("--rtt", "1", url=url, code=2).stderr


def test_the_proxy_of_a_killed_program_ends() -> None:
    """Its stdin ends with the program, and it with its stdin."""
    distance = Distance("unix:/nothing")
    stdin = distance._process.stdin
    assert stdin
    stdin.close()
    assert distance._process.wait(PATIENCE_S) == 0
    distance._process.stdin = None
    distance.close()
    assert not distance.path.parent.exists()


@pytest.mark.parametrize(
    ("url", "target", "through"),
    [
        ("redis://", "tcp:localhost:6379", "unix:///s?db=0"),
        ("redis://u:p@h:1/2?protocol=3", "tcp:h:1", "unix://u:p@/s?db=2&protocol=3"),
        ("redis://h?db=3", "tcp:h:6379", "unix:///s?db=3"),
        ("unix://:p@/x/y?db=4&socket_timeout=2", "unix:/x/y", "unix://:p@/s?db=4&socket_timeout=2"),
    ],
)
def test_the_url_through_the_proxy(url: str, target: str, through: str, tmp_path: Any) -> None:
    """It names the same server, database, user and settings."""
    settings = read_url(url).settings
    assert target_of(url, settings) == target
    assert url_through(url, settings, tmp_path.__class__("/s")) == through
    far = read_url(through).settings
    for name in ("db", "username", "password", "protocol", "socket_timeout"):
        assert far.get(name) == settings.get(name) or (name, far["db"]) == ("db", 0)


def test_figures() -> None:
    """The first round warms up; a ratio is that of a round; a percentile is a measured value."""
    rounds = [Round(1, 1000, 1, 10), Round(1, 10, 2, 40), Round(2, 30, 1, 60), Round(1, 20, 1, 40)]
    row = throughput("ours", "raw", rounds)
    assert (row.per_second, row.least, row.most) == (15, 10, 20)
    assert (row.raw_per_second, row.ratio, row.rounds) == (40, 0.5, 3)
    assert throughput("ours", "raw", rounds[:1]).ratio == 100
    times = latency("call", [n / 1000 for n in range(101)], 25)
    assert times[1:] == pytest.approx((50, 95, 99, 2, 101))
    with pytest.raises(RuntimeError, match="only 7 of 8"):
        repeated(8, iter([7, 0]).__next__)


@pytest.mark.usefixtures("held_ms")
def test_time_is_a_bound(private: Server, left: Any) -> None:
    """A far server leaves no time for more than a round of each, and that is enough."""
    rows = list(measured(private.url, Plan(0.02, 0, 100), 1))
    assert {row.rounds for row in rows if hasattr(row, "rounds")} == {1}
    assert left() == []
