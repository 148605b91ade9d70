"""Shared by tests: exact goodness of fit, bits that a test can script, a browser, and work counted without a clock."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import oboro
from oboro.audit.samples import samples
from oboro.noise.bits import Bits, UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.release.plan import Plan

_PACKAGE = str(Path(oboro.__file__).parent) + os.sep
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FALSE_ALARM = 1e-7  # of each statistical test; all of them together stay below 1e-5 in a run


@cache
def audited() -> dict[str, Plan]:
    """The samples of the audit: plans do not change, so that one set serves all modules that try them."""
    return samples()


def mostly_long(what: str, cases: Iterable[Any], now: Iterable[Any]) -> list[Any]:
    """All cases as parameters; those that are not among `now` are `long`: `make test` leaves them out and says so."""
    kept = list(now)
    return [case if case in kept else pytest.param(case, marks=pytest.mark.long(what)) for case in cases]


def chi_square_tail(statistic: float, freedom: int) -> float:
    """P(chi-square with `freedom` degrees >= statistic), by the regularised incomplete gamma function."""
    from scipy.special import gammaincc

    return float(gammaincc(freedom / 2, statistic / 2))


def fits(
    draws: np.ndarray[Any, Any], law: Any, *, cells: int = 400, false_alarm: float = FALSE_ALARM
) -> bool:
    """Chi-square test of integer draws against `law.cdf`, in cells of about equal probability."""
    edges = np.unique(
        np.quantile(draws, np.linspace(0, 1, cells + 1)[1:-1], method="inverted_cdf").astype(np.int64)
    )
    probability = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    # edges chosen on one half, judged on the other: otherwise the cells would fit the draws a little
    half = draws[draws.size // 2 :]
    observed = np.bincount(np.searchsorted(edges, half, side="left"), minlength=probability.size)
    expected = probability * half.size
    keep = expected >= 5
    if not keep.all():
        observed = np.append(observed[keep], observed[~keep].sum())
        expected = np.append(expected[keep], expected[~keep].sum())
        observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, max(1, expected.size - 1)) > false_alarm


def forged(plan: Any, **fields: Any) -> Any:
    """The plan with other fields, past every check: what `object.__setattr__` can make, for the audit to see through."""
    made = object.__new__(type(plan))
    for one in dataclasses.fields(plan):
        object.__setattr__(made, one.name, fields.get(one.name, getattr(plan, one.name)))
    return made


class ScriptedBits(Bits):
    """Hands out chosen words first, then the bits of a deterministic stream."""

    safe = False
    description = "UNSAFE scripted bits: protects nobody"

    def __init__(self, words: Iterable[int] = (), halves: Iterable[int] = ()) -> None:
        halves = list(halves)
        if halves:
            halves += [0x9E3779B9] * (len(halves) % 2)
            words = [*words, *np.asarray(halves, np.uint32).view(np.uint64).tolist()]
        self._script = [int(word) for word in words]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsafeBitsWarning)
            self._rest = UnsafeDeterministicBits("after the script")
        super().__init__()

    def words(self, count: int) -> Any:
        scripted = self._script[:count]
        self._script = self._script[count:]
        return np.concatenate([np.asarray(scripted, np.uint64), self._rest.words(count - len(scripted))])


def repeatable(seed: str) -> UnsafeDeterministicBits:
    """Bits that are the same in every run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeBitsWarning)
        return UnsafeDeterministicBits(seed)


def steps(work: Callable[[], object]) -> int:
    """The lines of oboro's Python that `work` runs through: the same on a quiet machine and on a busy one.

    It guards what a time limit would: that a search ends soon, that a loop over numbers stays in compiled code. How many
    seconds a step is belongs to `make bench`.
    """
    count = 0

    def call(frame: FrameType, _: str, __: object) -> Any:
        return line if frame.f_code.co_filename.startswith(_PACKAGE) else None

    def line(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
