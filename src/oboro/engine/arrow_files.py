"""Arrow files, and whether their arrays hang together.

An Arrow file is used as it lies on the disk. Where a damaged one says that a text begins beyond the end of its bytes,
whoever follows that reads foreign memory, and the program dies. So offsets and indices are checked before anything is read.
They say how the file is built. Values are not looked at: a text that is not UTF-8, or a date that is none, follows
the rule of its column like any other value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oboro.engine.careful import damaged


def read_arrow(path: Path) -> Any:
    """The table in an Arrow or Feather file; refused if the file is damaged."""
    import pyarrow as pa
    from pyarrow import feather

    try:
        table = feather.read_table(path, memory_map=True)
        table.validate()
        for column in table.columns:
            for chunk in column.chunks:
                _check(chunk)
        return table
    except (pa.ArrowException, OSError):
        raise damaged(path) from None


def _check(array: Any) -> None:
    """Raises where an offset or an index leads outside."""
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):
        codes = array.indices.drop_null()
        found = codes.to_numpy(zero_copy_only=False)
        if found.size and not 0 <= found.min() <= found.max() < len(array.dictionary):
            raise pa.ArrowInvalid("an index beyond its dictionary")
        _check(array.dictionary)
    elif (plain := _plain(array.type)) is not None:
        array.view(plain).validate(full=True)


def _plain(kind: Any) -> Any:
    """The same layout with bytes in place of texts and whole numbers in place of dates; None for what has no offsets."""
    import pyarrow as pa

    as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    if hasattr(pa, "string_view"):  # since pyarrow 16
        as_bytes[pa.string_view()] = pa.binary_view()
    if kind in as_bytes or kind in as_bytes.values():
        return as_bytes.get(kind, kind)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _inner(part.type), part.nullable) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(_inner(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_inner(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_inner(kind.value_type), kind.list_size)
    if pa.types.is_nested(kind):  # maps, unions and runs: as they are
        return kind
    return None


def _inner(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_time32(kind):
        return pa.int32()
    return _plain(kind) or kind
