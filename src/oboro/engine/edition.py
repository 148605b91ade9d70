"""The edition of a file: what was opened is what is answered from.

What is known of a file when it is opened, its columns and under replace its number of rows, goes into plans. A file that has
grown since would be answered from with the noise of the smaller one. So whenever it is read, its size, its time and which
file it is are compared with those of its opening, before and after, and a question to another edition is refused. These are
facts that anyone sees who sees the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import DataError


@dataclass(frozen=True, slots=True)
class Edition:
    """A file as it was when it was opened."""

    path: Path
    facts: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> Edition:
        return cls(path.absolute(), _facts(path))

    def check(self) -> None:
        """Refuses if the file is not the one that was opened."""
        try:
            found = _facts(self.path)
        except OSError:
            found = ()
        if found != self.facts:
            raise DataError(
                f"{self.path} has changed since it was opened",
                given="another size or time, or another file" if found else "no such file any more",
                needed="the file as it was: what was counted then would be wrong now",
                fix="open it again: Session(data, ...), or run the plan on the path",
            )


def _facts(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
