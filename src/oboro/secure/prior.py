"""The two constructions that the paper refutes: truncated discrete Laplace laws, rounded. For its figures 1 and 2 only.

The paper multiplies by ceil(1/smallest). The sizes that it prints come out with 1/smallest itself.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from oboro.secure.law import Urn
from oboro.secure.promise import exp_between


def rounded_laplace(reach: int) -> Urn:
    """(A): the law on -reach..reach at eps = 1, divided by its smallest value and rounded; drawn once."""
    counts = [exp_between(Fraction(k), 256).low if k else Fraction(1) for k in range(reach, -1, -1)]
    return Urn.symmetric(1, [round(count) for count in counts])


def rounded_root(reach: int) -> Urn:
    """(B): the square root of that law under convolution, by the Fourier transform; drawn twice."""
    size = 2 * reach + 1
    law = np.exp(-np.abs(np.arange(size) - reach).astype(float))
    spectrum = np.fft.fft(np.fft.ifftshift(law / law.sum())).real
    root = np.fft.ifft(np.sqrt(np.abs(spectrum))).real[: reach // 2 + 1]
    return Urn.symmetric(1, [round(float(value)) for value in root / root[-1]])
