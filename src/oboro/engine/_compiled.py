"""The compiled loops of the engine. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oboro.engine import records
from oboro.noise.compiler import compiled

if TYPE_CHECKING:
    from oboro.arrays import Codes

find_fields = compiled(records.find_fields)
find_end = compiled(records.find_end)
copy_fields = compiled(records.copy_fields)


@compiled
def count_places(counts: Codes, places: Codes, most: int) -> None:
    """Adds one to counts[place] for each place, none above `most`. Every place must be one of `counts`."""
    for place in places:
        if counts[place] < most:
            counts[place] += 1


@compiled
def count_within(counts: Codes, numbers: Codes, low: int, most: int) -> bool:
    """Adds one to counts[number - low] for each number, none above `most`; false if one has no place there."""
    size = np.uint64(counts.size)
    for number in numbers:
        place = np.uint64(number - low)  # below 0 it is far above; and no index is then counted from the end
        if place >= size:
            return False
        if counts[place] < most:
            counts[place] += 1
    return True


@compiled
def find_marked(marks: Codes, numbers: Codes, low: int, first: int, found: Codes) -> int:
    """Where numbers stand, from `first` on, that are marked by a bit: written to `found`; returns how many."""
    size = 0
    for i in range(numbers.size):
        place = np.uint64(numbers[i] - low)
        if marks[place >> np.uint64(3)] >> (place & np.uint64(7)) & np.uint64(1):
            if size < found.size:
                found[size] = first + i
            size += 1
    return size
