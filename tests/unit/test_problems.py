"""Every kind of problem is explained, with the way out."""

import re
from pathlib import Path

import pytest

import dpq
from dpq.model.diagnosis import EXPLAINED, explain, server_problems
from dpq.types import Problem

PACKAGE = Path(dpq.__file__).parent
DOCS = (PACKAGE.parent / "docs" / "operations.md").read_text(encoding="utf-8")


def reported() -> set[str]:
    """The kinds that the scripts, the check of batches and `dpq doctor` name."""
    found = {"in 0 states", "in 2 states", "lease that has ended"}
    found |= {"batch miscounted", "batch not finished", "schedule died"}
    for path in (PACKAGE / "script" / "lua").rglob("*.lua"):
        found |= set(re.findall(r"problem\('([^']+)',", path.read_text()))
    return found


SERVER = ["eviction", "no persistence", "disk error", "memory nearly full", "clock far off"]


@pytest.mark.parametrize("kind", sorted({*reported(), *SERVER}))
def test_explained(kind):
    """A kind has a sentence about what it means and one about the way out, and is in the docs."""
    meaning, way_out = explain(Problem(kind=kind, subject="s{}", detail="d{0}"))
    assert meaning.endswith(".")
    assert way_out.endswith(".")
    assert f"`{re.sub('in 2', 'in N', kind)}`" in DOCS


def test_no_explanation_is_left_over():
    """What is explained is reported by something."""
    assert set(EXPLAINED) <= {*reported(), *SERVER}


SOUND = {"maxmemory_policy": "noeviction", "aof_enabled": 1, "used_memory": 5, "maxmemory": 0}

SERVERS = [
    (SOUND, None, []),
    ({}, None, []),
    (SOUND | {"aof_enabled": 0}, "3600 1", []),
    (SOUND | {"aof_enabled": 0}, None, []),
    (SOUND | {"aof_enabled": 0}, "", ["no persistence"]),
    (SOUND | {"maxmemory_policy": "volatile-lru"}, None, ["eviction"]),
    (SOUND | {"aof_last_write_status": "err"}, None, ["disk error"]),
    (SOUND | {"rdb_last_bgsave_status": "err"}, None, ["disk error"]),
    (SOUND | {"maxmemory": 100, "used_memory": 90}, None, []),
    (SOUND | {"maxmemory": 100, "used_memory": 91}, None, ["memory nearly full"]),
]


@pytest.mark.parametrize(("info", "save", "kinds"), SERVERS)
def test_server(info, save, kinds):
    """How a server is set up is judged by what it says, and what it does not say is good."""
    assert [problem.kind for problem in server_problems(info, save)] == kinds
