"""TLS: `rediss://` with a CA and client certificates, on real servers that speak it."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from support import SERVERS, wait_for
from typer.testing import CliRunner

from dpq import DPQ, AsyncDPQ, ConfigurationError, Push, Scheduler
from dpq.cli import app
from dpq.server import Server

SECRET = "not-for-logs"  # noqa: S105 - a password of these tests


class Certificates(NamedTuple):
    """Where the files are."""

    directory: Path

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def query(self, certificate: str = "client", **more: str) -> str:
        """The URL parameters of a client with a certificate."""
        words = {
            "ssl_ca_certs": self.path("ca.pem"),
            "ssl_certfile": self.path(f"{certificate}.pem"),
            "ssl_keyfile": self.path(f"{certificate}.key"),
            **more,
        }
        return "&".join(f"{name}={value}" for name, value in words.items() if value)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA, a server and a client that it vouches for, and a stranger with a CA of its own."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl to make certificates with: apt-get install openssl")
    directory = tmp_path_factory.mktemp("tls")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]

    def openssl(*words: str) -> None:
        subprocess.run([program, *words], cwd=directory, check=True, capture_output=True)

    for name in ("ca", "strange"):
        openssl(
            *("req", "-x509", *key, "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=keyCertSign,cRLSign"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
        )
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "strange")):
        openssl(
            *("req", *key, "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-days", "2", "-extfile", "names"),
            *("-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-out", f"{name}.pem"),
        )
    openssl(
        "ec", "-aes256", "-passout", f"pass:{SECRET}", "-in", "client.key", "-out", "locked.key"
    )
    shutil.copy(directory / "client.pem", directory / "locked.pem")
    return Certificates(directory)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Tls(NamedTuple):
    """A server that speaks TLS on a port, and plain text on its own socket."""

    base: str
    server: Server
    certificates: Certificates
    words: list[str]

    def url(self, **more: str) -> str:
        return f"{self.base}?{self.certificates.query(**more)}"


@pytest.fixture(scope="module", params=list(SERVERS))
def tls(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Tls]:
    port = free_port()
    words = ["--bind", "127.0.0.1", "--tls-port", str(port)]
    words += ["--tls-ca-cert-file", certificates.path("ca.pem")]
    words += ["--tls-cert-file", certificates.path("server.pem")]
    words += ["--tls-key-file", certificates.path("server.key")]
    try:
        server = Server.start(SERVERS[request.param], extra_args=words)
    except ConfigurationError as error:
        told = str(error)
        assert "tls" in told.lower(), told
        pytest.skip(f"{request.param} was built without TLS: apt-get install redis-server")
    with server:
        yield Tls(f"rediss://localhost:{port}/0", server, certificates, words)


def test_a_queue_works_over_tls(tls, queue_name):
    """Every kind of call goes over TLS: batches, large payloads, settling, looking, a scheduler."""
    with DPQ.from_url(tls.url(), queue_name) as q:
        large = [{"n": n, "text": "x" * 200_000} for n in range(12)]
        q.push_many([Push(body) for body in large])
        tasks = q.pop_many(12)
        assert [task.payload for task in tasks] == large
        assert q.ack_many(tasks) == [True] * 12
        q.push("later", delay=0.001)
        scheduler = Scheduler(q.redis, [queue_name])
        wait_for(lambda: scheduler.run_once() or q.stats().ready, q.stats)
        with q.lease() as task:
            assert task.payload == "later"
        assert (q.size(), q.check()) == (0, [])
        q.admin.drop()


def test_the_server_wants_to_know_the_client(tls, queue_name):
    """Without a certificate, or with one of another CA, nothing is stored, and an error says so."""
    for query in (
        f"ssl_ca_certs={tls.certificates.path('ca.pem')}",
        tls.certificates.query("stranger"),
    ):
        with (
            DPQ.from_url(f"{tls.base}?{query}", queue_name) as q,
            pytest.raises(RedisConnectionError, match=r"cannot reach rediss://localhost:\d+/0"),
        ):
            q.push(1)
    with DPQ.from_url(tls.url(), queue_name) as q:
        assert q.stats().pushed == 0


def test_the_client_wants_to_know_the_server(tls, queue_name):
    """A server that no trusted CA vouches for, or of another name, is refused before anything."""
    for base, query in (
        (tls.base, ""),
        (tls.base, tls.certificates.query(ssl_ca_certs=tls.certificates.path("strange.pem"))),
        (tls.base.replace("localhost", "127.0.0.1"), tls.certificates.query()),
    ):
        with (
            DPQ.from_url(f"{base}?{query}", queue_name) as q,
            pytest.raises(RedisConnectionError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            q.push(1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"ssl_ca_certs": "/no/such.pem"}, "ssl_ca_certs: there is no such file"),
        ({"ssl_ca_certs": "{}/client.key"}, "ssl_ca_certs holds no certificates"),
        ({"ssl_ca_path": "/no/such"}, "ssl_ca_path: there is no such file"),
        ({"ssl_certfile": "/no/such.pem"}, "ssl_certfile: there is no such file"),
        ({"ssl_keyfile": "/no/such.key"}, "ssl_keyfile: there is no such file"),
        ({"ssl_certfile": ""}, "ssl_keyfile needs ssl_certfile"),
        ({"ssl_keyfile": "{}/stranger.key"}, "do not belong together"),
        ({"ssl_cert_reqs": "maybe"}, "one of none, optional, required"),
        ({"ssl_certs": "x"}, "parameter that redis-py does not know"),
    ],
)
def test_a_bad_parameter_is_refused_at_once(certificates, words, why):
    """What is wrong with the TLS of a URL shows when it is opened, in all shells, without I/O."""
    words = {name: value.format(certificates.directory) for name, value in words.items()}
    url = f"rediss://localhost:1/0?{certificates.query(**words)}"
    for opened in (DPQ.from_url, AsyncDPQ.from_url):
        with pytest.raises(ConfigurationError, match=why):
            opened(url, "q")
    result = CliRunner().invoke(app, ["--url", url, "stats"])
    assert (result.exit_code, why in result.stderr) == (2, True)


@pytest.fixture
def sentinel(tls: Tls, tmp_path: Path) -> Iterator[int]:
    """The port of a Sentinel that speaks TLS and wants a password, for the server of `tls`."""
    port, master = free_port(), tls.base.rpartition(":")[2].partition("/")[0]
    config = tmp_path / "sentinel.conf"
    config.write_text(
        "port 0\nsentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"
        f"dir {tmp_path}\nrequirepass {SECRET}\ntls-replication yes\n"
        f"sentinel monitor tasks localhost {master} 1\n"
    )
    words = [*tls.words, "--tls-port", str(port)]
    with subprocess.Popen(
        [tls.server.binary.path, config, "--sentinel", *words], stdout=subprocess.DEVNULL
    ) as process:
        yield port
        process.terminate()


def test_sentinels(tls, sentinel, queue_name, face):
    """`rediss+sentinel://` works in both shells; and what is wrong is told, without a password."""
    base = f"rediss+sentinel://localhost:{sentinel}/tasks"
    url = f"{base}?{tls.certificates.query(sentinel_password=SECRET, socket_connect_timeout='60')}"

    def works() -> bool:
        with suppress(RedisError), DPQ.from_url(url, queue_name) as q:
            return bool(q.push(1))
        return False

    wait_for(works, lambda: base)
    with face.queue.from_url(url, queue_name) as q:
        assert q.pop(timeout=30).task.payload == 1
        q.admin.drop()
    strange = tls.certificates.query(ssl_ca_certs=tls.certificates.path("strange.pem"))
    for query, why in (
        (f"{strange}&sentinel_password={SECRET}", "CERTIFICATE_VERIFY_FAILED"),
        (f"{tls.certificates.query()}&sentinel_password=not-for-{SECRET}", "invalid"),
    ):
        with (
            face.queue.from_url(f"{base}?{query}&socket_connect_timeout=60", queue_name) as q,
            pytest.raises(RedisConnectionError, match=why) as refused,
        ):
            q.size()
        told = str(refused.value)
        assert f"No master found for 'tasks' : localhost:{sentinel} - " in told
        assert SECRET not in told
