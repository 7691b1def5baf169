"""How long a waiter blocks, and when it looks again without a marker."""

from types import SimpleNamespace
from typing import Any

import pytest

from dpq.protocol.replies import Batch
from dpq.transport import waiter, watches
from dpq.transport.waiter import block_seconds
from dpq.transport.watches import begun, watches_after

NOW = 1000.0


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (waiter, watches):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: NOW))


def nodes(**facts: bool) -> Any:
    return SimpleNamespace(**{"direct": True, "fails_over": False, **facts})


@pytest.mark.parametrize(
    ("left", "facts", "seconds"),
    [
        (5, {}, 30),  # a wait until the next look: the block outlasts it
        (float("inf"), {}, 30),
        (3, {}, 3),  # a short wait: nothing stays at the server
        (5, {"fails_over": True}, 2),  # a silent master is found
        (1, {"fails_over": True}, 1),
        (60, {"direct": False}, 10),  # fakeredis
        (5, {"direct": False}, 5),
    ],
)
def test_block(left: float, facts: dict[str, bool], seconds: float) -> None:
    assert block_seconds(nodes(**facts), left) == seconds


def nothing(**more: Any) -> Batch[Any]:
    return Batch([], [], now_ms=7, **{"recheck_ms": 10_000, **more})


def test_looks_grow_apart() -> None:
    """A lost wake-up costs 5 s at first, and 10 s once the wait has lasted."""
    first = watches_after(nothing())
    assert [watch.look_at - NOW for watch in first] == [5]
    assert [watch.look_at - NOW for watch in watches_after(nothing(), first)] == [10]


def test_begun() -> None:
    """Only an answer without tasks says that a queue was there, and not opened yet."""
    assert begun(nothing())
    assert not begun(nothing(recheck_ms=None))
    assert not begun(nothing()._replace(tasks=["a task"]))
