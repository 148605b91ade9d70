"""Synthetic records as a file; the extension decides the format. CSV opens in Excel: UTF-8 with a mark, lines end as it likes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from oboro.errors import ParameterError
from oboro.files import write_whole
from oboro.release.files import FORMATS, encoded


def check_file(path: str | Path) -> Path:
    """Refuses a file that cannot be written, before anything is done for it."""
    where = Path(path)
    if where.suffix.lower() not in FORMATS:
        raise ParameterError(
            "the file type is unknown",
            given=str(path),
            needed=" ".join(FORMATS),
            fix=f"{where.stem or 'synthetic'}.parquet",
        )
    return where


def write_records(table: Any, path: str | Path) -> None:
    """Writes an Arrow table so that it is there whole or not at all."""
    where = check_file(path)
    write_whole(where, _encoded(table, where.suffix.lower()))


def _encoded(table: Any, suffix: str) -> bytes:
    if suffix != ".csv":
        return encoded(table, suffix)
    import pyarrow.csv as csv

    sink = io.BytesIO()
    # without quotes around every text; a text that needs them has them
    csv.write_csv(table, sink, csv.WriteOptions(quoting_style="needed"))
    return b"\xef\xbb\xbf" + sink.getvalue()
