"""The programs of guides to libraries that the suite does not bring run where these are installed.

Each runs as a reader's program would, in a process of its own.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from kit.hosts import Answers, Host
from support import PATIENCE_S

import dpq
from dpq import DPQ

ROOT = Path(dpq.__file__).parents[1]


def said_by(
    guide: str, url: str, directory: Path, *other: tuple[str, str], **environment: str
) -> str:
    """What the program of a guide prints, with some words replaced; it leaves no file."""
    text = (ROOT / "docs" / "guides" / f"{guide}.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for old, new in (("redis://localhost", url), *other):
        assert old in program
        program = program.replace(old, new)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert (done.returncode, list(directory.iterdir())) == (0, []), done.stderr
    return done.stdout


@pytest.mark.skipif(not find_spec("litellm"), reason="litellm is not installed")
def test_litellm(url: str, tmp_path: Path) -> None:
    """Two questions are answered, and charged what the answers say."""
    program = ROOT / "examples" / "simulated_llm_api.py"
    command = [sys.executable, str(program), "--port", "0", "--latency", "0.01"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as api:
        try:
            assert api.stdout
            base = api.stdout.readline().strip().rpartition("/chat")[0]
            # litellm asks the Internet for prices at its import, unless it is told not to.
            told = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "a key"}
            # The tokens come back slowly, so that the test sees what was charged.
            slow = ("200_000, 60", "1, 60")
            said = said_by("litellm", url, tmp_path, slow, API_BASE=base, **told)
            answers = httpx.get(f"{base.removesuffix('/v1')}/answers", trust_env=False).json()
        finally:
            api.kill()
    assert "capital of France" in said
    assert "capital of Japan" in said
    with DPQ.from_url(url, "questions") as q:
        assert (q.stats().acked, q.group("llm").granted[0]) == (2, 2)
        used = sum(tokens for *_, tokens in answers)
        assert 30_000 - q.group("llm").units_left[1] == pytest.approx(used, abs=1)
        q.drop()


class Busy(Answers):
    """A host that is busy at the first request."""

    def answer(self, name: str) -> None:
        """Answer one request."""
        if len(self.server.came) == 1:
            self.reply(b"too many", status=429, Retry_After="1")
        else:
            self.reply(b"ok")


@pytest.mark.skipif(not find_spec("crawlee"), reason="crawlee is not installed")
def test_crawlee(url: str, tmp_path: Path) -> None:
    """The page is visited once, not before the end of its host's 429, which closes the host."""
    with Host(Busy).serving() as host:
        said = said_by("crawlee", url, tmp_path, SITE=f"{host.url}/busy")
        assert said.count("visited") == 1
        first, second = (each.at for each in host.came)
        assert second - first >= 1
    with DPQ.from_url(url, "crawlee-pages") as q:
        assert (q.stats().acked, q.size()) == (1, 0)
        q.drop()
