"""Many queues in one round trip, and a server that takes connections and never answers."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kit.web import Open
from redis import Redis
from starlette.testclient import TestClient
from typer.testing import CliRunner

from dpq import DPQ
from dpq.cli import app
from dpq.script.command import Packer
from dpq.web import Access
from dpq.web import app as dashboard_of


@pytest.fixture
def twenty(q: DPQ) -> Iterator[list[DPQ[Any]]]:
    """Twenty queues of one client."""
    queues = [DPQ[Any](q.redis, f"{q.queue_name}-{n:02}") for n in range(20)]
    for number, each in enumerate(queues):
        each.push("x", group=f"g{number}")
        each.release(each.pop().task)  # one that was never asked is looked for elsewhere, too
    yield queues
    for each in queues:
        each.admin.drop()


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each round trip."""
    counted: list[int] = []
    pack = Packer.pack

    def count(self: Packer, commands: Any) -> bytes:
        counted.append(len(commands))
        return pack(self, commands)

    monkeypatch.setattr(Packer, "pack", count)
    return counted


def test_twenty_queues_are_one_round_trip(
    dashboard: Open, twenty: list[DPQ[Any]], trips: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look opens them in two more; the overview and the API read all at once."""
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0.0)
    twenty = [DPQ(each.redis, each.queue_name) for each in twenty]
    look = dashboard(*twenty)
    trips.clear()
    look.page("/")
    assert len(trips) == 3, "two open all queues, the third reads them"
    for page in (lambda: look.page("/"), lambda: look.api("/queues")):
        trips.clear()
        page()
        assert len(trips) == 1


def test_a_late_page_keeps_its_samples(
    dashboard: Open, twenty: list[DPQ[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page reads no more queues than keep their samples: each has its rates at the next look."""
    for name in ("views.sampler.OPEN_QUEUES", "web.server_pages.QUEUES", "web.pages.PAGE"):
        monkeypatch.setattr(f"dpq.{name}", 4)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0.0)
    look = dashboard(*twenty)
    assert [look.page("/?start=10").count('in/s">–') for _ in range(2)] == [4, 0]  # noqa: RUF001


def test_a_frozen_server_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of the application would wait for ever; each screen has a limit of its own."""
    monkeypatch.setattr("dpq.queue.looking.LOOK_SECONDS", 0.2)
    said = " UTC: no answer for 0.2 s"
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # the kernel takes connections for it
        port = frozen.getsockname()[1]
        client = Redis(port=port)  # without a timeout
        queues = [DPQ[Any](client, f"q{n}") for n in range(3)]
        site = dashboard_of(queues, access=Access())
        with TestClient(site, base_url="http://127.0.0.1:8321") as plain:
            for path in ("/", "/q/q1", "/q/q1/tasks", "/q/q1/limits", "/api/queues"):
                answer = plain.get(path)
                assert answer.status_code == 503, path
                assert said in answer.text, path
                assert "erver away: " in answer.text
            metrics = plain.get("/metrics").text
            assert f'dpq_up{{server="localhost:{port}"}} 0.0\n' in metrics
            assert 'state="server away"} 1.0\n' in metrics
        for words in (["queues"], ["why", "--queue", "q1"]):
            result = CliRunner().invoke(app, [*words, "--url", f"redis://127.0.0.1:{port}"])
            assert "server away: " in result.output, words
            assert said in result.output
        client.close()
