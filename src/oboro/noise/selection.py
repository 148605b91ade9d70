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

Many candidates
    Those whose score is so far above the smallest that they hardly ever win are drawn together: the largest E of all N of
    them, less eta times the smallest of their gaps, is no smaller than what any of them has. Unless that wins they
    do not matter, and no more is drawn for them. If it wins, one of the N, uniformly, has the largest E; given that it is
    -log(1 - W), the largest of n others is -log(1 - W U^(1/n)). So the law is the same wherever the line is drawn.

Why it is exact
    Floats with proved radii (floatball.py) decide unless the two largest are within their error; then balls do, with more
    bits of the same uniform reals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oboro.exact import Number, not_negative
from oboro.noise.bits import Bits, system_bits
from oboro.noise.draws import LARGEST, candidates, uniform_integer
from oboro.noise.lazy import Uniform, ball, precision

if TYPE_CHECKING:
    from oboro.arrays import Integers, Words
    from oboro.noise.lazy import Ball

_AT_ONCE = 1 << 20  # words
_FAR = 64.0  # of a handicap, beyond the logarithm of how many candidates there are: passed once in e^64 draws


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
    order, race = _race(above[there], weights[there], rate)
    with precision(128):
        eta_ball = floatball.float_ball(ball(rate))
    found = np.empty(size, np.int64)
    width = race.scores.size
    step = max(1, _AT_ONCE // width)
    for first in range(0, size, step):
        words = bits.words(min(step, size - first) * width).reshape(-1, width)
        won = floatball.largest_keys(words, race.scores, race.counts, *eta_ball)
        for place in np.flatnonzero((won < 0) | (won == race.near)):
            won[place] = race.by_balls(words[place], bits)
        found[first : first + len(words)] = there[order[won]]
    return found


@dataclass(frozen=True, slots=True)
class _Race:
    """Candidates that are drawn one by one; after them, if there are others, all of those together at their smallest score."""

    scores: Words
    counts: Integers
    near: int  # how many are drawn one by one
    far_scores: Words
    far_counts: Integers
    eta: Fraction

    def by_balls(self, words: Words, bits: Bits) -> int:
        """The winner, near ones first, with more and more bits of the same uniform reals."""
        drawn = [Uniform(bits, int(word), 64) for word in words]
        won = _largest(drawn, self.scores, self.counts, self.eta)
        if won < self.near:
            return won
        one_of_them = uniform_integer(int(self.counts[-1]), bits)
        most = int(np.searchsorted(np.cumsum(self.far_counts), one_of_them, side="right"))
        together = drawn.pop()
        others = [Uniform(bits, bits.integer(64), 64) for _ in self.far_counts]
        return _largest(
            [*drawn, *others],
            np.append(self.scores[:-1], self.far_scores),
            np.append(self.counts[:-1], self.far_counts),
            self.eta,
            _Together(together, int(self.counts[-1]), self.near, self.near + most),
        )


@dataclass(frozen=True, slots=True)
class _Together:
    """The `count` candidates from `first` on, whose largest E, by `uniform`, belongs to `most`."""

    uniform: Uniform
    count: int
    first: int
    most: int


def _race(above: Words, weights: Integers, eta: Fraction) -> tuple[Integers, _Race]:
    """The order of candidates, near ones first, and what is drawn for them. Where the line is drawn changes no law."""
    total = sum(weights.tolist())
    reach = (math.log(total) + _FAR) / float(eta) if eta * 2**80 > 1 else math.inf
    far = (
        above > np.uint64(reach) if reach < 2.0**63 and total <= LARGEST else np.zeros(above.shape, np.bool_)
    )
    order = np.argsort(far, kind="stable")
    near = int(far.size - far.sum())
    scores, counts = above[order], weights[order]
    race = _Race(scores[:near], counts[:near], near, scores[near:], counts[near:], eta)
    if near == far.size:
        return order, race
    smallest, together = scores[near:].min(), counts[near:].sum()
    return order, replace(
        race, scores=np.append(race.scores, smallest), counts=np.append(race.counts, together)
    )


def _largest(
    uniforms: Sequence[Uniform],
    scores: Words,
    counts: Integers,
    eta: Fraction,
    shared: _Together | None = None,
) -> int:
    left = list(range(len(uniforms)))
    while True:
        open_ones = [uniforms[i] for i in left] + ([shared.uniform] if shared else [])
        known = max(one.known for one in open_ones)
        with precision(2 * known):
            most = _log_below(shared.uniform, shared.count) if shared else None
            keys = {}
            for i in left:
                log = _log_below(uniforms[i], int(counts[i]))
                if shared and i >= shared.first:
                    log = most if i == shared.most else log + most
                keys[i] = -(-log.expm1()).log() - ball(eta * int(scores[i]))
            best = max(keys.values(), key=lambda key: key.lower())
            left = [i for i in left if not best > keys[i]]
        if len(left) == 1:
            return left[0]
        for one in open_ones:
            one.extend(2 * known - one.known)


def _log_below(u: Uniform, count: int) -> Ball:
    """log P(E < x) at the largest E of so many: of U^(1/n), or of 1 - U for one, as in `largest_keys`."""
    return (-u.ball()).log1p() if count == 1 else u.ball().log() / count
