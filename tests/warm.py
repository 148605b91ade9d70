"""Compiles the loops and the tests, once, before several workers would each do it: `python tests/warm.py`.

Every kind of plan that can be released has a small sample for the audit, and is measured here as there. What no sample
needs is named below; whatever is missing is compiled by the test that needs it.
"""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np
import pytest

import oboro as ob
from oboro.audit import samples
from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.noise.laws import Cauchy, Laplace, StudentT
from oboro.noise.rounding import sample_rounded
from oboro.statistics.sensitivity import smooth_order_statistic


def main() -> None:
    warnings.simplefilter("ignore", UnsafeBitsWarning)
    bits = UnsafeDeterministicBits("warm")
    for plan in samples().values():
        plan.measure(plan.prepare(next(iter(plan.neighbours())).one), bits, trials=50)
    for law in (Cauchy(), Laplace(), StudentT(3)):
        sample_rounded(law, 5000, scale=1, step="0.01", bits=bits)
    smooth_order_statistic(np.arange(5000), 2500, (0, 5000), "0.001")
    ob.secure.plan(eps=1, delta="0.01", urns=2, seconds=600)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-p", "no:cacheprovider"])  # keeps the bytecode of the tests


if __name__ == "__main__":
    main()
