"""The compiled loops of the engine. Compiled once, then read from a cache on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
