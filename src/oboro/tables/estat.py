"""Regional mesh statistics as e-Stat, the portal of Japan's official statistics, hands them out."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

from oboro.errors import DataError
from oboro.kinds import path_of, takes

_TEXT = ("KEY_CODE", "HTKSYORI", "HTKSAKI", "GASSAN")


@takes(path=path_of)
def read_estat(path: str | Path) -> Any:
    """An e-Stat mesh file (text in cp932, or its zip) as an Arrow table.

    The first line names the columns (KEY_CODE is the mesh code), the second says what they are; that label is
    kept as metadata of each field. Counts that the office suppressed are `*` in the file and null in the table.
    A cell with HTKSYORI = 2 is suppressed, and its people are counted in the cell that HTKSAKI names, which has
    HTKSYORI = 1; so totals are complete, and nulls count as 0.
    """
    import pyarrow as pa

    try:
        rows = list(csv.reader(io.StringIO(_text(Path(path)), newline=None)))
    except csv.Error:  # a field of 100,000 characters, say
        rows = []
    if len(rows) < 2 or "KEY_CODE" not in rows[0] or len(set(rows[0])) != len(rows[0]):
        raise DataError(
            f"{path} is not a mesh file of e-Stat",
            given=", ".join(rows[0][:4]) if rows else "an empty file",
            needed="a first line with KEY_CODE, ...",
        )
    names, labels, records = rows[0], rows[1], [row for row in rows[2:] if len(row) == len(rows[0])]
    arrays, fields = [], []
    for index, name in enumerate(names):
        values = [row[index].strip() for row in records]
        if name in _TEXT and name != "KEY_CODE":
            array = pa.array([value or None for value in values], pa.string())
        else:
            array = pa.array(
                [int(value) if value.isascii() and value.isdigit() else None for value in values], pa.int64()
            )
        label = labels[index].strip(" \u3000") if index < len(labels) else ""
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata={"label": label} if label else None))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


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
        return content.decode("cp932")
    except FileNotFoundError:
        raise DataError(f"no such file: {path}", given=str(path), fix="the path of an e-Stat file") from None
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError):
        raise DataError(
            f"{path} cannot be read", needed="a text file in cp932, as e-Stat hands out, or its zip"
        ) from None
