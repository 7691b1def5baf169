"""policy: pure decisions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq import Backoff, ConfigurationError
from dpq.model.validation import MAX_SECONDS


def test_grows_to_its_cap():
    """Without jitter the wait is base * factor^(n-1), up to the cap."""
    backoff = Backoff(base=2, factor=3, cap=50, jitter=0)
    assert [backoff.delay(attempt, 0.5) for attempt in range(1, 6)] == [2, 6, 18, 50, 50]


@given(
    st.builds(
        Backoff,
        base=st.floats(0, 86_400),
        factor=st.floats(1, 1000),
        cap=st.floats(0, 31_536_000),
        jitter=st.floats(0, 1),
    ),
    st.integers(1, 10**6),
    st.floats(0, 1),
)
def test_bounds(backoff, attempt, chance):
    """For any attempt and any chance the wait is a delay that push would take, at most the cap."""
    wait = backoff.delay(attempt, chance)
    assert 0 <= wait <= backoff.cap <= MAX_SECONDS
    assert wait >= backoff.delay(attempt, 0) * (1 - backoff.jitter) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "bad", "bound"),
    [
        ("base", -0.1, "from 0 to 86400"),
        ("base", 86_401, "from 0 to 86400"),
        ("factor", 0.99, "from 1 to 1000"),
        ("factor", 1001, "from 1 to 1000"),
        ("cap", -1, "from 0 to 31536000"),
        ("cap", 31_536_001, "from 0 to 31536000"),
        ("jitter", -0.1, "from 0 to 1"),
        ("jitter", 1.1, "from 0 to 1"),
        *(
            (name, bad, "from")
            for name in ("base", "jitter")
            for bad in (math.nan, True, "1", None)
        ),
        ("cap", math.inf, "from 0"),
    ],
)
def test_refused(name, bad, bound):
    """A value out of its bounds is refused with its name, itself and the bounds."""
    with pytest.raises(ConfigurationError, match=f"Backoff {name} is .*{bound}") as caught:
        Backoff(**{name: bad})
    assert repr(bad) in str(caught.value)
