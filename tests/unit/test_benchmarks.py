"""The table of `python -m benchmarks`: nothing that was measured is lost."""

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import typer

from benchmarks import _harness
from benchmarks._harness import Result, Target


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
