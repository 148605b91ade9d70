"""Places: cells of a grid, and the regional meshes of Japan (JIS X 0410).

Both are columns of a domain. A place that is not declared is left out, whatever the record holds; there is
no nearest place for a wrong one. Codes run in Morton order, so that the first bits of a code name a block.
Not every code is a place, because a side of the grid need not be a power of two; `groups` says which are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.domain.columns import Column
from oboro.errors import DomainError, ParameterError, declaration, setting, told
from oboro.exact import Number, positive, rational, whole
from oboro.kinds import list_of, shown, takes

# Bits of several numbers woven into one key, and back.
#
# Morton order takes bits from the numbers in turn, the highest first: (row, col) becomes r c r c ... r c. Cells
# that share the first bits of their keys form a block: a square, or two squares side by side. A number with
# fewer bits than the others joins in where its bits begin.
#
# Weaving goes by tables of 2^12 entries, a few look-ups for each number, whatever the pattern of bits.

Pattern = tuple[tuple[int, ...], ...]  # for each number the places of its bits in the key, the lowest first

_CHUNK = 12


def width(size: int) -> int:
    """How many bits the numbers 0, ..., size - 1 need."""
    return (size - 1).bit_length()


def morton_pattern(widths: Sequence[int], above: int = 0) -> Pattern:
    """Where the bits of numbers of these widths go in Morton order; the lowest `above` bits are left free."""
    places: list[list[int]] = [[] for _ in widths]
    place = above
    for level in range(max(widths, default=0)):
        for axis in reversed(
            range(len(widths))
        ):  # the first number has the higher bit, as in the paper's eq. 55
            if level < widths[axis]:
                places[axis].append(place)
                place += 1
    return tuple(tuple(each) for each in places)


def weave(numbers: Sequence[npt.ArrayLike], pattern: Pattern) -> Integers:
    """Keys from numbers, each within its width."""
    arrays = np.broadcast_arrays(*[np.asarray(number, np.int64) for number in numbers])
    keys = np.zeros(arrays[0].shape, np.int64)
    place, part = (
        np.empty_like(keys),
        np.empty_like(keys),
    )  # used again and again: fresh memory costs more than the work
    for number, tables in zip(arrays, _spread(pattern), strict=True):
        for chunk, table in enumerate(tables):
            np.right_shift(number, chunk * _CHUNK, out=place)
            np.bitwise_and(place, table.size - 1, out=place)
            table.take(place, out=part, mode="clip")  # clips nothing, but needs no copy
            np.bitwise_or(keys, part, out=keys)
    return keys


def unweave(keys: npt.ArrayLike, pattern: Pattern) -> list[Integers]:
    """The numbers that a key was woven from."""
    given = np.asarray(keys, np.int64)
    numbers = []
    for tables in _gather(pattern):
        number = np.zeros(given.shape, np.int64)
        for chunk, table in tables:
            number |= table[(given >> (chunk * _CHUNK)) & (table.size - 1)]
        numbers.append(number)
    return numbers


@lru_cache(maxsize=64)
def _spread(pattern: Pattern) -> tuple[tuple[Integers, ...], ...]:
    """For each number, for each chunk of its bits, where that chunk goes."""
    chunks = [
        [places[start : start + _CHUNK] for start in range(0, len(places), _CHUNK)] for places in pattern
    ]
    return tuple(
        tuple(_table(dict(enumerate(places)), len(places)) for places in number) for number in chunks
    )


@lru_cache(maxsize=64)
def _gather(pattern: Pattern) -> tuple[tuple[tuple[int, Integers], ...], ...]:
    """For each number, for each chunk of the key that holds some of its bits, what that chunk says."""
    numbers = []
    for places in pattern:
        chunks: dict[int, dict[int, int]] = {}
        for bit, place in enumerate(places):
            chunks.setdefault(place // _CHUNK, {})[place % _CHUNK] = bit
        numbers.append(tuple((chunk, _table(moves, _CHUNK)) for chunk, moves in chunks.items()))
    return tuple(numbers)


def _table(moves: dict[int, int], bits: int) -> Integers:
    """All words of so many bits with bit a moved to bit moves[a]."""
    words = np.arange(1 << bits, dtype=np.int64)
    table = np.zeros_like(words)
    for source, target in moves.items():
        table |= ((words >> source) & 1) << target
    table.setflags(write=False)
    return table


Groups = tuple[
    tuple[int, ...], ...
]  # sizes of axes; those of a group are woven, and groups follow one another


@dataclass(frozen=True, slots=True)
class Grid(Column):
    """Cells of a grid of two or more dimensions, each place a whole number from 0 in its own column of the data.

    A grid of rows and columns may say where it lies: `crs`, the system of its coordinates; `origin`, x and y of the outer corner of
    the cell at row 0 and column 0; `cell`, the side of a cell, or its width and height; and `rows`, whether rows run "south" (the
    first one is the northernmost, as in pictures) or "north". Columns run east.

    >>> lies = {"crs": "EPSG:3035", "origin": (900_000, 900_000), "cell": 1000, "rows": "north"}
    >>> europe = ob.Grid("y", "x", shape=(40, 50), **lies)
    >>> europe.corners([0, 1], [0, 2])
    (array([900000., 902000.]), array([900000., 901000.]))

    >>> grid = ob.Grid("row", "col", shape=(3, 4))
    >>> grid.size, grid.places
    (16, 12)
    >>> codes = grid.encode([0, 2, 3], [0, 3, 0])
    >>> codes
    array([ 0, 13, -1])
    >>> grid.decode(codes[:2])
    [array([0, 2]), array([0, 3])]
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    crs: str | None = None
    origin: tuple[Fraction, Fraction] | None = None
    cell: tuple[Fraction, Fraction] | None = None
    rows: str = "south"
    kind = "grid"
    missing = None

    def __init__(
        self,
        *names: str,
        shape: Sequence[int] = (512, 512),
        crs: str | None = None,
        origin: Sequence[Number] | None = None,
        cell: Number | Sequence[Number] | None = None,
        rows: str = "south",
    ) -> None:
        sizes = tuple(shape) if isinstance(shape, tuple | list | range) else (shape,)
        if (
            len(names) < 2
            or len(names) != len(sizes)
            or not all(isinstance(n, str) and n for n in names)
            or len(set(names)) != len(names)
        ):
            raise DomainError(
                "a grid needs two or more different columns, and a side for each",
                given=told(names=f"{list(names)}", shape=f"{list(sizes)}"),
                needed="as many names as sides",
                fix=declaration("grid", names=["row", "col"], shape=[512, 512]),
            )
        sides = tuple(
            whole(f"shape of {name!r}", side, least=1, most=2**31)
            for name, side in zip(names, sizes, strict=True)
        )
        where = _where_it_lies(names, crs, origin, cell, rows)
        for part, value in {"names": names, "shape": sides, **where}.items():
            object.__setattr__(self, part, value)

    def corners(self, row: npt.ArrayLike, col: npt.ArrayLike) -> tuple[Floats, Floats]:
        """x and y of the south-west corner of cells, in the coordinates of `crs`; of rows and columns from 0 where there is none."""
        x0, y0 = (float(part) for part in self.origin or (0, 0))
        width_, height = (float(part) for part in self.cell or (1, 1))
        across, down = np.asarray(col, np.float64), np.asarray(row, np.float64)
        return x0 + width_ * across, y0 + height * (down if self.rows == "north" else -down - 1)

    @property
    def name(self) -> str:  # type: ignore[override]
        return ",".join(self.names)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.names

    @property
    def groups(self) -> Groups:
        return (self.shape,)

    @property
    def pattern(self) -> Pattern:
        return morton_pattern([width(side) for side in self.shape])

    @property
    def size(self) -> int:
        """How many codes there are: each side is filled up to a power of two."""
        return 1 << sum(width(side) for side in self.shape)

    @property
    def places(self) -> int:
        """How many of them are places."""
        return math.prod(self.shape)

    def encode(self, *places: npt.ArrayLike) -> Integers:
        """Codes of places, -1 where there is no such place."""
        arrays = [np.asarray(place, np.int64) for place in places]
        codes = weave(
            arrays, self.pattern
        )  # of what lies outside only some bits are taken, and that is undone below
        for array, side in zip(arrays, self.shape, strict=True):
            codes = np.where((array >= 0) & (array < side), codes, -1)
        return codes

    def decode(self, codes: npt.ArrayLike) -> list[Integers]:
        """Places of codes, one array for each dimension."""
        return unweave(codes, self.pattern)

    def value(self, code: int) -> tuple[int, ...]:
        return tuple(int(place) for place in self.decode(code))

    def code(self, value: Any) -> int | None:
        try:
            code = int(self.encode(*value))
        except (TypeError, ValueError, OverflowError):
            return None
        return None if code < 0 else code


def _where_it_lies(
    names: Sequence[str], crs: object, origin: object, cell: object, rows: object
) -> dict[str, object]:
    """What a grid says about its place on earth, checked: all of it, or none but which way rows run."""
    told_ = told(crs=repr(crs), origin=repr(origin), cell=repr(cell), rows=repr(rows))
    wrong = DomainError(
        "a grid says where it lies in full, or not at all",
        given=told_,
        needed='crs, origin (x, y), cell and rows ("north" or "south"), for a grid of rows and columns',
        fix='ob.Grid("row", "col", shape=(512, 512), crs="EPSG:3035", origin=(900000, 900000), cell=1000, rows="north")',
    )
    if rows not in ("north", "south"):
        raise wrong
    if crs is None and origin is None and cell is None:
        return {"crs": None, "origin": None, "cell": None, "rows": rows}
    sides = (cell, cell) if isinstance(cell, int | float | str | Fraction) else cell
    pairs = [tuple(pair) for pair in (origin, sides) if isinstance(pair, tuple | list)]
    if not isinstance(crs, str) or not crs or len(names) != 2 or [len(pair) for pair in pairs] != [2, 2]:
        raise wrong
    place = tuple(rational("origin", part) for part in pairs[0])
    size = tuple(positive("cell", part) for part in pairs[1])
    return {"crs": crs, "origin": place, "cell": size, "rows": rows}


# Digits of a code: primary 4 (80 km), then row and column of 8, of 10, and quarters numbered 1 to 4 from the south-west.
LEVELS: dict[str, Groups] = {
    "80km": (),
    "10km": ((8, 8),),
    "1km": ((8, 8), (10, 10)),
    "500m": ((8, 8), (10, 10), (2, 2)),
    "250m": ((8, 8), (10, 10), (2, 2), (2, 2)),
}

_JAPAN = (
    "30:36 36:22,23,24,31,41,53 37:24,25,41 38:23,24,31,41 39:26,27,28,42 40:27,28,40,42 41:28,29,42 42:29,30 43:28,29 44:29,40 "
    "45:29,30,31,40 46:29,30,31 47:28,29,30,31,39,40 48:28,29,30,31,39 49:28,29,30,31,32,33,34,39 50:29,30,31,32,33,34,35,36,38,39 "
    "51:29,30,31,32,33,34,35,36,37,38,39 52:29,31,32,33,34,35,36,37,38,39,40 53:32,33,34,35,36,37,38,39,40 "
    "54:32,33,35,36,37,38,39,40 55:31,36,37,38,39,40,41 56:36,37,38,39,40,41 57:38,39,40,41 58:39,40,41 59:39,40,41,42 60:39,40,41 "
    "61:39,40,41 62:39,40,41,43 63:39,40,41,42,43 64:39,40,41,42,43,44,45 65:40,41,42,43,44,45,46 66:41,42,43,44,45,46,47 "
    "67:40,41,42,47,48 68:40,41,42,47,48"
)
JAPAN = tuple(
    int(row + col)
    for line in _JAPAN.split()
    for row, _, cols in [line.partition(":")]
    for col in cols.split(",")
)


@dataclass(frozen=True, slots=True)
class Mesh(Column):
    """Regional mesh codes of JIS X 0410 at one level: "80km", "10km", "1km", "500m" or "250m".

    `region` lists the primary (80 km) meshes that are covered, by default the 176 of Japan. It is public.
    Every coarser mesh is a block of codes: its first digits are its first bits.

    >>> tokyo = ob.Mesh("mesh", level="1km", region=[5339])
    >>> tokyo.size, tokyo.digits
    (16384, 8)
    >>> tokyo.decode(tokyo.encode([53394611]))
    array([53394611])
    """

    name: str
    level: str
    region: tuple[int, ...]
    kind = "mesh"
    missing = None

    @takes(region=list_of)
    def __init__(self, name: str, level: str = "500m", region: Iterable[int | str] | None = None) -> None:
        if not isinstance(name, str) or not name or not isinstance(level, str) or level not in LEVELS:
            raise DomainError(
                "a mesh needs a name and a level",
                given=told(name=repr(name), level=repr(level)),
                needed=", ".join(LEVELS),
                fix=declaration("mesh", name="code", level="500m"),
            )
        given = JAPAN if region is None else tuple(region)
        codes = sorted({_primary(code) for code in given})
        if not codes:
            raise DomainError(
                "the region of a mesh is empty",
                given=told(region="[]"),
                needed="primary mesh codes",
                fix=setting(region=[5339, 5340]),
            )
        # neighbours on the map are neighbours in the list
        order = np.argsort(
            weave([[code // 100 for code in codes], [code % 100 for code in codes]], morton_pattern([7, 7]))
        )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "level", level)
        object.__setattr__(self, "region", tuple(codes[i] for i in order))

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def groups(self) -> Groups:
        return ((len(self.region),), *LEVELS[self.level])

    @property
    def size(self) -> int:
        return 1 << sum(width(side) for group in self.groups for side in group)

    @property
    def places(self) -> int:
        return math.prod(side for group in self.groups for side in group)

    @property
    def digits(self) -> int:
        """How long a code is."""
        return 4 + sum(2 if side != 2 else 1 for side, _ in LEVELS[self.level])

    def axes(self, codes: npt.ArrayLike) -> list[Integers]:
        """Mesh codes as numbers along each axis of `groups`; all -1 where a code is unknown."""
        rest = np.asarray(codes, np.int64)
        parts: list[Integers] = []
        good = (rest >= 0) & (rest < 10**self.digits)
        for side, _ in reversed(LEVELS[self.level]):
            if side == 2:
                rest, digit = np.divmod(rest, 10)
                good &= (digit >= 1) & (digit <= 4)
                parts = [(digit - 1) >> 1, (digit - 1) & 1, *parts]
            else:
                rest, col = np.divmod(rest, 10)
                rest, row = np.divmod(rest, 10)
                good &= (row < side) & (col < side)
                parts = [row, col, *parts]
        place = np.full(10_000, -1, np.int64)
        place[list(self.region)] = np.arange(len(self.region))
        primary = place[np.where(good, rest, 0)]
        good &= primary >= 0
        return [np.where(good, part, -1) for part in (primary, *parts)]

    def from_axes(self, axes: Sequence[Integers]) -> Integers:
        """The mesh codes of numbers along each axis."""
        codes = np.array(self.region, np.int64)[axes[0]]
        for group, (side, _) in enumerate(LEVELS[self.level]):
            row, col = axes[1 + 2 * group], axes[2 + 2 * group]
            codes = codes * 10 + 1 + 2 * row + col if side == 2 else codes * 100 + row * 10 + col
        return codes

    def encode(self, codes: npt.ArrayLike) -> Integers:
        """Positions in Morton order of mesh codes, -1 where a code is unknown."""
        axes = self.axes(codes)
        return np.where(axes[0] >= 0, weave(axes, self.pattern), -1)

    def decode(self, positions: npt.ArrayLike) -> Integers:
        """Mesh codes of positions."""
        return self.from_axes(unweave(positions, self.pattern))

    @property
    def pattern(self) -> Pattern:
        return chain_patterns(self.groups)

    def locate(self, codes: npt.ArrayLike) -> tuple[Integers, Integers]:
        """Row from the south and column from the west of each code, in meshes of this level, from 0° N, 100° E."""
        axes = self.axes(codes)
        primary = np.array(self.region, np.int64)[axes[0]]
        row, col = np.divmod(primary, 100)
        for group, (side, _) in enumerate(LEVELS[self.level]):
            row, col = row * side + axes[1 + 2 * group], col * side + axes[2 + 2 * group]
        return row, col

    def corners(self, codes: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Longitude and latitude of the south-west corner of each code, in degrees (JGD2011)."""
        row, col = self.locate(codes)
        width_, height = self.sides
        return np.asarray(100 + col * width_, np.float64), np.asarray(row * height, np.float64)

    @property
    def sides(self) -> tuple[float, float]:
        """How wide and high a mesh is, in degrees."""
        parts = math.prod(side for side, _ in LEVELS[self.level])
        return 1 / parts, 2 / 3 / parts

    def value(self, code: int) -> int:
        return int(self.decode(code))

    def code(self, value: Any) -> int | None:
        try:
            place = int(self.encode(int(value)))
        except (TypeError, ValueError, OverflowError):
            return None
        return None if place < 0 else place

    def to_dict(self) -> dict[str, object]:
        region: dict[str, object] = {} if set(self.region) == set(JAPAN) else {"region": sorted(self.region)}
        return {"kind": self.kind, "name": self.name, "level": self.level, **region}


def _primary(code: object) -> int:
    """The code of a primary mesh. What was given for one may be a finer mesh, or two with a dash between them."""
    try:
        return whole("region", code, least=0, most=9999)
    except ParameterError:
        found = sorted({int(digits) for digits in re.findall(r"[0-9]{4}", shown(code))[:8]})
        raise ParameterError(
            "a region is a list of primary meshes",
            given=told(region=f"[{shown(code)}]"),
            needed="primary mesh codes, of four digits each",
            fix=setting(region=found or [5339, 5340]),
            argument="region",
        ) from None


def chain_patterns(groups: Groups, above: int = 0) -> Pattern:
    """Where the bits of all axes go: groups follow one another, the last one lowest."""
    pattern: Pattern = ()
    for group in reversed(groups):
        widths = [width(side) for side in group]
        pattern = morton_pattern(widths, above) + pattern
        above += sum(widths)
    return pattern
