"""The table of `python -m benchmarks`: nothing that was measured is lost."""

from benchmarks import _results
from benchmarks._results import Section


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
