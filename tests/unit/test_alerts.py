"""The alerts of `deploy/`: each fires for its cause and for no other, as `promtool` runs them.

`promtool` comes with Prometheus. Where it is missing, these tests are skipped, and say so.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

import dpq

HERE = Path(dpq.__file__).parents[1] / "deploy" / "prometheus"

pytestmark = pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool here: apt-get install prometheus"
)


def promtool(*words: str, cwd: Path = HERE) -> str:
    """What promtool prints; its status is that of the last of its files."""
    done = subprocess.run(
        ["promtool", *words],  # noqa: S607
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_promtool_is_content() -> None:
    """The rules are rules, and in each case exactly those fire that should."""
    assert "SUCCESS" in promtool("check", "rules", "alerts.yml")
    assert promtool("test", "rules", "alerts_test.yml").split()[-1] == "SUCCESS"
