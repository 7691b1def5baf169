"""peek: look at the first tasks of one state, in its own order."""


def test_bytes_bound(q, probe):
    """One call answers at most so many bytes of payloads, but the first task in any case."""
    for _ in range(3):
        q.push("x" * 98)  # 100 bytes of JSON
    assert len(probe.call("peek", "ready", 0, 10, 250)) == 2 * 4
    assert len(probe.call("peek", "ready", 0, 10, 1)) == 1 * 4
    assert len(probe.call("peek", "ready", 1, 10, 1000)) == 2 * 4
