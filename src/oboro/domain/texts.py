"""Public tables in CSV, by which a domain is declared: combinations of its rules, areas. Their cells are texts: 01 is not 1."""

from __future__ import annotations

import csv
import io
from itertools import islice
from pathlib import Path
from typing import Any

from oboro.errors import DomainError
from oboro.files import in_utf8


def texts_of(path: Path, argument: str, *, empty_is_null: bool = False) -> Any:
    """An Arrow table of texts. What is not UTF-8 is refused; other errors are those of the system and of Arrow."""
    import pyarrow as pa
    import pyarrow.csv

    with pa.input_stream(
        str(path)
    ) as file:  # unpacks what is packed; never an address, which pyarrow would follow
        data = file.read()
    try:
        names = _names(data)
        how = {"strings_can_be_null": True, "null_values": [""]} if empty_is_null else {}
        return pa.csv.read_csv(
            pa.BufferReader(data),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), **how),
        )
    except ValueError:  # Arrow's errors are of this kind, too
        if _is_utf8(data):
            raise
        raise DomainError(
            f"{path} cannot be read",
            given="a text that is not UTF-8",
            needed="a CSV file in UTF-8 with a line of names",
            fix=in_utf8(path, data[:2]),
            argument=argument,
        ) from None


def _names(data: bytes) -> list[str]:
    with io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="") as text:
        try:
            return [name for record in islice(csv.reader(text), 1) for name in record]
        except csv.Error:  # Arrow says of it what there is to say
            return []


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
