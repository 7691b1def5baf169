"""order: a priority as an exact, sortable key."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpq import ConfigurationError
from dpq.model.priority import INT64_MAX, INT64_MIN, decode_priority, encode_priority

near_powers = st.builds(
    lambda sign, power, step: sign * 2**power + step,
    st.sampled_from([-1, 1]),
    st.integers(50, 62),
    st.integers(-600, 600),
)
priorities = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    near_powers,
    near_powers.map(float),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX, 0, -0.0, 5e-324]),
)


neighbours = st.integers(INT64_MIN + 600, INT64_MAX - 600).flatmap(
    lambda base: st.lists(st.integers(-600, 600).map(base.__add__), max_size=30)
)
"""Many of them have the same double."""


def key(priority):
    """What a sorted set compares: the score as Lua computes it, then the member's first bytes."""
    text, residual = encode_priority(priority)
    return (0.0 - float(text), residual.encode())


@given(st.lists(priorities, max_size=30) | neighbours)
@example([2**62 + 1, 2**62 + 2, 2**62 + 9, 2**62 + 511])
@example([2**63 - 1, 2.0**63 - 1024, 2**63 - 2, 2.0**62, 2**62 + 1, 2**62 - 1])
@example([2**53 + 1, 2**53, 2.0**53, 2**53 + 2, 1.0, 1, 0, -0.0])
def test_sorts_exactly(mixed):
    """Sorting by (score, residual) is the exact order of ints and floats, best first."""
    by_key = sorted(range(len(mixed)), key=lambda i: (key(mixed[i]), i))
    exactly = sorted(range(len(mixed)), key=lambda i: (-mixed[i], i))  # Python compares exactly
    assert by_key == exactly


@given(priorities, priorities)
@example(3, 3.0)
@example(2**62, 2.0**62)
@example(2**53, 2**53 + 1)
def test_equal_keys_for_equal_numbers_only(one, other):
    """Two priorities share a key exactly when they are the same number, whatever their types."""
    assert (key(one) == key(other)) is (one == other)
    assert (key(one) < key(other)) is (one > other)


@given(priorities)
def test_round_trip(priority):
    """The text gives back the same number of the same type; only -0.0 becomes 0.0."""
    back = decode_priority(encode_priority(priority)[0])
    assert back == priority
    assert type(back) is type(priority)
    assert math.copysign(1, back) == 1 or priority < 0


@given(priorities)
def test_shape(priority):
    """A text has no blanks, and a residual is 1 or 4 characters, as the scripts expect."""
    text, residual = encode_priority(priority)
    assert not any(character.isspace() for character in text)
    assert residual == "1" or (len(residual) == 4 and residual[0] in "02" and residual.isdigit())


@pytest.mark.parametrize(
    "bad",
    [2**63, -(2**63) - 1, math.nan, math.inf, -math.inf, True, False, "1", None, 1j, [1], b"1"],
)
def test_refused(bad):
    """What is neither an int of 64 bits nor a finite float is refused with value and bounds."""
    with pytest.raises(ConfigurationError) as caught:
        encode_priority(bad)
    assert repr(bad) in str(caught.value)
    assert "from -2^63 to 2^63-1" in str(caught.value)
