"""`dpq worker` and `dpq workers`: real processes, their signals, their ends, and what they tell."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.programs import Start, programs
from support import PATIENCE_S, processes, wait_for
from typer.testing import CliRunner, Result

from dpq import DPQ, ConfigurationError
from dpq.cli import _processes, app
from dpq.cli._job import load
from dpq.cli._processes import FIRST_PAUSE_SECONDS, MOST_STARTS, Child, Parent
from dpq.cli._terminal import Failed

MODULE = """
import asyncio, functools, os, time
from pathlib import Path
from dpq import DPQ, AsyncDPQ, RateLimited, Reject, Retry, Tasks

def plain(task):
    assert task.payload["task"] == "plain"

def informed(task, context):
    assert context.task is task

async def later(task):
    await asyncio.sleep(0)

class Callable:
    async def __call__(self, task):
        pass

called = Callable()
partly = functools.partial(later)
table = {"plain": plain}
mixed = {"plain": plain, "later": later}
async_table = {"plain": later}
hanging = {"plain": lambda task: until_told(task), "later": later}
tasks = Tasks()
tasks.task("plain")(lambda: None)
async_tasks = Tasks()

@async_tasks.task("plain")
async def nothing():
    pass

def until_told(task):
    Path("begun").touch()
    Path(f"begun {task.id}").touch()
    while not Path("go").exists():
        time.sleep(0.005)

async def until_told_async(task):
    Path("begun").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.005)

def failing(task):
    raise task.payload["task"] == "retry" and Retry(1000) or ValueError("broken on purpose")

"""

pytestmark = pytest.mark.usefixtures("clean_environment")

Run = Callable[..., str]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with a module `shop`."""
    (tmp_path / "shop.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def start(url: str, name: str, here: Path) -> Iterator[Start]:
    """Starts `dpq worker TARGET ...` in that directory; whatever is left at the end is an error."""
    with programs("worker", here, ("--url", url, "--queue", name)) as begin:
        yield begin
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not processes(name), lambda: processes(name))
    left = processes(name)
    for line in left:
        os.kill(int(line.split()[0]), signal.SIGKILL)
    assert not left


def wait_for_words(process: "subprocess.Popen[str]", words: str) -> None:
    """Read what a process says on stderr up to a line with these words."""
    assert process.stderr
    wait_for(lambda: words in process.stderr.readline(), lambda: words)


def told(process: "subprocess.Popen[str]", code: int = 0) -> str:
    """What a process said on stderr until its end; on stdout it says nothing."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (code, ""), err
    return err


@pytest.fixture
def imported(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests that import in this process do it there, and what they import is forgotten again."""
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for module in set(sys.modules) - before:
        del sys.modules[module]


@pytest.fixture
def run_here(url: str, name: str, imported: None) -> Run:
    """Runs `dpq worker TARGET ...` in this process to its end: what it said on stderr."""

    def invoke(*words: object, where: bool = True, code: int = 0) -> str:
        place = ["--url", url, "--queue", name] if where else []
        result = CliRunner().invoke(app, ["worker", *map(str, words), *place])
        assert (result.exit_code, result.stdout) == (code, ""), (result.stderr, result.exception)
        return result.stderr

    return invoke


def named(q: DPQ, *names: str) -> None:
    for each in names:
        q.push({"task": each, "args": {}})


# What is run


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        *[(each, "Worker") for each in ("plain", "informed", "table", "tasks")],
        *[
            (each, "AsyncWorker")
            for each in ("later", "called", "partly", "async_table", "async_tasks")
        ],
    ],
)
def test_any_kind_of_handlers(run_here: Run, q: DPQ, target: str, kind: str) -> None:
    """A function, a dict, a Tasks: each is run by the worker that it needs."""
    named(q, "plain", "plain")
    said = run_here(f"shop:{target}", "--drain", "--concurrency", 2)
    assert f": {kind} of shop:{target} on {q.queue_name}, 2 at once" in said
    assert "drained: 2 tasks finished, 0 dead letters, 0 left" in said
    assert (q.stats().acked, q.admin.workers()) == (2, [])


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [("plain", 0, "finished"), ("async_tasks", 0, "finished"), ("failing", 1, "broken on purpose")],
)
def test_one_task_is_run_by_its_id(
    url: str, name: str, imported: None, q: DPQ, target: str, code: int, words: str
) -> None:
    """`--task` calls the handler of this task once, here, and ends its delivery as a worker."""
    named(q, "plain", "plain", "plain")
    wanted = q.peek()[2].id
    done = CliRunner().invoke(
        app, ["worker", f"shop:{target}", "--task", wanted, "--url", url, "--queue", name]
    )
    assert (done.exit_code, done.stdout) == (code, ""), done.stderr
    assert words in done.stderr
    stats = q.stats()
    assert (stats.acked, stats.failed, stats.ready) == (1 - code, code, 2)
    if code:
        assert "Traceback" in done.stderr
        assert q.get(wanted).last_error.endswith("broken on purpose")


def test_a_task_that_may_not_run_is_not_run(url: str, name: str, imported: None, q: DPQ) -> None:
    """`--task` says why a task cannot run now; with --force it runs a delayed one."""
    wanted = q.push({"task": "plain"}, delay=900, group="g")
    words = ["worker", "shop:plain", "--task", wanted, "--url", url, "--queue", name]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 1
    assert f"task {wanted} cannot run now: it is delayed" in refused.stderr
    q.delay_group("g", 900)
    closed = CliRunner().invoke(app, [*words, "--force"])
    assert closed.exit_code == 1
    q.delay_group("g", 0)
    assert CliRunner().invoke(app, [*words, "--force"]).exit_code == 0
    assert q.stats().acked == 1


def test_several_queues(run_here: Run, q: DPQ) -> None:
    """Each --queue is asked, in the order given; the settings reach the worker."""
    second = DPQ(q.redis, f"{q.queue_name}-2")
    q.push({"task": "plain"}, delay=0.3)
    named(second, "plain")
    words = ["--queue", second.queue_name, "--order", "round_robin", "--prefetch", 5]
    said = run_here("shop:plain", "--drain", *words, "--visibility", 9, "--time-limit", 8)
    assert f"on {second.queue_name}, {q.queue_name}, 1 at once" in said
    assert "draining: 0 of 2 tasks, 1 delayed\n" in said
    assert (q.stats().acked, second.stats().acked) == (1, 1)
    second.admin.drop()
    second.close()


def test_a_tasks_with_a_queue_needs_no_other(
    url: str, run_here: Run, q: DPQ, here: Path, name: str
) -> None:
    """Where a Tasks has a queue, its own client and settings are used, blocking or async."""
    own = f"""
from shop import *
tasks.queue = DPQ.from_url({url!r}, {name!r}, default_visibility=7)
async_tasks.queue = AsyncDPQ.from_url({url!r}, {name!r})
blocking = Tasks(tasks.queue)

@blocking.task("plain")
async def again():
    pass
"""
    (here / "own.py").write_text(own)
    for target in ("tasks", "async_tasks"):
        named(q, "plain")
        said = run_here(f"own:{target}", "--drain", where=False)
        assert "drained: 1 task finished" in said
    refused = run_here("own:blocking", where=False, code=2)
    assert "'own:blocking' is async, but its queue is not: name the server" in refused
    named(q, "plain")
    run_here("own:blocking", "--drain", "--url", url, where=False)
    assert (q.stats().acked, q.size()) == (3, 0)


# What is not there


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("shop", "'shop' names no handlers: write package.module:name"),
        (":plain", "write package.module:name"),
        ("shup:plain", "there is no module 'shup'; modules in .*: broken, needs, shop"),
        ("inner.shup:x", "there is no module 'inner.shup'; modules in .*inner': deep"),
        ("shop:plane", "'shop' has no 'plane'; it has .*plain, table"),
        ("shop:tasks.plain", "'shop' has no 'plain'; it has no handler"),
        ("shop:nothing", "'shop:nothing' is a single task: name the Tasks object"),
        ("needs:x", r"module 'needs' cannot be imported: ModuleNotFoundError\(.*not_installed"),
        ("broken:x", r"module 'broken' cannot be imported: ZeroDivisionError\("),
    ],
)
def test_what_is_not_there_is_told(here: Path, target: str, reason: str) -> None:
    """A wrong target is wrong usage, and the error says what is there instead."""
    (here / "needs.py").write_text("import not_installed")
    (here / "broken.py").write_text("1 / 0")
    (here / "inner").mkdir()
    (here / "inner" / "deep.py").touch()
    with pytest.raises(ConfigurationError, match=reason):
        load(target)


# Stopping


@pytest.mark.parametrize(
    ("target", "number"), [("until_told", signal.SIGHUP), ("until_told_async", signal.SIGINT)]
)
def test_the_first_signal_lets_handlers_finish(
    start: Start, q: DPQ, here: Path, target: str, number: signal.Signals
) -> None:
    """After one signal no task is begun, what runs is finished, and the program ends with 0."""
    named(q, "plain", "plain")
    process = start(f"shop:{target}")
    wait_for(lambda: (here / "begun").exists(), q.stats)
    process.send_signal(number)
    wait_for_words(process, f"{number.name}, stopping")
    (here / "go").touch()
    assert re.search(r"handled 1 in [0-9.]+ s: 1 done; gave back 0", told(process))
    assert (q.stats().acked, q.stats().ready, q.admin.workers()) == (1, 1, [])


def test_the_second_signal_gives_back(start: Start, q: DPQ, here: Path) -> None:
    """After two signals running tasks are given back, uncounted, and the program ends with 1."""
    named(q, "plain")
    process = start("shop:until_told")
    wait_for(lambda: (here / "begun").exists(), q.stats)
    process.send_signal(signal.SIGTERM)
    wait_for_words(process, "SIGTERM, stopping")
    process.send_signal(signal.SIGTERM)
    assert "gives back 1 tasks whose handlers still run" in told(process, code=1)
    [task] = q.peek()
    assert (task.attempt, task.deliveries, q.admin.workers()) == (1, 1, [])


def test_a_thread_that_hangs_does_not_keep_the_program(start: Start, q: DPQ) -> None:
    """Its attempt has failed at its time limit; so nothing waits for it at the end."""
    process = start("shop:hanging")
    q.push({"task": "plain"}, time_limit=0.1, max_attempts=1)
    wait_for(lambda: q.stats().dead == 1, q.stats)
    process.send_signal(signal.SIGTERM)
    assert "1 TimeoutError" in told(process)


# Several processes


def pids(q: DPQ) -> set[int]:
    return {worker.pid for worker in q.admin.workers()}


def test_processes_share_the_work_and_end_together(
    start: Start, url: str, name: str, q: DPQ, here: Path
) -> None:
    """That many processes work; one that was killed is replaced, and the other goes on. At a signal
    all finish, and the parent ends with 0. The URL, which may have a password, is in no command
    line of theirs."""
    named(q, *["plain"] * 5)
    process = start("shop:until_told", "--processes", 2, "--concurrency", 2)
    wait_for(lambda: len(list(here.glob("begun *"))) == 4, q.stats)
    wait_for(lambda: len(pids(q)) == 2, q.admin.workers)
    victim, other = sorted(pids(q))
    os.kill(victim, signal.SIGKILL)
    restarts = f"process {victim}: died by SIGKILL; restarting in {FIRST_PAUSE_SECONDS} s"
    wait_for_words(process, restarts)
    wait_for(lambda: len(pids(q) - {victim}) == 2, q.admin.workers)
    assert other in pids(q) - {process.pid}
    wait_for(lambda: len(list(here.glob("begun *"))) == 5, q.stats)
    children = [line for line in processes(name) if "--report-to" in line]
    assert len(children) == 2
    assert url not in "".join(children)
    process.send_signal(signal.SIGINT)
    for _ in range(2):
        wait_for_words(process, "SIGTERM, stopping")
    (here / "go").touch()
    assert told(process).count("ended with 0") == 2
    assert (q.stats().acked, q.stats().invisible) == (3, 2)  # the victim's come back in their time


def test_files_of_the_current_directory_are_not_run_instead(
    url: str, q: DPQ, here: Path, name: str
) -> None:
    """No redis.py or dpq.py there is run by a child, which ends when its parent is killed."""
    for each in ("redis", "queue", "dpq", "typer", "threading"):
        (here / f"{each}.py").write_text(f"open('{each} was run', 'w'); raise SystemExit(0)")
    named(q, "plain")
    command = [sys.executable, "-P", "-m", "dpq", "worker", "shop:until_told"]
    with subprocess.Popen(
        [*command, "--processes=1", "--queue", name, "--url", url],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_for(lambda: (here / "begun").exists() or process.poll() is not None, q.stats)
            (here / "go").touch()
            wait_for(lambda: q.stats().acked or process.poll() is not None, q.stats)
        finally:
            process.kill()
    wait_for(lambda: not processes(name), lambda: processes(name))
    assert q.stats().acked == 1
    assert not list(here.glob("* was run"))


def run_parent(monkeypatch: pytest.MonkeyPatch, *made: Child) -> int:
    """Look after children, without a pause between two starts."""
    monkeypatch.setattr(_processes, "LONGEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(_processes, "POLL_SECONDS", 0.001)
    return Parent(made).run()


def child(code: str) -> Child:
    """A place for a process that runs code, and may `report`."""
    report = "import os, sys\ndef report(line): os.write(int(sys.argv[1].split('=')[1]), line)\n"
    return Child([sys.executable, "-S", "-c", report + code], os.environ)


def test_children_that_never_begin_end_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few starts without a beat the parent fails, and ends the others."""
    dying = child("sys.exit(1)")
    waiting = child("import time; time.sleep(600)")
    with pytest.raises(Failed, match="ended with 1 before its first heartbeat, in all 4 starts"):
        run_parent(monkeypatch, dying, waiting)
    assert (dying.starts, waiting.starts) == (MOST_STARTS, 1)
    assert waiting.process is None  # it was told to end, too


# dpq workers


def run(url: str, *words: str) -> Result:
    result = CliRunner().invoke(app, ["--url", url, "workers", *words])
    assert result.exit_code == 0, result.stderr
    return result


def tell(q: DPQ, worker: str, name: str, running: int) -> None:
    q._session.run(q._operations.beat, worker, name, "host-1", 4711, "0.1", running, 8, 90.0)


def test_workers_are_one_row_each(url: str, q: DPQ, name: str) -> None:
    """A worker on two queues is one row, which names both and counts what runs on either."""
    second = DPQ(q.redis, f"{name}-2")
    tell(q, "a", "bees", 2)
    tell(second, "a", "bees", 3)
    tell(second, "b", "wasps", 0)
    words = ["--queue", name, "--queue", second.queue_name]
    rows = [json.loads(line) for line in run(url, *words, "--json").stdout.splitlines()]
    shown = [(row["name"], row["queues"], row["running"], row["concurrency"]) for row in rows]
    assert sorted(shown) == [
        ("bees", [name, second.queue_name], 5, 8),
        ("wasps", [second.queue_name], 0, 8),
    ]
    assert {(row["host"], row["pid"]) for row in rows} == {("host-1", 4711)}
    table = run(url, *words).stdout
    [line] = [line for line in table.splitlines() if "bees" in line]
    assert f"host-1  4711  {name}, {second.queue_name}" in line
    assert line.rstrip().endswith("s ago")
    assert line.split()[6:9] == ["5", "8", "0"]
    second.admin.drop()
    second.close()


def test_a_worker_is_made_quiet_in_all_its_queues(url: str, q: DPQ, name: str) -> None:
    """By its name or id, in all queues that know it or in the named one; the table says so."""
    second = DPQ(q.redis, f"{name}-2")
    for each in (q, second):
        tell(each, "a", "bees", 2)
        tell(each, "b", "wasps", 0)
    both = ["--queue", name, "--queue", second.queue_name]

    def quiet() -> list[list[str]]:
        return [[w.name for w in each.admin.workers() if w.quiet_since] for each in (q, second)]

    run(url, "--quiet", "bees", *both)
    assert quiet() == [["bees"], ["bees"]]
    run(url, "--unquiet", "a", "--queue", second.queue_name)
    assert quiet() == [["bees"], []]
    rows = [json.loads(line) for line in run(url, *both, "--json").stdout.splitlines()]
    assert {row["name"]: row["quiet_queues"] for row in rows} == {"bees": [name], "wasps": []}
    assert "quiet in" in run(url, *both).stdout
    assert [event.detail.split(",")[0] for event in q.admin.events()] == ["worker bees"]
    second.admin.drop()


def test_all_known_queues_are_asked(url: str, q: DPQ, name: str) -> None:
    """Without --queue the workers of every known queue are shown, and those of the default one."""
    q.push(1)
    tell(q, "a", "bees", 1)
    default = DPQ(q.redis, "default")
    tell(default, "b", "wasps", 1)
    rows = [json.loads(line) for line in run(url, "--json").stdout.splitlines()]
    assert {row["name"]: row["queues"] for row in rows} == {"bees": [name], "wasps": ["default"]}
    default.admin.drop()
    default.close()
