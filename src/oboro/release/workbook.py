"""A release as a workbook of two sheets, for those who open it in Excel: its figures, and its certificate in words.

Every cell is written as the text, number or day that it is. None is ever a formula, a link or a number that Excel reads out of a text,
whatever sign a value begins with. What would lose digits as a number of Excel's is a text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from oboro.errors import ParameterError

if TYPE_CHECKING:
    from oboro.arrays import Table

ENDING = ".xlsx"
MOST_ROWS = 1_048_576  # of a sheet, with the line of names
MOST_COLUMNS = 16_384
MOST_SIGNS = 32_767  # of a cell, in halves of UTF-16
SHEETS = ("figures", "certificate")
_EXACT = 10**15  # Excel keeps 15 digits of a number
_FIRST_DAY = date(1900, 3, 1)  # before it Excel counts a day that there never was


def check_room(rows: int | None, columns: int, signs: int) -> None:
    """Refuses, before anything is paid for, what no workbook can hold or nothing here can write.

    `rows` are those of the figures, None where nobody can say; `signs` is the length of the longest text.
    """
    _writer()
    for given, most, asked, needed in (
        (
            0 if rows is None else rows + 1,
            MOST_ROWS,
            f"up to {rows or 0:,} rows",
            f"at most {MOST_ROWS - 1:,} rows",
        ),
        (columns, MOST_COLUMNS, f"{columns:,} columns", f"at most {MOST_COLUMNS:,} columns"),
        (signs, MOST_SIGNS, f"a text of up to {signs:,} signs", f"at most {MOST_SIGNS:,} signs"),
    ):
        if given > most:
            raise ParameterError(
                "a workbook of Excel cannot hold this",
                given=asked,
                needed=needed,
                fix="another ending, such as .parquet or .csv",
            )


def encoded_workbook(table: Table, words: Sequence[Sequence[str]], made: datetime) -> bytes:
    """The bytes of the file: always the same for the same release. `words` are rows, a label and the cells after it."""
    names, columns = (
        [_head(field) for field in table.schema],
        [column.to_pylist() for column in table.columns],
    )
    longest = max(
        map(_signs, [one for values in (names, *columns) for one in values if isinstance(one, str)])
    )
    check_room(table.num_rows, len(names), longest)
    sink = io.BytesIO()
    book = _writer().Workbook(sink, {"in_memory": True})
    book.set_properties({"created": made.astimezone(UTC).replace(tzinfo=None)})
    bold, day, wide = (
        book.add_format(how) for how in ({"bold": True}, {"num_format": "yyyy-mm-dd"}, {"text_wrap": True})
    )
    figures, certificate = map(book.add_worksheet, SHEETS)
    for at, (name, values) in enumerate(zip(names, columns, strict=True)):
        figures.write_string(0, at, name, bold)
        for row, value in enumerate(values, 1):
            _write(figures, row, at, value, day)
        figures.set_column(at, at, min(60, 2 + max(len(str(value)) for value in [name, *values[:100]])))
    figures.freeze_panes(1, 0)
    certificate.set_column(0, 0, 16)
    certificate.set_column(1, 1, 80)
    certificate.set_column(2, 8, 16)
    row = 0
    for label, *cells in words:
        certificate.write_string(row, 0, label, bold)
        parts = [_parts(cell) for cell in cells]
        for at, texts in enumerate(parts, 1):
            for below, text in enumerate(texts):
                certificate.write_string(row + below, at, text, wide)
        row += max(map(len, parts), default=1)
    book.close()
    return sink.getvalue()


def _head(field: Any) -> str:
    """The name of a column; after its label, where it has one."""
    label = (field.metadata or {}).get(b"label", b"").decode()
    return f"{label} ({field.name})" if label else str(field.name)


def _write(sheet: Any, row: int, at: int, value: object, day: Any) -> None:
    """One cell, by its own kind: `write` of the library would guess it from the text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, at, value)
    elif (
        isinstance(value, int | float)
        and math.isfinite(value)
        and (isinstance(value, float) or abs(value) < _EXACT)
    ):
        sheet.write_number(row, at, value)
    elif isinstance(value, date) and not isinstance(value, datetime) and value >= _FIRST_DAY:
        sheet.write_datetime(row, at, value, day)
    else:
        sheet.write_string(row, at, str(value))


def _signs(text: str) -> int:
    """How long a text is for Excel, which counts a sign beyond the first plane twice."""
    return len(text) + sum(sign > "\uffff" for sign in text)


def _parts(text: str) -> list[str]:
    """A text of words, in as many cells, one below the other, as it needs."""
    most = MOST_SIGNS // 2
    return [text[at : at + most] for at in range(0, max(1, len(text)), most)]


def _writer() -> Any:
    try:
        import xlsxwriter
    except ImportError:
        raise ParameterError(
            ".xlsx needs XlsxWriter, which is not installed",
            given="no XlsxWriter",
            needed="the extra xlsx",
            fix='pip install "oboro[xlsx]"',
        ) from None
    return xlsxwriter
