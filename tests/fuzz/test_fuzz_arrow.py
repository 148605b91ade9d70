"""A damaged Arrow file is refused; a value in a sound one never is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import feather

import oboro as ob
from oboro.errors import DataError

DOMAIN = ob.Domain([ob.Category("region", ["north", "south"])])
FAR = (1 << 30).to_bytes(4, "little")


def counted(table: pa.Table, path: Path, damage: tuple[bytes, bytes] | None = None) -> Any:
    """The counts of a file, with some bytes exchanged."""
    feather.write_feather(table, path, compression="uncompressed")
    if damage is not None:
        whole = path.read_bytes()
        assert whole.count(damage[0]) == 1
        path.write_bytes(whole.replace(*damage))
    plan = ob.histogram_plan(DOMAIN, "region", unit=ob.Unit.row(), eps=1)
    return plan.prepare(path).tolist()


def test_an_offset_beyond_the_bytes_is_refused(tmp_path: Path) -> None:
    texts = pa.table({"region": ["north", "south", "x" * 101]})
    offsets = b"".join(place.to_bytes(4, "little") for place in (0, 5, 10, 111))
    assert counted(texts, tmp_path / "a.arrow") == [1, 1]
    with pytest.raises(DataError, match="cannot be read"):
        counted(texts, tmp_path / "a.arrow", (offsets, offsets[:8] + FAR + offsets[12:]))


def test_an_index_beyond_its_dictionary_is_refused(tmp_path: Path) -> None:
    codes = pa.array([0, 1, 1, 0, 1, 0, 1], pa.int8())
    table = pa.table({"region": pa.DictionaryArray.from_arrays(codes, ["north", "south"])})
    stored = bytes(codes.to_pylist())
    assert counted(table, tmp_path / "a.arrow") == [3, 4]
    with pytest.raises(DataError, match="cannot be read"):
        counted(table, tmp_path / "a.arrow", (stored, stored[:3] + b"\x77" + stored[4:]))


def test_offsets_inside_lists_and_records_are_checked(tmp_path: Path) -> None:
    offsets = b"".join(place.to_bytes(4, "little") for place in (0, 7, 16))
    damage = (offsets, offsets[:4] + FAR + offsets[8:])
    for nested in (pa.array([["a" * 7], ["b" * 9]]), pa.array([{"a": "a" * 7}, {"a": "b" * 9}])):
        table = pa.table({"region": ["north", "south"], "more": nested})
        assert counted(table, tmp_path / "a.arrow") == [1, 1]
        with pytest.raises(DataError, match="cannot be read"):
            counted(table, tmp_path / "a.arrow", damage)


def test_a_damaged_file_that_somebody_else_read_is_refused_too(tmp_path: Path) -> None:
    """As an Arrow table or a dataset: both use the file as it lies there."""
    plan = ob.histogram_plan(DOMAIN, "region", unit=ob.Unit.row(), eps=1)
    path, offsets = tmp_path / "a.arrow", b"".join(place.to_bytes(4, "little") for place in (0, 5, 10, 111))
    texts = pa.table({"region": ["north", "south", "x" * 101]})
    for damage in (None, (offsets, offsets[:8] + FAR + offsets[12:])):
        feather.write_feather(texts, path, compression="uncompressed")
        if damage is not None:
            path.write_bytes(path.read_bytes().replace(*damage))
        table = pa.ipc.open_file(path).read_all()
        for given in (table, table.to_batches()[0], ds.dataset(path, format="arrow")):
            if damage is None:
                assert plan.prepare(given).tolist() == [1, 1]
            else:
                with pytest.raises(DataError, match="the Arrow table is damaged"):
                    plan.prepare(given)


def test_a_value_is_never_a_damage(tmp_path: Path) -> None:
    """Half a character and a date in the middle of a day: the file is sound, whatever its values are."""
    texts = pa.array([b"north", b"\xff\xfe", b"south"], pa.binary()).view(pa.string())
    days = pa.array([5, 86_400_000, -1], pa.int64()).view(pa.date64())
    nested = pa.StructArray.from_arrays([texts, days], ["text", "day"])
    plan = ob.histogram_plan(DOMAIN, "region", unit=ob.Unit.row(), eps=1)
    for extra in (texts, days, nested):
        table = pa.table({"region": texts, "more": extra})
        assert counted(table, tmp_path / "a.arrow") == plan.prepare(table).tolist() == [1, 1]
