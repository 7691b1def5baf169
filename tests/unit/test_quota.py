"""quota: what a quota may be, and the clock changes that it carries."""

import pytest

from dpq import ConfigurationError, Quota, Reserve

NOW = 1_790_000_000_000  # September 2026


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ((0, "day"), "amount is 0: it must be an int from 1 to 1000000000000"),
        ((1.5, "day"), "amount is 1.5"),
        ((10**12 + 1, "day"), "amount is 1000000000001"),
        ((5, "year"), "period is 'year': it must be 'hour', 'day', 'week' or 'month'"),
        ((5, "day", "Mars/Base"), "this machine knows no such zone; give an IANA name"),
        ((5, "day", "localtime"), "its meaning differs between machines"),
        ((5, "day", None), "it must be an IANA name"),
        ((5, "day", "../etc/passwd"), "this machine knows no such zone"),
        ((5, "day", "UTC", "Tokens"), "unit is 'Tokens'"),
        ((5, "day", "UTC", "", 3), "reserve is 3: it must be a Reserve"),
        ((5, "day", "UTC", "", Reserve(5, 1)), "amount must be larger"),
        ((5, "day", "UTC", "", None, 1), "spread is 1: it must be True or False"),
    ],
)
def test_bounds(settings, error):
    """Each value out of its bounds is named, with the way out."""
    with pytest.raises(ConfigurationError) as caught:
        Quota(*settings)
    assert error in str(caught.value)
