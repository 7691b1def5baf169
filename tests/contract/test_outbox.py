"""An outbox (examples/outbox.py): each committed task is run once, wherever the relay dies."""

import importlib.util
import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis import asyncio as aio

import dpq
from dpq import DPQ, AsyncDPQ, ConfigurationError

PATH = Path(dpq.__file__).parents[1] / "examples" / "outbox.py"
TASKS = 3


def example() -> Any:
    spec = importlib.util.spec_from_file_location("outbox_example", PATH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KilledError(BaseException):
    """The relay dies: it does nothing more."""


class Dying:
    """Counts the calls of some methods of several objects, and dies before or after one of them."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.dead = False

    def tick(self) -> None:
        if self.left == 0 or self.dead:
            self.dead = True
            raise KilledError
        self.left -= 1

    def around(self, target: Any, names: tuple[str, ...]) -> Any:
        dying = self

        class Around:
            def __getattr__(self, name: str) -> Any:
                member = getattr(target, name)
                if name not in names:
                    return member

                def call(*args: Any, **named: Any) -> Any:
                    dying.tick()
                    result = member(*args, **named)
                    dying.tick()
                    return result

                return call

        return Around()


Open = Callable[[], Any]


@contextmanager
def postgres(folder: Path) -> Iterator[Open]:
    """A PostgreSQL of its own, on a unix socket."""
    psycopg = pytest.importorskip(
        "psycopg", reason="no psycopg here: pip install 'psycopg[binary]'", exc_type=ImportError
    )
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    bin_ = found[-1].parent if found else Path(shutil.which("initdb") or "/nowhere").parent
    if not (bin_ / "initdb").exists():
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    as_user: list[str] = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        if not shutil.which("runuser"):
            pytest.skip("PostgreSQL does not run as root: apt-get install util-linux, for runuser")
        as_user = ["runuser", "-u", "nobody", "--"]
        shutil.chown(folder, "nobody")
    data, words = folder / "data", f"-k {folder} -h '' -F"
    control = [*as_user, str(bin_ / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log")]
    init = [
        *as_user,
        str(bin_ / "initdb"),
        "-D",
        str(data),
        "-U",
        "dpq",
        "--no-sync",
        "-A",
        "trust",
    ]
    subprocess.run(init, check=True, capture_output=True, cwd=folder)
    subprocess.run(
        [*control, "-o", words, "start"], check=True, cwd=folder, stdout=subprocess.DEVNULL
    )
    try:
        yield lambda: psycopg.connect(f"host={folder} user=dpq dbname=postgres", autocommit=True)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, directory: str) -> Iterator[tuple[Open, bool]]:
    """Opens a connection to a database of this test; and whether it is PostgreSQL."""
    if request.param == "sqlite":
        yield lambda: sqlite3.connect(Path(directory) / "shop.db", isolation_level=None), False
    else:
        with postgres(Path(directory)) as connect:
            yield connect, True


def test_each_task_is_run_once_wherever_the_relay_dies(live: DPQ, database: Any) -> None:
    """Before and after each statement and each call of the queue; consumers run all the time."""
    connect, is_postgres = database
    module, died = example(), 0
    db = connect()
    outbox = module.Outbox(db, postgres=is_postgres)
    for at in range(200):
        with outbox.transaction():
            keys = [outbox.add(n, priority=n) for n in range(TASKS)]
        dying, ran = Dying(at), Counter[str]()

        def consume(q: DPQ = live, ran: Counter[str] = ran) -> None:
            while (popped := q.pop()).task:
                ran[str(popped.task.key)] += 1
                popped.on_success()

        relays = connect()
        try:
            own = module.Outbox(dying.around(relays, ("execute",)), postgres=is_postgres)
            own.relay(dying.around(live, ("push_many", "get", "update")))
        except KilledError:
            died += 1
        consume()
        relays.close()  # what it has not committed is gone
        while outbox.run("SELECT count(*) FROM outbox").fetchone()[0]:
            outbox.relay(live)  # a PostgreSQL may need a moment to free the rows of the dead one
            consume()
        assert ran == Counter(keys), f"it died at {at}"
        if not dying.dead:
            break
    assert died > 20
    assert live.size() == 0
    db.close()


def test_a_transaction_that_fails_leaves_no_task(live: DPQ, database: Any) -> None:
    """Neither the row of the caller nor the task is there."""
    connect, is_postgres = database
    db = connect()
    outbox = example().Outbox(db, postgres=is_postgres)
    with pytest.raises(ZeroDivisionError), outbox.transaction():
        outbox.add(1 / (outbox.add("never") == ""))
    assert outbox.relay(live) == 0
    assert live.size() == 0
    db.close()


def test_a_pipeline_is_no_client() -> None:
    """The error of both faces says why, and names the way out."""
    for kind, client in ((DPQ, Redis()), (AsyncDPQ, aio.Redis())):
        with pytest.raises(ConfigurationError, match=r"pipeline.*outbox"):
            kind(client.pipeline(), "q")
