"""Tables as files of every format, and files that are there whole or not at all."""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oboro.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there whole or not at all, also after a crash."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written",
            given=error.strerror or str(error),
            fix="a folder that exists and may be written",
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes it private; a release is public
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise DataError(
                f"{path} cannot be written", given=error.strerror or str(error), fix="the path of a file"
            ) from None
        raise


def encoded(table: pa.Table, suffix: str) -> bytes:
    """A table as .parquet, .csv, .arrow or .json."""
    sink = io.BytesIO()
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        # differences of sorted keys are small: two fifths fewer bytes, in a third of the time
        packed = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        others = [name for name in table.column_names if name not in packed]
        encoding = dict.fromkeys(packed, "DELTA_BINARY_PACKED")
        pq.write_table(
            table, sink, compression="zstd", use_dictionary=others, column_encoding=encoding or None
        )
    elif suffix == ".csv":
        import pyarrow.csv as csv

        csv.write_csv(table, sink)
    elif suffix == ".arrow":
        import pyarrow as pa

        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        import json

        sink.write(json.dumps(table.to_pylist(), ensure_ascii=False, default=str, indent=1).encode())
    return sink.getvalue()
