"""A watch on source files, by their times of change: for development only."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "build"})
"""Directories that hold no source of the program; hidden ones are left out, too."""


class SourceWatch:
    """Watches every *.py file below some directories."""

    def __init__(self, directories: list[Path]) -> None:
        self.directories = directories
        self._seen = dict(self._times())

    def changed(self) -> str | None:
        """Return a file that is new, gone or changed since the last look; None if there is none."""
        now = dict(self._times())
        before, self._seen = self._seen, now
        return next((path for path, _ in before.items() ^ now.items()), None)

    def _times(self) -> Iterator[tuple[str, int]]:
        for top in self.directories:
            for directory, below, names in os.walk(top):
                below[:] = [name for name in below if name[0] != "." and name not in LEFT_OUT]
                for name in names:
                    if name.endswith(".py"):
                        path = os.path.join(directory, name)
                        try:
                            yield path, os.stat(path).st_mtime_ns
                        except FileNotFoundError:
                            continue  # the file was removed between the two calls


def sources_of(module_name: str) -> list[Path]:
    """List the current directory, and the directory of a module's package if that is elsewhere."""
    here = Path.cwd()
    sys.path.insert(0, str(here))
    try:
        # `find_spec` of a top name imports nothing.
        spec = importlib.util.find_spec(module_name.partition(".")[0])
    except ValueError:
        spec = None
    finally:
        sys.path.remove(str(here))
    found = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    if spec and spec.origin and not found:
        found = [Path(spec.origin).parent]
    return [here, *(path for path in found if not path.resolve().is_relative_to(here))]
