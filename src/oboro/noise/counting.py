"""Exact binomial counts, at a cost that does not grow with them."""

from __future__ import annotations

from flint import arb

from oboro.exact import Number, whole
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import LARGEST, as_real, probability, uniform_integer
from oboro.noise.lazy import Ball, Real, Uniform, enclosing, precision


def binomial(n: int, p: Number | Real, bits: Bits | None = None) -> int:
    """How many of n independent trials succeed, each with probability p; n is at most 2^62.

    `p` is a rational in [0, 1], or a function that encloses a real strictly between. The cost does not
    grow with n or np: about 8 proposals, half a millisecond in all.

    Let f be the binomial law and m its mode (or next to it, with f(m) all but as large). f is log-concave,
    so f(m+k) <= f(m) e^(1 - f(m)|k|) [Devroye 1987]. For k > 0 let f(m+k) = f(m) e^-x, x >= 0. Then
    f(m+i) >= f(m) e^(-xi/k) for i = 0, ..., k; these sum to at most 1, so f(m) (1 - e^-x) <= 1 - e^(-x/k) <= x/k,
    and f(m) k <= x / (1 - e^-x) <= 1 + x. The other side is alike. Take a whole number t >= 1 / f(m). For |k| = jt + r, 0 <= r < t:

        f(m+k) / f(m) <= min(1, e^(1-j)) <= 2^(1-j).

    Propose j with probability 2^-(j+1), r below t and a sign, uniformly (0 with one sign only); accept
    with probability c 2^(j-1) f(m+k) / f(m). Whatever the constant c, accepted proposals follow f exactly.
    c = 1 - 2^-50 leaves room for an m that is next to the mode. The acceptance is decided on uniform reals,
    by enclosures from log-gamma.
    """
    n = whole("n", n, most=LARGEST)
    bits = bits or system_bits()
    p = enclosing("p", p) if callable(p) else probability("p", p)
    if n == 0 or p in (0, 1):
        return n if p == 1 else 0
    real = as_real(p)
    mode, width = _mode_and_width(n, real)
    while True:
        slab, sign = _trailing_zeros(bits), bits.integer(1)
        away = slab * width + uniform_integer(width, bits)
        value = mode - away if sign else mode + away
        if not 0 <= value <= n or (sign and away == 0):
            continue

        def chance(value: int = value, slab: int = slab) -> Ball:
            log_ratio = _log_mass(n, real(), value) - _log_mass(n, real(), mode)
            return log_ratio.exp() * arb(2) ** (slab - 1) * (1 - 2.0**-50)

        if Uniform(bits, bits.integer(64), 64).below(chance):
            return value


def _mode_and_width(n: int, p: Real) -> tuple[int, int]:
    """The mode m, or a neighbour as likely up to a factor 1 + 2^-60, and a whole number t >= 1 / f(m).

    The mode is floor((n+1)p). The enclosure of (n+1)p may not tell on which side of a whole number m it
    lies, at a distance d < 2^-63. Then f(m-1) / f(m) = m(1-p) / ((n+1)p - mp) = 1 / (1 ± d / (m(1-p))), and
    m(1-p) is m(n+1-m)/(n+1), nearly, which is at least 1/2.
    """
    bits = 256
    while True:
        with precision(bits):
            at = (n + 1) * p()
            if at.rad() < 2.0**-64:
                mode = min(max(int(at.mid().floor().unique_fmpz()), 0), n)
                # not .neg(): up to python-flint 0.8 it gives x back
                scale = (-(arb(n + 1).lgamma() + _log_mass(n, p(), mode))).exp().upper()
                if scale.is_finite():
                    return mode, int(scale.ceil().unique_fmpz())
        bits *= 2


def _log_mass(n: int, p: Ball, k: int) -> Ball:
    """log of p^k (1-p)^(n-k) / (k! (n-k)!): the binomial law but for the factor n!."""
    powers = k * p.log() + (n - k) * (1 - p).log()
    return powers - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()


def _trailing_zeros(bits: Bits) -> int:
    """j with probability 2^-(j+1): how many tails before the first head."""
    count = 0
    while (word := bits.integer(64)) == 0:
        count += 64
    return count + (word & -word).bit_length() - 1
