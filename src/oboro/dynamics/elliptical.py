"""The paper's noise with any Sigma: sqrt(A) L G, one A for the record, G normal, L L' = Sigma, rounded to a grid.

The ideal mechanism adds it to the outputs y, as real numbers. Output i needs the row i of L, A and the first i
numbers of G, all of them reals that are known as precisely as asked for; its rounding cell is settled as in
laws.py, by compiled float balls first and by ball arithmetic where these touch an edge. A number of G that
is asked for more bits keeps them: every output of a record sees the same real number. So what comes out is
exactly the ideal mechanism, rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.dynamics.laws import _CHUNK, FURTHEST, StableNoise, Values, _Scales, _settle
from oboro.dynamics.sigma import factor
from oboro.dynamics.system import Matrix
from oboro.exact import show
from oboro.noise import floatball as fb
from oboro.noise.bits import Bits
from oboro.noise.compiler import compiled
from oboro.noise.laws import Normal
from oboro.noise.lazy import Real, Uniform, ball, precision


@dataclass(frozen=True, slots=True)
class EllipticalNoise:
    """SG(alpha, Sigma) on the grid of a rational step."""

    alpha: Fraction
    sigma: Matrix
    step: Fraction
    shared = True

    @property
    def scale(self) -> Fraction:
        """Sigma says it all."""
        return Fraction(1)

    @property
    def plain(self) -> StableNoise:
        """The same A, for noise of scale 1."""
        return StableNoise(self.alpha, Fraction(1), self.step, shared=True)

    def add(self, values: Values, bits: Bits, trials: int = 1) -> Integers:
        """Grid indices of values + noise, shape (trials, values). A record may be shorter than Sigma: then the rest is not drawn."""
        size = values.size
        out = np.empty((trials, size), np.int64)
        rows = max(1, _CHUNK // max(size, 1))
        for first in range(0, trials, rows):
            part = out[first : first + rows]
            self._add(values, part, bits)
        return out

    def record(self, scale: Real, bits: Bits) -> Record:
        """One record, output by output, for a stream."""
        return Record(self, scale, bits)

    def _add(self, values: Values, out: Integers, bits: Bits) -> None:
        count, size = out.shape
        mixing = bits.words(2 * count).reshape(2, count)
        words = bits.words(2 * out.size).reshape(2, out.size)
        scales = _Scales(self.plain, mixing, bits)
        mid, rad = Normal().enclose(words)
        mid, rad = _coloured(*self._factor(size), mid.reshape(count, size), rad.reshape(count, size))
        with precision(128):
            inverse = fb.float_ball(ball(1 / self.step))
        flat, is_open = np.empty(out.size, np.int64), np.empty(out.size, np.bool_)
        _settle(
            mid.ravel(),
            rad.ravel(),
            *self.plain._ratios(mixing),
            values.mid,
            values.rad,
            *inverse,
            flat,
            is_open,
        )
        records: dict[int, Record] = {}
        for i in np.flatnonzero(is_open).tolist():
            row, column = divmod(i, size)
            if row not in records:
                drawn = words[:, row * size : (row + 1) * size].T.tolist()
                records[row] = Record(self, scales.of(row), bits, [(int(u), int(v)) for u, v in drawn])
            flat[i] = records[row].settle(column, values.exact(column))
        out[:] = flat.reshape(out.shape)

    def _factor(self, size: int) -> tuple[Floats, Floats]:
        """L as float balls."""
        mid, rad = np.zeros((size, size)), np.zeros((size, size))
        with precision(128):
            for i, row in enumerate(factor(self.sigma, 128)[:size]):
                for j, entry in enumerate(row):
                    mid[i, j], rad[i, j] = fb.float_ball(entry)
        return mid, rad

    def to_dict(self) -> dict[str, str]:
        """The law and its public parameters, for certificates."""
        return {
            "law": "elliptical stable, one A for the record, rounded to the grid",
            "alpha": show(self.alpha),
            "shape": f"sigma of the plan, {len(self.sigma)} x {len(self.sigma)}",
            "step": show(self.step),
        }


class Record:
    """The noise of one record: one sqrt(A), and the numbers of G as far as they are known."""

    def __init__(
        self, noise: EllipticalNoise, scale: Real, bits: Bits, words: list[tuple[int, int]] | None = None
    ) -> None:
        self._noise, self._scale, self._bits = noise, scale, bits
        self._drawn = [tuple(Uniform(bits, word, 64) for word in pair) for pair in words or []]
        self._settled = 0

    def add(self, value: Fraction | Real) -> int:
        """The next output of the record with its noise."""
        at = self._settled
        self._drawn.append(tuple(Uniform(self._bits, self._bits.integer(64), 64) for _ in range(2)))
        self._settled += 1
        return self.settle(at, value)

    def settle(self, at: int, value: Fraction | Real) -> int:
        """The rounding cell of the output number `at`, beyond doubt; bits are doubled until it is."""
        noise, needed = self._noise, self._drawn[: at + 1]
        known = max(u.known for pair in needed for u in pair)
        while True:
            for pair in needed:
                for u in pair:
                    if u.known < known:
                        u.extend(known - u.known)
            row = factor(noise.sigma, 2 * known)[at]
            with precision(2 * known):
                normals = (Normal().ball(*(u.ball() for u in pair)) for pair in needed)
                z = sum((entry * g for entry, g in zip(row, normals, strict=True)), ball(0))
                centre = value() if callable(value) else ball(value)
                index = ((centre + z * self._scale()) / ball(noise.step) + 0.5).floor().unique_fmpz()
            if index is not None:
                return max(-FURTHEST, min(FURTHEST, int(index)))
            known *= 2


@compiled
def _coloured(factor_mid: Floats, factor_rad: Floats, mid: Floats, rad: Floats) -> tuple[Floats, Floats]:
    """L g for every record, in float balls."""
    out, out_rad = np.empty(mid.shape), np.empty(mid.shape)
    for t in range(mid.shape[0]):
        for i in range(mid.shape[1]):
            x, x_rad = 0.0, 0.0
            for j in range(i + 1):
                y, y_rad = fb.mul_ball(factor_mid[i, j], factor_rad[i, j], mid[t, j], rad[t, j])
                x, x_rad = fb.add_ball(x, x_rad, y, y_rad)
            out[t, i], out_rad[t, i] = x, x_rad
    return out, out_rad
