"""Run every test on every server found, with the long settings: `make test-all`.

One run of pytest for each server. In it all tests ask that server, and the clusters, Sentinels and
pairs that tests start are of it. A run that fails does not end the others. Arguments are pytest's;
`--server NAME` chooses the servers, and may be repeated.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from support import SERVERS

TESTS = Path(__file__).parent
LONG = ("--hypothesis-profile=soak", "--timeout=3600")
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected)")


def run(server: str, arguments: list[str]) -> tuple[int, str]:
    """Run pytest on one server, its output passed on; the exit code, and the line of its counts."""
    command = [sys.executable, "-m", "pytest", "--server", server, *LONG, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS.parent) as process:
        assert process.stdout
        last = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if COUNTS.search(line) else last
    return process.returncode, ", ".join(map(" ".join, COUNTS.findall(last))) or "no test ran"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every test on every server found.")
    parser.add_argument("--server", action="append", choices=SERVERS, help="default: each")
    chosen, arguments = parser.parse_known_args()
    report, failed = [], 0
    for name in chosen.server or SERVERS:
        print(f"\n== {name}: {SERVERS[name].path}", flush=True)
        began = time.monotonic()
        code, counts = run(name, arguments)
        failed += code != 0
        minutes = (time.monotonic() - began) / 60
        report.append(f"{name:12} {'FAILED' if code else 'passed'}  {counts}, {minutes:.1f} min")
    print("", *report, sep="\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
