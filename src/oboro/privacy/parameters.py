"""The numbers of a promise, checked: orders and small probabilities."""

from __future__ import annotations

from fractions import Fraction

from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, not_negative, rational, show


def renyi_order(order: Number) -> Fraction:
    """The order of a Rényi divergence: above 1."""
    at = rational("order", order)
    if at <= 1:
        raise ParameterError(
            "a Rényi order must be above 1",
            given=told(order=show(at)),
            needed="a number above 1",
            fix=setting(order=8),
        )
    return at


def probability(delta: Number) -> Fraction:
    """A delta that may be 0."""
    number = not_negative("delta", delta)
    if number >= 1:
        raise ParameterError(
            "delta must be below 1",
            given=told(delta=show(number)),
            needed="0 or more, and below 1",
            fix=setting(delta="1e-6"),
        )
    return number


def positive_delta(delta: Number) -> Fraction:
    """A delta above 0, where ln(1/delta) is paid for it."""
    small = probability(delta)
    if small == 0:
        raise ParameterError(
            "delta must be positive here",
            given=told(delta="0"),
            needed="a number above 0 and below 1",
            fix=setting(delta="1e-6"),
        )
    return small
