"""release: give a task back, not counted; it keeps its place among equals."""


def test_in_a_group(q, probe):
    """A released task that is better than its group's head becomes the head again."""
    for i in range(3):
        q.push(i, group="g")
    task = probe.pop()
    assert [ready.payload for ready in q.peek()] == [1]
    q.release(task)
    assert [ready.payload for ready in q.peek()] == [0]
    assert probe.drain() == [0, 1, 2]
