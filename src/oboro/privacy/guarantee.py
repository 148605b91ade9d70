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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oboro.errors import ParameterError
from oboro.exact import Number
from oboro.kinds import names_of, takes
from oboro.language import plain
from oboro.privacy.rounding import round_up
from oboro.privacy.unconditional import ZCDP, Approx, Guarantee, Pure, Renyi
from oboro.records import read

__all__ = ["ZCDP", "Approx", "Conditional", "Guarantee", "Pure", "Renyi", "guarantee_from", "round_up"]


@dataclass(frozen=True, slots=True)
class Conditional(Guarantee):
    """A promise that holds only if an assumption does. Never turns into an unconditional one."""

    guarantee: Guarantee
    assumptions: tuple[str, ...]
    kind = "conditional"

    @takes(assumptions=names_of)
    def __init__(self, guarantee: Guarantee, assumptions: str | Iterable[str]) -> None:
        texts = (assumptions,) if isinstance(assumptions, str) else tuple(assumptions)
        if not isinstance(guarantee, Guarantee):
            raise ParameterError(
                "guarantee is not a guarantee", given=repr(guarantee), fix='Conditional(Pure(1), "...")'
            )
        texts = tuple(sorted({*texts, *guarantee.assumptions}))
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise ParameterError(
                "assumption is empty",
                given=repr(assumptions),
                needed="the assumption in words, as it will stand in the certificate",
                fix='Conditional(Pure(1), "the parties do not collude")',
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


def guarantee_from(record: dict[str, Any]) -> Guarantee:
    """The guarantee that `to_dict` wrote."""
    found: Guarantee = read(Guarantee, record, "guarantee")
    return found
