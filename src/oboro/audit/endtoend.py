"""The same attack through the front door: real releases of neighbouring data, paid for from a real ledger.

`run` looks at what is measured. What goes out passes further hands: the runner, `publish`, the ledger's stored file. So a
few hundred releases are made of each world, read back as a reader gets them, and judged likewise; and the ledger must
have spent exactly what they cost, no more and no less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oboro.arrays import Words
from oboro.audit.events import AuditReport, alike, released
from oboro.audit.run import ALARM, judge_worlds
from oboro.engine import open_data
from oboro.errors import ParameterError, setting
from oboro.exact import whole
from oboro.kinds import each_of, takes
from oboro.ledger import Ledger
from oboro.noise import Bits
from oboro.privacy import ZCDP, Approx, Conditional, Guarantee, Pure, compose
from oboro.release import Pair, Plan, run
from oboro.release.plan import attackable

if TYPE_CHECKING:
    from oboro.arrays import HalfWords


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """What releases through the runner showed, and whether the ledger's total is theirs.

    >>> found = ob.audit.end_to_end(plan, runs=20)
    >>> found.spent == found.owed
    True
    """

    report: AuditReport
    releases: int
    spent: Guarantee
    owed: Guarantee

    @property
    def verdict(self) -> str:
        """ "holds", or "broken": by the released values, or by the ledger."""
        return "holds" if self.report.verdict == "holds" and self.spent == self.owed else "broken"


@takes(plan=attackable, pairs=each_of(Pair))
def end_to_end(
    plan: Plan,
    runs: int = 200,
    *,
    pairs: Iterable[Pair] | None = None,
    folder: str | Path | None = None,
    alarm: float = ALARM,
) -> EndToEnd:
    """Releases each world of the plan's first pair, or of `pairs`, `runs` times, with a ledger in a temporary file.

    >>> found = ob.audit.end_to_end(plan, runs=20)
    >>> found.releases, found.verdict
    (40, 'holds')
    """
    runs = whole("runs", runs, least=20, most=10**6)
    chosen = list(getattr(plan, "neighbours", tuple)())[:1] if pairs is None else list(pairs)
    total = 2 * runs * len(chosen)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        ledger = Ledger.create(
            Path(place) / "audit.ledger",
            dataset="made up",
            unit=plan.unit,
            budget=_times(plan.guarantee, total),
        )
        findings = []
        for pair in chosen:
            worlds = [
                released([run(plan, data, ledger).to_arrow() for _ in range(runs)])
                for data in (_opened(pair.one), _opened(pair.other))
            ]
            findings += judge_worlds(*alike(*worlds), plan.guarantee, pair.why, alarm / len(chosen))
        spent = ledger.spent
    owed = compose(*[plan.guarantee] * total)
    report = AuditReport(plan.kind, plan.guarantee, runs, tuple(findings))
    return EndToEnd(report, total, _plain(spent), _plain(owed))


def _opened(data: object) -> object:
    """Tables are opened once for all releases, as a session does."""
    import pyarrow as pa

    return open_data(data) if isinstance(data, pa.Table) else data


def _times(cost: Guarantee, count: int) -> Guarantee:
    if isinstance(cost, Conditional):
        return Conditional(_times(cost.unconditional, count), list(cost.assumptions))
    if isinstance(cost, Pure):
        return Pure(cost.eps * count)
    if isinstance(cost, ZCDP):
        return ZCDP(cost.rho * count)
    assert isinstance(cost, Approx)
    if cost.delta * count >= 1:
        raise ParameterError(
            "so many releases have no delta left",
            given=f"{count} releases at {cost}",
            needed="fewer runs, or a plan with a smaller delta",
            fix=setting(runs=20),
        )
    return Approx(cost.eps * count, cost.delta * count)


def _plain(guarantee: Guarantee) -> Guarantee:
    return guarantee.unconditional if isinstance(guarantee, Conditional) else guarantee


# Walking through a sampler's random bits: the law of what it draws, from the code that draws it and nothing else.
#
# A sampler reads words of 64 bits until it is sure. Its answer is the same for whole ranges of a word, so the ranges are
# found by bisection, and a word that decides nothing yet is followed by the next. The lengths of the ranges are the
# probabilities. A word that starts everything over (a rejected draw) is left out, and the rest is scaled up. Ranges that are
# rarer than `least` are not followed: their probability is what the walk leaves unknown.
#
# Two ends of a range and its middle that agree are taken for a range that agrees: samplers compare words with thresholds. So a
# walk finds a wrong threshold, a wrong rejection or a wrong sign; it does not find a single word singled out.

ALL = 1 << 64
_CELLS = 64  # ranges to start with
_REJECTED = 0xFFFFFFFF  # a half-word that stands for (minus, 0), which the Laplace sampler throws away
_ENDS = [edge for power in (2, 9, 21) for edge in (ALL >> power, ALL - (ALL >> power))]
_TAILS = [  # words to go on with: one near either end, or in between, then any
    [end, *(int(word) for word in np.random.default_rng(seed).integers(0, ALL, 12, np.uint64))]
    for seed, end in enumerate(_ENDS)
]


@dataclass
class Walked:
    """The chance of each answer, and what the walk did not follow. Every chance is exact but for `unknown`.

    >>> walked = ob.audit.walk(lambda bits: ob.noise.uniform_integer(4, bits))
    >>> walked.chances[3], walked.unknown
    (Fraction(1, 4), Fraction(0, 1))
    """

    chances: dict[Hashable, Fraction] = field(default_factory=dict)
    unknown: Fraction = Fraction(0)


def walk(draw: Callable[[Bits], Hashable], least: Fraction = Fraction(1, 1 << 56)) -> Walked:
    """The law of `draw(bits)`. It must end with probability 1, and look at its bits in order.

    >>> ob.audit.walk(lambda bits: ob.noise.uniform_integer(3, bits)).chances
    {0: Fraction(1, 3), 1: Fraction(1, 3), 2: Fraction(1, 3)}
    """
    found = Walked()
    again = _follow(draw, [], Fraction(1), least, found)
    found.chances = {answer: chance / (1 - again) for answer, chance in found.chances.items()}
    return found


def _follow(
    draw: Callable[[Bits], object], before: list[int], weight: Fraction, least: Fraction, found: Walked
) -> Fraction:
    """Adds what follows these words to what was found; gives the probability that everything starts over."""
    if weight < least:
        found.unknown += weight
        return Fraction(0)
    pieces = [
        piece
        for piece in _pieces(draw, before)
        if piece[2][0] or not _alike(draw, [*before, piece[0]], before)
    ]
    kept = sum(last - first + 1 for first, last, _ in pieces)
    again = Fraction(0)
    for first, last, seen in pieces:
        share = weight * Fraction(last - first + 1, kept)
        if seen[0]:
            found.chances[seen[1]] = found.chances.get(seen[1], Fraction(0)) + share
        elif before and _alike(draw, [*before, first], []):
            again += share
        else:
            again += _follow(draw, [*before, first], share, least, found)
    return again


def _alike(draw: Callable[[Bits], object], one: list[int], other: list[int]) -> bool:
    """Whether a sampler goes on alike after these words and after those, whatever follows: near either end, and in between."""
    ends = [edge for power in (1, 2, 3, 5, 8, 13, 21, 34) for edge in (ALL >> power, ALL - (ALL >> power))]
    return all(
        _answer(draw, [*one, first, *tail]) == _answer(draw, [*other, first, *tail])
        for first in ends
        for tail in _TAILS[:2]
    )


def _pieces(draw: Callable[[Bits], object], before: list[int]) -> list[tuple[int, int, Seen]]:
    """Ranges of the next word that mean the same."""
    known: dict[int, Seen] = {}

    def seen(word: int) -> Seen:
        if word not in known:
            known[word] = _signature(draw, [*before, word])
        return known[word]

    pieces: list[tuple[int, int, Seen]] = []
    width = ALL // _CELLS
    waiting = [(cell * width, (cell + 1) * width - 1) for cell in reversed(range(_CELLS))]
    while waiting:
        first, last = waiting.pop()
        middle = (first + last) // 2
        if seen(first) == seen(middle) == seen(last):
            if pieces and pieces[-1][2] == seen(first):
                first = pieces.pop()[0]
            pieces.append((first, last, seen(last)))
        elif first == last:
            pieces.append((first, last, seen(first)))
        else:
            waiting += [(middle + 1, last), (first, middle)]
    return pieces


def _signature(draw: Callable[[Bits], object], words: Sequence[int]) -> Seen:
    """(True, the answer) if these words decide it, otherwise (False, the answers with some words to follow)."""
    try:
        return True, draw(_Scripted(words))
    except _OutOfBits:
        return False, tuple(_answer(draw, [*words, *tail]) for tail in _TAILS)


def _answer(draw: Callable[[Bits], object], words: Sequence[int]) -> object:
    try:
        return draw(_Scripted(words))
    except _OutOfBits:
        return None


Seen = tuple[bool, object]  # whether the words decide the answer, and what it is


class _OutOfBits(Exception):
    """The sampler wants more words than were written down for it."""


class _Scripted(Bits):
    """Hands out the words of a script, one by one. Never for a release."""

    safe = False
    description = "UNSAFE scripted bits: protects nobody"

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        super().__init__()

    def words(self, count: int) -> Words:
        return np.asarray([self._take() for _ in range(count)], np.uint64)

    def halves(self, count: int) -> HalfWords:
        """One half-word of the script, sign bit on top, then half-words that are rejected: one draw for each word."""
        out = np.full(count, _REJECTED, np.uint32)
        top = self._take() >> 32
        out[0] = ((top & 0x7FFFFFFF) << 1) | (top >> 31)
        return out

    def _take(self) -> int:
        if not self._script:
            raise _OutOfBits
        return self._script.pop(0)
