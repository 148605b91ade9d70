"""Gaussian records on a public grid, exactly: certified rounding for vectors.

The ideal record is centre + A z, with z independent standard normals, every coordinate rounded to a whole number and clipped. The
uniforms behind z are known by their first 64 bits; compiled float balls settle all coordinates of nearly every record. Where a ball
touches an edge, the whole record is settled in ball arithmetic from the same uniforms, with as many more bits as it takes. So what comes
out is the ideal record, whatever the private centre and matrix are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.noise import floatball as fb
from oboro.noise.bits import Bits, Words
from oboro.noise.compiling import compiled
from oboro.noise.laws import Normal
from oboro.noise.lazy import Ball, Uniform, ball, precision
from oboro.synth.moments import Moments, factor

_CHUNK = 1 << 14
_LAW = Normal()

Entry = Callable[[], Ball]  # encloses one entry of the matrix at the precision that is in force


def draw_records(moments: Moments, sizes: Sequence[int], ridge: Fraction, count: int, bits: Bits) -> Integers:
    """`count` records as codes, one line each: N(mean, covariance + ridge) on [-1, 1]^d, clipped, on the grid of codes."""
    dims = len(sizes)
    lower, pivots = factor(moments, sizes, ridge)
    centre = [Fraction(total, moments.count) for total in moments.sums]  # the mean, in codes
    matrix: list[list[Entry]] = [
        [_entry(lower[i][k] * Fraction(sizes[i] - 1, 2), pivots[k]) for k in range(dims)] for i in range(dims)
    ]
    with precision(128):
        centres = np.array([fb.float_ball(ball(c)) for c in centre])
        entries = np.array([[fb.float_ball(entry()) for entry in row] for row in matrix])
    most = np.asarray(sizes, np.int64) - 1
    out = np.empty((count, dims), np.int64)
    for first in range(0, count, _CHUNK):
        part = out[first : first + _CHUNK]
        words = bits.words(2 * dims * len(part)).reshape(dims, 2, len(part))
        mids, rads = np.empty((dims, len(part))), np.empty((dims, len(part)))
        for k in range(dims):
            mids[k], rads[k] = _LAW.enclose(words[k])
        is_open = np.empty(len(part), np.bool_)
        _settle(mids, rads, centres, entries, part, is_open)
        for i in np.flatnonzero(is_open):
            part[i] = _record(words[:, :, i], centre, matrix, most, bits)
        np.clip(part, 0, most, out=part)
    return out


def _entry(scale: Fraction, pivot: Fraction) -> Entry:
    return lambda: ball(scale) * ball(pivot).sqrt()


def _record(
    words: Words, centre: Sequence[Fraction], matrix: Sequence[Sequence[Entry]], most: Integers, bits: Bits
) -> list[int]:
    """All coordinates of one record, by balls; the bits are doubled until each lies in one cell."""
    pairs = [[Uniform(bits, int(word), 64) for word in pair] for pair in words]
    while True:
        with precision(2 * pairs[0][0].known):
            normals = [_LAW.ball(*(u.ball() for u in pair)) for pair in pairs]
            cells = []
            for c, row in zip(centre, matrix, strict=True):
                value = ball(c)
                for entry, z in zip(row, normals, strict=True):
                    width = entry()
                    value = value + (width if width.is_zero() else width * z)  # z need not be finite yet
                cells.append((value + 0.5).floor().unique_fmpz())
        if all(cell is not None for cell in cells):
            return [min(max(int(cell), 0), int(top)) for cell, top in zip(cells, most, strict=True)]
        for pair in pairs:
            for u in pair:
                u.extend(u.known)


@compiled
def _settle(mids: Floats, rads: Floats, centres: Floats, entries: Any, out: Integers, is_open: Any) -> None:
    """Rounds every coordinate whose float ball lies in one cell; a record with any other is open.

    Below 2^51, k is a whole number exactly and x - k is right to a factor 1 + u; the margin of 2^-50 covers the test itself.
    """
    dims = centres.shape[0]
    for i in range(out.shape[0]):
        is_open[i] = False
        for j in range(dims):
            x, x_rad = centres[j, 0], centres[j, 1]
            for k in range(j + 1):
                y, y_rad = fb.mul_ball(entries[j, k, 0], entries[j, k, 1], mids[k, i], rads[k, i])
                x, x_rad = fb.add_ball(x, x_rad, y, y_rad)
            cell = np.floor(x + 0.5)
            certain = abs(x - cell) + x_rad < 0.5 - 2.0**-50 and abs(cell) < 2.0**51
            if certain:
                out[i, j] = np.int64(cell)
            else:
                out[i, j] = 0
                is_open[i] = True
