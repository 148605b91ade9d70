"""Integers into a page and out again: variable-length bytes, gzip, base64.

A stream is a row of non-negative integers, each in base 128, the low digit first, the top bit set on all but
the last. Small numbers take one byte, and gzip makes short work of what repeats.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Integers
from oboro.errors import DataError


def pack(*streams: Integers) -> str:
    """The streams one after another, as text that may stand in a page."""
    return base64.b64encode(
        gzip.compress(b"".join(_digits(stream) for stream in streams), 9, mtime=0)
    ).decode("ascii")


def unpack(text: str) -> Integers:
    """All numbers that `pack` packed, in one row."""
    content = np.frombuffer(gzip.decompress(base64.b64decode(text)), np.uint8).astype(np.int64)
    last = content < 128
    ends = np.flatnonzero(last)
    if ends.size == 0:
        return np.zeros(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(content.size) - np.repeat(starts, ends - starts + 1)
    return np.asarray(np.add.reduceat((content & 127) << (7 * place), starts), np.int64)


def folded(numbers: Integers) -> Integers:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ...: a stream holds no negative numbers."""
    return np.where(numbers < 0, -2 * numbers - 1, 2 * numbers)


def _digits(numbers: Integers) -> bytes:
    rest: npt.NDArray[Any] = np.ascontiguousarray(numbers, np.int64)
    if rest.size == 0:
        return b""
    if int(rest.min()) < 0:
        raise DataError(  # sums of what no release could hold went over
            "counts of the table are negative, or larger than can be shown",
            needed="the table as it was released",
        )
    length = max(1, -(-int(rest.max()).bit_length() // 7))
    digits = np.empty((rest.size, length), np.uint8)
    keep = np.zeros((rest.size, length), bool)
    for place in range(length):
        keep[:, place] = (rest > 0) | (place == 0)
        digits[:, place] = (rest & 127) | np.where(rest > 127, 128, 0)
        rest = rest >> 7
    return digits[keep].tobytes()
