"""The table of `python -m benchmarks`: nothing that was measured is lost."""

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import typer

from benchmarks import _harness, _results
from benchmarks._harness import Result, Target
from benchmarks._results import Section


def measure(_: object) -> Iterator[Result]:
    """Measure one row, and fail at the second."""
    yield Result("the first row", "x", Target("at least", 0.5), [0.7])
    yield Result("a figure to compare with", "x", None, [0.01])
    raise ZeroDivisionError("no time has passed")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_harness, "_bench", lambda _: nullcontext())
    monkeypatch.setattr(_harness, "import_module", lambda _: SimpleNamespace(measure=measure))


@pytest.mark.usefixtures("failing")
def test_a_benchmark_that_fails_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows before the failure are printed, the failure is one, and the other benchmarks run."""
    with pytest.raises(typer.Exit) as ended:
        _harness._run(["push", "pop"])
    assert ended.value.exit_code == 1
    out = capsys.readouterr().out
    assert out.count("yes  the first row") == 2
    assert out.count("NO   the rest of") == 2
    assert "ZeroDivisionError('no time has passed')" in out


@pytest.mark.usefixtures("failing")
def test_a_figure_without_a_target_misses_none() -> None:
    """What is only to be compared with cannot fail; what was measured before a failure stands."""
    first, figure, failure = _harness._rows("push", None)
    assert (first["reached"], first["ok"]) == (0.7, True)
    assert figure["ok"]
    assert not failure["ok"]


def test_figures_of_other_code_go() -> None:
    """A new section takes the place of its old one; sections of other code, or unknown ones, go."""
    code = {"push": ("d1", "p1"), "pop": ("d1", "o2"), "idle": ("d1", "i1")}
    old = [
        Section("push", "Redis 7", ("d1", "p1"), "## push\n\nold\n"),
        Section("push", "Valkey 9", ("d1", "p1"), "## push\n\nkept\n"),
        Section("pop", "Redis 7", ("d1", "o1"), "## pop\n\nits benchmark has changed\n"),
        Section("idle", "Redis 7", ("d0", "i1"), "## idle\n\nof an older dpq\n"),
        Section("gone", "Redis 7", ("d1", "g1"), "## gone\n\nits benchmark is gone\n"),
    ]
    known = _results.read(_results.write(old))
    assert [each.text.strip() for each in known] == [each.text.strip() for each in old]
    new = Section("push", "Redis 7", ("d1", "p1"), "## push\n\nnew\n")
    left = _results.merged(known, [new], ("idle", "push", "pop"), code.__getitem__)
    assert [each.text.split()[-1] for each in left] == ["new", "kept"]


def test_the_file_of_figures_is_what_make_bench_writes() -> None:
    """Nobody has edited it: read and written again it is the same, and it names its code."""
    text = _results.FILE.read_text(encoding="utf-8")
    sections = _results.read(text)
    assert sections
    assert _results.write(sections) == text
    assert len({each.code[0] for each in sections}) == 1
