"""A published table as cells of a map: layers, rows, columns and counts, summed until a page can carry them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np

from oboro.arrays import Integers, Table
from oboro.domain import Areas, Column, Domain, Grid, Mesh
from oboro.domain.mesh import LEVELS
from oboro.errors import DataError, DomainError, declaration, setting
from oboro.tables.tree.partition import grouped, rows_cols

# Where the cells of a grid or a mesh lie on the map.

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
    areas: Areas | None = None  # which of its cells are in the domain, where not all are

    @classmethod
    def of(cls, domain: Domain) -> Place:
        """The first grid or mesh of the domain."""
        for own in domain.columns:
            column = own.of if isinstance(own, Areas) else own
            if isinstance(column, Grid):
                rows, cols = column.shape[:2]
                largest = max((max(rows, cols) - 1).bit_length() - 1, 0)
                sides = tuple(1 << power for power in range(largest + 1))
                return cls(column, Window(0, 0, rows, cols), sides, own if isinstance(own, Areas) else None)
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
                sides = tuple(size // unit for size in _MESHES.values() if size >= unit)
                return cls(column, whole, sides, own if isinstance(own, Areas) else None)
        raise DomainError(
            "a map needs a grid or a mesh in the domain",
            given=", ".join(domain.names),
            fix=declaration("grid", names=["row", "col"], shape=[512, 512]),
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the table that say where a cell lies."""
        return self.column.names[:2] if isinstance(self.column, Grid) else (self.column.name,)

    def question(self, row: int, col: int, side: int) -> dict[str, object] | None:
        """What `ask` is asked for a block of so many cells a side; None where the region has none.

        There are codes for meshes of most sizes; others are listed by the next finer ones.
        """
        if isinstance(self.column, Grid):
            first, second = self.column.names[:2]
            return {first: (row * side, (row + 1) * side - 1), second: (col * side, (col + 1) * side - 1)}
        level, each = _made_of(self.column, side)
        rows, cols = np.divmod(np.arange(each * each), each)
        codes = _codes_at(level, row * each + rows, col * each + cols)
        known = [str(code) for code in codes.tolist() if int(str(code)[:4]) in self.column.region]
        return {self.column.name: known} if known else None

    def codes_in(self, side: int) -> int:
        """How many codes the question for a block lists."""
        if isinstance(self.column, Grid):
            return 1
        return _made_of(self.column, side)[1] ** 2

    def blocks(self, side: int) -> int:
        """How many blocks of the domain there are, of so many cells a side, whatever the page shows of them."""
        if self.areas is not None:
            row, col = rows_cols(self.column, self.areas.decode(np.arange(self.areas.size)))
            return int(grouped(row // side, col // side)[0].size)
        if isinstance(self.column, Grid):
            return -(-self.whole.rows // side) * -(-self.whole.cols // side)
        each = _MESHES["80km"] // _MESHES[self.column.level]
        return len(self.column.region) * (each // side) ** 2

    @property
    def summed(self) -> tuple[str, ...]:
        """Further dimensions of the grid, which a map cannot show."""
        return self.column.names[2:] if isinstance(self.column, Grid) else ()

    @property
    def north_up(self) -> bool:
        """Whether rows are counted from the south, as meshes are; the first row of a grid is its top, unless it says otherwise."""
        return isinstance(self.column, Mesh) or self.column.rows == "north"

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

    def to_dict(self) -> dict[str, object]:
        """What the page needs to name a cell, beside what columns are called."""
        if isinstance(self.column, Grid):
            return {
                "kind": "grid",
                "rows": self.whole.rows,
                "cols": self.whole.cols,
            }
        unit = _MESHES[self.column.level]
        names = {
            str(size // unit): name.replace("k", " k").replace("0m", "0 m")
            for name, size in _MESHES.items()
            if size >= unit
        }
        return {"kind": "mesh", "unit": unit, "levels": names}


def is_place(column: Column) -> bool:
    return isinstance(column, Grid | Mesh | Areas)


def _made_of(column: Mesh, side: int) -> tuple[str, int]:
    """The coarsest level with codes whose meshes make up a block of so many cells a side, and how many of them a side."""
    size = side * _MESHES[column.level]
    level = max((name for name in LEVELS if size % _MESHES[name] == 0), key=lambda name: _MESHES[name])
    return level, size // _MESHES[level]


def _codes_at(level: str, row: Integers, col: Integers) -> Integers:
    """Mesh codes of rows from the south and columns from the west, as `Mesh.locate` counts them."""
    parts: list[tuple[int, Integers, Integers]] = []
    for side, _ in reversed(LEVELS[level]):
        row, own_row = np.divmod(row, side)
        col, own_col = np.divmod(col, side)
        parts.append((side, own_row, own_col))
    codes = row * 100 + col
    for side, own_row, own_col in reversed(parts):
        codes = codes * 10 + 1 + 2 * own_row + own_col if side == 2 else codes * 100 + own_row * 10 + own_col
    return np.asarray(codes, np.int64)


def _whole_numbers(table: Table, name: str) -> Integers:
    import pyarrow as pa

    column = _column(table, name)
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


MOST_VALUES = 400  # a longer list to choose from helps nobody: such a column is summed over
INTERVAL = ("low", "high")  # the columns that Release.interval() appends


class Label(TypedDict):
    """A column that is shown, and its values."""

    name: str
    values: list[str]


@dataclass(frozen=True, slots=True)
class Layers:
    """The columns beside the map: some to choose from, the others summed over."""

    shown: tuple[Column, ...]
    summed: tuple[str, ...]

    @classmethod
    def of(cls, domain: Domain, place: Place) -> Layers:
        others = [
            column
            for column in domain.columns
            if (column.of if isinstance(column, Areas) else column) is not place.column
        ]
        shown = tuple(column for column in others if not is_place(column) and column.size <= MOST_VALUES)
        rest = [name for column in others if column not in shown for name in column.sources]
        return cls(shown, (*place.summed, *rest))

    def labels(self) -> list[Label]:
        return [{"name": c.name, "values": [str(c.value(i)) for i in range(c.size)]} for c in self.shown]

    def codes(self, table: Table) -> Integers:
        """The layer of each row: mixed radix over the shown columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = np.zeros(table.num_rows, np.int64)
        for column in self.shown:
            values = _column(table, column.name)
            if pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            try:
                known = pa.array([column.value(i) for i in range(column.size)]).cast(values.type)
                index = pc.index_in(values, value_set=known)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise _strange(column.name) from None
            if index.null_count:
                raise _strange(column.name)
            codes = codes * column.size + np.asarray(index.to_numpy(), np.int64)
        return codes


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts by layer, row and column; `below` and `above` are how far the 95% interval reaches, if it was given."""

    layer: Integers
    row: Integers
    col: Integers
    count: Integers
    below: Integers | None = None
    above: Integers | None = None

    @property
    def total(self) -> int:
        return int(self.count.sum())


@dataclass(frozen=True, slots=True)
class Blocks:
    """Sums over blocks, sorted by layer and then by position in the window, row by row. Empty ones are left out."""

    side: int
    layer: Integers
    position: Integers
    count: Integers
    below: Integers | None = None
    above: Integers | None = None


def read_cells(table: Table, place: Place, layers: Layers, count: str | None = None) -> Cells:
    """The cells of a table in coordinate form. The table is public, so whatever is wrong with it is said."""
    row, col = place.locate(table)
    numbers = _counts(table, count or count_column(table, place, layers))
    below, above = _reach(table, numbers)
    return Cells(layers.codes(table), row, col, numbers, below, above)


def window_of(tables: Sequence[Cells], whole: Window, enough: int) -> Window:
    """The whole grid if it has at most `enough` cells, else the part of it where there is anything."""
    filled = [(cells.row[cells.count > 0], cells.col[cells.count > 0]) for cells in tables]
    filled = [(row, col) for row, col in filled if row.size]
    if whole.rows * whole.cols <= enough or not filled:
        return whole
    top, left = min(int(row.min()) for row, _ in filled), min(int(col.min()) for _, col in filled)
    bottom, right = max(int(row.max()) for row, _ in filled), max(int(col.max()) for _, col in filled)
    return Window(top, left, bottom - top + 1, right - left + 1)


def sum_blocks(cells: Cells, window: Window, side: int, *, by_layer: bool) -> Blocks:
    """Sums cells over blocks of `side` x `side`, and over the layers unless `by_layer`."""
    part = window.at(side)
    used = cells.count > 0
    inside = part.rows * part.cols
    key = (cells.row[used] // side - part.row) * part.cols + (cells.col[used] // side - part.col)
    if by_layer:
        key = key + cells.layer[used] * inside
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    counts = np.add.reduceat(cells.count[used][order], starts) if key.size else np.zeros(0, np.int64)
    below = above = None
    if (
        cells.below is not None and cells.above is not None and starts.size == key.size
    ):  # a sum has no such interval
        below, above = cells.below[used][order], cells.above[used][order]
    return Blocks(side, key[starts] // inside, key[starts] % inside, counts, below, above)


def finest(
    tables: Sequence[Cells],
    window: Window,
    sides: Sequence[int],
    *,
    blocks: int,
    entries: int,
    by_layer: bool,
) -> list[Blocks]:
    """Sums over the smallest blocks that a page can carry: so many blocks in the window, so many entries in all."""
    for side in sides:
        part = window.at(side)
        if part.rows * part.cols > blocks and side != sides[-1]:
            continue
        summed = [sum_blocks(cells, window, side, by_layer=by_layer) for cells in tables]
        if sum(each.count.size for each in summed) <= entries:
            break
    return summed


def count_column(table: Table, place: Place, layers: Layers) -> str:
    """The last column that is neither one of the domain nor an end of an interval, nor an estimate beside the counts."""
    keys = {*place.keys, *(column.name for column in layers.shown), *layers.summed, *INTERVAL}
    left = [str(name) for name in table.column_names if name not in keys]
    if not left:
        raise DataError(
            "the table has no column of counts",
            given=", ".join(table.column_names),
            fix=setting(count="people"),
        )
    beside = {"estimate", *(f"estimate of {name}" for name in left)}
    return [name for name in left if name not in beside or len(left) == 1][-1]


def _counts(table: Table, name: str) -> Integers:
    import pyarrow as pa

    column = _column(table, name)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise DataError(
            f"column {name!r} does not hold counts",
            given=str(column.type),
            needed="int64 without gaps",
            fix=setting(count="people"),
        )
    numbers = np.asarray(column.to_numpy(), np.int64)
    if numbers.size and int(numbers.min()) < 0:
        raise DataError(
            f"column {name!r} does not hold counts", given=f"{int(numbers.min())}", needed="0 or more"
        )
    return numbers


def _reach(table: Table, count: Integers) -> tuple[Integers | None, Integers | None]:
    """How far the interval reaches to both sides of the count, in whole numbers and never too short."""
    if not set(INTERVAL) <= set(table.column_names):
        return None, None
    low, high = (np.asarray(table.column(name).to_numpy(), np.float64) for name in INTERVAL)
    below, above = np.maximum(np.ceil(count - low), 0), np.maximum(np.ceil(high - count), 0)
    if not np.isfinite(below + above).all():
        return None, None
    return below.astype(np.int64), above.astype(np.int64)


def _column(table: Table, name: str) -> Any:
    if name not in table.column_names:
        raise DataError(
            f"the table has no column {name!r}",
            given=", ".join(table.column_names),
            needed=f"{name}, as the domain declares",
        )
    return table.column(name)


def _strange(name: str) -> DataError:
    return DataError(
        f"column {name!r} holds a value that the domain does not declare", fix="the domain of the release"
    )


# Colour scales of equal perceptual steps, made in OKLab; safe for the colour-blind because lightness alone orders them.
#
# On a light page few is pale and many is dark; on a dark page few is dim and many shines.

Lch = tuple[float, float, float]  # lightness 0..1, chroma, hue in degrees
Lab = tuple[float, float, float]

CLASSES = 10  # colours of a sequential scale
SIDES = 4  # colours on each side of a diverging one

_SEQUENTIAL: dict[str, Sequence[Lch]] = {
    "light": ((0.93, 0.05, 100), (0.80, 0.09, 172), (0.63, 0.11, 222), (0.45, 0.13, 262), (0.27, 0.10, 285)),
    "dark": ((0.29, 0.06, 278), (0.44, 0.12, 268), (0.60, 0.11, 235), (0.78, 0.10, 178), (0.96, 0.07, 100)),
}
_DIVERGING: dict[str, tuple[Sequence[Lch], Sequence[Lch]]] = {  # from the middle outwards: too few, too many
    "light": (
        ((0.90, 0.04, 70), (0.70, 0.13, 60), (0.45, 0.12, 45)),
        ((0.90, 0.03, 250), (0.68, 0.11, 250), (0.42, 0.14, 262)),
    ),
    "dark": (
        ((0.32, 0.04, 60), (0.58, 0.12, 58), (0.86, 0.11, 75)),
        ((0.32, 0.06, 265), (0.58, 0.12, 255), (0.87, 0.07, 230)),
    ),
}


def sequential(theme: str, size: int = CLASSES) -> list[str]:
    """`size` colours from few to many."""
    return [_hex(lab) for lab in _even(_SEQUENTIAL[theme], size)]


def diverging(theme: str, size: int = SIDES) -> list[str]:
    """`size` colours for too few, strongest first, then `size` for too many, strongest last."""
    below, above = (_even(side, size) for side in _DIVERGING[theme])
    return [_hex(lab) for lab in (*reversed(below), *above)]


def lightness(colour: str) -> float:
    """The OKLab lightness of a colour such as #1b2a4e."""
    return to_lab(colour)[0]


def to_lab(colour: str) -> Lab:
    red, green, blue = (_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _even(stops: Sequence[Lch], size: int) -> list[Lab]:
    """Points at equal distances along the path through the stops."""
    fine = 200
    path = [_between(stops, i * (len(stops) - 1) / fine) for i in range(fine + 1)]
    along = [0.0]
    for one, other in pairwise(path):
        along.append(along[-1] + math.dist(one, other))
    wanted = [along[-1] * i / max(size - 1, 1) for i in range(size)]
    return [path[min(range(fine + 1), key=lambda i, goal=goal: abs(along[i] - goal))] for goal in wanted]  # type: ignore[misc]


def _between(stops: Sequence[Lch], at: float) -> Lab:
    index = min(int(at), len(stops) - 2)
    rest = at - index
    light, chroma, hue = (a + (b - a) * rest for a, b in zip(stops[index], stops[index + 1], strict=True))
    return light, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))


def _hex(lab: Lab) -> str:
    light, a, b = lab
    for _ in range(60):  # towards grey until the screen can show it
        colour = _rgb((light, a, b))
        if all(-1e-4 <= part <= 1.0001 for part in colour):
            break
        a, b = a * 0.96, b * 0.96
    return "#" + "".join(f"{round(255 * min(max(part, 0.0), 1.0)):02x}" for part in colour)


def _rgb(lab: Lab) -> tuple[float, float, float]:
    light, a, b = lab
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _gamma(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _gamma(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _gamma(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _gamma(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else float(1.055 * part ** (1 / 2.4) - 0.055)
