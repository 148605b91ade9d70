"""How far off a published number may be, for any question, from what is published alone.

For a question, a choice of places or values in each column, the noisy counts give a least-squares answer with a
known standard error s (solve.py). The interval is

    from the least-squares answer +- f s, cut at 0, widened where needed to hold the published number.

The answer is a weighted sum of noises. For 95% f is 2.12, the point ln 20 / sqrt 2 of a single Laplace noise; sums
have less. It covers the noise of this release, not errors in the data.

The published number is the better one: counts are kept at 0 or more. How far off *it* is depends on the data, and
an interval from its own spread would say too much (a bootstrap from the published table covers 64% instead of 95%).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers, Table
from oboro.errors import DataError
from oboro.exact import about
from oboro.noise.laplace import check_level
from oboro.privacy import Unit
from oboro.records import Record
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout
from oboro.tables.reading import read_cells
from oboro.tables.strategy import Noise, count_name
from oboro.tables.tree.lattice import Lattice, lattice_of
from oboro.tables.tree.measure import estimated
from oboro.tables.tree.planner import moments
from oboro.tables.tree.workload import Design, block, chosen, precision

Choice = npt.NDArray[np.bool_]  # of the leaves of one column


@dataclass(frozen=True, slots=True)
class Answer:
    """A published number and the interval for the true one.

    `spread` of them are in no published cell: known at blocks that the question cuts through, or holds as a whole,
    and taken to live there evenly. Only filtered tables have such people.
    """

    value: int
    low: int
    high: int
    standard_error: float
    level: float
    spread: int = 0

    def to_dict(self) -> dict[str, int | float]:
        return asdict(self)

    def __str__(self) -> str:
        percent = f"{100 * self.level:g}%"
        interval = f"{percent} interval {self.low:,} to {self.high:,}"
        spread = f"; {self.spread:,} of them in no published cell" if self.spread else ""
        return f"{self.value:,}  ({interval}; standard error {about(self.standard_error, 3)}{spread})"


@dataclass(frozen=True)
class Estimates:
    """The least-squares answers to all questions."""

    lattice: Lattice
    leaves: Floats
    mu: Floats

    def errors(self) -> float:
        """The standard error of a cell."""
        profile = _product([block(tree, tree.depth) for tree in self.lattice.trees])
        return math.sqrt(float((profile / self.mu).sum()))

    def answer(self, choices: Sequence[Choice]) -> tuple[float, float]:
        """The sum over a choice of leaves in each column, and its standard error."""
        value = self.leaves
        for choice in reversed(choices):
            value = np.asarray((value * choice).sum(axis=-1))
        profile = _product(
            [
                chosen(tree, choice.astype(float))
                for tree, choice in zip(self.lattice.trees, choices, strict=True)
            ]
        )
        return float(value), math.sqrt(float((profile / self.mu).sum()))


def estimates(
    layout: Layout, design: Design, noises: Sequence[Noise], noisy: Sequence[Integers], total: int | None
) -> Estimates:
    lattice = lattice_of(layout.domain)
    leaves = estimated(noisy, lattice, design, noises, lattice.possible(layout), total)
    return Estimates(lattice, leaves, moments(lattice, design.levels, [precision(noise) for noise in noises]))


@lru_cache(maxsize=8)
def reach(level: float) -> float:
    """How many standard errors an interval reaches: as far as Laplace noise needs, or Gaussian, whichever is more."""
    from scipy.special import ndtri

    level = check_level(level)
    return max(-math.log1p(-level) / math.sqrt(2), float(ndtri(0.5 + level / 2)))


def hull(answer: Floats, error: float, published: Integers, level: float) -> tuple[Integers, Integers]:
    """The interval: whole numbers, 0 or more, that hold the published one."""
    away = reach(level) * error
    low = np.minimum(np.maximum(np.ceil(answer - away), 0).astype(np.int64), published)
    high = np.maximum(np.maximum(np.floor(answer + away), 0).astype(np.int64), published)
    return low, high


def _product(profiles: Sequence[Floats]) -> Floats:
    return reduce(np.multiply.outer, profiles, np.ones(()))


# The noisy counts of all levels, carried by the published file: intervals come from them alone.
#
# They are as public as the table, which was computed from them. They lie in the metadata of the Arrow schema, and so
# in the footer of a Parquet file, where who reads the table as a table does not see them:
#
#     oboro.plan          the plan, as JSON
#     oboro.noisy         for each level a line: the width in bytes of its counts, how many there are, and themselves:
#                         byte planes apart (they compress better), zstd, base64. Numbers that only grow are carried as
#                         differences; the width then begins with +
#
# A file of CSV or JSON has no such place: who publishes one keeps the Parquet or Arrow file as well.

PLAN, NOISY = b"oboro.plan", b"oboro.noisy"
MOST = 2**25  # counts
_MOST_BYTES = 80_000_000  # readers of Parquet refuse a footer of more than 100 MB


def with_noisy(table: Table, plan: dict[str, object], noisy: Sequence[Integers]) -> Table:
    """The table with its plan and its noisy counts, if there are not too many of them."""
    carried = {PLAN: json.dumps(plan, ensure_ascii=False).encode()}
    if sum(counts.size for counts in noisy) <= MOST:
        packed = b"\n".join(_packed(counts) for counts in noisy)
        carried |= {NOISY: packed} if len(packed) <= _MOST_BYTES else {}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **carried})


def without_intervals(levels: Iterable[tuple[int, float]]) -> list[str]:
    """A note, before anything is spent, if counts of so many nodes and noise of such a standard error will not fit.

    What is counted takes at least as many bits as its noise: log2(sd) + 1.94 for Laplace noise, a little more for
    Gaussian. So what the noise alone makes too long is too long; that it comes close is said as well.
    """
    sizes, bits = 0, 0.0
    for nodes, sd in levels:
        sizes, bits = sizes + nodes, bits + nodes * max(math.log2(max(sd, 1e-9)) + 1.94, 0)
    packed = bits / 8 * 4 / 3
    if sizes > MOST or packed > _MOST_BYTES:
        return [f"the file will carry no intervals: {sizes:,} noisy counts are more than fit into one"]
    return [may_lack_intervals(sizes)] if 1.3 * packed > _MOST_BYTES else []


def may_lack_intervals(sizes: int) -> str:
    """The note where noise or people decide."""
    return f"the file may carry no intervals: {sizes:,} noisy counts may be more than fit into one"


def plan_in(table: Table) -> Record:
    """The plan that the table was made by."""
    metadata = table.schema.metadata or {}
    try:
        found: Record = json.loads(metadata[PLAN])
    except (KeyError, ValueError, RecursionError):
        raise DataError(
            "the table does not say how it was made",
            needed="the Parquet or Arrow file that oboro released: CSV and JSON do not carry it",
            fix="oboro table release ... -o published.parquet",
        ) from None
    return found


def cells_in(table: Table, layout: Layout) -> Cells:
    """What the table publishes: the counts in the column that its plan names, whatever was added beside it."""
    name = count_name(plan_in(table).get("count"), layout.domain)
    if table.column_names.count(name) > 1:
        raise DataError(
            "the table has two columns of counts",
            given=f"{name!r} twice",
            needed="the table as it was released",
        )
    return read_cells(table, layout, Unit.cells(), name)


def noisy_in(table: Table, shapes: Sequence[tuple[int, ...]] | None = None) -> tuple[Integers, ...]:
    """The noisy counts of all levels, in these shapes."""
    lines = (table.schema.metadata or {}).get(NOISY, b"").split(b"\n")
    if lines == [b""]:
        raise DataError(
            "the table does not carry its noisy counts",
            needed=f"a Parquet or Arrow file with at most about 2^{MOST.bit_length() - 1} counts in all",
            fix="a domain with fewer cells",
        )
    try:
        found = [_unpacked(line) for line in lines]
        return tuple(c.reshape(s) for c, s in zip(found, shapes or [c.shape for c in found], strict=True))
    except (ValueError, OSError):
        raise DataError("the noisy counts in the table cannot be read", needed="the original file") from None


def _packed(counts: Integers) -> bytes:
    import pyarrow as pa

    flat = np.ascontiguousarray(counts).reshape(-1)
    sign = "+" if flat.size > 1 and flat[0] >= 0 and (flat[1:] >= flat[:-1]).all() else ""
    flat = np.diff(flat, prepend=0) if sign else flat
    width = next(w for w in (1, 2, 4, 8) if w == 8 or np.abs(flat).max(initial=0) < 1 << (8 * w - 1))
    planes = flat.astype(f"<i{width}").view(np.uint8).reshape(-1, width).T
    squeezed = pa.compress(np.ascontiguousarray(planes).tobytes(), codec="zstd", asbytes=True)
    return f"{sign}{width} {flat.size} ".encode() + base64.b64encode(squeezed)


def _unpacked(line: bytes) -> Integers:
    import pyarrow as pa

    width, size, body = line.split(b" ")
    squeezed = base64.b64decode(body, validate=True)
    raw = pa.decompress(squeezed, decompressed_size=int(width) * int(size), codec="zstd", asbytes=True)
    planes = np.frombuffer(raw, np.uint8).reshape(int(width), -1)
    counts = np.ascontiguousarray(planes.T).reshape(-1).view(f"<i{int(width)}").astype(np.int64)
    return np.cumsum(counts) if width.startswith(b"+") else counts
