"""Make an environment for each peer, outside of the repository, when it is first asked for.

Below `PLACE` each peer has a directory: a virtual environment, `node_modules`, or the files of a
Debian package, which is unpacked and not installed. A file in it keeps what was asked for; if the
catalog asks for something else, the directory is made anew.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import redis

import dpq
from benchmarks.peers.catalog import BY_NAME, Peer

PLACE = Path(
    os.environ.get("DPQ_PEERS")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpq-peers"
)
"""Where the peers are."""

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 300  # seconds for an installation: a slow network, and no compiler


class NotInstalledError(Exception):
    """A peer that cannot be installed here; the text says why."""


def python_of(name: str) -> Path:
    """Return the path of a peer's Python, which may not be there."""
    return PLACE / name / "bin" / "python"


def command(peer: Peer, program: str) -> list[str]:
    """Make the beginning of the command that runs a program of a peer."""
    path = str(PROGRAMS / program)
    if peer.kind == "node":
        return [shutil.which("node") or "node", path]
    return [str(python_of(peer.name)) if peer.kind == "python" else sys.executable, path]


@cache
def install(peer: Peer) -> str:
    """Install a peer if it is not there; return its version.

    Raises:
        NotInstalledError: It cannot be installed.
    """
    if peer.kind == "own":
        return dpq.__version__ if peer.name != "raw" else redis.__version__
    place, asked = PLACE / peer.name, PLACE / peer.name / "asked.json"
    wanted = json.dumps([peer.packages, sys.version_info[:2]])
    if not asked.exists() or asked.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        {"python": _from_pypi, "node": _from_npm, "debian": _from_debian}[peer.kind](peer, place)
        asked.write_text(wanted, encoding="utf-8")
    return _version(peer, place)


def beanstalkd() -> Path:
    """Return the path of its server."""
    return PLACE / "beanstalkd" / "usr" / "bin" / "beanstalkd"


def _from_pypi(peer: Peer, place: Path) -> None:
    venv.create(place, with_pip=False, symlinks=True)
    base = Path(sys.base_prefix) / "bin" / "python3"  # a virtual environment may have no pip
    pip = [str(base), "-m", "pip", "--python", str(python_of(peer.name)), "install", "--quiet"]
    _run([*pip, "--disable-pip-version-check", *peer.packages])


def _from_npm(peer: Peer, place: Path) -> None:
    _run(["npm", "install", "--prefix", str(place), "--ignore-scripts", *peer.packages])


def _from_debian(peer: Peer, place: Path) -> None:
    _run(["apt-get", "download", *peer.packages], place)
    (package,) = place.glob("*.deb")
    _run(["dpkg", "-x", str(package), str(place)])


def _version(peer: Peer, place: Path) -> str:
    if peer.kind == "node":
        about = place / "node_modules" / peer.package / "package.json"
        return str(json.loads(about.read_text(encoding="utf-8"))["version"])
    if peer.kind == "debian":
        return _run([str(beanstalkd()), "-v"]).split()[-1]
    asks = f"from importlib.metadata import version; print(version({peer.package!r}))"
    return _run([str(python_of(peer.name)), "-c", asks]).strip()


def _run(words: Sequence[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{words[0]}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        raise NotInstalledError(f"{Path(words[0]).name}: {said[-1]}")
    return done.stdout


def has(name: str) -> bool:
    """Return whether a peer is installed."""
    return (PLACE / name / "asked.json").exists() and name in BY_NAME
