"""Tight composition against the truth, computed in other ways."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from flint import arb, fmpq

from oboro.noise.lazy import precision
from oboro.privacy import (
    Approx,
    Event,
    GaussianNoise,
    Guarantee,
    LaplaceNoise,
    Pure,
    Repeated,
    compose,
    losses,
)


def dec(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def randomised_response(k: int, e: Fraction, eps: Fraction) -> Decimal:
    """The delta of k randomised responses: a binomial sum, to 80 digits."""
    with localcontext(prec=80):
        rise, at = dec(e).exp(), dec(eps).exp()
        q = 1 / (1 + rise)
        told, untold, ways, delta = q**k, (rise * q) ** k, 1, Decimal(0)  # j answers of k are true
        for j in range(k + 1):
            delta += max(Decimal(0), ways * (told - at * untold))
            ways = ways * (k - j) // (j + 1)
            told, untold = told * rise, untold / rise
        return delta


@pytest.mark.parametrize("kind", [Pure, lambda e: LaplaceNoise(1 / Fraction(e))])
@pytest.mark.parametrize(
    ("k", "e", "delta"),
    [(1000, "0.01", "1e-14"), (1000, "0.013", "1e-9"), (3000, "0.001", "1e-6"), (7, "2", "1e-3"), (50, "1e-6", "1e-14")],
)  # fmt: skip
def test_equal_questions_cost_the_truth(kind: type[Pure], k: int, e: str, delta: str) -> None:
    eps = compose(*[kind(e)] * k, delta=delta).eps
    assert randomised_response(k, Fraction(e), eps) <= Decimal(delta)
    assert randomised_response(k, Fraction(e), eps * (1 - Fraction(1, 10**9))) > Decimal(delta)


def test_an_absolute_error_in_delta_is_seen() -> None:
    """What accountants in floats gave for these, with a margin on eps: 1.50e-14 and 1.000011e-9 in truth."""
    assert randomised_response(1000, Fraction("0.01"), Fraction("2.307864603885")) > Decimal("1.49e-14")
    assert compose(*[Pure("0.01")] * 1000, delta="1e-14").eps > Fraction("2.307864603885")


def atoms(event: Guarantee | Event) -> list[tuple[Fraction | None, Decimal]]:
    """Losses and their probabilities, from the definition; None is infinity."""
    if isinstance(event, LaplaceNoise):
        scale, moves = event.scale, int(event.sensitivity)
        fall = (-1 / dec(scale)).exp()
        found = {Fraction(moves - 2 * x) / scale: (1 - fall) / (1 + fall) * fall**x for x in range(1, moves)}
        return [*found.items(), (moves / scale, 1 / (1 + fall)), (-moves / scale, fall**moves / (1 + fall))]
    assert isinstance(event, Pure | Approx)
    told = dec(getattr(event, "delta", Fraction(0)))
    up = (1 - told) / (1 + (-dec(event.eps)).exp())
    return [(event.eps, up), (-event.eps, 1 - told - up), *([(None, told)] if told else [])]


def truth(events: list[Guarantee | Event], eps: Fraction) -> Decimal:
    """The delta of a batch by listing every combination of outputs."""
    with localcontext(prec=60):
        total = Decimal(0)
        for outcome in itertools.product(*map(atoms, events)):
            chance = Decimal(1)
            for _, mass in outcome:
                chance *= mass
            known = [loss for loss, _ in outcome if loss is not None]
            over = sum(known, Fraction(0)) - eps
            if len(known) < len(outcome):
                total += chance
            elif over > 0:
                total += chance * (1 - (-dec(over)).exp())
        return total


def batches() -> list[tuple[list[Guarantee | Event], str]]:
    draw = random.Random(16)
    found: list[tuple[list[Guarantee | Event], str]] = []
    for _ in range(12):
        unit = Fraction(draw.randint(1, 30), 100)
        found.append(
            (
                [
                    *(Pure(unit * draw.randint(1, 3)) for _ in range(draw.randint(0, 4))),
                    *(LaplaceNoise(1 / unit, draw.randint(1, 4)) for _ in range(draw.randint(1, 4))),
                    *(Approx(unit, "1e-9") for _ in range(draw.randint(0, 2))),
                ],
                draw.choice(["1e-14", "1e-6", "0.01"]),
            )
        )
    return found


@pytest.mark.parametrize(("events", "delta"), batches())
def test_batches_of_different_noises_cost_the_truth(events: list[Guarantee | Event], delta: str) -> None:
    if sum((getattr(event, "delta", Fraction(0)) for event in events), Fraction(0)) > Fraction(delta):
        return
    eps = compose(*events, delta=delta).eps
    assert truth(events, eps) <= Decimal(delta)
    assert eps == 0 or truth(events, eps * (1 - Fraction(1, 10**6))) > Decimal(delta)


def test_odd_fractions_are_split_and_never_below_the_truth() -> None:
    draw = random.Random(3)
    events: list[Guarantee | Event] = [
        Pure(Fraction(draw.randint(10**59, 10**60), 10**60 + 2 * i + 1)) for i in range(10)
    ]
    eps = compose(*events, delta="1e-3").eps
    assert truth(events, eps) <= Decimal("1e-3")
    assert truth(events, eps * Fraction(9999, 10000)) > Decimal("1e-3")


@pytest.mark.parametrize("longest", [64, 256])
def test_a_coarser_lattice_costs_more_never_less(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "LONGEST", longest)
    eps = compose(*[Pure("0.05")] * 2000, delta="1e-9").eps
    assert randomised_response(2000, Fraction("0.05"), eps) <= Decimal("1e-9")
    assert 15.3894427 < float(eps) < {64: 16.4, 256: 15.41}[longest]  # 15.38944267 in truth


def test_gaussian_noises_add_up_to_one() -> None:
    """delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) [Balle, Wang 2018], for mu^2 = 3/4 + 10/40 = 1."""
    events = [Repeated(GaussianNoise(4, discrete=False), 3), Repeated(GaussianNoise(40, discrete=False), 10)]
    for delta in ("1e-14", "1e-6", "0.1"):
        eps = compose(*events, delta=delta).eps

        def spent(at: Fraction) -> arb:
            e, root = arb(fmpq(at.numerator, at.denominator)), arb(2).sqrt()
            return (((e - 0.5) / root).erfc() - e.exp() * ((e + 0.5) / root).erfc()) / 2

        with precision(200):
            most = Fraction(delta)
            assert spent(eps) <= arb(fmpq(most.numerator, most.denominator))
            assert spent(eps * Fraction(9999, 10000)) > arb(fmpq(most.numerator, most.denominator))


@pytest.mark.parametrize(("e", "delta"), [("1", "1e-14"), ("0.5", "0.01"), ("1e-6", "1e-8"), ("20", "1e-6")])
def test_one_continuous_laplace_noise(e: str, delta: str) -> None:
    """delta(eps) = 1 - exp((eps - e)/2)."""
    eps = compose(LaplaceNoise(1 / Fraction(e), discrete=False), delta=delta).eps
    with localcontext(prec=60):
        assert 1 - (dec(eps - Fraction(e)) / 2).exp() <= Decimal(delta)
        assert 1 - (dec(eps * Fraction(999, 1000) - Fraction(e)) / 2).exp() > Decimal(delta)


def test_the_same_figures_as_a_float_accountant_where_floats_do() -> None:
    accountants = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    laplace = accountants.from_laplace_mechanism(10.0).self_compose(50)
    stepped = accountants.from_discrete_laplace_mechanism(0.02, sensitivity=3).self_compose(40)
    ours = compose(
        Repeated(LaplaceNoise(10, discrete=False), 50), Repeated(LaplaceNoise(50, 3), 40), delta="1e-5"
    )
    theirs = laplace.compose(stepped).get_epsilon_for_delta(1e-5)
    assert float(ours.to_approx("1e-5").eps) == pytest.approx(theirs, rel=2e-5)


@pytest.mark.long("statistical tests")
def test_renyi_is_never_below_the_truth_and_as_good_as_others() -> None:
    accounting = pytest.importorskip("dp_accounting")
    for k, e, delta in ((1000, "0.01", "1e-14"), (100, "0.5", "1e-6"), (10, "1e-6", "1e-14")):
        event = Repeated(LaplaceNoise(1 / Fraction(e), discrete=False), k)
        ours = compose(event, delta=delta, method="renyi").eps
        assert ours >= compose(event, delta=delta).eps * Fraction(999999, 1000000)
        accountant = accounting.rdp.RdpAccountant()
        accountant.compose(accounting.LaplaceDpEvent(1 / float(e)), k)
        assert float(ours) <= accountant.get_epsilon(float(delta)) * 1.0001
