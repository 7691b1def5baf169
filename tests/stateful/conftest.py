"""The state machine's settings: `quick`, always the same examples; `soak` for a long search.

pytest tests/stateful --hypothesis-profile soak
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings

from dpq.server import Server, find_all_binaries

_SHARED = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explain is slow
}
settings.register_profile(
    "quick", max_examples=60, stateful_step_count=40, derandomize=True, database=None, **_SHARED
)
settings.register_profile("soak", max_examples=5000, stateful_step_count=100, **_SHARED)
if settings.get_current_profile_name() != "soak":
    settings.load_profile("quick")


@pytest.fixture(scope="session")
def first_server(start_server: Callable[[str], Server]) -> Server:
    """The server that DPQ itself would choose."""
    first = find_all_binaries()[0]
    return start_server(f"{first.family}-{first.version.rpartition('.')[0]}")
