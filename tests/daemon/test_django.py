"""`dpq.django`, by the project of examples/django_site: its client, and its worker."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, wait_for

import dpq
from dpq import DPQ, ConfigurationError, PayloadError

django = pytest.importorskip("django", reason="no django here: pip install '.[test]'")

SITE = Path(dpq.__file__).parents[1] / "examples" / "django_site"


@pytest.fixture(scope="module")
def site(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The project, set up in this process, with a database of its own; its environment."""
    environment = {
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "SHOP_DB": str(tmp_path_factory.mktemp("site") / "shop.sqlite3"),
        "DPQ_URL": url,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        for name, value in environment.items():
            patch.setenv(name, value)
        django.setup()
        from django.core.management import call_command
        from django.db import connections

        from dpq.django.queues import queues

        call_command("migrate", run_syncdb=True, verbosity=0)
        yield environment
        connections.close_all()
        queues.close()


@pytest.fixture
def q(site: dict[str, str]) -> Iterator[DPQ[Any]]:
    from dpq.django import open_queue

    yield open_queue()
    open_queue().purge()


@pytest.fixture
def client(site: dict[str, str]) -> Any:
    from django.test import Client

    return Client(SERVER_NAME="localhost")


def drain(*words: str) -> None:
    from django.core.management import call_command

    call_command("dpq_worker", "--drain", *words)


def test_an_order_is_delivered_if_it_is_saved(client: Any, q: DPQ[Any]) -> None:
    """A view answers with the state of a task, with what it has returned, or why it died."""
    from shop.models import Order

    from dpq.django import open_queue

    posted = client.post("/orders/", {"item": "tea"})
    assert (posted.status_code, q.size()) == (202, 1)
    where = posted.headers["Location"]
    waits = client.get(where)
    assert (waits.status_code, waits.json()["state"]) == (202, "ready")
    assert (waits.headers["Retry-After"], waits.headers["Cache-Control"]) == ("1", "no-store")
    drain("--concurrency", "2")
    assert client.get(where).json()["result"] == {"delivered": "tea"}
    assert Order.objects.get(id=posted.json()["order"]).delivered

    gone = client.post("/orders/", {"item": "coffee"})
    Order.objects.filter(id=gone.json()["order"]).update(id=1000)
    drain()
    dead = client.get("/orders/1000/")
    assert (dead.status_code, dead.json()["state"]) == (200, "dead")
    assert dead.json()["reason"] == f"there is no order {gone.json()['order']}"
    for nobody in ("unknown", ""):
        Order.objects.filter(id=1000).update(task_id=nobody)
        assert client.get("/orders/1000/").status_code == 404
    assert open_queue() is open_queue()


def test_a_push_waits_for_the_commit(site: dict[str, str], q: DPQ[Any]) -> None:
    """A rollback pushes nothing; what could never be pushed is refused before the commit."""
    from django.db import transaction
    from shop.tasks import deliver

    from dpq.django import push_on_commit

    with transaction.atomic():
        rolled_back = push_on_commit(deliver, 1)
        transaction.set_rollback(True)
    assert (rolled_back.task_id, q.size()) == (None, 0)
    with transaction.atomic():
        pending = push_on_commit(deliver, 1, delay=60)
        with pytest.raises(PayloadError, match="order_id"):
            push_on_commit(deliver, "no number")
        with pytest.raises(ConfigurationError, match="delay"):
            push_on_commit(deliver, 1, delay=-1)
        assert (pending.task_id, q.size()) == (None, 0)
    assert pending.task_id
    assert q.get(pending.task_id).payload == {"task": "deliver", "args": {"order_id": 1}}
    assert q.size() == 1


def test_the_worker_ends_at_a_signal(client: Any, q: DPQ[Any], site: dict[str, str]) -> None:
    """`manage.py dpq_worker` runs the tasks of all apps; SIGTERM ends it with 0, and its report of
    itself goes with it."""
    command = [sys.executable, "-W", "error", str(SITE / "manage.py"), "dpq_worker"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
        try:
            where = client.post("/orders/", {"item": "milk"}).headers["Location"]
            wait_for(lambda: client.get(where).status_code == 200, q.stats)
            worker.send_signal(signal.SIGTERM)
            _, said = worker.communicate(timeout=PATIENCE_S)
        finally:
            worker.kill()
    assert worker.returncode == 0, said
    assert re.fullmatch(r"\S+: 1 kinds of tasks, queues: shop\n", said)
    assert q.admin.workers() == []
