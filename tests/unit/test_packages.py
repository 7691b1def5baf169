"""`make packages` and `make newest`: they know each extra and each bound of pyproject.toml."""

import tomllib
from pathlib import Path

from kit.tools import load_tool

import dpq

ROOT = Path(dpq.__file__).parents[1]
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_each_extra_is_checked() -> None:
    """Each has the modules that are imported where it is installed."""
    check, packages = load_tool("package_check"), load_tool("packages")
    assert check.MODULES.keys() == {"", *packages.extras()}
    assert all(check.MODULES.values())


def test_the_sdist_names_what_there_is() -> None:
    """Each folder and file that it includes is there, and it brings what its tests read."""
    include = tomllib.loads(TEXT)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(list(ROOT.glob(each)) for each in include)
    assert {"dpq", "tests", "tools", "examples", "benchmarks", "docs", "deploy"} <= {*include}
