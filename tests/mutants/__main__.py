"""`make mutants`: plants one change after the other in a copy of the project, and tests it.

A mutant is caught when one of its tests fails, and lives when all pass. First the tests run on the
code as it is: a test that fails there proves nothing. Exit 1 when less than 95 % are caught, or
when a list and the code do not fit.
"""

import os
import queue
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

import typer
from mutants.listed import MUTANTS, Mutant
from mutants.runner import Runner
from support import SERVERS

ENOUGH = 0.95

CAUGHT, LIVES = "caught", "LIVES"
UNKNOWN = "CANNOT BE TESTED"


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Parts of names; without any, all mutants.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants at once.")] = os.cpu_count() or 1,
    sound: Annotated[bool, typer.Option(help="Test the code as it is first.")] = True,
) -> None:
    """Say of each mutant whether the tests catch it, and which of them."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is under way is tidied up
    chosen = [m for m in MUTANTS if not names or any(part in m.name for part in names)]
    for mutant in chosen:
        mutant.found()
    with tempfile.TemporaryDirectory(prefix="dpq-m-") as directory:  # short: sockets
        runner = Runner(Path(directory), next(iter(SERVERS)))
        copies = [runner.copy(str(n)) for n in range(jobs)]
        tests = _all_tests(chosen)
        if sound and (failed := runner.failure(copies[0], tests, patience=60 * len(tests))):
            print(f"on the code as it is: {failed}")
            raise typer.Exit(1)
        found = _try_all(chosen, runner, copies)
    _tell(found)
    caught = list(found.values()).count(CAUGHT)
    raise typer.Exit(0 if caught >= ENOUGH * len(found) else 1)


def _all_tests(mutants: Sequence[Mutant]) -> list[str]:
    """The tests of all mutants, files before what is in them."""
    tests = {test for mutant in mutants for test in mutant.tests}
    return sorted(test for test in tests if test.partition("::")[0] not in tests - {test})


def _try_all(mutants: Sequence[Mutant], runner: Runner, copies: Sequence[Path]) -> dict[str, str]:
    """What has become of each."""
    idle: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for copy in copies:
        idle.put(copy)
    found: dict[str, str] = {}

    def attempt(mutant: Mutant) -> tuple[Mutant, str, str, float]:
        root, began = idle.get(), time.monotonic()
        what, why = _try(mutant, runner, root)
        idle.put(root)
        return mutant, what, why, time.monotonic() - began

    with ThreadPoolExecutor(len(copies)) as pool:
        try:
            for done in as_completed([pool.submit(attempt, mutant) for mutant in mutants]):
                mutant, what, why, seconds = done.result()
                found[mutant.name] = what
                print(f"{what:>16} {seconds:4.0f} s  {mutant.name}\n{'':25}{why}", flush=True)
        except BaseException:
            runner.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return found


def _try(mutant: Mutant, runner: Runner, root: Path) -> tuple[str, str]:
    """What becomes of one, and why, in a copy that is sound again afterwards."""
    text = mutant.plant(root)
    try:
        failed = runner.failure(root, mutant.tests)
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return UNKNOWN, ""
    finally:
        mutant.file(root).write_text(text, encoding="utf-8")
    if failed:
        return CAUGHT, failed
    return LIVES, mutant.place


def _tell(found: dict[str, str]) -> None:
    for what in (LIVES, UNKNOWN):
        for name in (name for name, was in found.items() if was == what):
            print(f"{what}: {name}")
    print(", ".join(f"{count} {what}" for what, count in Counter(found.values()).items()))


if __name__ == "__main__":
    typer.run(main)
