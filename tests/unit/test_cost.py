"""The cost of a task as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq import ConfigurationError
from dpq.limits.cost import MAX_COST, MAX_UNITS, read_cost, write_cost

amounts = st.integers(0, MAX_COST)
units = st.text("amz09_", max_size=15).map("u".__add__)


@given(amounts, st.dictionaries(units, st.integers(1, MAX_COST), max_size=MAX_UNITS))
def test_round_trip(requests, named):
    """What is written is read back, and fits into the first part of a record."""
    text = str(write_cost({"": requests, **named}))
    assert read_cost(text) == (requests, named or None)
    assert len(text) <= 125


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (0, "cost is 0: it must be an int from 1 to 1000000000"),
        (True, "cost is True: it must be an int"),
        (1.5, "cost is 1.5: it must be an int"),
        ("3", "cost is '3': it must be an int"),
        ({"": -1}, "cost[''] is -1: it must be an int from 0 to 1000000000"),
        ({"tokens": 1.5}, "cost['tokens'] is 1.5: it must be an int from 0 to 1000000000"),
        ({"tokens": MAX_COST + 1}, f"cost['tokens'] is {MAX_COST + 1}: it must be an int"),
        ({"Tokens": 1}, "a unit of cost is 'Tokens': it must be 1 to 16 of a-z, 0-9 and _"),
        ({1: 1}, "a unit of cost is 1: it must be 1 to 16 of a-z, 0-9 and _"),
        (dict.fromkeys("abcde", 1), "cost names 5 units: it may name at most 4 beside requests"),
    ],
)
def test_refused(cost, told):
    """A wrong number or unit is named, with what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        write_cost(cost)
    assert str(caught.value).startswith(told)
