"""Uniform reals, one piece at a time, and decisions that are certain.

A uniform real U on [0, 1) is known by its leading bits: after k bits it lies in [u, u+1] / 2^k. To
decide whether U < c for a real c that we can only enclose, compare intervals. If they do not overlap the
answer is certain; if they do, draw 64 more bits of U, enclose c more narrowly, and look again. The answer
is that of the ideal comparison with real numbers, exactly. It ends with probability 1: an endless run
would need U = c.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TypeAlias

from flint import arb, ctx, fmpq

from oboro.errors import ParameterError
from oboro.noise.bits import Bits

Ball: TypeAlias = arb
Real = Callable[[], Ball]  # encloses one fixed real number, at the precision that is in force


def enclosing(name: str, function: Real) -> Real:
    """`function`, if it encloses a real number."""
    try:
        found = function()
    except TypeError:  # it wants arguments
        found = None
    if not isinstance(found, arb):
        raise ParameterError(
            f"{name} encloses no number",
            given=f"a function that gives a {type(found).__name__}",
            needed="a number, or a function without arguments that gives a ball of python-flint",
        )
    return function


_turn = threading.RLock()


def _forked() -> None:
    """In a child the lock may be held by a thread that is not there."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Ball arithmetic with this many bits. python-flint has one precision for all threads: they take turns."""
    with _turn:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def ball(number: Fraction | int) -> Ball:
    """A rational as an enclosure at the precision that is in force."""
    number = Fraction(number)
    return arb(fmpq(number.numerator, number.denominator))


class Uniform:
    """A uniform real on [0, 1) of which `known` leading bits, the integer `value`, have been drawn."""

    __slots__ = ("_bits", "known", "value")

    def __init__(self, bits: Bits, value: int = 0, known: int = 0) -> None:
        self._bits = bits
        self.value = value
        self.known = known

    def extend(self, more: int = 64) -> None:
        """Draws `more` further bits."""
        self.value = (self.value << more) | self._bits.integer(more)
        self.known += more

    def ball(self) -> Ball:
        """An enclosure of every real that this may still turn out to be."""
        half = Fraction(1, 1 << (self.known + 1))
        centre = Fraction(2 * self.value + 1, 1 << (self.known + 1))
        return arb(fmpq(centre.numerator, centre.denominator), fmpq(half.numerator, half.denominator))

    def below(self, threshold: Real) -> bool:
        """Whether U < threshold, decided exactly; draws more bits as long as it is open."""
        while True:
            with precision(self.known + 64):
                at = threshold() * (arb(2) ** self.known)
                if at >= self.value + 1:  # certain: the whole interval lies below
                    return True
                if at <= self.value:  # certain: the whole interval lies at or above
                    return False
            self.extend()
