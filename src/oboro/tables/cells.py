"""Cells that hold something, sorted: what every strategy works on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.tables.layout import Layout

LARGEST_TOTAL = 2**61
_EXACT_IN_A_DOUBLE = 2**52
_MOST_STORED = 2**31  # cells that are stored at once: more do not fit into memory
_SMALL = 1 << 12  # so few cells are added up without loading the compiler


@dataclass(frozen=True, slots=True)
class Cells:
    """Keys in increasing order, each once, and counts above 0."""

    keys: Integers
    counts: Integers

    def dense(self, bits: int) -> Integers:
        """The counts of all keys of so many bits."""
        counts = np.zeros(1 << bits, np.int64)
        counts[self.keys] = self.counts
        return counts

    @classmethod
    def from_dense(cls, counts: npt.ArrayLike) -> Cells:
        given = np.asarray(counts, np.int64)
        keys = np.flatnonzero(given)
        return cls(keys, given[keys])


def cap(layout: Layout) -> int:
    """The most that one cell may hold: so little that all cells together stay below 2^61. It is public.

    It is at most 2^52. Up to there a double holds every whole number and every half; beyond, a count that came as a
    double, and grew by 1, could be read as having grown by 2.
    """
    return min(LARGEST_TOTAL // min(layout.cells, _MOST_STORED), _EXACT_IN_A_DOUBLE)


def sort_cells(keys: Integers, counts: Integers, bits: int, most: int) -> Cells:
    """Sorted keys, each once, with the sum of their counts, and no zeros. `counts` are 0 to `most`.

    Both arrays are overwritten.
    """
    width = int(counts.max(initial=0)).bit_length()
    if bits + width <= 63:  # both fit into one number, which sorts six times as fast as an order of places
        keys <<= width
        keys |= counts
        keys.sort()
        np.bitwise_and(keys, (1 << width) - 1, out=counts)
        keys >>= width
    else:
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    return _added_up(keys, counts, most)


def _added_up(keys: Integers, counts: Integers, most: int) -> Cells:
    """Joins neighbours with the same key, none above `most`."""
    if keys.size > _SMALL:
        from oboro.tables._compiled import add_up

        kept = add_up(keys, counts, most)
        return Cells(keys[:kept], counts[:kept])
    sums: dict[int, int] = {}
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        sums[key] = min(sums.get(key, 0) + count, most)
    held = {key: count for key, count in sums.items() if count > 0}
    return Cells(np.array(list(held), np.int64), np.array(list(held.values()), np.int64))


# Loads the compiled loops while a large file is read.
#
# Loading takes half a second, and most of the reading is done outside Python, by DuckDB and NumPy. So the two go
# side by side. No noise is drawn here.

_TURN = 2e-6  # seconds; with the usual 5 ms the reader would wait for its turn most of the time


@contextmanager
def loops_loading(*, large: bool) -> Iterator[None]:
    """Runs the body with the loops being loaded beside it, if what it reads is large and they are not yet there."""
    if not large or "oboro.tables._compiled" in sys.modules:
        yield
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    loader = Thread(target=_load)
    loader.start()
    try:
        yield
    finally:
        loader.join()
        sys.setswitchinterval(usual)


def _load() -> None:
    from oboro.tables._compiled import add_up

    with _no_search_for_blas():
        add_up(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


@contextmanager
def _no_search_for_blas() -> Iterator[None]:
    """Numba imports SciPy's linear algebra only to see whether it is there. It is: oboro needs SciPy itself.

    About a sixth of the loading time. Whoever multiplies matrices in compiled code still has it loaded then.
    """
    from numba.np import linalg

    search = getattr(linalg, "ensure_blas", None)
    if search is None or "numba.np.arraymath" in sys.modules:
        yield
        return
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath

        numba.np.arraymath.ensure_blas = search
        yield
    finally:
        linalg.ensure_blas = search
