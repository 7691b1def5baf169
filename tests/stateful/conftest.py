"""What the state machines share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dpq.server import Server, find_binary

LIMIT_S = 3600
"""Of one search: a random walk has no other end, and a failure takes long to make small."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session")
def first_server(start_server: Callable[[str], Server]) -> Server:
    """The server that DPQ itself would choose."""
    first = find_binary()
    return start_server(f"{first.family}-{first.version.rpartition('.')[0]}")
