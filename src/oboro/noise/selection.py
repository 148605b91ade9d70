"""Choosing the best of several by its score, privately and exactly: permute-and-flip.

Put the candidates into a uniform order and give each a coin that shows heads with probability e^(-eta gap), where the gap
is how far its score is above the smallest; the first heads wins [McKenna, Sheldon 2020]. It is never worse than the
exponential mechanism with the same eta, and better where few candidates are near the best.

What is drawn
    Independent exponential variables E_i of rate 1; the candidate with the largest E_i - eta score_i wins, which has the same
    law [Ding, Kifer, Sayed, Sri, Wang, Zhang 2021]. The largest of n such variables is below x with probability
    (1 - e^-x)^n, so it is -log(1 - U^(1/n)) for a uniform real U: so many candidates of one score take one number.

Privacy
    Let the scores of neighbours differ by c_i in [a, a + r]. A constant changes nothing, so let a = 0. Given all E_j but E_i,
    with t the largest of E_j - eta score_j over j != i, candidate i wins with probability min(1, e^-(t + eta score_i)).
    Both t and eta score_i move by an amount in an interval of length eta r, in opposite directions, so their sum
    moves by at most eta r, and the probability by a factor of at most e^(eta r). Averaged over the E_j: one choice costs
    eta r. Scores that move by at most D either way have r = 2D; scores that all move the same way, r = D.

Why it is exact
    Floats with proved radii (floatball.py) decide unless the two largest are within their error; then balls do, with more
    bits of the same uniform reals.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.exact import Number, not_negative
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import candidates
from oboro.noise.lazy import Uniform, ball, precision

if TYPE_CHECKING:
    from oboro.arrays import Integers, Words
    from oboro.noise.lazy import Ball

_AT_ONCE = 1 << 20  # words


def permute_and_flip(
    scores: npt.ArrayLike, eta: Number, counts: npt.ArrayLike | None = None, bits: Bits | None = None
) -> int:
    """Index of the candidate that wins: small scores are good; whole scores, rational eta >= 0.

    `counts`, up to 2^62 each, stand for many candidates that share a score; by default each counts once.

    >>> ob.noise.permute_and_flip([5000, 0, 5000], eta=1)
    1
    """
    return int(permuted_and_flipped(scores, eta, 1, counts, bits)[0])


def permuted_and_flipped(
    scores: npt.ArrayLike,
    eta: Number,
    size: int,
    counts: npt.ArrayLike | None = None,
    bits: Bits | None = None,
) -> Integers:
    """Many independent draws of `permute_and_flip` at once."""
    from oboro.noise import floatball

    rate = not_negative("eta", eta)
    bits = bits or system_bits()
    above, weights = candidates(scores, counts)
    there = np.flatnonzero(weights > 0)
    above, weights = above[there], weights[there]
    with precision(128):
        eta_ball = floatball.float_ball(ball(rate))
    found = np.empty(size, np.int64)
    step = max(1, _AT_ONCE // there.size)
    for first in range(0, size, step):
        words = bits.words(min(step, size - first) * there.size).reshape(-1, there.size)
        won = floatball.largest_keys(words, above, weights, *eta_ball)
        for place in np.flatnonzero(won < 0):
            won[place] = _by_balls(words[place], above, weights, rate, bits)
        found[first : first + len(words)] = there[won]
    return found


def _by_balls(words: Words, above: Words, weights: Integers, eta: Fraction, bits: Bits) -> int:
    """The same by balls, with more and more bits of the same uniform reals."""
    left = {i: Uniform(bits, int(word), 64) for i, word in enumerate(words)}
    while True:
        known = next(iter(left.values())).known
        with precision(2 * known):
            keys = {i: _key(u.ball(), int(weights[i]), eta * int(above[i])) for i, u in left.items()}
            left = {i: u for i, u in left.items() if not any(other > keys[i] for other in keys.values())}
        if len(left) == 1:
            return next(iter(left))
        for u in left.values():
            u.extend(known)


def _key(u: Ball, count: int, handicap: Fraction) -> Ball:
    spent = u if count == 1 else -(u.log() / count).expm1()
    return -spent.log() - ball(handicap)
