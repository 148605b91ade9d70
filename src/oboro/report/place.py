"""Where the cells of a grid or a mesh lie on the map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Integers, Table
from oboro.domain import Column, Domain, Grid, Mesh
from oboro.errors import DataError, DomainError, declaration

# Sides of the meshes of JIS X 0410, in 250 m; five kilometres is the standard's own step between one and ten.
_MESHES = {"250m": 1, "500m": 2, "1km": 4, "5km": 20, "10km": 40, "80km": 320}


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of cells."""

    row: int
    col: int
    rows: int
    cols: int

    def at(self, side: int) -> Window:
        """The same in blocks of `side` x `side` cells, which are aligned to the whole grid."""
        row, col = self.row // side, self.col // side
        return Window(
            row,
            col,
            (self.row + self.rows - 1) // side - row + 1,
            (self.col + self.cols - 1) // side - col + 1,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The column of the domain that is drawn as a map."""

    column: Grid | Mesh
    whole: Window
    sides: tuple[int, ...]  # blocks that cells may be summed to, each a multiple of the one before

    @classmethod
    def of(cls, domain: Domain) -> Place:
        """The first grid or mesh of the domain."""
        for column in domain.columns:
            if isinstance(column, Grid):
                rows, cols = column.shape[:2]
                largest = max((max(rows, cols) - 1).bit_length() - 1, 0)
                return cls(
                    column, Window(0, 0, rows, cols), tuple(1 << power for power in range(largest + 1))
                )
            if isinstance(column, Mesh):
                unit = _MESHES[column.level]
                each = _MESHES["80km"] // unit
                south, north = min(column.region) // 100, max(column.region) // 100
                west, east = (
                    min(code % 100 for code in column.region),
                    max(code % 100 for code in column.region),
                )
                whole = Window(
                    south * each, west * each, (north - south + 1) * each, (east - west + 1) * each
                )
                return cls(column, whole, tuple(size // unit for size in _MESHES.values() if size >= unit))
        raise DomainError(
            "a map needs a grid or a mesh in the domain",
            given=", ".join(domain.names),
            fix=declaration("grid", names=["row", "col"], shape=[512, 512]),
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the table that say where a cell lies."""
        return self.column.names[:2] if isinstance(self.column, Grid) else (self.column.name,)

    @property
    def summed(self) -> tuple[str, ...]:
        """Further dimensions of the grid, which a map cannot show."""
        return self.column.names[2:] if isinstance(self.column, Grid) else ()

    @property
    def north_up(self) -> bool:
        """Whether rows are counted from the south, as meshes are; the first row of a grid is its top."""
        return isinstance(self.column, Mesh)

    def locate(self, table: Table) -> tuple[Integers, Integers]:
        """Row and column of each row of the table."""
        keys = [_whole_numbers(table, name) for name in self.keys]
        if isinstance(self.column, Mesh):
            if not bool((self.column.axes(keys[0])[0] >= 0).all()):
                raise _outside(f"{self.column.level} mesh codes of the declared region")
            return self.column.locate(keys[0])
        row, col = keys
        if row.size and (
            min(row.min(), col.min()) < 0 or row.max() >= self.whole.rows or col.max() >= self.whole.cols
        ):
            raise _outside(
                f"{self.keys[0]} 0 to {self.whole.rows - 1}, {self.keys[1]} 0 to {self.whole.cols - 1}"
            )
        return row, col

    def aspect(self, window: Window) -> float:
        """Width of a cell for a height of 1: meshes narrow towards the north."""
        if isinstance(self.column, Grid):
            return 1.0
        each = _MESHES["80km"] // _MESHES[self.column.level]
        latitude = (window.row + window.rows / 2) / each / 1.5
        return 1.5 * math.cos(math.radians(latitude))

    def to_dict(self) -> dict[str, Any]:
        """What the page needs to name a cell."""
        if isinstance(self.column, Grid):
            return {
                "kind": "grid",
                "names": list(self.keys),
                "rows": self.whole.rows,
                "cols": self.whole.cols,
            }
        unit = _MESHES[self.column.level]
        names = {
            str(size // unit): name.replace("k", " k").replace("0m", "0 m")
            for name, size in _MESHES.items()
            if size >= unit
        }
        return {"kind": "mesh", "names": [self.column.name], "unit": unit, "levels": names}


def is_place(column: Column) -> bool:
    return isinstance(column, Grid | Mesh)


def _whole_numbers(table: Table, name: str) -> Integers:
    import pyarrow as pa

    if name not in table.column_names:
        raise DataError(
            f"the table has no column {name!r}",
            given=", ".join(table.column_names),
            needed=f"{name}, as the domain declares",
        )
    column = table.column(name)
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        numbers = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        numbers = None
    if numbers is None or numbers.null_count:
        raise DataError(
            f"column {name!r} does not hold whole numbers",
            given=str(column.type),
            needed="int64 without gaps",
        )
    return np.asarray(numbers.to_numpy(), np.int64)


def _outside(needed: str) -> DataError:
    return DataError("a cell lies outside the domain", needed=needed, fix="the domain of the release")
