"""The shell completes commands, options and names of queues, as typer's scripts ask for them."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from dpq import DPQ
from dpq.cli import app
from dpq.server import Server

Complete = Callable[..., list[str]]

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def complete(private: Server) -> Complete:
    """Asks as bash does at a press of TAB behind the last word."""

    def ask(*words: str, url: str = private.url) -> list[str]:
        line = " ".join(("dpq", *words))
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "DPQ_URL": url}
        asked |= {"_DPQ_COMPLETE": "complete_bash"}
        result = CliRunner().invoke(app, [], prog_name="dpq", env=asked)
        assert result.exit_code == 0
        assert result.stderr == ""
        return result.stdout.split()

    return ask


def test_commands_and_options(complete: Complete) -> None:
    """Words of the command line itself, also those of a group of commands."""
    assert complete("pee") == ["peek"]
    assert complete("limit", "s") == ["set"]
    assert complete("push", "--prio") == ["--priority"]


def test_queues(complete: Complete, q: DPQ) -> None:
    """The names on the server; nothing, and no error, where none answers."""
    q.push(1)
    beginning = q.queue_name[:8]
    assert complete("stats", "--queue", beginning) == [q.queue_name]
    assert complete("--queue", beginning) == [q.queue_name]
    assert complete("doctor", "--quick", "--queue", beginning) == [q.queue_name]
    assert complete("stats", "--queue", f"{beginning}no") == []
    nowhere, here = "redis://127.0.0.1:1", q.redis.connection_pool.connection_kwargs["path"]
    for words in (("--url", f"unix://{here}", "stats"), ("stats", "--url", f"unix://{here}")):
        assert complete(*words, "--queue", beginning, url=nowhere) == [q.queue_name]
    for url in ("redis://127.0.0.1:1", "unix:///nothing", "no URL", "embedded:"):
        assert complete("stats", "--queue", beginning, url=url) == []
