"""The parts of a plan: each noise, what it is added to, how far one unit moves that, what it therefore costs.

A unit moves a part by so much *in the norm of its noise*:

    discrete Laplace     the 1-norm D of the change          costs D / scale                       Pure
    discrete Gaussian    the squared 2-norm D^2              costs D^2 / (2 sigma^2)               ZCDP
    choice by a score    every score by at most D            costs 2 eta D                         Pure

(a choice by the exponential mechanism, or by permute-and-flip), so that the cost of noise follows from its law alone [Ghosh,
Roughgarden, Sundararajan 2009; Canonne, Kamath, Steinke 2020, Theorem 14; McSherry, Talwar 2007; McKenna, Sheldon 2020], and nobody states it beside it. Other mechanisms say what they cost, by a
theorem of their own that their class names: noise in proportion to a smooth sensitivity, stable noise.

A unit that does one of several things (it comes, it is replaced within its group, it moves to another) has parts for
each *case*; what a plan costs is the worst case. Parts without a case belong to every case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from oboro.errors import GuaranteeError, ParameterError
from oboro.exact import not_negative, show, whole
from oboro.kinds import shown
from oboro.noise import DiscreteGaussian, DiscreteLaplace
from oboro.privacy import ZCDP, Guarantee, Pure, compose
from oboro.privacy.events import times as so_many
from oboro.privacy.events import worst

if TYPE_CHECKING:
    from oboro.arrays import Integers
    from oboro.noise.bits import Bits


class Described(Protocol):
    """A law that can be told."""

    def to_dict(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One noise of a plan.

    >>> plan.parts[0].moves, plan.parts[0].costs
    (Fraction(1, 1), Pure('0.1'))
    >>> plan.parts[0].words()
    {'of': 'counts', 'law': 'discrete Laplace', 'scale': '10', 'moves': '1', 'costs': 'eps = 0.1'}
    """

    noise: Described
    of: str
    moves: Fraction  # in the norm of the noise
    costs: Guarantee
    case: str = ""

    def __post_init__(self) -> None:
        """Where the law says what it costs, nobody says less."""
        least = () if self.moves == 0 else _least_cost(self.noise, self.moves)
        if self.moves < 0 or (least and not any(self.costs.covers(one) for one in least)):
            raise GuaranteeError(
                "a part of a plan costs more than it says",
                given=f"{self.of}: {self.costs}",
                needed=" or ".join(f"at least {one}" for one in least) or "a move of 0 or more",
                fix="ob.release.part(noise, of, moves=1)",
            )

    def words(self) -> dict[str, object]:
        """For the certificate."""
        record = {"of": self.of, **self.noise.to_dict(), "moves": show(self.moves), "costs": str(self.costs)}
        return record | ({"case": self.case} if self.case else {})


@dataclass(frozen=True, slots=True)
class Choice:
    """The exponential mechanism: each output with a probability in proportion to e^(-eta score).

    >>> from fractions import Fraction
    >>> ob.release.part(ob.release.Choice(Fraction(1, 20)), "the median", moves=1)
    Part(noise=Choice(eta=Fraction(1, 20)), of='the median', moves=Fraction(1, 1), costs=Pure('0.1'), case='')
    """

    eta: Fraction

    def to_dict(self) -> dict[str, object]:
        return {"law": "exponential mechanism", "eta": show(self.eta)}


@dataclass(frozen=True, slots=True)
class Selection:
    """Permute-and-flip (noise/selection.py): the best score wins, with noise. A constant that all scores share changes nothing.

    So where all scores move the same way, by at most D, each moves by at most D/2 up to a constant.

    >>> from fractions import Fraction
    >>> ob.release.part(ob.release.Selection(Fraction(1, 10)), "the most frequent value", moves=Fraction(1, 2)).costs
    Pure('0.1')
    """

    eta: Fraction

    def to_dict(self) -> dict[str, object]:
        return {"law": "permute-and-flip", "eta": show(self.eta)}


def part(
    noise: DiscreteLaplace | DiscreteGaussian | Choice | Selection,
    of: str,
    *,
    moves: Fraction | int,
    case: str = "",
    times: int = 1,
) -> Part:
    """What `noise` costs where one unit moves what it is added to by `moves`: the 1-norm for Laplace noise, the squared
    2-norm for Gaussian, every score for a choice. `times`: so many parts alike.

    >>> ob.release.part(ob.noise.DiscreteLaplace(10), "count", moves=1)
    Part(noise=DiscreteLaplace('10'), of='count', moves=Fraction(1, 1), costs=Pure('0.1'), case='')
    """
    moved = not_negative("moves", moves)
    known = _least_cost(noise, moved)
    if not known:
        raise ParameterError(
            "what this noise costs does not follow from its law alone",
            given=shown(noise),
            needed="discrete Laplace or Gaussian noise, or a choice",
            fix="ob.release.Part(noise, of, moves, costs), by a theorem of its own",
        )
    return Part(noise, of, moved, so_many(known[0], whole("times", times, least=1)), case)


def _least_cost(noise: Any, moved: Fraction) -> tuple[Guarantee, ...]:
    """What a law costs that we know: as the first, or as any other. Nothing where its class has its own theorem."""
    if isinstance(noise, DiscreteLaplace):
        return (Pure(moved / noise.scale),)
    if isinstance(noise, DiscreteGaussian):
        return (ZCDP(moved / (2 * noise.sigma2)),)
    if isinstance(noise, Choice):  # of a range of 2 eta D [Cesar and Rogers 2021, Lemma 4]
        return (Pure(2 * noise.eta * moved), ZCDP((noise.eta * moved) ** 2 / 2))
    if isinstance(noise, Selection):  # it has no smaller range than its eps says: no better zCDP follows
        return (Pure(2 * noise.eta * moved),)
    return ()


def cost_of(parts: Sequence[Part]) -> Guarantee:
    """What parts cost together: the sum of their costs, in whichever case is the worst."""
    cases = {one.case: None for one in parts if one.case} or {"": None}
    return worst(*(compose(*(one.costs for one in parts if one.case in ("", case))) for case in cases))


# -- the law of what is measured, for the audit ---------------------------------------------------------------------------------------


Noise = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class Additive:
    """Prepared numbers plus independent noise: the noise of each number, and how `measure` draws it from its bits.

    This is what a plan says of itself; the audit replays it and believes it only if every number agrees.

    >>> form = plan.added()
    >>> form.noises(plan.prepare(data))[:2]
    [DiscreteLaplace('10'), DiscreteLaplace('10')]
    """

    noises: Callable[[Any], list[Noise]]
    numbers: Callable[[Any], Integers]
    draw: Callable[[Any, Bits, int], Any]  # (prepared, bits, trials)


@dataclass(frozen=True, slots=True)
class Weighted:
    """Whole numbers, or several of them together, each with a weight: the law of the output of a draw from urns.

    >>> noise = ob.secure.plan(eps=1, delta="1e-3", method="paper", draws=1)
    >>> plan = ob.secure.draw_plan(noise, low=0, high=100, unit=ob.Unit.row())
    >>> plan.added().weights(50)[50]
    701
    """

    weights: Callable[[Any], Mapping[Any, int]]
    draw: Callable[[Any, Bits, int], Any]  # (prepared, bits, trials)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value of a column for each group, by permute-and-flip with e^(-eta score).

    The score of a value is max(s below - p n, p n - s upto), q = p/s: how far the rows below it, and those up to it, are
    from the share q of all.

    >>> from fractions import Fraction
    >>> ob.release.Chosen(size=100, quantile=Fraction(1, 2), eta=Fraction(1, 20))
    Chosen(size=100, quantile=Fraction(1, 2), eta=Fraction(1, 20))
    """

    size: int  # values of the column
    quantile: Fraction
    eta: Fraction


Form = Additive | Weighted | Chosen


def same_noise(noise: Noise) -> Additive:
    """The same noise on every number of an array.

    >>> import numpy as np
    >>> ob.release.same_noise(ob.noise.DiscreteLaplace(10)).noises(np.array([120, 80]))
    [DiscreteLaplace('10'), DiscreteLaplace('10')]
    """
    import numpy as np

    return Additive(
        lambda prepared: [noise] * prepared.size,
        np.ravel,
        lambda prepared, bits, trials: noise.sample((trials, *prepared.shape), bits),
    )


def noise_by_column(noises: Iterable[Noise]) -> Additive:
    """An array of groups by terms: each term's noise is drawn for all groups at once.

    >>> import numpy as np
    >>> two = ob.release.noise_by_column([ob.noise.DiscreteLaplace(1), ob.noise.DiscreteLaplace(50)])
    >>> two.noises(np.array([[120, 5400]]))
    [DiscreteLaplace('1'), DiscreteLaplace('50')]
    """
    import numpy as np

    laws = list(noises)

    def draw(prepared: Integers, bits: Bits, trials: int) -> Integers:
        return np.stack([law.sample((trials, *prepared.shape[:1]), bits) for law in laws], axis=-1)

    return Additive(lambda prepared: laws * len(prepared), np.ravel, draw)


def noise_by_plan(forms: Sequence[Form | None]) -> Additive | None:
    """Several plans after one another, if each adds noise.

    >>> import numpy as np
    >>> one, two = (ob.release.same_noise(ob.noise.DiscreteLaplace(scale)) for scale in (1, 2))
    >>> ob.release.noise_by_plan([one, two]).noises([np.array([120]), np.array([80])])
    [DiscreteLaplace('1'), DiscreteLaplace('2')]
    >>> ob.release.noise_by_plan([one, None]) is None
    True
    """
    import numpy as np

    known = [form for form in forms if isinstance(form, Additive)]
    if len(known) < len(forms):
        return None
    return Additive(
        lambda prepared: [
            noise for form, own in zip(known, prepared, strict=True) for noise in form.noises(own)
        ],
        lambda prepared: np.concatenate(
            [form.numbers(own) for form, own in zip(known, prepared, strict=True)]
        ),
        lambda prepared, bits, trials: [
            form.draw(own, bits, trials) for form, own in zip(known, prepared, strict=True)
        ],
    )
