"""One change of the code, planted in a copy: what the tests or the soak are to find.

It is a replacement of text, in Python or in Lua. It fails loudly when the text is not there once,
so that no list of changes outlives the code that it changes.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

LEFT_OUT = (".*", "__pycache__", "*.egg-info", "dist", "build")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A text of one file, and what stands there instead.

    Attributes:
        name: What is wrong then, in words.
        file: From the top of the project.
        old: Stands there exactly once.
        new: What it becomes.
    """

    name: str
    file: str
    old: str
    new: str

    def changed(self, text: str) -> str:
        """The file's text with the change.

        Raises:
            LookupError: The old text is not there exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise LookupError(f"{self.name!r}: {self.file} has {count} times {self.old!r}")
        return text.replace(self.old, self.new)

    def plant(self, root: Path) -> str:
        """Change the file below another top, and return its text as it was."""
        path = root / self.file
        sound = path.read_text(encoding="utf-8")
        path.write_text(self.changed(sound), encoding="utf-8")
        return sound

    def check(self) -> None:
        """Raise LookupError unless the change can be planted."""
        self.changed((ROOT / self.file).read_text(encoding="utf-8"))


def copy_project(into: Path, *names: str) -> None:
    """Copy the project, or some of its top folders, without environments and caches."""
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    if not names:
        shutil.copytree(ROOT, into, ignore=ignore, dirs_exist_ok=True, symlinks=True)
    for name in names:
        shutil.copytree(ROOT / name, into / name, ignore=ignore)
