"""What the state machines share."""

from pathlib import Path

import pytest

LIMIT_S = 3600
"""Of one search: a random walk has no other end, and a failure takes long to make small."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(LIMIT_S))
