"""Float balls: a float64 `mid` and a radius `rad` such that the real value is surely in mid ± rad.

They let compiled code settle almost every draw; what they cannot settle goes to ball arithmetic of any
precision. So a bound here must be true, and need not be the best. Only + - * / sqrt of IEEE 754 are
used, never the system's exp, log or sin, whose errors nobody promises.

The proofs write u = 2^-53. Each operation, rounded to nearest, is right to a factor 1 + d with |d| <= u;
fusing a product with a sum only removes a rounding. Two habits keep the radii true:

* A radius is a formula in floats, of fewer than 30 roundings. Multiplying it by GROW = 1 + 2^-45 makes up
  for them, and for using computed values where the proof has true ones.
* Underflow loses less than 2^-1021 each time, even where the processor flushes to zero. Adding
  TINY = 2^-1000 makes up for it.

Where nothing is known the radius is inf. An overflow gives inf or nan, and neither passes the test
`rad < limit`, which is how every certain decision is made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from oboro.noise.compiler import compiled
from oboro.noise.lazy import Ball

if TYPE_CHECKING:
    from oboro.arrays import Codes, Floats, Words

Pair = tuple[float, float]  # mid and rad; for sine and cosine, the two values

U = 2.0**-53
GROW = 1 + 2.0**-45
TINY = 2.0**-1000

LOG_ERROR = 6 * U  # relative
EXP_ERROR = 3 * U  # relative
TRIG_ERROR = 4 * U  # relative, of sine and of cosine

_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_LN2_HIGH = float.fromhex("0x1.62e42fefa2p-1")  # 40 bits of ln 2: times a whole number below 2^12 it is exact
_LN2_LOW = float.fromhex("0x1.9ef35793c7673p-41")  # the rest, to a factor 1 + u
_PER_LN2 = 1 / math.log(2)


# -- values: a float in, the function to a proved relative error out -------------------------------------


@compiled
def log(x: float) -> float:
    """log x for a positive, normal x, to a relative error of 6u.

    Write x = 2^e m with sqrt(1/2) <= m < sqrt(2), exactly, by moving bits. Then m - 1 is exact [Sterbenz]
    and s = (m-1)/(m+1), |s| <= 0.1716, has two roundings. log m = 2 atanh s = 2s + w, where
    w = 2s(z/3 + z^2/5 + ...), z = s^2 <= 0.0295. The series is cut after z^10, at less than 0.01u.
    w is within 1.1% of 2s, and its own relative error is below 10u: 0.11u. The error of s counts
    at most 1/(1-z) = 1.031 times: 2.07u. The last sum: u. So log m is right to 3.2u.
    For e = 0 that is all. Otherwise add e ln 2: e times the high part is exact; the low part, below 2^-29,
    is off by a factor within 2u; two more sums. In all 3.2u|log m| + u(|log m| + 2^-29) + u|log x| + 2^-27 u,
    and |log m| <= (ln 2)/2 <= |log x|: 5.3u.
    """
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_HALF) >> 52
    m = np.int64(bits - (exponent << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    q = z * (1 / 19 + z * (1 / 21))
    q = z * (1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + q))))
    q = z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + q))))
    e = float(exponent)
    return e * _LN2_HIGH + ((2.0 * s + 2.0 * s * q) + e * _LN2_LOW)


@compiled
def exp(x: float) -> float:
    """e^x for |x| <= 700, to a relative error of 3u.

    Let n be the whole number nearest x / ln 2, so |n| <= 1010, and r = x - n ln 2, |r| <= 0.3467. n times
    the high part of ln 2 is exact; the two differences round at most 0.347u each, the low part adds
    nothing to speak of: r is off by 0.70u. Then e^r = 1 + (r + w), w = r^2 Q, |w| <= 0.068, where
    Q = 1/2 + r/6 + ... to r^11/13!: the rest is below 0.06u. Term k of Horner's Q carries 2k + 2 roundings,
    0.9u in all, which r^2 <= 0.121 makes 0.11u; the products that form w, 0.14u. The sum r + w rounds by
    u|r + w|: with w's error at most 0.68u of e^r for r >= 0, 0.76u for r < 0. The last sum: u.
    In all 0.70 + 0.06 + 0.76 + 1 = 2.6u. Scaling by 2^n is exact: the result is normal.
    """
    n: float = np.floor(x * _PER_LN2 + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    q = r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600 + r * (1 / 6227020800))))
    q = r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + q))))
    q = 0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + q)))
    power: float = np.int64((np.int64(n) + 1023) << 52).view(np.float64)
    return (1.0 + (r + r * r * q)) * power


@compiled
def sin_cos_pi(x: float) -> Pair:
    """sin(pi x) and cos(pi x) for 0 <= x <= 2, each to a relative error of 4u.

    2x = n + f with n whole and |f| <= 1/2, exactly. z = pi f/2, |z| <= 0.7854, is off by a factor within
    1.36u: 0.36u of pi itself, u of the product. Both series are cut at less than 0.02u.
    Sine: z + w, where w = z^3(-1/6 + ...) is at most 0.111 of sin z and has a relative error below 5.4u:
    0.6u. The error of z counts at most once: 1.36u. The last sum: u. In all 2.96u.
    Cosine: 1 + h, h = z^2 q, q = -1/2 + z^2(1/24 - ...). q is off by 0.62u; so h, |h| <= 0.293, by
    0.617 * 0.62u + 2 * 0.293u = 0.97u, which is 1.38u of cos z >= 0.7071. The error of z counts
    z tan z <= 0.786 times: 1.07u. The last sum: u. In all 3.5u.
    The quadrant n then swaps and negates them, exactly.
    """
    t = 2.0 * x
    n = np.floor(t)
    f = t - n
    if f > 0.5:
        f -= 1.0
        n += 1.0
    z = math.pi * (0.5 * f)
    z2 = z * z
    p = z2 * (-1 / 39916800 + z2 * (1 / 6227020800 + z2 * (-1 / 1307674368000 + z2 * (1 / 355687428096000))))
    p = -1 / 6 + z2 * (1 / 120 + z2 * (-1 / 5040 + z2 * (1 / 362880 + p)))
    sine = z + z * z2 * p
    q = z2 * (1 / 479001600 + z2 * (-1 / 87178291200 + z2 * (1 / 20922789888000)))
    q = -0.5 + z2 * (1 / 24 + z2 * (-1 / 720 + z2 * (1 / 40320 + z2 * (-1 / 3628800 + q))))
    cosine = 1.0 + z2 * q
    if n == 1.0 or n == 3.0:
        sine, cosine = cosine, -sine
    if n == 2.0 or n == 3.0:
        sine, cosine = -sine, -cosine
    return sine, cosine


# -- balls: mid and rad in, mid and rad out --------------------------------------------------------------


@compiled
def add_ball(a: float, a_rad: float, b: float, b_rad: float) -> Pair:
    """Radii add; the sum rounds once."""
    mid = a + b
    return mid, (a_rad + b_rad + U * abs(mid)) * GROW + TINY


@compiled
def mul_ball(a: float, a_rad: float, b: float, b_rad: float) -> Pair:
    """(a + da)(b + db) - ab = a db + da (b + db)."""
    mid = a * b
    return mid, (abs(a) * b_rad + a_rad * (abs(b) + b_rad) + U * abs(mid)) * GROW + TINY


@compiled
def div_ball(a: float, a_rad: float, b: float, b_rad: float) -> Pair:
    """(a + da)/(b + db) - a/b = (da - (a/b) db) / (b + db), if b + db cannot be 0."""
    room = abs(b) - b_rad
    mid = a / b
    rad = ((a_rad + abs(mid) * b_rad + TINY) / room + U * abs(mid)) * GROW + TINY
    return mid, (rad if room > 0.0 else math.inf)


@compiled
def sqrt_ball(a: float, a_rad: float) -> Pair:
    """For a real that is known not to be negative: |sqrt(a + d) - sqrt(a)| <= |d| / sqrt(a)."""
    mid = math.sqrt(abs(a))
    rad = (a_rad / mid + U * mid) * GROW + TINY
    return mid, (rad if a > a_rad else math.inf)


@compiled
def log_ball(a: float, a_rad: float) -> Pair:
    """|log(a + d) - log a| <= rad / (a - rad), and the error of `log`."""
    room = a - a_rad
    mid = log(a)
    rad = (a_rad / room + LOG_ERROR * abs(mid)) * GROW + TINY
    return mid, (rad if room > 0.0 and TINY <= a <= 1 / TINY else math.inf)


@compiled
def exp_ball(a: float, a_rad: float) -> Pair:
    """e^d - 1 <= d / (1 - d) for 0 <= d < 1, and the error of `exp`."""
    known = abs(a) <= 700.0 and a_rad < 0.5
    mid = exp(a if known else 0.0)
    rad = mid * (a_rad / (1.0 - a_rad) + EXP_ERROR) * GROW + TINY
    return mid, (rad if known else math.inf)


@compiled
def sin_cos_pi_ball(a: float, a_rad: float) -> tuple[float, float, float, float]:
    """Sine with its radius and cosine with its own: their slopes are at most pi, and the errors above."""
    sine, cosine = sin_cos_pi(a)
    spread = 3.1416 * a_rad if 0.0 <= a <= 2.0 else math.inf
    sine_rad = (spread + TRIG_ERROR * abs(sine)) * GROW + TINY
    return sine, sine_rad, cosine, (spread + TRIG_ERROR * abs(cosine)) * GROW + TINY


@compiled
def unit_ball(word: np.uint64) -> Pair:
    """Every real in [word, word + 1] / 2^64: turning the word into a float rounds by a factor 1 + u."""
    mid = float(word) * 2.0**-64
    return mid, (U * mid + 2.0**-64) * GROW


@compiled
def cumulative_weights(scores: Codes, counts: Codes, eta: float, eta_rad: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds of the running sums of count * e^(-eta * score).

    Each step has three roundings at most: a factor 1 - 4u, or 1 + 4u, more than undoes them.
    Beyond eta * score = 699 a weight is somewhere from 0 to TINY * count, as e^-699 < TINY / 2.
    """
    low, high = np.empty(scores.size), np.empty(scores.size)
    low_sum, high_sum = 0.0, 0.0
    for i in range(scores.size):
        score, count = float(scores[i]), float(counts[i])
        x, x_rad = mul_ball(score, U * score, eta, eta_rad)
        if x - x_rad > 699.0:
            weight, rad = 0.0, TINY * count
        else:
            weight, rad = exp_ball(-x, x_rad)
            weight, rad = mul_ball(weight, rad, count, U * count)
        low_sum = (low_sum + max(weight - rad, 0.0)) * (1.0 - 4.0 * U)
        high_sum = (high_sum + (weight + rad)) * (1.0 + 4.0 * U)
        low[i], high[i] = low_sum, high_sum
    return low, high


_SMALL = 2.0**-20


@compiled
def largest_keys(words: Words, scores: Words, counts: Codes, eta: float, eta_rad: float) -> Codes:
    """In each row of words, which candidate has the largest -log V - eta * score; -1 where the bounds do not tell.

    V is uniform for a candidate that counts once, and 1 - U^(1/n) for n of them. With x = -(log U)/n > 0 that is
    1 - e^-x; for x < 2^-20 it is x - x^2/2 up to x^3/6, less than 2^-41 of x.
    """
    out = np.empty(words.shape[0], np.int64)
    for row in range(words.shape[0]):
        best, least, top = -1, -math.inf, -math.inf  # with the best lower bound, and its upper one
        most = -math.inf  # the best upper bound of all others
        unknown = False
        for i in range(words.shape[1]):
            v, v_rad = unit_ball(words[row, i])
            if counts[i] > 1:
                count = float(counts[i])
                x, x_rad = log_ball(v, v_rad)
                x, x_rad = div_ball(-x, x_rad, count, U * count)
                if x + x_rad < _SMALL:
                    half, half_rad = mul_ball(x, x_rad, x, x_rad)
                    v, v_rad = add_ball(x, x_rad, -0.5 * half, 0.5 * half_rad)
                    v_rad += 2.0**-41 * abs(x) * GROW
                else:
                    v, v_rad = exp_ball(-x, x_rad)
                    v, v_rad = add_ball(1.0, 0.0, -v, v_rad)
            key, key_rad = log_ball(v, v_rad)
            score = float(scores[i])
            less, less_rad = mul_ball(score, U * score, eta, eta_rad)
            key, key_rad = add_ball(-key, key_rad, -less, less_rad)
            if not key_rad < math.inf:
                unknown = True
                break
            low, high = (key - key_rad) - TINY, (key + key_rad) + TINY
            low, high = low - 4.0 * U * abs(low), high + 4.0 * U * abs(high)
            if low > least:
                most = max(most, top)
                best, least, top = i, low, high
            else:
                most = max(most, high)
        out[row] = best if not unknown and least > most else -1
    return out


def float_ball(ball: Ball) -> Pair:
    """A float ball that contains a ball of any precision; its conversion is checked, not trusted."""
    mid = float(ball.mid())
    rad = (float(ball.rad()) + 2 * U * abs(mid)) * GROW + TINY
    for radius in (0.0, rad):  # exact where it can be
        if math.isfinite(mid) and math.isfinite(rad) and arb(mid, radius).contains(ball):
            return mid, radius
    return 0.0, math.inf
