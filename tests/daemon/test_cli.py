"""The command line: what it prints where, how it ends, and that each command does what it says."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from kit.waiting import blocked
from rich.text import Text
from support import PATIENCE_S, processes, wait_for
from typer.testing import CliRunner, Result

import dpq
from dpq import DPQ, Adaptive, Push, RateLimit, Reserve, TaskState
from dpq.cli import app
from dpq.script.keys import key_of

Run = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("clean_environment")


def program(*words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Runs the real program."""
    return subprocess.run(
        [sys.executable, "-m", "dpq", *map(str, words)],
        capture_output=True,
        text=True,
        **{"check": False, "timeout": PATIENCE_S, **settings},
    )


def start(*words: object, **settings: Any) -> subprocess.Popen[str]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "dpq", *map(str, words)]
    return subprocess.Popen(command, text=True, **{**streams, **settings})


def one(result: Result | subprocess.CompletedProcess[str]) -> Any:
    """The only line of stdout, as JSON."""
    lines = result.stdout.splitlines()
    assert len(lines) == 1, lines
    return json.loads(lines[0])


def line_of(task: Any) -> tuple[str, str]:
    return task["id"], str(task["token"])


def told(result: Result) -> str:
    """What was said on stderr, without the frames of usage errors."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())


# Adding


@pytest.mark.parametrize(
    ("options", "line", "shown"),
    [
        (("--every", 3600), None, "every 1 h"),
        (("--cron", "*/5 * * * *"), "*/5 * * * * UTC", "every fifth minute of every hour (UTC)"),
        (
            ("--cron", "0 3 * * *", "--timezone", "Europe/Berlin"),
            "0 3 * * * Europe/Berlin",
            "at 03:00 every day (Europe/Berlin)",
        ),
    ],
)
def test_push_of_a_recurring_task(
    run: Run, q: DPQ, options: tuple[Any, ...], line: str | None, shown: str
) -> None:
    """A schedule reaches the task and is shown; it ends by its key."""
    task_id = run("push", "1", "--key", "k", *options).stdout.strip()
    task = q.get(task_id)
    assert (task.every, task.cron) == (None if line else 3600, line)
    state = "ready" if task.every else "delayed"
    assert shown in run("peek", "--state", state).stdout
    run("task", "update", "--key", "k", "--priority", 3)
    assert q.get(task_id).priority == 3
    assert "cancelled k" in run("task", "cancel", "--key", "k").stderr
    assert q.size() == 0


def test_seconds_are_also_said_in_minutes_and_hours(run: Run, q: DPQ) -> None:
    """By options and arguments alike, and where a bare option may stand without a number."""
    task_id = run("push", 1, "--delay", "5m", "--unique-for", "inf", "--key", "k").stdout.strip()
    left = q.get(task_id).visible_until - datetime.now(UTC)
    assert 280 < left.total_seconds() <= 300
    assert "for 5400 s" in run("admin", "pause", "1h30m").stderr
    assert re.search(r" ago: paused: by .*, until .* UTC\n", run("why").stderr)
    run("admin", "resume")
    task = one(run("pop", "--id", task_id, "--force", "--visibility", "90s"))
    left = datetime.fromisoformat(task["visible_until"]) - datetime.now(UTC)
    assert 80 < left.total_seconds() <= 90
    assert "no task is ready" in run("pop", "--wait", "10ms", code=1).stderr


def test_push_reads_payloads_line_by_line(run: Run, q: DPQ) -> None:
    """Every line that is not blank becomes a task, in order; CRLF and BOM do no harm."""
    lines = b'\xef\xbb\xbf{"n": 1}\r\n\n   \n"zw\xc3\xb6lf"\nnull\n4'
    result = run("push", "--priority", 7, "--group", "g", lines=lines)
    tasks = [q.get(task_id) for task_id in result.stdout.split()]
    assert [task.payload for task in tasks] == [{"n": 1}, "zwölf", None, 4]
    assert {(task.priority, task.group) for task in tasks} == {(7, "g")}
    assert result.stderr == f"pushed 4 tasks to '{q.queue_name}'\n"


def test_push_into_a_full_queue(run: Run, q: DPQ) -> None:
    """A full queue refuses with its size and bound; with --timeout, after that time."""
    q.admin.set_bounds(max_tasks=130)
    failed = run("push", lines="1\n" * 260, code=1)
    assert (len(failed.stdout.split()), q.size()) == (125, 125)
    said = " ".join(failed.stderr.split())
    assert "lines 126 to " in said
    assert "holds 125 of at most 130 tasks" in said
    assert "none of these was pushed; 125 tasks before were pushed" in said
    failed = run("push", "--timeout", 0.01, lines="1\n" * 10, code=1)
    assert (len(failed.stdout.split()), q.size()) == (5, 130)
    assert "lines 6 to 10: " in failed.stderr
    run("push", 1, "--timeout", 0.01, code=1)
    assert q.size() == 130


@pytest.mark.parametrize(
    ("words", "bad", "reason"),
    [
        ((), "{", "line 3"),
        (("--full",), '{"payload": 1, "at": 5}', "line 3: at: 5 must be a time"),
        ((), "NaN1", "line 3"),
        (("--full",), '{"payload": 1, "prio": 2}', "line 3: prio"),
        (("--full",), '{"priority": 2}', "line 3: payload"),
        (("--full",), "5", "with --full, each line must be an object"),
        (("--full",), '{"payload": 1, "on_duplicate": ["keep"]}', "on_duplicate"),
        (("--full",), '{"payload": 1, "max_attempts": 1.5}', "max_attempts is 1.5"),
        (("--full",), '{"payload": 1, "group": 5}', "group is 5"),
        (("--full",), '{"payload": 1, "priority": "high"}', "priority is 'high'"),
    ],
)
def test_a_bad_line_is_named(
    run: Run, q: DPQ, words: tuple[str, ...], bad: str, reason: str
) -> None:
    """A bad line ends the push with 1 and is named; what was pushed before is what was printed."""
    result = run("push", *words, lines=f'{{"payload": 1}}\n\n{bad}\n{{"payload": 2}}', code=1)
    assert reason in told(result)
    assert [task.id for task in q.peek(9)] == result.stdout.split()
    assert re.search(rf"{len(q)} tasks? before w", told(result))


# Taking and settling


def test_pop_prints_a_task_that_ack_finishes(run: Run, q: DPQ) -> None:
    """Pop's line has what ack needs; a second ack says kindly that the task is gone."""
    pushed = q.push({"a": 1}, 5)
    popped = run("pop", "--visibility", 100)
    task = one(popped)
    assert popped.stderr == ""
    assert (task["id"], task["payload"], task["state"]) == (pushed, {"a": 1}, "invisible")
    assert run("task", "ack", *line_of(task)).stdout == ""
    assert q.stats().acked == 1
    assert f"{pushed} is gone" in run("task", "ack", *line_of(task), code=1).stderr


def test_pop_of_nothing_ends_with_1(run: Run) -> None:
    """An empty queue is 1, a word on stderr and nothing on stdout."""
    result = run("pop", code=1)
    assert result.stdout == ""
    assert "no task is ready" in result.stderr
    run("pop", "--wait", "0.01", code=1)


@pytest.mark.parametrize("wait", [["--wait"], ["--wait", "20"], ["--wait", "-n", "1"]])
def test_pop_waits_for_a_task(run: Run, q: DPQ, wait: list[str]) -> None:
    """--wait waits for a task, with a number of seconds or without one."""

    def push() -> None:
        wait_for(lambda: blocked(q.redis), lambda: q.redis.client_list())
        q.push("late")

    with ThreadPoolExecutor() as pool:
        pushed = pool.submit(push)
        assert one(run("pop", *wait))["payload"] == "late"
        pushed.result()


def test_pop_by_id(run: Run, q: DPQ) -> None:
    """--id takes this task; if it cannot run, the command says why, and --force takes it early."""
    q.push("better", 9)
    wanted, later = q.push("wanted"), q.push("later", delay=60)
    assert one(run("pop", "--id", wanted))["payload"] == "wanted"
    assert (
        f"task {wanted} cannot run now: it is running" in run("pop", "--id", wanted, code=1).stderr
    )
    assert "it is delayed" in run("pop", "--id", later, code=1).stderr
    assert one(run("pop", "--id", later, "--force", "--ack"))["payload"] == "later"
    assert "does not wait" in run("pop", "--id", later, "--wait", "5", code=2).stderr
    assert "without an id" in run("pop", "--force", code=2).stderr


@pytest.mark.parametrize(
    ("words", "state", "counted"),
    [
        (("fail", "--error", "boom", "--delay", "50"), TaskState.DELAYED, 1),
        (("fail",), TaskState.DELAYED, 1),
        (("fail", "--priority", "-3"), TaskState.DELAYED, 1),
        (("release",), TaskState.READY, 0),
        (("release", "--delay", "50", "--priority", "-3"), TaskState.DELAYED, 0),
        (("rate-limited", "50", "--scope", "task"), TaskState.DELAYED, 0),
        (("bury", "--reason", "broken"), TaskState.DEAD, 0),
        (("bury", "--priority", "-3"), TaskState.DEAD, 0),
        (("extend", "500"), TaskState.INVISIBLE, 0),
    ],
)
def test_a_holder_settles_its_delivery(
    run: Run, q: DPQ, words: tuple[str, ...], state: TaskState, counted: int
) -> None:
    """fail, release, bury and the others do to the task what the library's methods do."""
    q.push(1)
    task_id, token = line_of(one(run("pop")))
    run("task", words[0], task_id, token, *words[1:])
    task = q.get(task_id)
    assert task.state is state
    assert task.attempt == counted + 1
    if "--error" in words:
        assert task.last_error == "boom"
    if "--priority" in words:
        assert task.priority == -3
    if "--reason" in words:
        assert task.reason == "broken"


def test_an_ack_of_what_is_gone_meanwhile_says_so(
    run: Run, q: DPQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else takes the task away between the look and the ack: nothing was finished here."""
    q.push(1)
    task = q.pop().task
    look = DPQ.get

    def look_and_lose(self: DPQ, task_id: str) -> Any:
        found = look(self, task_id)
        q.cancel(task_id)
        return found

    monkeypatch.setattr(DPQ, "get", look_and_lose)
    result = run("task", "ack", task.id, task.token, code=1)
    assert "is gone" in told(result)
    assert "finished" not in told(result).replace("finished, cancelled", "")


@pytest.mark.parametrize("action", ["ack", "fail", "release", "rate-limited", "bury", "extend"])
def test_a_stale_token_or_a_lost_task_changes_nothing(run: Run, q: DPQ, action: str) -> None:
    """With an old token or an unknown id a command fails, in one line, and changes nothing."""
    more = ["5"] if action in ("extend", "rate-limited") else []
    task_id = q.push(1)
    old = line_of(one(run("pop")))
    run("task", "release", *old)
    new = line_of(one(run("pop")))
    before = q.get(task_id)
    refused = run("task", action, *old, *more, code=1)
    assert len(refused.stderr.splitlines()) == 1
    assert q.get(task_id) == before
    run("task", "ack", *new)
    assert "is gone" in run("task", action, *new, *more, code=1).stderr


def test_ids_may_begin_with_dashes(run: Run, q: DPQ) -> None:
    """An id is an id whatever characters it has: none is taken for an option."""
    q.admin.register()
    for task_id in ("-n-queue-v_y", "--json-vvv_n"):
        assert "holds no such" in run("get", task_id, code=1).stderr
        assert "holds no such" in run("why", task_id, code=1).stderr
        assert "is gone" in run("task", "ack", task_id, "1", code=1).stderr
        assert "is gone" in run("task", "rate-limited", task_id, "1", "5", code=1).stderr
        assert "is gone" in run("task", "fail", task_id, "1", "--error", "x", code=1).stderr
        assert "holds no such" in run("task", "cancel", task_id, code=1).stderr
        assert "holds no such" in run("task", "update", task_id, "--delay", "1", code=1).stderr
        assert run("dead", "replay", task_id, "--rate", "5").stdout == "0\n"
    assert len(q) == 0


# Looking


LOOKS = ("get x --wait", "stats", "stats --batch b", "peek", "why x", "limit list", "dead list")
CHANGES = ("task cancel x", "task ack x 1", "admin bulk drop --yes", "admin export", "limit undo")


@pytest.mark.parametrize("words", [*LOOKS, *CHANGES])
def test_a_queue_that_does_not_exist_is_named(run: Run, url: str, name: str, words: str) -> None:
    """A misspelt name is no empty queue: the command says so, with the nearest, and exits 1."""
    assert "there is no queue" in run(*words.split(), code=1).stderr
    with DPQ.from_url(url, f"{name}s") as near:
        near.admin.register()
        said = run(*words.split(), code=1)
        assert said.stderr == f"error: there is no queue {name!r}; did you mean '{name}s'?\n"
        assert said.stdout == ""
        near.admin.drop()
    run("limit", "set", "1/s")  # it exists: something of it is stored
    assert "queue" in run("limit", "list").stdout


def test_peek_shows_a_state_as_table_and_as_lines(run: Run, q: DPQ) -> None:
    """Peek shows tasks in their order and takes none; text of the queue is shown as it is."""
    ids = [q.push({"text": "[bold]x[/bold]\x9b"}, 2), q.push(2, 1, group="g", key="k")]
    lines = run("peek", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids
    table = run("peek").stdout
    assert "[bold]x[/bold]" in table
    assert "\x9b" not in table
    assert ids[0] not in run("peek", "--state", "delayed").stdout
    assert len(run("peek", "-n", 1, "--json").stdout.splitlines()) == 1
    assert q.stats().ready == 2


def test_stats_counts(run: Run, q: DPQ) -> None:
    """Stats has every count, as a table and as JSON."""
    q.push(1)
    q.push(1, delay=50)
    counts = one(run("stats", "--json"))
    assert counts == {"queue": q.queue_name, **json.loads(q.stats().model_dump_json())} | {
        "oldest_ready_seconds": counts["oldest_ready_seconds"],
        "drain": q.admin.drain().model_dump(),
        "verdict": {"sentence": str(q.why()), **q.why().model_dump(mode="json")},
    }
    assert re.search(r"ready +1\ndelayed +1\n", run("stats").stdout)


def read_until(process: subprocess.Popen[str], word: str) -> str:
    for line in process.stdout:
        if word in line:
            return line
    pytest.fail(f"no {word!r} before the end: {process.stderr.read()}")


def test_stats_watches_until_it_is_interrupted(url: str, name: str, q: DPQ) -> None:
    """--watch shows the counts again and again; Ctrl-C ends it with 130 and without a traceback."""
    with start("--url", url, "stats", "--watch", "0.1", "--queue", name) as process:
        assert re.search(r"ready\D+0", read_until(process, "ready"))
        q.push(1)
        while not re.search(r"ready\D+1", read_until(process, "ready")):
            pass
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert re.fullmatch(r"there is no queue '.*\ninterrupted\n", talk)


# Changing


def test_a_paused_queue_gives_nothing_until_resume(run: Run, q: DPQ) -> None:
    """Pause stops every pop, for some seconds or until resume."""
    q.push(1)
    for seconds in ([], ["100"]):
        run("admin", "pause", *seconds)
        run("pop", code=1)
        run("admin", "resume")
        run("task", "release", *line_of(one(run("pop"))))


DELETING = [("admin", "bulk", verb) for verb in ("cancel", "bury", "purge", "drop")]


def bury(q: DPQ, reason: str = "r", **push: Any) -> str:
    """A dead task of the queue, which must have no other ready."""
    q.push("dead", **push)
    task, _, _ = q.pop()
    q.bury(task, reason)
    return task.id


# Limits and groups


def test_limits_are_set_listed_and_cleared(run: Run, q: DPQ) -> None:
    """set reaches the queue, every group or one group; list shows it; clear takes it away."""
    told_of_queue = told(run("limit", "set", "10/s", "5000/h,burst=9,reserve=4:7"))
    assert told_of_queue.endswith(
        f"limited the queue of {q.queue_name!r}: 10/s, 5000/h,burst=9,reserve=4:7"
    )
    run("limit", "set", "2/min", "--every-group")
    run("limit", "set", "3/s,burst=5,reserve=2:1", "--group", "g")
    run("limit", "set", "5/s,adaptive=1:20:2", "--concurrency", 4, "--group", "h")
    run("limit", "set", "--concurrency", 3, "--group", "-i")
    limits = {state.group: (state.windows, state.concurrency) for state in q.admin.limits()}
    assert limits == {
        None: ((RateLimit(10, 1), RateLimit(5000, 3600, 9, Reserve(4, 7))), None),
        "*": ((RateLimit(2, 60),), None),
        "g": ((RateLimit(3, 1, 5, Reserve(2, 1)),), None),
        "h": ((RateLimit(5, 1, adaptive=Adaptive(1, 20, 2)),), 4),
        "-i": ((), 3),
    }
    lines = [json.loads(line) for line in run("limit", "list", "--json").stdout.splitlines()]
    assert lines == [
        {"queue": q.queue_name, **json.loads(state.model_dump_json())} for state in q.admin.limits()
    ]
    table = run("limit", "list").stdout
    for word in ("the queue", "5000/h, burst=9, reserve=4:7", "every group", "group g", "0/4"):
        assert word in table
    for scope in ([], ["--every-group"], ["--group", "g"], ["--group", "h"], ["--group", "-i"]):
        run("limit", "clear", *scope)
    assert [state.windows for state in q.admin.limits()] == [()]
    assert re.search(r"the queue +- +- +0 +0 +open", run("limit", "list").stdout)


@pytest.mark.filterwarnings("always::dpq.CostWarning")
def test_what_limits_nothing_is_said(run: Run, q: DPQ) -> None:
    """A misspelt unit of a limit or a cost, in one line each."""
    assert "warning: a cost in 'token' counts" in run("limit", "set", "token=6000/m").stderr
    assert "did you mean 'tokens'?" in run("push", "1", "--cost", "tokns=5").stderr
    assert q.size() == 1


def test_a_429_closes_what_it_names(run: Run, q: DPQ) -> None:
    """rate-limited closes the task's group or the queue; why and group show say so."""
    task_id = q.push(1, group="g")
    run("task", "rate-limited", *line_of(one(run("pop"))), 500)
    said = run("why", task_id).stdout
    assert "its group 'g' is closed (rate limited by its host) for another" in said
    assert "rate limited until" in run("limit", "list", "--group", "g").stdout
    other = q.push(2)
    run("task", "rate-limited", *line_of(one(run("pop"))), 500, "--scope", "queue")
    assert run("why", other).stdout.startswith("the queue is closed (rate limited by its host)")
    assert re.search(r"the queue .* rate limited until", run("limit", "list").stdout)


# The program


def test_url_and_queue_stand_anywhere(url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """--url and --queue: after the command beats before, before beats the environment."""

    def queue_of(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.stderr
        return str(json.loads(result.stdout)["queue"])

    where = ("--url", url)
    for each in ("default", name, *(f"{name}-{letter}" for letter in "abe")):
        with DPQ.from_url(url, each) as q:
            q.admin.register()
    assert queue_of("stats", "--json", *where) == "default"
    monkeypatch.setenv("DPQ_QUEUE", f"{name}-e")
    assert queue_of(*where, "stats", "--json") == f"{name}-e"
    assert queue_of(*where, "--queue", f"{name}-b", "stats", "--json") == f"{name}-b"
    both = (*where, "--queue", f"{name}-b", "stats", "--json", "--queue", f"{name}-a")
    assert queue_of(*both) == f"{name}-a"
    monkeypatch.setenv("DPQ_URL", url)
    assert queue_of("stats", "--json", "--queue", name) == name
    monkeypatch.setenv("DPQ_URL", "unix:///nowhere")
    assert queue_of("--url", url, "stats", "--json", "--queue", name) == name


@pytest.mark.parametrize(
    ("place", "verbose"), [("before", []), ("after", ["-v"]), ("environment", ["-v"])]
)
def test_a_password_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, place: str, verbose: list[str]
) -> None:
    """A server that is away is told and 1, with a way to do without a Redis; the password is
    masked, in a traceback as well."""
    url = "redis://user:geheim@127.0.0.1:1/0"
    if place == "environment":
        monkeypatch.setenv("DPQ_URL", url)
    before = ["--url", url] if place == "before" else []
    after = ["--url", url] if place == "after" else []
    result = CliRunner().invoke(app, [*verbose, *before, "stats", *after])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "geheim" not in result.stderr
    assert "no Redis here?" in result.stderr
    assert "--url embedded:./queue" in result.stderr
    assert "redis://user:***@127.0.0.1:1/0" in result.stderr.splitlines()[-1]
    assert ("Traceback" in result.stderr) is bool(verbose)


WRONG_USAGE: dict[str, str] = {
    "push 1 --cron '61 * * * *'": "cron is '61 * * * *'",
    "push 1 --every 5 --cron '* * * * *'": "give one of them",
    "push 1 --at tomorrow": "must be a time with a time zone",
    "push 1 --at 2026-12-24T18:00": "must be a time with a time zone",
    "push hello": "",
    "push 1 --file x": "",
    "push 1 --full": "",
    "push 1 2": "",
    "push 1 --priority nan": "",
    "push 1 --cost tokens": "write a cost as 3, as tokens=1800",
    "push 1 --cost tokens=1,tokens=2": "write a cost as 3, as tokens=1800",
    "push 1 --cost Tokens=1": "a unit of cost is 'Tokens'",
    "limit set TOKENS=5/s": "unit is 'TOKENS'",
    "push 1 --priority high": "",
    "push 1 --on-duplicate maybe": "",
    "task cancel": "give one of them",
    "task cancel x --key k": "give one of them",
    "dead replay": "",
    "dead replay --all x": "",
    "dead replay x --reason r": "",
    "admin bulk drop --yes --group g": "no filter",
    "admin bulk cancel --yes --worker w": "go with release",
    "stats --history 60 --watch": "",
    "get --wait": "needs the ID",
    "push 1 --seal": "--batch",
    "limit set": "give a rate, a concurrency, or both",
    "limit set 10": "'10': write a rate as UNITS/TIME",
    "limit set g 500/m": "if it is a group, write --group g",
    "push 1 --expires-in 5x": "write seconds, or a time as 90s, 5m or 1h30m",
    "task update x --delay soon": "write seconds, or a time as 90s, 5m or 1h30m",
    "get x --wait -1": "1h30m, 0 or more",
    "push 1 --max-attempts 1.5": "write a whole number, or inf",
    "limit set 10/s --group g --every-group": "not both",
    "limit set 10/s --group ''": "group is ''",
    **dict.fromkeys(map(" ".join, DELETING), "--yes"),
    "stats --url foo://user:geheim@x": "",
    "stats --queue a{b}": "",
    "pop -n 100000": "",
    "peek --state lost": "",
    "nonsense": "",
    "task ack": "",
    "task ack id token": "",
}
"""Command lines, and what is said of them."""


@pytest.mark.parametrize(("line", "reason"), WRONG_USAGE.items(), ids=WRONG_USAGE)
def test_wrong_usage(run: Run, q: DPQ, line: str, reason: str) -> None:
    """What the command line itself gets wrong is 2 and told, with nothing on stdout and no
    password; and it changes nothing."""
    bury(q)
    q.push(1)
    before = (q.stats().ready, q.stats().dead, q.admin.limits())
    result = run(*shlex.split(line), code=2)
    assert result.stdout == ""
    assert result.stderr
    assert reason in told(result)
    assert "geheim" not in result.stderr
    assert (q.stats().ready, q.stats().dead, q.admin.limits()) == before


def commands(
    group: Any = None, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that the program has, and every group of commands, with its words."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


def plain(markup: str) -> str:
    """A help as it is shown, in one line."""
    return " ".join(Text.from_markup(markup).plain.split())


@pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in commands()]
)
def test_every_command_explains_itself(words: tuple[str, ...], command: Any) -> None:
    """--help says what the command and each of its options do, and names what else sets them."""
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "10000"})
    assert result.exit_code == 0
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", result.stdout).split())
    assert "Usage: " in shown
    assert plain(command.help.split("\n\n")[0]) in shown
    for option in command.params:
        if getattr(option, "hidden", False):  # the program gives it to itself
            continue
        assert option.help, option.name
        assert plain(option.help) in shown, option.name
        assert option.param_type_name == "argument" or option.opts[-1] in shown
        if option.envvar:
            assert f"[env var: {option.envvar}]" in shown
        if option.default not in (None, False, ()) and option.show_default is True:
            default = getattr(option.default, "value", option.default)
            assert f"[default: {default}]" in shown, option.name
    if not hasattr(command, "commands") and words not in (
        ("run",),
    ):  # they have servers of their own
        assert {"DPQ_URL"} <= {option.envvar for option in command.params}
        assert "[default: redis://localhost:6379/0]" in shown


TWO_SCREENS = 48
"""Lines of two terminals of 24 lines and 80 columns."""

LONG_HELPS = {("push",), ("run",), ("limit", "set"), ("worker",), ("admin", "bulk"), ("doctor",)}
"""Commands whose everyday options end on the second screen; what is seldom needed comes below."""


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=" ".join)
def test_a_help_fits_two_screens(words: tuple[str, ...]) -> None:
    """The everyday options of each command are seen at once; only the list of all is longer."""
    lines = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).stdout.splitlines()
    if words in LONG_HELPS:
        lines = list(takewhile(lambda line: not line.startswith("╭─ Seldom needed"), lines))
    assert len(lines) <= TWO_SCREENS or not words


FIRST_SCREEN = (
    "push pop worker run stats why queues get peek workers web doctor dead limit group task admin"
)


def test_the_commands_are_few() -> None:
    """36 at most, each reader has --json, and the first screen has fifteen and two groups."""
    found = {words: command for words, command in commands() if not hasattr(command, "commands")}
    assert len(found) <= 36
    assert [words[0] for words, _ in commands() if len(words) == 1] == FIRST_SCREEN.split()
    readers = ["stats", "why", "queues", "get", "peek", "workers", "doctor"]
    for words in (*((each,) for each in readers), ("dead", "list"), ("limit", "list")):
        assert "json" in {each.name for each in found[words].params}, words


def test_the_help_is_enough_to_start() -> None:
    """Without arguments the help is shown, and its getting-started names the first commands."""
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for word in ("export DPQ_URL=embedded:", "dpq push", "dpq pop", "dpq task ack ID TOKEN"):
        assert word in shown
    bare = CliRunner().invoke(app, [])
    assert "To start without a server" in bare.stdout + bare.stderr
    assert CliRunner().invoke(app, ["--version"]).stdout == f"dpq {dpq.__version__}\n"


def test_a_stdout_that_takes_not_all_is_no_crash(url: str, name: str, q: DPQ, monkeypatch) -> None:
    """If it is closed early, the program ends without a word; a letter that it lacks is escaped."""
    q.push_many(dpq.Push(payload="ä" * 1000) for _ in range(1000))
    with start("--url", url, "peek", "--json", "-n", 1000, "--queue", name) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with start("--url", url, "peek", "--queue", name) as process:
        assert '"\\xe4' in process.stdout.read()


INTERRUPTED = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "dpq.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from _dpq import main
main()
"""


def test_ctrl_c_while_it_loads_is_one_word() -> None:
    """No traceback, however early: the command line is not there yet."""
    run = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, b"", b"interrupted\n")


# A private server


@pytest.fixture
def directory(scratch: Path) -> Path:
    return scratch / "queue"


def test_an_embedded_queue_outlives_the_program(directory: Path) -> None:
    """What one run pushes into embedded:DIR, the next run pops; nothing is left running between."""
    where = ("--url", f"embedded:{directory}")
    pushed = CliRunner().invoke(app, [*where, "push", '{"body": "hello"}']).stdout.strip()
    assert not processes(str(directory))
    assert one(CliRunner().invoke(app, [*where, "pop"]))["id"] == pushed


# Ways out, and what is said on the way


def test_a_throw_away_queue_is_told(q: DPQ) -> None:
    """A push into `embedded:` warns that the queue ends with the command; others do not."""
    result = CliRunner().invoke(app, ["push", "--url", "embedded:", "1"])
    assert result.exit_code == 0
    assert "ends with this command" in result.stderr


def test_export_and_import(run, q, url, name):
    """A queue goes to stdout as lines and comes back from stdin; what was imported is not again."""
    q.push_many([Push(n, n, key=f"k{n}") for n in range(250)])
    q.set_limit(1000, 1, burst=1000)
    other = f"{name}-b"
    out = run("admin", "export")
    assert len(out.stdout.splitlines()) == 253
    assert "exported 250 tasks and 1 limit of" in out.stderr
    into = ("admin", "import", "--queue", other)
    assert "imported 250 tasks and 1 limit into" in run(*into, lines=out.stdout).stderr
    with DPQ[Any](q.redis, other) as b:
        assert (b.pop().task.payload, b.stats().ready) == (249, 249)
        assert "250 tasks were imported before" in run(*into, lines=out.stdout).stderr
        again = run(*into, "--again", lines=out.stdout).stderr
        assert "250 tasks were stored already" in again
        assert "Nothing was imported" in run(*into, lines=out.stdout[:-30], code=1).stderr
        b.admin.drop()
        b.push("mine", key="k0")
        assert "--keep" in run(*into, "--follow", lines=out.stdout, code=1).stderr
        kept = run(*into, "--follow", "--keep", lines=out.stdout)
        assert "249 tasks" in kept.stderr
        b.admin.drop()


# What several old commands did


def test_bounds_stand_beside_limits(run: Run, q: DPQ) -> None:
    """`limit set` changes the bounds that it names, alone or beside a rate; `list` has both."""
    q.push(1)
    assert "most" not in run("limit", "list").stderr
    run("limit", "set", "--max-tasks", 2, "--max-waiting", 5)
    assert not q.admin.limits()[0].windows
    said = run("limit", "list").stderr
    assert "1 of at most 2 tasks; each group: 5 waiting tasks, then refuse" in said
    run("limit", "set", "5/s", "--when-full", "drop_worst")
    assert (q.admin.bounds(), len(q.admin.limits()[0].windows)) == ((2, 5, "drop_worst"), 1)
    run("limit", "set", "--max-tasks", -1, code=2)


def test_bulk_drop_leaves_no_key(run: Run, q: DPQ) -> None:
    """Neither of the queue, nor its name; it prints how many tasks went."""
    q.push(1)
    q.push(2, delay=50)
    assert run("admin", "bulk", "drop", "--yes").stdout == "2\n"
    assert q.redis.keys(key_of(q.queue_name, "*")) == []
    assert q.queue_name not in run("queues", "--json").stdout


def test_a_batch_is_sealed_by_its_last_push(run: Run, q: DPQ) -> None:
    """`push --seal` says that no more come; `stats --batch` shows it until it is finished."""
    run("push", "--batch", "b", "--seal", lines="1\n2\n")
    state = one(run("stats", "--batch", "b", "--json"))
    assert (state["sealed"], state["left"], state["finished"]) == (True, 2, False)
    run("pop", "-n", 2, "--ack")
    assert "0 left of 2" in run("stats", "--batch", "b", "--watch", "1").stdout


def test_a_result_is_waited_for(run: Run, q: DPQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of the task is a line, its result comes last; each other answer is 1."""
    monkeypatch.setattr("dpq.cli._progress.LINE_SECONDS", 0.01)
    task_id = q.push(1)
    task = q.pop().task
    q.progress(task, 1, 4, "page 1")
    assert "has not ended" in run("get", task_id, "--wait", 0, code=1).stderr
    assert "not JSON" in run("task", "ack", task_id, task.token, "--result", "{", code=2).stderr
    state = dpq.cli.look._state

    def end_it(task: Any) -> str:
        if len(q):
            run("task", "ack", task_id, task.token, "--result", '{"a": [1]}', "--keep", "60")
        return state(task)

    monkeypatch.setattr("dpq.cli.look._state", end_it)
    found = run("get", task_id, "--wait")
    assert found.stdout == '{"a":[1]}\n'
    assert f"{task_id} running (attempt 1 of 10) 1 of 4 (25%): page 1\n" in found.stderr
    assert "knows nothing" in run("get", "x", "--wait", 0, code=1).stderr
    dead = bury(q, "broken")
    assert "  0/10  " in run("dead", "list").stdout  # attempts that have failed
    for words in (["--wait"], ["--wait", "0"]):
        assert "is dead (broken)" in run("get", dead, *words, code=1).stderr
