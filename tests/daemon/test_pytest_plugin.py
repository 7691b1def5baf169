"""The helpers for users' tests: each does what docs/testing.md says, and fails when it should."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dpq
from dpq import DPQ, Task
from dpq.script.keys import key_of
from dpq.testing import Clock, QueueFactory, assert_conserved, crash_consumer, let_leases_expire

PACKAGE = Path(dpq.__file__).parent
ROOT = PACKAGE.parent
GUIDE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def run_inner(pytester: pytest.Pytester, **files: str) -> pytest.RunResult:
    """Run test files as a user would, warnings being errors, in this process."""
    pytester.makepyfile(**files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # faster, and installed or not
        return pytester.runpytest_inprocess("-Werror", "-pno:cacheprovider", "-pdpq.pytest_plugin")


def run_alone(folder: Path, *words: str, path: list[Path], **environment: str) -> None:
    """Run the tests of a folder in a process of their own: they pass."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", *words, "test_it.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path)), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


# The plugin


def test_every_block_of_the_guide_runs(pytester: pytest.Pytester) -> None:
    """Each Python block of docs/testing.md is a file of tests that pass."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(re.findall(r"^```python", GUIDE, re.MULTILINE))
    tests = sum(block.count("def test_") for block in blocks)
    result = run_inner(pytester, **{f"test_{n}": block for n, block in enumerate(blocks)})
    result.assert_outcomes(passed=tests)


def test_the_table_of_the_guide_names_every_fixture() -> None:
    """The plugin's fixtures are those of the guide, and each says what it is. It is in every
    project of its environment: none takes a common name."""
    tree = ast.parse((PACKAGE / "pytest_plugin.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in functions}
    assert names == set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.M))
    assert names
    assert all(name.startswith("dpq_") for name in names)
    assert all(ast.get_docstring(node) for node in functions)


def test_pytest_finds_the_plugin_by_its_entry_point(tmp_path: Path) -> None:
    """A plain `pytest` in a project of its own has the fixtures, and gives them per test."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"]["pytest11"].items()
    installed = tmp_path / "site" / "dpq_by_entry_point-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: dpq-by-entry-point\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name} = {value}\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pytest.ini").touch()
    (inner / "test_it.py").write_text(
        "def test_it(dpq_queue):\n    assert dpq_queue.pop().task is None"
    )
    run_alone(inner, "-Werror", path=[installed.parent, ROOT])


def test_a_test_sees_nothing_of_the_one_before(pytester: pytest.Pytester) -> None:
    """Queues are dropped at a test's end, those that it closed and those of a failed one too."""
    result = run_inner(
        pytester,
        test_it="""
        import pytest
        from dpq import known_queues

        @pytest.mark.parametrize("how", ["leaves", "closes", "fails"])
        def test_it(dpq_server, dpq_queue, dpq_factory, how):
            assert known_queues(dpq_queue.redis) == []
            named = dpq_factory("pages")
            assert named.pop().task is None
            for queue in (dpq_queue, named):
                queue.push(how, delay=1)
                if how == "closes":
                    queue.close()
            assert how != "fails"

        def test_after_them(dpq_queue):
            assert known_queues(dpq_queue.redis) == []
        """,
    )
    result.assert_outcomes(passed=3, failed=1)


def test_a_lost_task_fails_the_users_test_and_names_it(pytester: pytest.Pytester) -> None:
    """The report of a failed assert_conserved names the task, and shows the user's line only."""
    result = run_inner(
        pytester,
        test_it="""
        from dpq.testing import assert_conserved

        def test_it(dpq_queue):
            lost = dpq_queue.push("a")
            dpq_queue.cancel(lost)
            print("it is", lost)
            assert_conserved(dpq_queue, [lost])
        """,
    )
    result.assert_outcomes(failed=1)
    lost = re.search(r"^it is (\S+)$", str(result.stdout), re.MULTILINE)
    assert lost
    result.stdout.fnmatch_lines([f"E *lost (neither done nor stored): {lost[1]}"])
    result.stdout.no_fnmatch_line("*testing.py*")


# Nothing lost, nothing doubled


def test_what_is_done_live_or_dead_is_conserved(dpq_queue: DPQ[Any]) -> None:
    """Tasks of every state count, a task that was pushed twice under its key counts once."""
    q = dpq_queue
    done = [q.push("done")]
    q.ack_many(q.pop_many(1))
    pushed = [*done, q.push("dead"), q.push("held")]
    dead, _ = q.pop_many(2)
    q.bury(dead, "no")
    pushed += [q.push("ready", key="k"), q.push("again", key="k"), q.push("later", delay=9)]
    pushed += [q.push("group", group="g") for _ in range(3)]
    stats = q.stats()
    assert min(stats.ready, stats.delayed, stats.invisible, stats.waiting, stats.dead) > 0
    assert_conserved(q, iter(pushed), iter(done))


def wrongs(q: DPQ[Any], pushed: list[str], done: list[str]) -> list[str]:
    """What assert_conserved complains of, a line each."""
    with pytest.raises(AssertionError) as caught:
        assert_conserved(q, pushed, done)
    head, *lines = str(caught.value).split("\n  ")
    assert head.startswith(f"DPQ('{q.queue_name}') has not conserved its tasks: ")
    return lines


def test_each_way_to_lose_or_double_is_named(dpq_queue: DPQ[Any]) -> None:
    """Lost, doubled and unknown ids are told apart, each with where it is."""
    q = dpq_queue
    one, two = q.push("one"), q.push("two", delay=1)
    assert_conserved(q, [one, two])
    assert wrongs(q, [one, two, "x"], []) == ["lost (neither done nor stored): x"]
    assert wrongs(q, [one, two], [one]) == [f"done and still stored: {one} (ready)"]
    assert wrongs(q, [one, two, "x"], ["x", "x"]) == ["done more than once: x"]
    assert wrongs(q, [one, two], ["x"]) == ["done but never pushed: x"]
    assert wrongs(q, [one], []) == [f"stored but never pushed: {two} (delayed)"]
    q.redis.zadd(key_of(q.queue_name, "delayed"), {one: q.get(two).enqueued_at.timestamp() * 2000})
    twice, *broken = wrongs(q, [one, two], [])
    assert twice == f"stored more than once: {one} (ready) (delayed)"
    assert broken
    assert all(line.startswith("broken invariant: ") for line in broken)


# Leases


@pytest.mark.parametrize("real", [False, True], ids=["by hand", "in real time"])
def test_leases_that_expire_bring_their_tasks_back_and_nothing_else(
    dpq_factory: QueueFactory, dpq_clock: Clock, real: bool
) -> None:
    """All leases end, counted; what was at its last attempt is dead; what is delayed stays so."""
    q = dpq_factory(clock=None) if real else dpq_factory()
    before = dpq_clock.ms
    last, first = q.push("last", max_attempts=1), q.push("first")
    later = q.push("later", delay=20)
    q.pop_many(2, visibility=3600)
    assert let_leases_expire(q) == 2
    assert dpq_clock.ms - before == (0 if real else 1)
    assert [task.id for task in q.peek(state="delayed")] == [later]
    assert [(dead.id, dead.reason) for dead in q.dead.list()] == [(last, "lease expired")]
    again = q.pop().task
    assert again
    assert (again.id, again.attempt) == (first, 2)
    assert q.check() == []
    q.ack(again)
    assert let_leases_expire(q) == 0


# Crashes


def mark(folder: Path, name: str) -> None:
    (folder / name).touch()


def marks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def held_and_back(q: DPQ[Any], held: Task[Any], task_id: str) -> None:
    """A killed consumer held the task under a lease, and it comes back as the next attempt."""
    assert (held.id, held.state, held.attempt) == (task_id, "invisible", 1)
    assert_conserved(q, [task_id])
    assert q.pop().task is None
    assert let_leases_expire(q) == 1
    again = q.pop().task
    assert again
    assert (again.id, again.attempt) == (task_id, 2)
    q.ack(again)
    assert_conserved(q, [task_id], [task_id])


def test_a_consumer_crashes_after_its_pop(dpq_queue: DPQ[Any], tmp_path: Path) -> None:
    """With `after_pop` the task is held and no work has begun; the lease is as long as asked."""
    task_id = dpq_queue.push("a")
    held = crash_consumer(dpq_queue, lambda _: mark(tmp_path, "begun"), visibility=100)
    assert marks(tmp_path) == []
    assert held.visible_until
    assert (held.visible_until - held.enqueued_at).total_seconds() == 100
    held_and_back(dpq_queue, held, task_id)
