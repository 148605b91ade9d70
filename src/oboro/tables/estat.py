"""Regional mesh statistics as e-Stat, the portal of Japan's official statistics, hands them out."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import Any

from oboro.errors import DataError
from oboro.kinds import path_of, takes

_TEXT = ("KEY_CODE", "HTKSYORI", "HTKSAKI", "GASSAN")


@takes(path=path_of)
def read_estat(path: str | Path) -> Any:
    """An e-Stat mesh file (text in cp932, or its zip) as an Arrow table.

    The first line names the columns (KEY_CODE is the mesh code); a second that names no mesh says what they are, and that
    label is kept as metadata of each field. Counts that the office suppressed are `*` in the file and null in the table.
    A cell with HTKSYORI = 2 is suppressed, and its people are counted in the cell that HTKSAKI names, which has
    HTKSYORI = 1; so totals are complete, and nulls count as 0. A record is never left out: what it lacks is null.
    """
    import pyarrow as pa

    lines = _text(Path(path)).splitlines()
    names = _fields(lines[0]) if lines else []
    if "KEY_CODE" not in names or len(set(names)) != len(names):
        raise DataError(
            f"{path} is not a mesh file of e-Stat",
            given=", ".join(names[:4]) if names else "an empty file",
            needed="a first line with KEY_CODE, ...",
        )
    rows = [_fields(line) for line in lines[1:] if line.strip("\x1a \u3000")]
    key = names.index("KEY_CODE")
    labels = rows.pop(0) if rows and _number(rows[0], key) is None else []
    arrays, fields = [], []
    for index, name in enumerate(names):
        if name in _TEXT and name != "KEY_CODE":
            array = pa.array([_field(row, index) for row in rows], pa.string())
        else:
            array = pa.array([_number(row, index) for row in rows], pa.int64())
        label = _field(labels, index)
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata={"label": label} if label else None))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error:  # a field of more than 100,000 characters
        return []


def _field(row: list[str], index: int) -> str | None:
    return row[index].strip(" \u3000") or None if index < len(row) else None


def _number(row: list[str], index: int) -> int | None:
    """A whole number that 64 bits hold; null for anything else."""
    text = _field(row, index) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text.lstrip("0")) <= 18 else None


def _text(path: Path) -> str:
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                inside = [name for name in archive.namelist() if name.lower().endswith((".txt", ".csv"))]
                if len(inside) != 1:
                    raise DataError(f"{path} does not hold one text file", given=", ".join(inside) or "none")
                content = archive.read(inside[0])
        else:
            content = path.read_bytes()
        return content.decode(
            "cp932", "replace"
        )  # the header is ASCII; a value that is not cp932 is no number
    except FileNotFoundError:
        raise DataError(f"no such file: {path}", given=str(path), fix="the path of an e-Stat file") from None
    except (OSError, zipfile.BadZipFile):
        raise DataError(
            f"{path} cannot be read", needed="a text file in cp932, as e-Stat hands out, or its zip"
        ) from None
