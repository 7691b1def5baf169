"""The soak bites: faults planted in a copy of the code on purpose, each of which it must find.

All of them, a minute each, in `make test-all`, on one server; none in the suite.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from soak.plants import PLANTS, TESTS, Plant
from soak.report import EXPECTED
from support import SERVERS

LONG = settings.get_current_profile_name() == "soak" and next(iter(SERVERS)).startswith("valkey")

SEEDS = (1, 2, 3)
"""Tries: what a minute brings is chance, such as who is killed with which task in hand."""


def findings(report: str) -> set[str]:
    """The kinds of findings of which a report has any."""
    return {
        kind
        for kind, words in EXPECTED.items()
        if (row := re.search(rf"\| {re.escape(words)} \| (\d+) \|", report)) and int(row[1])
    }


@pytest.mark.skipif(not LONG, reason="a minute for each fault: make test-all")
@pytest.mark.timeout(900)  # up to three runs of a minute each, and a drain that may end in vain
@pytest.mark.parametrize("plant", PLANTS if LONG else PLANTS[:1], ids=lambda plant: plant.name)
def test_the_soak_finds_a_planted_fault(plant: Plant, tmp_path: Path) -> None:
    """It ends with 1, and among its findings is one of the kind that this fault leads to."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    seen: set[str] = set()
    for seed in SEEDS:
        command = [sys.executable, "-m", "soak", "--minutes", "1", "--visibility", "1.5"]
        command += ["--seed", str(seed), "--plant", plant.name]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        seen |= findings(done.stdout)
        if seen & set(plant.finds):
            assert done.returncode == 1
            return
    pytest.fail(f"{plant.name}: only {seen or 'nothing'} was found")
