"""scan: a cursor of another process of the server begins a walk anew, in each script that walks."""

import pytest

from dpq import Push

WALKS = {
    "export": ["tasks", "?", 1, 9],
    "check_batches": ["?", 1],
    "check": ["", "meta", "?", 1, 0],
    "check_limits": ["", "limits", "?", 1, 0],
    "batches": ["?"],
    "scopes": ["limits", "?"],
    "workers": [1, "?", 9, ""],
    "held": [1, "?"],
    "set_limit": ["", "groups", "", "", "leases", "?", "", ""],
}


@pytest.mark.parametrize("name", WALKS)
def test_a_cursor_of_another_process(q, probe, name):
    """It gives the first page, whatever it says; and so does one that is none."""
    q.push_many([Push(n, group=f"g{n}", batch="b") for n in range(9)])
    q.pop_many(5)
    q.set_limit(5, 1, group="g1")

    def page(cursor: str) -> list[bytes]:
        found = probe.call(name, *(cursor if arg == "?" else arg for arg in WALKS[name]))
        return [part for part in found if part not in (b"", None)]

    assert page("0") == page("7:abc") == page("18446744073709551615:") == page("nonsense")
