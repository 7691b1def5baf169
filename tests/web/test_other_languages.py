"""docs/other_languages.md: what it shows pushes, and its token can do nothing else."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from web.test_web_cli import TOKEN, read, serving

import dpq
from dpq import DPQ

PAGE = (Path(dpq.__file__).parents[1] / "docs" / "other_languages.md").read_text(encoding="utf-8")
PUSH_TOKEN = "fedcba9876543210fedcba9876543210"  # noqa: S105 - for tests
SHOWN = "http://127.0.0.1:8321/"
PROGRAMS = {
    "curl": ("bash", ["bash", "-c"]),
    "node": ("js", ["node", "--input-type=module", "-e"]),
    "go": ("go", ["go", "run"]),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_another_language_pushes(program, server, queue_name, tmp_path):
    """Its task has the payload, the group and the key of the page, and a second push adds none."""
    if not shutil.which(program):
        pytest.skip(f"no {program} here: apt-get install {program}")
    language, command = PROGRAMS[program]
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    with (
        DPQ.from_url(server.url, queue_name) as q,
        serving("--url", server.url, DPQ_PUSH_TOKEN=PUSH_TOKEN) as (address, _),
    ):
        q.admin.register()  # as a worker does
        code = code.replace(SHOWN, address).replace("/queues/pages/", f"/queues/{queue_name}/")
        if program == "go":
            code_file = tmp_path / "push.go"
            code_file.write_text(code)
            code = str(code_file)
        for _ in range(2):
            done = subprocess.run(
                [*command, code],
                env={**os.environ, "DPQ_PUSH_TOKEN": PUSH_TOKEN, "NO_PROXY": "127.0.0.1"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            [task] = q.peek()
            assert task.id in done.stdout
        assert (task.key, task.group) == (program, "a.example")
        assert task.payload["url"].startswith("https://a.example/")
        q.admin.drop()


def test_the_token_for_pushes_does_nothing_else(server, queue_name):
    """It reads no page and pauses no queue; another token pushes nothing; a full queue is 409."""
    variables = {"DPQ_PUSH_TOKEN": PUSH_TOKEN, "DPQ_WEB_TOKEN": TOKEN}
    with (
        DPQ.from_url(server.url, queue_name) as q,
        serving("--url", server.url, **variables) as (address, _),
    ):
        q.admin.register()
        q.admin.set_bounds(max_tasks=1)
        api = f"{address}api/queues/{queue_name}"

        def ask(path: str, token: str, method: str = "POST") -> str:
            body = b'{"payload": 1}' if method == "POST" else None
            return read(
                api + path,
                method,
                body,
                **{"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )

        assert '"id"' in ask("/tasks", PUSH_TOKEN)
        assert ask("/tasks", PUSH_TOKEN) == "409"
        assert ask("/tasks", TOKEN) == "403"  # without --write it only shows
        assert ask("/tasks", "a" * 32) == "401"
        assert ask(":pause", PUSH_TOKEN) == "401"
        assert ask("/tasks", PUSH_TOKEN, "GET") == "401"
        assert ask("", PUSH_TOKEN, "GET") == "401"
        assert q.stats().pushed == 1
        q.admin.drop()
