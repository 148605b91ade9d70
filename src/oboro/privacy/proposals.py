"""What may be asked for in place of a guarantee that a ledger does not pay in."""

from __future__ import annotations

import math
from fractions import Fraction

from oboro.privacy.guarantee import ZCDP, Approx, Guarantee, Pure, Renyi


def proposals(asked: Guarantee, currency: Guarantee) -> list[Guarantee]:
    """What may be asked for in place of `asked` where only `currency` is paid in, the best first: as large as keeps what was asked, rounded down.

    Of a rho that is asked of eps and delta it is the eps that this rho promises at a usual delta.

    >>> ob.privacy.proposals.proposals(ob.Approx(1, "1e-6"), ob.ZCDP(1))
    [ZCDP('0.0226'), Pure(1)]
    """
    plain, kind = asked.unconditional, currency.unconditional
    found: list[Guarantee | None] = []
    if isinstance(kind, ZCDP | Renyi):
        found += [_largest_kept(ZCDP, plain)]
    if isinstance(kind, Approx) and kind.delta and isinstance(plain, ZCDP | Renyi):
        delta = usual_delta(kind.delta)
        eps = plain.to_approx(delta).eps
        found += [Approx(_three_digits(eps), delta) if eps else None]
    found += [_largest_kept(Pure, plain)]
    return [one for one in found if one is not None]


def usual_delta(most: Fraction) -> Fraction:
    """A power of ten that a ledger with so much delta can pay: 1e-6, or less."""
    delta = Fraction(1, 10**6)
    while delta > most:
        delta /= 10
    return delta


def _largest_kept(kind: type[Pure | ZCDP], asked: Guarantee) -> Guarantee | None:
    """The largest promise of a kind, of three digits, that keeps another one; None where there is none."""
    if kind is Pure and isinstance(asked, Approx):
        return Pure(asked.eps) if asked.eps else None

    def keeps(amount: Fraction) -> bool:
        made = kind(amount)
        if isinstance(asked, Approx):
            return asked.delta > 0 and made.to_approx(asked.delta).eps <= asked.eps
        return asked.covers(made)

    low, high = -12.0, 9.0  # powers of ten
    for _ in range(26):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(Fraction(10**middle)) else (low, middle)
    if low == -12.0:
        return None
    amount = _three_digits(Fraction(10**high))
    while not keeps(amount):
        amount = _three_digits(amount * Fraction(9999, 10000))
    return kind(amount)


def _three_digits(amount: Fraction) -> Fraction:
    """Rounded down to three digits."""
    step = Fraction(10) ** (math.floor(math.log10(amount)) - 2)
    return amount // step * step
