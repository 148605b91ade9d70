"""What is promised. Frozen values with exact rationals; conversions only where a theorem allows them.

    Pure(eps)                 no output is more than e^eps times likelier with or without one unit
    Approx(eps, delta)        the same, but for an event of probability delta
    ZCDP(rho)                 Rényi divergence of every order a is at most a * rho
    Renyi(order, eps)         Rényi divergence of this order is at most eps
    Conditional(g, why)       g, if the assumption holds; nothing if it does not

Valid directions
    Pure(e)   -> Approx(e, 0), ZCDP(e^2/2), Renyi(a, min(e, a e^2/2))       [Bun and Steinke 2016, Prop. 1.4]
    ZCDP(r)   -> Renyi(a, a r), and through the best order -> Approx
    Renyi     -> a lower order, and -> Approx                               [Canonne, Kamath, Steinke 2020, Prop. 12]
    Approx    -> Approx with more eps or more delta, and nothing else
Irrational results are rounded up, never down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import Number, not_negative, rational, show
from oboro.kinds import names_of, takes
from oboro.language import plain
from oboro.records import read, write_fields

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball

# Irrational costs as rationals: upwards, never downwards.

DIGITS = 15  # significant digits that are kept


def round_up(real: Callable[[], Ball], digits: int = DIGITS) -> Fraction:
    """A short rational that is certainly not below the real number that `real` encloses. `digits`: up to 60."""
    from oboro.noise.lazy import ball, precision

    with precision(256):
        value = real()
        size = abs(value).upper()
        before = math.ceil(float(size.log() / ball(10).log())) if size > 0 else 0  # digits before the point
        grid = Fraction(10) ** (digits - before)
        return Fraction(int((value * ball(grid)).upper().ceil().unique_fmpz())) / grid


# The numbers of a promise, checked: orders and small probabilities.


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


# Promises that rest on mathematics alone: `Pure`, `Approx`, `ZCDP` and `Renyi`.
#
# Which follows from which, and by which theorem, stands in guarantee.py.


class Guarantee:
    """A promise about one unit. The kinds below and `Conditional` are all that there are.

    >>> ob.ZCDP("0.1").covers(ob.Pure("0.4")), ob.ZCDP("0.1").covers(ob.Pure("0.5"))
    (True, False)
    >>> ob.Pure("0.5").to_zcdp()
    ZCDP('0.125')
    """

    kind: str

    def __init_subclass__(cls) -> None:
        if "Conditional" in globals():  # the last of them stands: a promise of one's own could cover anything
            raise TypeError(f"{cls.__qualname__}: nobody adds a promise from outside")

    def covers(self, other: Guarantee) -> bool:
        """Whether everything that keeps `other` also keeps this: is this budget enough for that cost?"""
        raise NotImplementedError  # pragma: no cover

    def to_approx(self, delta: Number, *, rule: str = "tight") -> Approx:
        """This promise as (eps, delta), for a delta of your choice."""
        raise self._no_way("Approx")

    def to_zcdp(self) -> ZCDP:
        """This promise as zCDP."""
        raise self._no_way("ZCDP")

    def to_renyi(self, order: Number) -> Renyi:
        """This promise as Rényi privacy of one order."""
        raise self._no_way("Renyi")

    def to_dict(self) -> dict[str, object]:
        """Plain text values, exact; `guarantee_from` reads them back."""
        plain, name = _PLAIN.get(self.kind, (None, ""))
        if type(self) is plain:  # as nearly every one
            return {"kind": self.kind, name: show(getattr(self, name))}
        return write_fields(self)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the promise rests on beyond the mathematics; empty for all but `Conditional`."""
        return ()

    @property
    def unconditional(self) -> Guarantee:
        """The promise without its assumption."""
        return self

    def _no_way(self, target: str) -> GuaranteeError:
        return GuaranteeError(
            f"{self} does not imply any {target}",
            given=str(self),
            needed=f"a guarantee that is at least as strong as some {target}",
            fix="see the valid directions in oboro.privacy.guarantee",
        )


@dataclass(frozen=True, slots=True)
class Pure(Guarantee):
    """ε-differential privacy: no output is more than e^ε times likelier with or without one unit.

    eps = 0 is the promise of an answer that does not depend on the data at all.

    >>> ob.Pure(0.1) == ob.Pure("1/10")
    True
    >>> ob.Pure("0.1").to_dict()
    {'kind': 'pure', 'eps': '0.1'}
    """

    eps: Fraction
    kind = "pure"

    def __init__(self, eps: Number) -> None:
        object.__setattr__(self, "eps", not_negative("eps", eps))

    def covers(self, other: Guarantee) -> bool:
        if isinstance(other, Approx) and other.delta == 0:
            return other.eps <= self.eps
        return isinstance(other, Pure) and other.eps <= self.eps

    def to_approx(self, delta: Number = 0, *, rule: str = "tight") -> Approx:
        return Approx(self.eps, delta)

    def to_zcdp(self) -> ZCDP:
        return ZCDP(self.eps**2 / 2)

    def to_renyi(self, order: Number) -> Renyi:
        at = renyi_order(order)
        return Renyi(at, min(self.eps, at * self.eps**2 / 2))

    def __str__(self) -> str:
        return f"eps = {show(self.eps)}"

    def __repr__(self) -> str:
        return f"Pure({_literal(self.eps)})"


@dataclass(frozen=True, slots=True)
class Approx(Guarantee):
    """(ε, δ)-differential privacy: e^ε times likelier at most, but for an event of probability δ.

    >>> ob.Approx(1, "1e-6").covers(ob.Pure(1))
    True
    """

    eps: Fraction
    delta: Fraction
    kind = "approx"

    def __init__(self, eps: Number, delta: Number) -> None:
        object.__setattr__(self, "eps", not_negative("eps", eps))
        object.__setattr__(self, "delta", probability(delta))

    def covers(self, other: Guarantee) -> bool:
        if isinstance(other, Pure):
            return other.eps <= self.eps
        if isinstance(other, Approx):
            return other.eps <= self.eps and other.delta <= self.delta
        if isinstance(other, ZCDP | Renyi) and self.delta > 0:
            return other.to_approx(self.delta).eps <= self.eps
        return False

    def to_approx(self, delta: Number, *, rule: str = "tight") -> Approx:
        wanted = Approx(self.eps, delta)
        if wanted.delta < self.delta:
            raise GuaranteeError(
                "a smaller delta cannot be had from a larger one",
                given=f"{self}, " + told(delta=show(wanted.delta)),
                needed=f"delta of at least {show(self.delta)}",
                fix=setting(delta=show(self.delta)),
            )
        return wanted

    def __str__(self) -> str:
        return f"eps = {show(self.eps)}, delta = {show(self.delta)}"

    def __repr__(self) -> str:
        return f"Approx({_literal(self.eps)}, {_literal(self.delta)})"


@dataclass(frozen=True, slots=True)
class ZCDP(Guarantee):
    """ρ-zero-concentrated differential privacy: Rényi divergence of every order a is at most a ρ.

    >>> ob.ZCDP("0.005").to_approx("1e-6")
    Approx('0.4299...', '1e-6')
    """

    rho: Fraction
    kind = "zcdp"

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", not_negative("rho", rho))

    def covers(self, other: Guarantee) -> bool:
        return isinstance(other, Pure | ZCDP) and other.to_zcdp().rho <= self.rho

    def to_approx(self, delta: Number, *, rule: str = "tight") -> Approx:
        """`rule="simple"` is rho + 2 sqrt(rho ln(1/delta)); "tight" takes the best order."""
        small = positive_delta(delta)
        if self.rho == 0:
            return Approx(0, small)
        # any order above 1 is valid, so floats may look for a good one
        rho = float(min(max(self.rho, Fraction(1, 10**200)), Fraction(10**200)))
        log_delta = math.log(small.numerator) - math.log(small.denominator)
        spread = max(math.sqrt(-log_delta / rho), 1e-6)
        if rule == "simple":
            best = 1 + spread
        elif rule == "tight":
            best = _best_order(rho, log_delta, 1 + spread)
        else:
            raise _unknown_rule(rule)
        order = Fraction(best).limit_denominator(10**6)
        return self.to_renyi(max(order, Fraction(1000001, 1000000))).to_approx(small, rule=rule)

    def to_zcdp(self) -> ZCDP:
        return self

    def to_renyi(self, order: Number) -> Renyi:
        at = renyi_order(order)
        return Renyi(at, at * self.rho)

    def __str__(self) -> str:
        return f"rho = {show(self.rho)} (zCDP)"

    def __repr__(self) -> str:
        return f"ZCDP({_literal(self.rho)})"


@dataclass(frozen=True, slots=True)
class Renyi(Guarantee):
    """Rényi differential privacy of one order: the divergence of this order is at most ε.

    >>> ob.Renyi(8, "0.1").to_approx("1e-6")
    Approx('1.6430...', '1e-6')
    """

    order: Fraction
    eps: Fraction
    kind = "renyi"

    def __init__(self, order: Number, eps: Number) -> None:
        object.__setattr__(self, "order", renyi_order(order))
        object.__setattr__(self, "eps", not_negative("eps", eps))

    def covers(self, other: Guarantee) -> bool:
        if isinstance(other, Renyi):  # the divergence grows with its order
            return other.order >= self.order and other.eps <= self.eps
        return isinstance(other, Pure | ZCDP) and other.to_renyi(self.order).eps <= self.eps

    def to_approx(self, delta: Number, *, rule: str = "tight") -> Approx:
        """`rule="simple"` is eps + ln(1/delta)/(a-1) [Mironov 2017]; "tight" that of Canonne et al. 2020."""
        small = positive_delta(delta)
        if rule not in ("simple", "tight"):
            raise _unknown_rule(rule)
        if self.eps == 0:
            return Approx(0, small)
        from oboro.noise.lazy import ball

        def eps() -> Ball:
            a = ball(self.order)
            simple = ball(self.eps) - ball(small).log() / (a - 1)
            return simple if rule == "simple" else simple + ((a - 1) / a).log() - a.log() / (a - 1)

        return Approx(max(Fraction(0), round_up(eps)), small)

    def to_renyi(self, order: Number) -> Renyi:
        at = renyi_order(order)
        if at > self.order:
            raise GuaranteeError(
                "a higher Rényi order cannot be had from a lower one",
                given=f"{self}, " + told(order=show(at)),
                needed=f"an order of at most {show(self.order)}",
                fix=told(order=show(self.order)),
            )
        return Renyi(at, self.eps)

    def __str__(self) -> str:
        return f"eps = {show(self.eps)} (Rényi, order {show(self.order)})"

    def __repr__(self) -> str:
        return f"Renyi({_literal(self.order)}, {_literal(self.eps)})"


def _best_order(rho: float, log_delta: float, start: float) -> float:
    """The order that minimises a rho + ln((a-1)/a) - ln(a delta)/(a-1)."""

    def cost(x: float) -> float:
        a = 1 + math.exp(x)
        return a * rho + math.log1p(-1 / a) - (math.log(a) + log_delta) / (a - 1)

    return 1 + math.exp(bottom(cost, math.log(start - 1) - 4, math.log(start - 1) + 4))


def bottom(cost: Callable[[float], float] | Callable[[float], Fraction], low: float, high: float) -> float:
    """Where a function that falls and then rises is least: golden section."""
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if cost(left) <= cost(right) else (left, high)
    return (low + high) / 2


def _unknown_rule(rule: str) -> ParameterError:
    return ParameterError(
        "rule is unknown",
        given=told(rule=repr(rule)),
        needed='"tight" or "simple"',
        fix=setting(rule="tight"),
    )


def _literal(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else repr(show(number))


__all__ = ["ZCDP", "Approx", "Conditional", "Guarantee", "Pure", "Renyi", "guarantee_from", "round_up"]


@dataclass(frozen=True, slots=True)
class Conditional(Guarantee):
    """A promise that holds only if an assumption does. Never turns into an unconditional one.

    >>> promise = ob.Conditional(ob.Pure(1), "the parties do not collude")
    >>> promise.assumptions, promise.unconditional
    (('the parties do not collude',), Pure(1))
    >>> ob.Pure(2).covers(promise)
    False
    """

    guarantee: Guarantee
    assumptions: tuple[str, ...]
    kind = "conditional"

    @takes(assumptions=names_of)
    def __init__(self, guarantee: Guarantee, assumptions: str | Iterable[str]) -> None:
        texts = (assumptions,) if isinstance(assumptions, str) else tuple(assumptions)
        if not isinstance(guarantee, Guarantee):
            raise ParameterError(
                "guarantee is not a guarantee", given=repr(guarantee), fix='ob.Conditional(ob.Pure(1), "...")'
            )
        texts = tuple(sorted({*texts, *guarantee.assumptions}))
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise ParameterError(
                "assumption is empty",
                given=repr(assumptions),
                needed="the assumption in words, as it will stand in the certificate",
                fix='ob.Conditional(ob.Pure(1), "the parties do not collude")',
            )
        object.__setattr__(self, "guarantee", guarantee.unconditional)
        object.__setattr__(self, "assumptions", texts)

    @property
    def assumption(self) -> str:
        return "; ".join(self.assumptions)

    @property
    def unconditional(self) -> Guarantee:
        return self.guarantee

    def covers(self, other: Guarantee) -> bool:
        return set(other.assumptions) <= set(self.assumptions) and self.guarantee.covers(other.unconditional)

    def to_approx(self, delta: Number, *, rule: str = "tight") -> Any:
        return Conditional(self.guarantee.to_approx(delta, rule=rule), self.assumptions)

    def to_zcdp(self) -> Any:
        return Conditional(self.guarantee.to_zcdp(), self.assumptions)

    def to_renyi(self, order: Number) -> Any:
        return Conditional(self.guarantee.to_renyi(order), self.assumptions)

    def __str__(self) -> str:
        return f"{self.guarantee}, provided that {plain(self.assumption)}"

    def __repr__(self) -> str:
        return f"Conditional({self.guarantee!r}, {list(self.assumptions)!r})"


def guarantee_from(record: object) -> Guarantee:
    """The guarantee that `to_dict` wrote.

    >>> ob.privacy.guarantee_from({"kind": "pure", "eps": "0.1"})
    Pure('0.1')
    """
    if type(record) is dict and len(record) == 2 and {*map(type, record.values())} == {str}:
        plain_kind, name = _PLAIN.get(record.get("kind"), (None, ""))
        if plain_kind is not None and name in record:  # as nearly every record
            with suppress(ParameterError):  # it is said below what is wrong
                return plain_kind(record[name])
    found: Guarantee = read(Guarantee, record, "guarantee")
    return found


_PLAIN: dict[object, tuple[type[Pure | ZCDP], str]] = {"pure": (Pure, "eps"), "zcdp": (ZCDP, "rho")}
