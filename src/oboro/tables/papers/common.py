"""What the rivals share: the size of their domain, and the noise on what they measure.

All of them but one measure whole numbers that are linear in the counts, put noise of one scale on each,
and turn the noisy numbers into estimates. So each module has the same parts:

    transform(counts)       the whole numbers that are measured
    column(k)               how far they move in all if one of n = 2^k cells moves by 1
    noise(k, eps, ...)      their noise
    estimate(noisy)         what they say about each cell: post-processing
    measure(counts, ...)    the three together
    block_variance(k, ...)  the variance of the sum of an aligned block
    largest, why            the most cells that it serves, and why no more

`sensitivity` is the L1 change of the counts by one unit: cells times weight, twice that under replace.

int64 wraps modulo 2^64. That is a function of the noisy whole number, so no guarantee hangs on it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from oboro.arrays import Floats, Integers
from oboro.errors import DomainError, setting
from oboro.exact import positive, whole
from oboro.noise.laplace import DiscreteLaplace

Numbers = TypeVar("Numbers", Integers, Floats)

DENSE = 2**26  # cells: half a gigabyte for each array of 64 bits, of which there are four or so


def column_noise(column: int, eps: Fraction, sensitivity: int) -> DiscreteLaplace:
    """Noise for measurements that move by `column` in all, at most, when one count moves by 1.

    Privacy
        Linear measurements move by at most `column * sensitivity` in L1 norm when the counts move by
        `sensitivity`. Discrete Laplace of scale column * sensitivity / eps on whole numbers is then
        eps-DP [Ghosh et al. 2009].
    """
    return DiscreteLaplace(column * whole("sensitivity", sensitivity, least=1) / positive("eps", eps))


def exponent(n: int, largest: int, why: str) -> int:
    """k of n = 2^k, if the domain is of that form and no larger than `largest`."""
    if n < 1 or n & (n - 1):
        raise DomainError(
            "the number of cells is not a power of two",
            given=f"{n} cells",
            needed="1, 2, 4, 8, ... cells",
            fix=f"pad with empty cells to {1 << max(n - 1, 0).bit_length()}",
        )
    if n > largest:
        raise DomainError(
            "the domain is too large for this strategy",
            given=f"{n} cells",
            needed=f"at most {largest}: {why}",
            fix=setting(strategy="wavelet"),
        )
    return n.bit_length() - 1


def joined(values: Numbers, width: int) -> Numbers:
    """Sums of every `width` neighbours."""
    if width > 32:
        sums: Numbers = values.reshape(-1, width).sum(axis=1)
        return sums
    total: Numbers = values[0::width].copy()  # numpy adds few long rows faster than many short ones
    for place in range(1, width):
        total += values[place::width]
    return total
