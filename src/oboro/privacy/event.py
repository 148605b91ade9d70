"""What a release does to privacy, as immutable records.

An event says what happened; an accountant says what that costs. An accountant that meets an event it does
not know refuses: a cost that is not understood is never taken for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from oboro.exact import Number, positive, whole
from oboro.kinds import instance
from oboro.privacy.guarantee import ZCDP, Guarantee, Pure


class Event:
    """Something that costs privacy."""


@dataclass(frozen=True, slots=True)
class Spend(Event):
    """A release of which only the guarantee is known. Always valid, never tighter than the guarantee."""

    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class LaplaceNoise(Event):
    """One number that a unit moves by at most `sensitivity`, under Laplace noise of this scale.

    `discrete` for integers under discrete Laplace noise: its privacy loss is another one.
    """

    scale: Fraction
    sensitivity: Fraction
    discrete: bool

    def __init__(self, scale: Number, sensitivity: Number = 1, *, discrete: bool = True) -> None:
        instance("discrete", discrete, bool)
        object.__setattr__(self, "scale", positive("scale", scale))
        object.__setattr__(
            self,
            "sensitivity",
            Fraction(whole("sensitivity", sensitivity, least=1))
            if discrete
            else positive("sensitivity", sensitivity),
        )
        object.__setattr__(self, "discrete", discrete)

    @property
    def guarantee(self) -> Pure:
        return Pure(self.sensitivity / self.scale)


@dataclass(frozen=True, slots=True)
class GaussianNoise(Event):
    """A vector that a unit moves by at most `sensitivity` in the 2-norm, under Gaussian noise of this variance.

    The discrete Gaussian on integers keeps the same rho [Canonne, Kamath, Steinke 2020, Theorem 14].
    """

    variance: Fraction
    sensitivity: Fraction
    discrete: bool

    def __init__(self, variance: Number, sensitivity: Number = 1, *, discrete: bool = True) -> None:
        instance("discrete", discrete, bool)
        object.__setattr__(self, "variance", positive("variance", variance))
        object.__setattr__(self, "sensitivity", positive("sensitivity", sensitivity))
        object.__setattr__(self, "discrete", discrete)

    @property
    def guarantee(self) -> ZCDP:
        return ZCDP(self.sensitivity**2 / (2 * self.variance))


@dataclass(frozen=True, slots=True)
class Repeated(Event):
    """The same event, independently, `times` times."""

    event: Event
    times: int

    def __init__(self, event: Event, times: int) -> None:
        object.__setattr__(self, "event", event)
        object.__setattr__(self, "times", whole("times", times, least=1))


@dataclass(frozen=True, slots=True)
class Composed(Event):
    """Several events on the same data, fixed in advance."""

    events: tuple[Event, ...]

    def __init__(self, *events: Event) -> None:
        object.__setattr__(self, "events", events)
