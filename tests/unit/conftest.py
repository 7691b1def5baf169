"""What the tests without a server share."""

from typing import Any

import pytest

from dpq.explain.operations import Operations
from dpq.verbs.base import Description


@pytest.fixture
def description() -> Description[Any]:
    return Description("name", max_payload_bytes=1000, clock=lambda: 5)


@pytest.fixture
def operations(description: Description[Any]) -> Operations[Any]:
    return Operations(description)
