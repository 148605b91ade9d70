"""A batch: noises for several answers from the same urns, none of whose entries is drawn twice.

Section 3.2 of Kii draws as many noises as one likes from one encrypted urn, with replacement. Whoever draws knows its
indices: two noises from the same entries are equal, and then a difference of answers is published as it is. Here each
urn gives every answer another of its entries. Then the noises depend on one another, since what one answer took is
gone for the others, and the promise is that of all noisy answers together.

Privacy
    One unit moves one of the k answers, by s at most. An urn of N entries was shuffled by P1, and the indices into it are
    different ones, so given the indices its k entries are a draw without replacement. Let P be the law of the k noises
    together. For answers that differ by s in the first place alone the smallest delta that goes with eps is

        delta_s = sum over z of max(0, P(z_1, ..., z_k) - e^eps P(z_1 - s, z_2, ..., z_k)),

    and P is the same in whichever order the answers are taken, so the first one stands for all. That is what everybody
    gets who sees all noisy answers, the party that drew included. Three ways to compute it, all in integers:

    *Every outcome.* P has whole-number weights: for one urn with counts c and p(x) = sum of c_v x^v, the ways to draw
    k different entries are, by Möbius inversion over which of them might coincide,
    the sum over set partitions of the product over blocks B of (-1)^(|B|-1) (|B|-1)! p(product of x_i, i in B); for
    several urns these polynomials are multiplied. Exact; for few answers.

    *One urn.* The other answers' noises are their entries, so given them the first is drawn from what they left:
    c_v - m_v entries of v, where m counts what they took. By linearity

        delta_s = sum over v of E max(0, (c_v - m_v) - e^eps (c_(v-s) - m_(v-s))) / (N - k + 1),

    in which only two counts of a multivariate hypergeometric law meet. Exact, for as many answers as one likes.

    *Several urns, many answers.* An observer who sees every entry of the other answers sees more than all noisy
    answers, so its delta is a bound. Given m, the law of the first noise lies between r and R times the law P_0 of a fresh draw,
    where R is the product over urns of max over v of (c_v - m_v) N / (c_v (N - k + 1)), and r that of the least. Unless some m_v
    leaves its band, which happens with probability beta at most (hypergeometric tails, bounded by geometric series in balls),

        delta_s <= beta + R sum over z of max(0, P_0(z) - e^eps (r/R) P_0(z - s)).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import comb, factorial, prod
from operator import mul

import numpy as np
from flint import arb, fmpz_poly

from oboro.arrays import Integers
from oboro.noise.bits import Bits
from oboro.noise.draws import uniform_integers
from oboro.noise.lazy import precision
from oboro.secure.law import (
    MOST_DRAWS,
    MOST_WORK,
    Between,
    Law,
    Urn,
    _excess,
    _exp_floor,
    _set_partitions,
    exact_delta,
    law_of,
)

MOST_ANSWERS = 1000
MOST_OUTCOMES = 2**18  # that are listed
_MOST_PAIRS = 2**19  # pairs of counts that are listed


def joint_delta(
    urns: Sequence[Urn], answers: int, eps: Fraction, sensitivity: int, *, spare: Fraction
) -> Between:
    """delta(eps) of all noisy answers together, each with one entry of every urn and none with the same.

    Exact where every outcome, or every pair of counts, can be listed. Otherwise from above, with at most `spare` for what is
    left aside, and from below the delta of one answer alone.

    The urn [1, 2, 4, 2, 1] at two answers, eps = 1 and sensitivity 1: 0.1507.
    """
    if answers == 1:
        return exact_delta(law_of(urns), eps, sensitivity)
    span = sum(urn.last - urn.first for urn in urns) + 1
    words = 3 + sum(answers * urn.size.bit_length() for urn in urns) // 64
    if len(urns) == 1 and span * sensitivity * answers**2 <= _MOST_PAIRS:
        return _one_urn(urns[0], answers, eps, sensitivity)
    listed = outcomes(urns, answers, sensitivity)
    if listed <= MOST_OUTCOMES and listed * sensitivity * words <= MOST_WORK:
        return exact_delta(joint_law(urns, answers, span + sensitivity), eps, sensitivity)
    alone = exact_delta(law_of(urns), eps, sensitivity)
    return Between(alone.low, max(alone.high, _bound(urns, answers, eps, sensitivity, spare)))


def outcomes(urns: Sequence[Urn], answers: int, apart: int = 0) -> int:
    """How many outcomes there are to list, with `apart` places between; more than are ever listed for many answers."""
    span = sum(urn.last - urn.first for urn in urns) + 1 + apart
    return int(span**answers) if answers <= MOST_DRAWS else MOST_OUTCOMES + 1


def joint_law(urns: Sequence[Urn], answers: int, base: int) -> Law:
    """The weights of every outcome, z_1 + z_2 base + z_3 base^2 + ... counted from the least values.

    With a base of `sensitivity` more than there are values, an outcome moved in its first place by that much meets none but
    those with the same other places, or none at all: so `exact_delta` of this law is delta of all answers together.
    """
    law = reduce(mul, (_different(urn, answers, base) for urn in urns))
    return Law(0, tuple(int(weight) for weight in law.coeffs()))


def _different(urn: Urn, answers: int, base: int) -> fmpz_poly:
    """The ways to draw different entries for the answers, by outcome."""
    total = fmpz_poly([])
    for partition in _set_partitions([base**i for i in range(answers)]):
        sign = prod((-1) ** (len(block) - 1) * factorial(len(block) - 1) for block in partition)
        total += sign * reduce(mul, (_spread(urn, sum(block)) for block in partition))
    width = (urn.last - urn.first) * sum(base**i for i in range(answers)) + 1
    return total + fmpz_poly([0] * width)


def _spread(urn: Urn, places: int) -> fmpz_poly:
    weights = [0] * (places * (urn.last - urn.first) + 1)
    weights[:: places * urn.step] = urn.counts
    return fmpz_poly(weights)


def _one_urn(urn: Urn, answers: int, eps: Fraction, sensitivity: int) -> Between:
    """The sum over values of E max(0, what is left of v - e^eps what is left of v - s), for the worst s."""
    size, taken, bits = urn.size, answers - 1, 160 + answers * urn.size.bit_length()
    e, all_ways = _exp_floor(eps, bits), comb(size, taken)
    law = urn.stretched().weights
    ways = (law,) if law == law[::-1] else (law, law[::-1])
    found = []
    for weights in ways:
        for s in range(1, sensitivity + 1):
            before = (*[0] * s, *weights)
            pairs = [(here, there) for here, there in zip(weights, before, strict=False) if here]
            found.append(
                tuple(sum(_left(*pair, size, taken, at, bits) for pair in pairs) for at in (e + 1, e))
            )
    unit = (all_ways * (size - taken)) << bits
    low, high = max(found, key=lambda one: one[1])
    return Between(Fraction(low, unit), Fraction(high, unit))


def _left(here: int, there: int, size: int, taken: int, e: int, bits: int) -> int:
    """2^bits C(size, taken) E max(0, (here - a) - (e / 2^bits) (there - b)), a and b of which were taken."""
    if here << bits <= e * (there - min(there, taken)):
        return 0  # however much is taken
    total = 0
    for b in range(max(0, taken - (size - there)), min(there, taken) + 1):
        left = (here << bits) - e * (there - b)
        if left <= 0:
            continue
        rest = size - here - there
        inner = 0
        for a in range(max(0, taken - b - rest), min(here, taken - b) + 1):
            over = left - (a << bits)
            if over <= 0:
                break
            inner += comb(here, a) * comb(rest, taken - a - b) * over
        total += comb(there, b) * inner
    return total


def _bound(urns: Sequence[Urn], answers: int, eps: Fraction, sensitivity: int, spare: Fraction) -> Fraction:
    taken, classes = answers - 1, sum(sum(1 for count in urn.counts if count) for urn in urns)
    most = least = Fraction(1)
    for urn in urns:
        kept = {
            count: _band(urn.size, count, taken, spare / (2 * classes)) for count in set(urn.counts) if count
        }
        scale = Fraction(urn.size, urn.size - taken)
        most *= max(scale * Fraction(count - low, count) for count, (low, _) in kept.items())
        least *= min(scale * Fraction(count - high, count) for count, (_, high) in kept.items())
    law = law_of(urns)
    bits = 128 + law.total.bit_length()
    e = int(_exp_floor(eps, bits) * least / most)
    ways = (law.weights,) if law.symmetric else (law.weights, law.weights[::-1])
    shifts = range(1, min(sensitivity, len(law.weights)) + 1)
    over = max(_excess(way, s, e, bits) for way in ways for s in shifts)
    return min(Fraction(1), spare + most * Fraction(over, law.total << bits))


def _band(size: int, count: int, taken: int, spare: Fraction) -> tuple[int, int]:
    """Between what m lies, with probability at least 1 - 2 spare: m of `count` entries are among `taken` of `size`.

    P(m + 1)/P(m) = (count - m)(taken - m)/((m + 1)(size - count - taken + m + 1)) falls with m, so beyond m the tail is at most
    a geometric series.
    """
    least, most = max(0, taken - (size - count)), min(count, taken)

    def ratio(m: int) -> Fraction:
        return Fraction((count - m) * (taken - m), (m + 1) * (size - count - taken + m + 1))

    with precision(128):
        middle = max(least, min(most, (count + 1) * (taken + 1) // (size + 2)))
        there = arb.bin_uiui(count, middle) * arb.bin_uiui(size - count, taken - middle)
        chance = there / arb.bin_uiui(size, taken)
        limit = arb(spare.numerator) / spare.denominator
        high, here = middle, chance
        while high < most:
            up = ratio(high)
            here = here * up.numerator / up.denominator  # P(high + 1)
            further = ratio(high + 1) if high + 1 < most else Fraction(0)
            if further < 1 and here / (1 - arb(further.numerator) / further.denominator) <= limit:
                break
            high += 1
        low, here = middle, chance
        while low > least:
            down = 1 / ratio(low - 1)
            here = here * down.numerator / down.denominator  # P(low - 1)
            further = 1 / ratio(low - 2) if low - 1 > least else Fraction(0)
            if further < 1 and here / (1 - arb(further.numerator) / further.denominator) <= limit:
                break
            low -= 1
    return low, high


def different(below: int, count: int, trials: int, bits: Bits) -> Integers:
    """`count` different numbers in [0, below), in random order, `trials` times over: shape (trials, count).

    The next number is uniform on those that are left: the j-th of them is found by passing over the ones before it that are
    gone.
    """
    found = np.empty((trials, 0), np.int64)
    for taken in range(count):
        rank = uniform_integers(below - taken, trials, bits)
        for gone in np.sort(found, axis=1).T:
            rank = rank + (rank >= gone)
        found = np.concatenate([found, rank[:, None]], axis=1)
    return found
