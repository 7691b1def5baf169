"""What the tests of programs share: a server of their own, a queue on it, and a clean place."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import processes, wait_for
from typer.testing import CliRunner, Result

from dpq import DPQ
from dpq.cli import app
from dpq.server import Server


@pytest.fixture(scope="module")
def private() -> Iterator[Server]:
    """A server of this module's tests alone."""
    with Server.start() as server:
        yield server


@pytest.fixture(scope="module")
def url(private: Server) -> str:
    return private.url


@pytest.fixture
def name(queue_name: str) -> str:
    return queue_name


@pytest.fixture
def q(url: str, name: str) -> Iterator[DPQ]:
    with DPQ.from_url(url, name) as queue:
        yield queue
        queue.admin.drop()


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are told nothing by the environment."""
    for variable in ("DPQ_URL", "DPQ_QUEUE", "DPQ_QUEUES", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short temporary directory for everything; the test fails if it leaves a process or file."""
    path = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield path
    wait_for(lambda: not processes(str(path)), lambda: f"left running: {processes(str(path))}")
    wait_for(lambda: not list(path.glob("dpq-*")), lambda: f"left: {list(path.glob('dpq-*'))}")
    shutil.rmtree(path)


@pytest.fixture
def run(url: str, name: str) -> Callable[..., Result]:
    """Runs `dpq ...` in this process; `at` is the URL of another server."""

    def invoke(
        *words: object, lines: str | bytes | None = None, code: int = 0, at: str = url
    ) -> Result:
        where = ["--url", at, "--queue", name]
        result = CliRunner().invoke(app, [*where, *map(str, words)], input=lines)
        assert result.exit_code == code, (words, result.stdout, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result

    return invoke
