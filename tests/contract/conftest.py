"""What the suites of workers share; each file has its own `make` and `q`."""

from collections.abc import Iterator

import pytest
from kit.workers import Gate, Start, threads_of_workers


@pytest.fixture
def start() -> Iterator[Start]:
    with threads_of_workers() as start:
        yield start


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()
