"""`make mutants`: plants one change after the other in a copy of the project, and tests it.

A mutant is caught when one of its tests fails, and lives when all pass. First the tests run on the
code as it is: a test that fails there proves nothing. Exit 1 when less than 95 % of those that
change something are caught, or when a list and the code do not fit.
"""

import compileall
import os
import py_compile
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from mutants.listed import MUTANTS, Mutant
from mutants.mutant import copy_project
from support import SERVERS

ENOUGH = 0.95

PATIENCE_S = 600
"""Of the tests of one mutant: one that hangs is caught."""

CAUGHT, LIVES, SAME = "caught", "LIVES", "changes nothing"
UNKNOWN = "CANNOT BE TESTED"


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Parts of names; without any, all mutants.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants at once.")] = os.cpu_count() or 1,
    sound: Annotated[bool, typer.Option(help="Test the code as it is first.")] = True,
) -> None:
    """Say of each mutant whether the tests catch it."""
    chosen = [m for m in MUTANTS if not names or any(part in m.name for part in names)]
    for mutant in chosen:
        mutant.check()
    with tempfile.TemporaryDirectory(prefix="dpq-mutants-") as directory:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for n in range(jobs):
            copies.put(_copied(Path(directory, str(n))))
        if sound and (failed := _failures(Path(directory, "0"), _all_tests(chosen))):
            print(f"these tests fail on the code as it is:\n{failed}")
            raise typer.Exit(1)
        found = _try_all(chosen, copies, jobs)
    _tell(found)
    real = [what for what in found.values() if what != SAME]
    raise typer.Exit(0 if real.count(CAUGHT) >= ENOUGH * len(real) else 1)


def _copied(root: Path) -> Path:
    """A copy of the project, compiled: by its text alone it is seen that a file has changed."""
    copy_project(root)
    by_text = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(root / "dpq", quiet=1, invalidation_mode=by_text)
    return root


def _all_tests(mutants: Sequence[Mutant]) -> list[str]:
    """The tests of all mutants, files before what is in them."""
    tests = {test for mutant in mutants for test in mutant.tests}
    return sorted(test for test in tests if test.partition("::")[0] not in tests - {test})


def _try_all(
    mutants: Sequence[Mutant], copies: "queue.SimpleQueue[Path]", jobs: int
) -> dict[str, str]:
    """What has become of each."""
    todo: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        todo.put(mutant)
    found: dict[str, str] = {}

    def work() -> None:
        root = copies.get()
        while not todo.empty():
            try:
                mutant = todo.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            found[mutant.name] = what = _try(mutant, root)
            print(f"{what:>16}  {time.monotonic() - began:4.0f} s  {mutant.name}", flush=True)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:  # after a Ctrl-C each ends with the mutant that it has, whose tests have heard it too
        while not todo.empty():
            with suppress(queue.Empty):
                todo.get_nowait()
        for thread in threads:
            thread.join()
    return found


def _try(mutant: Mutant, root: Path) -> str:
    """What becomes of one, in a copy that is sound again afterwards."""
    text = mutant.plant(root)
    try:
        if _failures(root, mutant.tests):
            return CAUGHT
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return UNKNOWN
    finally:
        (root / mutant.file).write_text(text, encoding="utf-8")
    return SAME if mutant.same else LIVES


def _failures(root: Path, tests: Sequence[str]) -> str:
    """What pytest says when a test fails; "" when all pass.

    On the first of the servers alone: what a mutant changes, it changes on all.

    Raises:
        RuntimeError: The tests cannot be run.
    """
    command = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header"),
        *("--server", next(iter(SERVERS)), *tests),
    ]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout[-3000:] if done.returncode else ""


def _tell(found: dict[str, str]) -> None:
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    for what in (SAME, LIVES, UNKNOWN):
        for name in (name for name, was in found.items() if was == what):
            mutant = by_name[name]
            print(f"{what}: {name} ({mutant.file}) {mutant.same}")
    counts = {what: list(found.values()).count(what) for what in dict.fromkeys(found.values())}
    print(", ".join(f"{count} {what}" for what, count in counts.items() if count))


if __name__ == "__main__":
    typer.run(main)
