"""Cells that hold something, sorted: what every strategy works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oboro.tables.layout import Layout

Integers = npt.NDArray[np.int64]

LARGEST_TOTAL = 2**61
_MOST_STORED = 2**31  # cells that are stored at once: more do not fit into memory
_SMALL = 1 << 12  # so few cells are sorted without loading the compiler


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
    """The most that one cell may hold: so little that all cells together stay below 2^61. It is public."""
    return LARGEST_TOTAL // min(layout.cells, _MOST_STORED)


def sort_cells(keys: Integers, counts: Integers, bits: int, most: int) -> Cells:
    """Sorted keys, each once, with the sum of their counts. `counts` are 0 to `most`; both arrays may be reused."""
    if keys.size <= _SMALL:
        order = np.argsort(keys, kind="stable")
        unique, starts = np.unique(keys[order], return_index=True)
        sums = [min(sum(part), most) for part in np.split(counts[order].tolist(), starts[1:])] if keys.size else []
        added = np.array(sums, np.int64)
        return Cells(unique[added > 0], added[added > 0])
    from oboro.tables import _compiled

    if not _compiled.in_order(keys):
        keys, counts = _radix_sort(keys, counts, bits)
    kept = _compiled.add_up(keys, counts, most)
    return Cells(keys[:kept], counts[:kept])


def _radix_sort(keys: Integers, counts: Integers, bits: int) -> tuple[Integers, Integers]:
    """By 11 bits at a time, the lowest first."""
    from oboro.tables import _compiled

    passes = -(-bits // _compiled._DIGIT)
    digits = np.zeros((passes, 1 << _compiled._DIGIT), np.int64)
    _compiled.digit_counts(keys, passes, digits)
    other_keys, other_counts = np.empty_like(keys), np.empty_like(counts)
    for i in range(passes):
        if digits[i].max() == keys.size:
            continue
        places = np.cumsum(digits[i]) - digits[i]
        _compiled.radix_pass(keys, counts, i * _compiled._DIGIT, places, other_keys, other_counts)
        keys, counts, other_keys, other_counts = other_keys, other_counts, keys, counts
    return keys, counts
