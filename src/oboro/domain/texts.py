"""Public tables in CSV, by which a domain is declared: combinations of its rules, areas. Their cells are texts: 01 is not 1."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from contextlib import suppress
from itertools import islice, tee
from pathlib import Path
from typing import Any

from oboro.errors import DomainError
from oboro.files import in_utf8
from oboro.separators import Header


def texts_of(path: Path, argument: str, wanted: Collection[str], *, empty_is_null: bool = False) -> Any:
    """An Arrow table of texts. What is not UTF-8, or separates the wanted columns otherwise, is refused; other errors are those of the system and of Arrow."""
    import pyarrow as pa
    import pyarrow.csv

    with pa.input_stream(
        str(path)
    ) as file:  # unpacks what is packed; never an address, which pyarrow would follow
        data = file.read()
    try:
        header = _header(path, data)
        names = header.names(",")
        if not set(names) <= set(wanted):
            header.check(wanted, argument)
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
            fix=in_utf8(path, data.partition(b"\n")[0]),
            argument=argument,
        ) from None


def _header(path: Path, data: bytes) -> Header:
    with io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="") as text:
        lines, kept = tee(text)
        reader = csv.reader(lines)
        with suppress(csv.Error):  # Arrow says of it what there is to say
            next(reader, None)
        return Header(path, ",", "".join(islice(kept, reader.line_num)))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
