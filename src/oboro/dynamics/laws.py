"""Real numbers plus stable noise, rounded to a public grid: exactly the ideal mechanism, post-processed.

The ideal mechanism adds scale * S to each private real, where S is symmetric stable. Either every number has
its own S ("independent"), or S_i = sqrt(A) G_i with one A for the whole record ("shared"). The uniform reals
behind S, A and G are drawn bit by bit. Compiled float balls settle almost every number from 64 bits each; a
number whose ball touches an edge of the grid is settled in ball arithmetic, from the same bits onwards, with
as many more as it takes. (The argument is that of noise/rounding.py, with a private real as the centre and,
if shared, one lazy real as the scale.)

A record's A is drawn when its noise is, and lives as long: nothing keeps it, so nothing can use it again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from flint import arb

from oboro.arrays import Floats, Integers, Words
from oboro.dynamics.sigma import factor
from oboro.dynamics.stable import SymmetricStable
from oboro.dynamics.system import Matrix, System
from oboro.errors import ParameterError
from oboro.exact import show
from oboro.noise import DiscreteGaussian
from oboro.noise import floatball as fb
from oboro.noise.bits import Bits
from oboro.noise.compiler import compiled
from oboro.noise.gaussian import LARGEST_VARIANCE
from oboro.noise.laws import Law, Normal, PositiveStable
from oboro.noise.lazy import Ball, Real, Uniform, ball, precision

FURTHEST = 1 << 62  # indices are clamped to this, which is post-processing: the laws have no moments
_CHUNK = 1 << 14
_FEW = (
    500  # up to so many numbers, all are settled in ball arithmetic: the compiled loops are not worth loading
)


class Scale:
    """sqrt(A), drawn once for one record: a real number that is known as precisely as it is asked for.

    It may be used for one record and never again: two records under one A are not what was calibrated.
    """

    __slots__ = ("_alpha", "_process", "_taken", "_uniforms")

    def __init__(self, alpha: Fraction, bits: Bits, words: tuple[int, int] | None = None) -> None:
        self._alpha = alpha
        start = words or (bits.integer(64), bits.integer(64))
        self._uniforms = [Uniform(bits, word, 64) for word in start] if alpha < 2 else []
        self._taken = False
        self._process = os.getpid()

    def take(self) -> Real:
        """The scale as a real, for one record."""
        if self._taken:
            raise _reused("it was used already")
        self._taken = True
        return self.ball

    def ball(self) -> Ball:
        """sqrt(A) at the precision that is in force: A is 2 for alpha = 2, else twice a positive stable variable."""
        self.check()
        if self._alpha == 2:
            return ball(2).sqrt()
        from flint import ctx

        for u in self._uniforms:
            if u.known < 2 * ctx.prec:
                u.extend(2 * ctx.prec - u.known)
        return (2 * PositiveStable(self._alpha / 2).ball(*(u.ball() for u in self._uniforms))).sqrt()

    def check(self) -> None:
        """Refuses in a process that was forked off: it holds a copy."""
        if os.getpid() != self._process:
            raise _reused("this process is a copy of the one that drew it")

    def __getstate__(self) -> NoReturn:
        raise _reused("it cannot be copied or stored")

    def __copy__(self) -> NoReturn:
        raise _reused("it cannot be copied or stored")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise _reused("it cannot be copied or stored")


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Private reals: float balls for the fast path, and each of them exactly where that is not enough."""

    mid: Floats
    rad: Floats
    exact: Callable[[int], Fraction | Real]

    @classmethod
    def of(cls, floats: Floats) -> Values:
        """Floats, each of which is the real that it is."""
        return cls(floats, np.zeros(floats.size), lambda i: Fraction(float(floats[i])))

    @property
    def size(self) -> int:
        return int(self.mid.size)

    def part(self, start: int, stop: int) -> Values:
        return Values(self.mid[start:stop], self.rad[start:stop], lambda i: self.exact(start + i))


@dataclass(frozen=True, slots=True)
class StableNoise:
    """Symmetric stable noise of a rational scale, on the grid of a rational step."""

    alpha: Fraction
    scale: Fraction
    step: Fraction
    shared: bool

    @property
    def law(self) -> Law:
        """What is drawn for every number."""
        return Normal() if self.shared else SymmetricStable(self.alpha)

    def add(self, values: Values, bits: Bits, trials: int = 1) -> Integers:
        """Grid indices of values + noise, shape (trials, values): every trial is a record of its own."""
        out = np.empty((trials, values.size), np.int64)
        rows = max(1, _CHUNK // max(values.size, 1))
        for first in range(0, trials, rows):
            part = out[first : first + rows]
            mixing = (
                bits.words(2 * len(part)).reshape(2, -1)
                if self.shared
                else np.zeros((2, len(part)), np.uint64)
            )
            scales = _Scales(self, mixing, bits)  # one for all of a record: its A is one real number
            for start in range(0, values.size, _CHUNK):
                stop = min(start + _CHUNK, values.size)
                self._add(values.part(start, stop), mixing, scales, part[:, start:stop], bits)
        return out

    def add_one(self, value: Fraction | Real, scale: Real | None, bits: Bits) -> int:
        """One number, for a stream; `scale` is the record's sqrt(A) if it is shared."""
        return self._settle(value, scale, [Uniform(bits, bits.integer(64), 64) for _ in range(2)])

    def _add(self, values: Values, mixing: Words, scales: _Scales, out: Integers, bits: Bits) -> None:
        words = bits.words(2 * out.size).reshape(2, out.size)
        is_open = np.ones(out.size, np.bool_)
        flat = np.empty(out.size, np.int64)
        if out.size > _FEW:
            with precision(128):
                inverse = fb.float_ball(ball(1 / self.step))
            cells = self.law.enclose(words)
            _settle(*cells, *self._ratios(mixing), values.mid, values.rad, *inverse, flat, is_open)
        for i in np.flatnonzero(is_open).tolist():
            row, column = divmod(i, values.size)
            scale = scales.of(row) if self.shared else None
            flat[i] = self._settle(
                values.exact(column), scale, [Uniform(bits, int(word), 64) for word in words[:, i]]
            )
        out[:] = flat.reshape(out.shape)

    def _ratios(self, mixing: Words) -> tuple[Floats, Floats]:
        """scale/step, times sqrt(A) if it is shared, as a float ball for each record."""
        with precision(128):
            plain = fb.float_ball(
                ball(self.scale / self.step) * (ball(2).sqrt() if self.shared and self.alpha == 2 else 1)
            )
        count = mixing.shape[1]
        mid, rad = np.full(count, plain[0]), np.full(count, plain[1])
        if self.shared and self.alpha < 2:
            _times_root(*PositiveStable(self.alpha / 2).enclose(mixing), mid, rad)
        return mid, rad

    def _settle(self, value: Fraction | Real, scale: Real | None, uniforms: list[Uniform]) -> int:
        """The rounding cell of value + scale * Z, beyond doubt; bits are doubled until it is."""
        while True:
            with precision(2 * max(u.known for u in uniforms)):
                z = self.law.ball(*(u.ball() for u in uniforms)) * ball(self.scale / self.step)
                if scale is not None:
                    z = z * scale()
                centre = value() / ball(self.step) if callable(value) else ball(value / self.step)
                index = (centre + z + 0.5).floor().unique_fmpz()
            if index is not None:
                return max(-FURTHEST, min(FURTHEST, int(index)))
            for u in uniforms:
                u.extend(u.known)

    def to_dict(self) -> dict[str, str]:
        """The law and its public parameters, for certificates."""
        from oboro.exact import show

        kind = "one A for the record" if self.shared else "independent"
        return {
            "law": f"symmetric stable, {kind}, rounded to the grid",
            "alpha": show(self.alpha),
            "scale": show(self.scale),
            "step": show(self.step),
        }


class _Scales:
    """The scales of a few records, made when a number of theirs is open, from the words that were drawn for them."""

    def __init__(self, noise: StableNoise, mixing: Words, bits: Bits) -> None:
        self._noise, self._mixing, self._bits = noise, mixing, bits
        self._made: dict[int, Real] = {}

    def of(self, row: int) -> Real:
        if row not in self._made:
            first, second = (int(word) for word in self._mixing[:, row])
            self._made[row] = Scale(self._noise.alpha, self._bits, (first, second)).take()
        return self._made[row]


@compiled
def _times_root(a: Floats, a_rad: Floats, mid: Floats, rad: Floats) -> None:
    """Multiplies by sqrt(2 a)."""
    for i in range(mid.size):
        root, root_rad = fb.sqrt_ball(2.0 * a[i], 2.0 * a_rad[i])
        mid[i], rad[i] = fb.mul_ball(mid[i], rad[i], root, root_rad)


@compiled
def _settle(
    mid: Floats,
    rad: Floats,
    ratio: Floats,
    ratio_rad: Floats,
    values: Floats,
    values_rad: Floats,
    inverse: float,
    inverse_rad: float,
    out: Integers,
    is_open: npt.NDArray[np.bool_],
) -> None:
    """Rounds value/step + ratio * z wherever its float ball lies in one cell; as in noise/rounding.py."""
    columns = values.size
    for i in range(mid.size):
        row = i // columns
        x, x_rad = fb.mul_ball(mid[i], rad[i], ratio[row], ratio_rad[row])
        column = i - row * columns
        c, c_rad = fb.mul_ball(values[column], values_rad[column], inverse, inverse_rad)
        x, x_rad = fb.add_ball(x, x_rad, c, c_rad)
        k = np.floor(x + 0.5)
        certain = abs(x - k) + x_rad < 0.5 - 2.0**-50 and abs(k) < 2.0**51
        is_open[i] = not certain
        out[i] = np.int64(k if certain else 0.0)


def _reused(why: str) -> ParameterError:
    return ParameterError(
        "a scale was to be used for a second record",
        given=why,
        needed="a new scale for every record: two under one scale are not protected",
        fix="ob.dynamics.stream(plan, ledger=ledger), once for each record",
    )


# The discrete variant: values on the grid, one A for the record, exact discrete Gaussian noise given A.
#
# Given A, discrete Gaussian noise of variance A scale^2 is rho-zCDP with rho = z^2/(2A) in any dimension
# [Canonne, Kamath, Steinke 2020]; delta is the mean over A of what that implies (calibration.py, "discrete"). A
# is rounded up to a rational, which only adds noise. The continuous Gaussian's profile does not bound the
# discrete one; this calibration is its own.

_KEPT = 6  # bits of A after the first: rounding up adds 1/64 to the variance at most


def on_grid(values: Floats, step: Fraction) -> Integers:
    """The nearest multiples of `step`, exactly; halves go up."""
    nearest = [math.floor(Fraction(v) / step + Fraction(1, 2)) for v in values.tolist()]
    return np.array([max(-FURTHEST, min(FURTHEST, index)) for index in nearest], np.int64)


def add_discrete(noise: StableNoise, values: Floats, bits: Bits, trials: int) -> Integers:
    """Grid indices with noise, shape (trials, values). Records of the same rounded A are drawn together."""
    indices = on_grid(values, noise.step)
    out = np.zeros((trials, indices.size), np.int64)
    mixing = [rounded_mixing(Scale(noise.alpha, bits)) for _ in range(trials)]
    for value in set(mixing):
        variance = value * (noise.scale / noise.step) ** 2
        if variance > LARGEST_VARIANCE:  # as likely for everybody; then nothing of the data is published
            continue
        rows = [trial for trial, one in enumerate(mixing) if one == value]
        out[rows] = indices + DiscreteGaussian(variance).sample((len(rows), indices.size), bits)
    return out


def one_by_one(noise: StableNoise, scale: Scale, bits: Bits) -> Callable[[Fraction | Real], int]:
    """The same for a stream: A is drawn now, and every number that comes gets its noise."""
    variance = rounded_mixing(scale) * (noise.scale / noise.step) ** 2
    law = DiscreteGaussian(variance) if variance <= LARGEST_VARIANCE else None

    def add(value: Fraction | Real) -> int:
        assert isinstance(value, Fraction)  # discrete noise is for the input, which is given in floats
        if law is None:
            return 0
        return int(on_grid(np.array([float(value)]), noise.step)[0]) + int(law.sample(1, bits)[0])

    return add


def rounded_mixing(scale: Scale) -> Fraction:
    """A, rounded up to seven significant bits, beyond doubt. (Any grid would do, as long as it is up.)"""
    root = scale.take()
    digits = 128
    while True:
        with precision(digits):
            value = root() ** 2
            if value > 0 and value.is_finite():
                shift = _KEPT - math.floor(math.log2(float(value.mid())))
                index = (value * arb(2) ** shift).ceil().unique_fmpz()
                if index is not None:
                    return Fraction(int(index)) / Fraction(2) ** shift
        digits *= 2


# The true output of a system as real numbers, enclosed as closely as asked: the centre of output noise.
#
# Noise on the output is calibrated to the exact response. A float's rounding could move neighbours further
# apart than the gain says; a ball that shrinks on demand cannot.


class Truth:
    """y(t) for times that have been fed in. Inputs are floats, exactly."""

    def __init__(self, system: System, x0: Floats, u: Floats | None = None) -> None:
        self._system = system
        self._x0 = [float(x) for x in x0]
        self._inputs: list[list[float]] = [] if u is None else u.tolist()
        self._runs: dict[int, _Run] = {}

    def feed(self, u: Floats) -> None:
        """The input at the next time."""
        self._inputs.append([float(x) for x in u])

    def values(self) -> Values:
        """All outputs so far, in the order of time."""
        outputs = self._system.outputs

        def exact(i: int) -> Real:
            return self.output(*divmod(i, outputs))

        with precision(128):
            balls = [fb.float_ball(exact(i)()) for i in range(len(self._inputs) * outputs)]
        mid, rad = np.array(balls).T.copy()
        return Values(mid, rad, exact)

    def output(self, time: int, channel: int) -> Real:
        """One output at one time, as a function that encloses it at the precision in force."""

        def enclose() -> Ball:
            from flint import ctx

            if ctx.prec not in self._runs:
                self._runs[ctx.prec] = _Run(self._system, self._x0)
            return self._runs[ctx.prec].upto(time, self._inputs)[channel]

        return enclose


class _Run:
    """The recursion in balls at one precision, as far as it has been needed."""

    def __init__(self, system: System, x0: list[float]) -> None:
        from flint import arb, arb_mat

        n, m, q = system.states, system.inputs, system.outputs
        shapes = ((system.a, n, n), (system.b, n, m), (system.c, q, n), (system.d, q, m))
        self.a, self.b, self.c, self.d = (
            arb_mat(rows, columns, [ball(x) for row in part for x in row]) for part, rows, columns in shapes
        )
        self.x = arb_mat(n, 1, [arb(x) for x in x0])
        self.y: list[list[Ball]] = []

    def upto(self, time: int, inputs: list[list[float]]) -> list[Ball]:
        from flint import arb, arb_mat

        while len(self.y) <= time:
            now = inputs[len(self.y)]
            u = arb_mat(len(now), 1, [arb(x) for x in now])
            y = self.c * self.x + self.d * u if self.x.nrows() else self.d * u
            self.y.append([y[i, 0] for i in range(y.nrows())])
            if self.x.nrows():
                self.x = self.a * self.x + self.b * u
        return self.y[time]


# The paper's noise with any Sigma: sqrt(A) L G, one A for the record, G normal, L L' = Sigma, rounded to a grid.
#
# The ideal mechanism adds it to the outputs y, as real numbers. Output i needs the row i of L, A and the first i
# numbers of G, all of them reals that are known as precisely as asked for; its rounding cell is settled as
# above, by compiled float balls first and by ball arithmetic where these touch an edge. A number of G that
# is asked for more bits keeps them: every output of a record sees the same real number. So what comes out is
# exactly the ideal mechanism, rounded.


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
