"""Certified rounding: continuous noise, rounded to a public grid, exactly.

The ideal mechanism draws a real Z and publishes centre + scale * Z, rounded to the nearest multiple of a
public step (halves go up). Here the uniform reals behind Z are drawn bit by bit. The bits drawn so far
confine centre + scale * Z to a ball. If the ball lies in one rounding cell, so does the ideal value, and
that cell is the ideal answer. If not, more bits of the same uniforms are drawn and the ball shrinks.

So the output is the ideal real output, post-processed by a public function: its guarantee carries over
whatever the scale, tiny, huge, irrational or private. No float decides an output. The loop ends with
probability 1, as the ideal value sits exactly on an edge with probability 0.

How many bits it takes depends on the value, and so does the time, a little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from oboro.arrays import Codes, Floats, Integers
from oboro.errors import ParameterError, told
from oboro.exact import Number, not_negative, positive, rational
from oboro.kinds import takes
from oboro.noise import floatball as fb
from oboro.noise.bits import Bits, system_bits
from oboro.noise.compiler import compiled
from oboro.noise.draws import checked_size
from oboro.noise.laws import Law
from oboro.noise.lazy import Ball, Real, Uniform, ball, enclosing, precision

_CHUNK = 1 << 14  # draws at a time: words and float balls stay in cache
_FEW = 500  # up to so many draws, all are settled by `_cell`: the compiled loops are not worth loading


@takes(law=Law)
def round_to_grid(
    law: Law,
    *,
    centre: int | Fraction | Real,
    scale: int | Fraction | Real,
    step: Number,
    bits: Bits | None = None,
) -> int:
    """The whole number k whose multiple k * step is nearest centre + scale * Z.

    `centre` and `scale` are rational, or functions that enclose a real. A scale that is exactly 0 gives
    the rounded centre. (A real centre that sits on an edge, with a scale of 0, must be enclosed exactly;
    no computation can tell it from its neighbours.)

    >>> place = ob.noise.round_to_grid(ob.noise.Normal(), centre=100, scale=1, step="0.5")
    >>> type(place), 150 < place < 250
    (<class 'int'>, True)
    """
    step = positive("step", step)
    centre = enclosing("centre", centre) if callable(centre) else rational("centre", centre)
    scale = enclosing("scale", scale) if callable(scale) else not_negative("scale", scale)
    bits = bits or system_bits()
    return _cell(
        law, [Uniform(bits, bits.integer(64), 64) for _ in range(law.uniforms)], _place(centre, scale, step)
    )


@takes(law=Law)
def sample_rounded(
    law: Law,
    size: int | tuple[int, ...],
    *,
    scale: int | Fraction | Real,
    step: Number,
    centre: int | Fraction | Codes = 0,
    bits: Bits | None = None,
) -> Integers:
    """Many independent draws of `round_to_grid`, as int64 grid indices.

    `centre` is one rational number, as in `round_to_grid`, or an array of whole numbers, one per draw,
    which are grid indices already: rounding commutes with whole steps, so they are added at the end.
    Indices beyond int64 wrap modulo 2^64, which is post-processing.

    Compiled float balls settle all but the draws that come within their error of an edge, about
    20 * 2^-53 * (scale / step) of them; those are settled by `_cell`, from the same bits onwards. It takes
    10 to 50 nanoseconds a draw while scale / step is below 2^30, and some 30 microseconds when it nears 2^50.

    >>> draws = ob.noise.sample_rounded(ob.noise.Cauchy(), 1000, scale=10, step="0.5", centre=3)
    >>> draws.dtype, draws.shape
    (dtype('int64'), (1000,))
    """
    step = positive("step", step)
    scale = enclosing("scale", scale) if callable(scale) else not_negative("scale", scale)
    bits = bits or system_bits()
    size, _ = checked_size(size)
    out = np.empty(size, np.int64)
    indices, offset = _centre(centre, step, out.shape)
    fraction = offset - math.floor(offset)
    place = _place(fraction * step, scale, step)
    with precision(128):
        ratio = fb.float_ball(_over(scale, step))
        start = fb.float_ball(ball(fraction))
    flat = out.reshape(-1)
    for first in range(0, flat.size, _CHUNK):
        part = flat[first : first + _CHUNK]
        words = bits.words(law.uniforms * part.size).reshape(law.uniforms, part.size)
        is_open = np.ones(part.size, np.bool_)
        if flat.size > _FEW:
            _settle(*law.enclose(words), *ratio, *start, part, is_open)
        for i in np.flatnonzero(is_open):
            part[i] = _wrapped(_cell(law, [Uniform(bits, int(word), 64) for word in words[:, i]], place))
    out += indices
    return out


def _cell(law: Law, uniforms: list[Uniform], place: Callable[[Ball], Ball]) -> int:
    """The rounding cell of the value that these uniforms will turn out to give; draws as many bits as it takes.

    The number of bits doubles each time, so that a scale of 10^-300 or 10^300 costs a few rounds, not many.
    """
    while True:
        with precision(2 * max(u.known for u in uniforms)):
            z = law.ball(*(u.ball() for u in uniforms))
            index = (place(z) + 0.5).floor().unique_fmpz()  # None while two cells are possible
        if index is not None:
            return int(index)
        for u in uniforms:
            u.extend(u.known)


def _place(centre: Fraction | Real, scale: Fraction | Real, step: Fraction) -> Callable[[Ball], Ball]:
    """z to (centre + scale * z) / step, at the precision that is in force."""

    def place(z: Ball) -> Ball:
        width = _over(scale, step)
        noise = width if width.is_zero() else width * z  # z need not be finite yet, and 0 * inf is not 0
        return _over(centre, step) + noise

    return place


@compiled
def _settle(
    mid: Floats,
    rad: Floats,
    ratio: float,
    ratio_rad: float,
    start: float,
    start_rad: float,
    out: Integers,
    is_open: npt.NDArray[np.bool_],
) -> None:
    """Rounds start + ratio * z wherever its float ball lies in one cell, and marks the rest as open.

    Below 2^51, k is a whole number exactly, and x - k is right to a factor 1 + u. The margin of 2^-50
    covers that and the roundings of the test itself: what passes is truly less than 1/2 away from k.
    """
    for i in range(mid.size):
        x, x_rad = fb.mul_ball(mid[i], rad[i], ratio, ratio_rad)
        x, x_rad = fb.add_ball(x, x_rad, start, start_rad)
        k = np.floor(x + 0.5)
        certain = abs(x - k) + x_rad < 0.5 - 2.0**-50 and abs(k) < 2.0**51
        is_open[i] = not certain
        out[i] = np.int64(k if certain else 0.0)


def _centre(
    centre: int | Fraction | Codes, step: Fraction, shape: tuple[int, ...]
) -> tuple[Integers | int, Fraction]:
    """What to add to the grid indices, and the centre in steps."""
    if not isinstance(centre, np.ndarray):
        offset = rational("centre", centre) / step
        return _wrapped(math.floor(offset)), offset
    if centre.dtype.kind not in "iu" or centre.shape != shape:
        raise ParameterError(
            "centre does not fit the draws",
            given=f"an array of {centre.dtype} with shape {centre.shape}",
            needed=f"whole numbers, one for each draw: shape {shape}",
            fix=told(centre="indices.astype(np.int64)"),
        )
    return centre.astype(np.int64), Fraction(0)


def _over(number: Fraction | Real, step: Fraction) -> Ball:
    """number / step. A rational is divided before it is enclosed, so that a half stays exactly a half."""
    return number() / ball(step) if callable(number) else ball(number / step)


def _wrapped(index: int) -> int:
    """The int64 that equals `index` modulo 2^64."""
    return (index + (1 << 63)) % (1 << 64) - (1 << 63)
