"""A table that workers write as files of a folder: its parts, and the list of them that the ledger keeps (release/folder.py)."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import DataError, ParameterError, setting, told
from oboro.files import MANIFEST
from oboro.ledger import Ledger
from oboro.payment import paid
from oboro.release import Release
from oboro.release.folder import PART, check_folder, is_manifest
from oboro.tables.subtrees import store


@dataclass(frozen=True, slots=True)
class Published:
    """Published cells of a task: in a file of the run, or as a part of the release."""

    path: str
    rows: int
    bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """What was published, as files of a folder."""

    found: tuple[Published, ...]

    def listed(self) -> list[tuple[str, int, int, str]]:
        return [(one.path, one.rows, one.bytes, one.sha256) for one in self.found]


@dataclass(frozen=True, slots=True)
class Into:
    """The folder of a release, and one inside it for what is being written: once that is gone no attempt writes anything more."""

    folder: str
    writing: str

    @classmethod
    def made(cls, folder: Path) -> Into:
        """Refuses a folder in which something is, or into which another run begins to write. Before anything is paid for."""
        check_folder(folder)
        folder = folder.absolute()  # a worker may have been started elsewhere
        writing = folder / f".writing-{secrets.token_hex(8)}"
        writing.mkdir()
        try:
            check_folder(
                folder, writing.name
            )  # of two that found it empty at once, one at least sees the other
        except ParameterError:
            writing.rmdir()
            raise
        return cls(str(folder), str(writing))

    def written(self, content: bytes, number: int, rows: int) -> Published:
        """One part; another attempt at it writes the same bytes."""
        name = PART.format(number)
        place = Path(self.writing) / f"{name}-{secrets.token_hex(8)}"
        place.write_bytes(content)
        os.replace(place, Path(self.folder) / name)
        return Published(name, rows, len(content), hashlib.sha256(content).hexdigest())

    def finish(self) -> None:
        store.removed(self.writing)

    def give_up(self) -> None:
        """Deletes what was written: nothing is released. The folder was empty before."""
        self.finish()
        for path in Path(self.folder).glob(PART.replace("{:05d}", "*")):
            with suppress(OSError):
                path.unlink()


def check_apart(parts: Path, shared: str | None) -> None:
    """Refuses to write cells, which are as secret as the data, into the folder that goes out; and parts into the folder of cells."""
    beside = tempfile.gettempdir()  # most folders lie in it
    private = {"shared": shared} if shared is not None else {}
    for name, place in {**private, "TMPDIR": beside}.items():
        if _within(Path(place), parts) or (name == "shared" and _within(parts, Path(place))):
            raise ParameterError(
                "cells, which are as secret as the data, would lie beside published parts",
                given=told(parts=str(parts), **{name: place}),
                needed="two folders, neither of which lies in the other",
                fix=setting(parts="published-parts"),
                argument="parts",
            )


def _within(inner: Path, outer: Path) -> bool:
    """Whether a folder is another or lies in it, whatever links and mounts lead there. One of which nothing is there yet has nothing in it."""
    place = Path(os.path.realpath(inner))
    return outer.exists() and any(
        one.exists() and os.path.samefile(one, outer) for one in (place, *place.parents)
    )


def keep_list(released: Release, folder: Path, ledger: Ledger) -> Path:
    """Writes the list of parts and its certificate beside them. A release that is given again may have been made in one piece, or elsewhere."""
    table = released.to_arrow()
    if not is_manifest(table) or not all((folder / name).is_file() for name in table["part"].to_pylist()):
        raise DataError(
            "the parts of this release are not in the folder: the ledger keeps their hashes alone",
            given=told(parts=str(folder)),
            needed="the folder that they were written to, or another name",
            fix=setting(parts=None),
            argument="parts",
        )
    with paid(ledger.where, released.certificate.record["ledger"]["reserved_at"], stored=True):
        return released.save(folder / MANIFEST)


def in_parts() -> DataError:
    """What a list of parts cannot be asked."""
    return DataError(
        "this is the list of the parts of a release: the parts have the rows, with the 95% interval of each",
        needed="a table that was released in one piece, to ask for areas",
        fix="oboro table release ... -o published.parquet",
    )
