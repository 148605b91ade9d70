"""Areas: places whose tree a public table gives. Prefectures, the municipalities in each, the cells in each of these.

The table has a row for each cell, and says in which area of every level it lies. It is public, and becomes part of the
column: of its record too, whole, so that a plan that was written down means the same when it is read, wherever the file
that it came from has gone. A cell that is not in the table is no cell of the domain, like the sea.

Cells are numbered in the order of the tree: by area of the first level, of the second, ..., and within the last one by their
place on the mesh or grid that they are cells of. So every area is a range of numbers, and so is what it shares with a block.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.domain.columns import EXAMPLES, Column, set_parts
from oboro.domain.mesh import LEVELS, Grid, Mesh
from oboro.domain.texts import texts_of
from oboro.errors import DataError, DomainError, declaration, setting, told
from oboro.files import reads
from oboro.kinds import list_of, path_of, shown, takes, text_of

MOST_CELLS = 2**26
_MOST_BYTES = 2**31  # of what is packed: far more than so many cells take


@dataclass(frozen=True, repr=False)
class Areas(Column):
    """Cells in areas within areas, as a public table says: a column for every level, the last one that of the cells.

    `table` is a CSV or Parquet file, or an Arrow table, a data frame or a dictionary of lists. `of` says what the cells
    are cells of: a `Mesh`, or a `Grid`, whose rows and columns the table then has. Codes of JIS X 0410 are known for what they
    are. Other cells are names alone.

    >>> table = {
    ...     "prefecture": ["13", "13", "34"],
    ...     "municipality": ["13101", "13102", "34101"],
    ...     "mesh": [53394611, 53394612, 51323359],
    ... }
    >>> areas = ob.Areas("mesh", levels=["prefecture", "municipality", "mesh"], table=table)
    >>> areas.size, areas.labels("prefecture"), areas.of.level
    (3, ('13', '34'), '1km')
    >>> areas.code(53394612), areas.value(1)
    (1, 53394612)
    """

    name: str
    levels: tuple[str, ...]
    areas: str  # the names of the areas, and how many of the next level each holds: packed
    cells: str  # where the cells are, and the last area of each: packed
    of: Grid | Mesh | None = None
    kind = "areas"
    missing = None

    @takes(levels=list_of)
    def __init__(
        self,
        name: str,
        levels: Iterable[str],
        table: Any = None,
        of: Grid | Mesh | None = None,
        *,
        areas: str | None = None,
        cells: str | None = None,
    ) -> None:
        names = tuple(text_of("level", level) for level in levels)
        own = of.name if isinstance(of, Grid | Mesh) else name
        if (
            not isinstance(name, str)
            or not name
            or len(names) < 2
            or len(set(names)) != len(names)
            or names[-1] != name
            or own != name
        ):
            raise DomainError(
                "areas need a name and their levels",
                given=told(name=repr(name), levels=f"{list(names)}"),
                needed="two or more different levels, the coarsest first, the last one the column of the cells"
                + ("" if own == name else f", {own}"),
                fix=declaration("areas", **EXAMPLES["areas"]),
            )
        if not (of is None or isinstance(of, Mesh) or (isinstance(of, Grid) and len(of.shape) == 2)):
            raise DomainError(
                f"column {name!r}: of is what its cells are cells of",
                given=told(of=shown(of)),
                needed="a Mesh, a Grid of rows and columns, or nothing",
                fix=told(of='ob.Mesh("mesh", level="1km")'),
            )
        packed = isinstance(areas, str) and isinstance(cells, str)
        if (table is None) != packed:
            raise DomainError(
                f"column {name!r} needs the table that says where its cells lie",
                given="no table" if table is None else "a table twice",
                needed="a CSV or Parquet file, or a table, with a column for each level",
                fix=setting(table="areas.parquet"),
            )
        set_parts(self, name=name, levels=names, of=of)
        if table is not None:
            _fill(self, _columns(self, table))
        else:
            set_parts(self, areas=areas, cells=cells)
        self._check()

    def _check(self) -> None:
        """Refuses what was packed in another way than here: a record means one tree, or nothing."""
        try:
            good = self._is_canonical()
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError, zlib.error):
            good = False
        if not good:
            raise DomainError(
                f"the areas of column {self.name!r} cannot be read",
                needed="areas and cells as oboro writes them, or the table that they came from",
                fix=setting(table="areas.parquet"),
            )

    def _is_canonical(self) -> bool:
        depth = len(self.levels) - 1
        every, sizes = self._unpacked
        if len(every) != depth or len(sizes) != depth - 1:
            return False
        if not all(
            type(label) is str and label and label.isprintable() for labels in every for label in labels
        ):
            return False
        if any(not labels or len(set(labels)) != len(labels) for labels in every):
            return False
        for own, labels, finer in zip(sizes, every, every[1:], strict=False):
            if (
                len(own) != len(labels)
                or any(type(n) is not int or n < 1 for n in own)
                or sum(own) != len(finer)
            ):
                return False
        # labels in order: those of the first level, and those within one area
        groups = [every[0]]
        for own, finer in zip(sizes, every[1:], strict=True):
            ends = np.cumsum(own).tolist()
            groups += [finer[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        if any(first >= second for group in groups for first, second in pairwise(group)):
            return False
        places, held = self._places
        if not 0 < len(held) <= MOST_CELLS or len(places) != len(held):
            return False
        if not bool((np.bincount(held, minlength=len(every[-1])) > 0).all()) or held.max() >= len(every[-1]):
            return False
        if self.of is None:
            return all(type(one) is str and one for one in places) and all(a < b for a, b in pairwise(places))
        if not bool((np.diff(places) > 0).all()) or places[0] < 0 or places[-1] >= self.of.size:
            return False
        return bool((self.of.encode(*_axes_of(self.of, places)) == places).all())

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,) if self.of is None else self.of.sources

    @property
    def asked(self) -> tuple[str, ...]:
        return (*self.levels[:-1], *self.sources)

    @property
    def size(self) -> int:
        return int(self._places[1].size)

    def labels(self, level: str) -> tuple[str, ...]:
        """The names of the areas of a level, in the order of the tree."""
        return tuple(self._unpacked[0][self._at(level)])

    def bounds(self, level: str) -> Integers:
        """Where the areas of a level begin and end, as numbers of cells: one more number than there are areas."""
        return self._bounds[self._at(level)]

    def _at(self, level: str) -> int:
        if level not in self.levels[:-1]:
            raise DomainError(
                f"column {self.name!r} has no such level",
                given=shown(level),
                needed=", ".join(self.levels[:-1]),
            )
        return self.levels.index(level)

    @cached_property
    def _unpacked(self) -> tuple[list[list[str]], list[list[int]]]:
        every, sizes = json.loads(_inflated(self.areas))
        return every, sizes

    @cached_property
    def _places(self) -> tuple[Any, Integers]:
        """In the order of the mesh or grid, or of names: the place of each cell, and its last area."""
        content = _inflated(self.cells)
        count = int.from_bytes(content[:4], "little")
        held = np.frombuffer(content[4 : 4 + 4 * count], "<i4").astype(np.int64)
        rest = content[4 + 4 * count :]
        if self.of is None:
            return json.loads(rest), held
        return np.cumsum(np.frombuffer(rest, "<i8").astype(np.int64)), held

    @cached_property
    def _order(self) -> Integers:
        """The place in that order of each cell of the tree."""
        return np.argsort(self._places[1], kind="stable")

    @cached_property
    def _bounds(self) -> tuple[Integers, ...]:
        every, sizes = self._unpacked
        counts = np.bincount(self._places[1], minlength=len(every[-1]))
        found = [np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)]
        for own in reversed(sizes):
            found.insert(0, found[0][np.concatenate([[0], np.cumsum(own)])])
        return tuple(found)

    @cached_property
    def positions(self) -> Integers | None:
        """The code of each cell on its mesh or grid, in the order of the tree; None where cells are names alone."""
        return None if self.of is None else np.asarray(self._places[0][self._order])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each cell, in the order of the tree, where cells are names alone."""
        if self.of is not None:
            return ()
        return tuple(self._places[0][i] for i in self._order.tolist())

    @cached_property
    def _rank(self) -> Integers:
        """The number in the tree of each cell in the order of places."""
        rank = np.empty(self.size, np.int64)
        rank[self._order] = np.arange(self.size)
        return rank

    def encode(self, *places: npt.ArrayLike) -> Integers:
        """Numbers of cells from mesh codes, or rows and columns; -1 for what is no cell."""
        if self.of is None:
            raise DomainError(f"the cells of column {self.name!r} are names", needed="code(name)")
        found = self.of.encode(*places)
        known = self._places[0]
        at = np.minimum(np.searchsorted(known, found), self.size - 1)
        return np.where(known[at] == found, self._rank[at], -1)

    def decode(self, codes: npt.ArrayLike) -> list[Integers]:
        """Mesh codes, or rows and columns, of cells."""
        if self.of is None or self.positions is None:
            raise DomainError(f"the cells of column {self.name!r} are names", needed="value(code)")
        return _axes_of(self.of, self.positions[np.asarray(codes, np.int64)])

    def value(self, code: int) -> Any:
        return self.names[code] if self.positions is None else self.of.value(int(self.positions[code]))  # type: ignore[union-attr]

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.names)}

    def code(self, value: Any) -> int | None:
        if self.of is None:
            return self._codes.get(value) if type(value) is str else None
        place = self.of.code(value)
        at = int(np.searchsorted(self._places[0], -1 if place is None else place))
        return int(self._rank[at]) if at < self.size and self._places[0][at] == place else None

    def to_dict(self) -> dict[str, object]:
        of: dict[str, object] = {} if self.of is None else {"of": self.of.to_dict()}
        own: dict[str, object] = {"kind": self.kind, "name": self.name, "levels": list(self.levels)}
        return {**own, **of, "areas": self.areas, "cells": self.cells}

    def __repr__(self) -> str:
        return f"Areas({self.name!r}, levels={list(self.levels)!r}, {self.size:,} cells)"

    def __getstate__(self) -> dict[str, object]:
        return {part: getattr(self, part) for part in ("name", "levels", "areas", "cells", "of")}

    def __setstate__(self, state: dict[str, object]) -> None:
        set_parts(self, **state)


def _axes_of(of: Grid | Mesh, positions: Integers) -> list[Integers]:
    found = of.decode(positions)
    return found if isinstance(found, list) else [found]


def _deflated(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode()


def _inflated(packed: str) -> bytes:
    inflating = zlib.decompressobj()
    content = inflating.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
    if not inflating.eof or inflating.unused_data:
        raise ValueError("not a whole stream, or a longer one than any table makes")
    return content


# From the table to the tree.


def _columns(column: Areas, table: Any) -> dict[str, Any]:
    """The columns of the table that are needed, as Arrow arrays."""
    import pyarrow as pa

    needed = [*column.levels[:-1], *column.sources]
    found = open_table(table, needed)
    for name in needed:
        if found.column_names.count(name) != 1:
            raise DataError(
                f"the table of areas has no column {name!r}"
                if name not in found.column_names
                else f"the table of areas has two columns {name!r}",
                given=", ".join(found.column_names) or "no column",
                needed=", ".join(needed),
                argument="table",
            )
    if not 0 < found.num_rows <= MOST_CELLS:
        raise DomainError(
            "the table of areas lists no cell"
            if not found.num_rows
            else "the table of areas lists too many cells",
            given=f"{found.num_rows:,} rows",
            needed="one row for each cell"
            if not found.num_rows
            else f"at most 2^{MOST_CELLS.bit_length() - 1}",
        )
    arrays = {}
    for name in needed:
        array = found.column(name).combine_chunks()
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        arrays[name] = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return arrays


def open_table(table: Any, needed: Sequence[str], argument: str = "table") -> Any:
    """A public table with the columns that are needed, CSV or Parquet or what Arrow takes; columns of a CSV file are texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(table, pa.Table):
        return table
    if isinstance(table, dict) or hasattr(table, "__arrow_c_stream__"):
        try:
            return pa.table(table)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                "the table of areas cannot be read", given=str(error).partition("\n")[0], argument="table"
            ) from None
    path = path_of("table", table)
    reads(path)
    if not path.is_file():
        raise DataError(
            f"no such file: {path}",
            given=told(table=str(path)),
            needed="a CSV or Parquet file that says in which areas each cell lies",
            argument="table",
        )
    try:
        if path.suffix.lower() != ".parquet":
            return texts_of(path, argument, needed, empty_is_null=True)
        with pa.OSFile(str(path)) as source:
            return pq.read_table(source)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read",
            given=str(error).partition("\n")[0],
            needed="a CSV file in UTF-8 with a line of names, or a Parquet file",
            argument="table",
        ) from None


def _fill(column: Areas, arrays: dict[str, Any]) -> None:
    """Packs the tree, and refuses a cell in two areas or in none, and an area in two others."""
    if column.of is None and (mesh := _mesh(column.name, arrays[column.name])) is not None:
        set_parts(column, of=mesh)
    texts = [_texts(column, arrays, name) for name in column.levels[:-1]]
    cells = _cells(column, arrays)
    _check_once(column, arrays, cells, texts)
    every: list[list[str]] = []
    sizes: list[list[int]] = []
    path = np.zeros(len(cells), np.int64)
    for level, (labels, place) in enumerate(texts):
        known, path = np.unique(path * len(labels) + place, return_inverse=True)  # in the order of the tree
        above, own = np.divmod(known, len(labels))
        _check_nested(column, level, [labels[i] for i in own.tolist()], above, every)
        if level:
            sizes.append(np.bincount(above, minlength=len(every[-1])).tolist())
        every.append([labels[i] for i in own.tolist()])
    order = np.argsort(cells, kind="stable")
    held = path[order].astype("<i4")
    if column.of is None:
        rest = _json([str(cell) for cell in cells[order]])
    else:
        rest = np.diff(cells[order], prepend=0).astype("<i8").tobytes()
    content = len(held).to_bytes(4, "little") + held.tobytes() + rest
    set_parts(column, areas=_deflated(_json([every, sizes])), cells=_deflated(content))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _as_texts(name: str, array: Any) -> Any:
    """A column of the table as texts; None where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = pc.utf8_trim_whitespace(array.cast(pa.string()))
    except pa.ArrowException:
        raise DataError(
            f"column {name!r} of the table of areas is of the wrong kind",
            given=str(array.type),
            needed="texts or whole numbers",
            argument="table",
        ) from None
    if pa.types.is_floating(array.type):  # 34.0 is how pandas writes 34 where something else is missing
        found = pc.if_else(pc.is_nan(array), None, pc.replace_substring_regex(found, r"\.0$", ""))
    return pc.if_else(pc.equal(found, ""), None, found)


def _named(column: Areas, arrays: dict[str, Any], row: int) -> str:
    """A cell, as an error calls it."""
    return ", ".join(f"{name} {shown(arrays[name][row].as_py())}" for name in column.sources)


def _texts(column: Areas, arrays: dict[str, Any], name: str) -> tuple[list[str], Integers]:
    """The names in a column of the table, sorted, and which of them each row has."""
    import pyarrow.compute as pc

    found = _as_texts(name, arrays[name])
    if found.null_count:
        row = pc.index(pc.is_null(found), True).as_py()
        raise DomainError(
            "a cell lies in no area",
            given=f"{_named(column, arrays, row)}, whose {name} is empty, and {found.null_count - 1:,} more",
            needed="an area of every level for each cell that is listed",
            argument="table",
        )
    coded = found.dictionary_encode()
    labels, place = coded.dictionary.to_pylist(), np.asarray(coded.indices.to_numpy(), np.int64)
    strange = [label for label in labels if not label.isprintable()]
    if strange:
        raise DomainError(
            "an area has a name that cannot be printed",
            given=shown(strange[0]),
            needed="names without control characters",
            argument="table",
        )
    order = sorted(range(len(labels)), key=labels.__getitem__)
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels))
    return [labels[i] for i in order], rank[place]


def _mesh(name: str, array: Any) -> Mesh | None:
    """The mesh that all codes are of, if there is one. (Four digits alone may be anything.)"""
    codes = [
        int(text) for text in _as_texts(name, array).to_pylist() if text and text.isascii() and text.isdigit()
    ]
    if len(codes) < len(array) or min(codes) < 100_000 or max(codes) > 10**10:
        return None
    digits = len(str(codes[0]))
    for level in LEVELS:
        whole = Mesh(name, level, region=[0])
        if whole.digits == digits:
            numbers = np.array(codes, np.int64)
            region = np.unique(numbers // 10 ** (digits - 4))
            if region[0] >= 1000 and region[-1] < 10_000:
                made = Mesh(name, level, region=region.tolist())
                return made if bool((made.encode(numbers) >= 0).all()) else None
    return None


def _cells(column: Areas, arrays: dict[str, Any]) -> npt.NDArray[Any]:
    """Where each row's cell is: its code on the mesh or grid, or its name."""
    found = [_as_texts(name, arrays[name]).to_pylist() for name in column.sources]
    if column.of is None:
        for row, text in enumerate(found[0]):
            if text is None or not text.isprintable():
                raise DomainError(
                    "a cell has no name",
                    given=f"row {row + 1}: {shown(text)}",
                    needed=f"the {column.name} of every cell",
                    argument="table",
                )
        return np.array(found[0], object)
    numbers = [
        np.array(
            [int(t) if t and len(t) <= 18 and t.isascii() and t.isdigit() else -1 for t in texts], np.int64
        )
        for texts in found
    ]
    codes = column.of.encode(*numbers)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise DomainError(
            f"the table of areas lists what is no cell of the {column.of.kind}",
            given=f"{_named(column, arrays, row)}, and {int((codes < 0).sum()) - 1:,} more",
            needed=f"cells of {column.of}",
            argument="table",
        )
    return codes


def _check_once(
    column: Areas,
    arrays: dict[str, Any],
    cells: npt.NDArray[Any],
    texts: Sequence[tuple[list[str], Integers]],
) -> None:
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(cells[order][1:] == cells[order][:-1])
    if not again.size:
        return
    first, second = order[again[0]], order[again[0] + 1]
    for level, (labels, place) in zip(column.levels, texts, strict=False):
        if place[first] != place[second]:
            raise DomainError(
                "a cell lies in two areas",
                given=f"{_named(column, arrays, first)} in {level} {labels[place[first]]} and {labels[place[second]]}",
                needed="one area of each level for each cell",
                argument="table",
            )
    raise DomainError(
        "a cell is listed twice",
        given=f"{_named(column, arrays, first)}, and {again.size - 1:,} more",
        needed="one row for each cell",
        argument="table",
    )


def _check_nested(column: Areas, level: int, own: list[str], above: Integers, every: list[list[str]]) -> None:
    seen: dict[str, int] = {}
    for label, parent in zip(own, above.tolist(), strict=True):
        if label in seen:
            coarser, finer = column.levels[level - 1], column.levels[level]
            one, other = every[level - 1][seen[label]], every[level - 1][parent]
            raise DomainError(
                "an area lies in two areas",
                given=f"{finer} {label} in {coarser} {one} and {other}",
                needed=f"one {coarser} for each {finer}; where two have the same name, codes that tell them apart",
                argument="table",
            )
        seen[label] = parent
