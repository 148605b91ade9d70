"""The attack on any plan: neighbouring data through the same `prepare` and `measure` as a real release.

What it can show is that a promise is false. That it finds nothing does not prove a promise; the proofs do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Table
from oboro.audit.enumeration import computed
from oboro.audit.events import (
    AuditReport,
    Finding,
    alike,
    flat,
    judge,
    judge_divergence,
    promised,
    promised_divergences,
    promising,
    statistics,
)
from oboro.domain import Column
from oboro.errors import ParameterError, told
from oboro.exact import whole
from oboro.kinds import each_of, numbers_of, shown, takes
from oboro.noise.bits import Bits, system_bits
from oboro.noise.laplace import check_level
from oboro.privacy import Guarantee, Unit
from oboro.records import Record
from oboro.release import Pair, Plan
from oboro.release.plan import attackable

# Random neighbours: small datasets of a plan's domain, and one unit of them changed.
#
# A plan's own worst cases are what its author thought of. These are what nobody thought of: odd mixtures of bounds,
# middles and missing values, persons with more rows than count, crowded cells and empty ones.

Random = np.random.Generator
Row = dict[str, object]

MOST_OTHERS = 6  # rows or persons beside the one that changes, where their number is not public


def random_pairs(plan: Plan, count: int, bits: Bits) -> list[Pair]:
    """So many random pairs for a plan; none for one whose data nobody can make up."""
    if not hasattr(plan, "random_pair") or count < 1:
        return []
    random = np.random.default_rng(int(bits.integer(64)))  # chooses data that are made up: nobody's secret
    columns = _columns(plan)
    found = (
        plan.random_pair(random) or (_rows(plan, columns, random) if columns else None) for _ in range(count)
    )
    return [pair for pair in found if pair is not None]


# -- rows and persons ------------------------------------------------------------------------------------------------


def _rows(plan: Plan, columns: list[Column], random: Random) -> Pair:
    """One unit comes, goes or is replaced among a few others."""
    unit, n = plan.unit, _public_n(plan.to_dict()) if plan.unit.adjacency == "replace" else None
    replaced = unit.adjacency == "replace"
    others = (n - 1) if n is not None else int(random.integers(0, MOST_OTHERS))
    rest = [_unit(unit, columns, random) for _ in range(others)]
    mine = _unit(unit, columns, random)
    changed = _unit(unit, columns, random) if replaced else []
    place = int(random.integers(0, others + 1))
    tables = [_table(unit, columns, [*rest[:place], own, *rest[place:]]) for own in (mine, changed)]
    return Pair(tables[0], tables[1], "a random unit among random others")


def _unit(unit: Unit, columns: list[Column], random: Random) -> list[Row]:
    """All rows of one unit; of a person sometimes more than count."""
    rows = 1 if unit.kind == "row" else int(random.integers(1, unit.contributions + 3))
    return [{column.name: _value(column, random) for column in columns} for _ in range(rows)]


def _value(column: Column, random: Random) -> object:
    chance = random.random()
    if chance < 0.1:
        return None
    code = 0 if chance < 0.35 else column.size - 1 if chance < 0.6 else int(random.integers(0, column.size))
    return column.value(code)


def _table(unit: Unit, columns: list[Column], units: list[list[Row]]) -> Table:
    import pyarrow as pa

    rows = [row for own in units for row in own]
    table = {
        column.name: pa.array([column.value(0), *(row[column.name] for row in rows)]).slice(1)
        for column in columns
    }
    if unit.column is not None:
        table[unit.column] = pa.array([who for who, own in enumerate(units) for _ in own], pa.int64())
    return pa.table(table or {"row": pa.array(range(len(rows)), pa.int64())})


def _columns(plan: Plan) -> list[Column]:
    """The columns of the rows that a plan reads, each with a name in the data."""
    return [column for column in plan.reads if column.sources == (column.name,)]


def _public_n(record: Record) -> int | None:
    """The number of units where it is public: of a batch, of its first question."""
    return _public_n(record["plans"][0]) if "plans" in record else record.get("n")


__all__ = ["ALARM", "AuditReport", "Finding", "flat", "judge_worlds", "promised", "run"]

ALARM = 1e-7  # of one audit: all its pairs, deltas and orders together
SEARCHED = 4  # random pairs that are screened
_REPEATED = 300  # measurements of how many numbers come out
_SCREENED = 50  # times fewer trials for the screening


@takes(plan=attackable, pairs=each_of(Pair))
def run(
    plan: Plan,
    trials: int = 200_000,
    *,
    pairs: Iterable[Pair] | None = None,
    search: int | None = None,
    alarm: float = ALARM,
    bits: Bits | None = None,
) -> AuditReport:
    """Attacks a plan on its own worst-case neighbours and on the best of some random ones, or on `pairs` alone.

    Spends nothing: the data are made up. `search` is how many random pairs are looked at, and `alarm` how likely a
    sound plan may be called broken. Where the law can be computed, the truth is reported beside what was measured.

    >>> report = ob.audit.run(plan, trials=2000)
    >>> report.verdict, report.how
    ('holds', 'computed')
    """
    trials = whole("trials", trials, least=200, most=10**8)
    source = bits or system_bits()
    chosen = list(getattr(plan, "neighbours", tuple)() if pairs is None else pairs)
    if not chosen:
        raise ParameterError(
            "the plan names no neighbours",
            given=plan.kind,
            needed="at least one pair to attack",
            fix=told(pairs="[ob.release.Pair(one, other, why)]"),
        )
    if pairs is None:
        chosen += _found(plan, SEARCHED if search is None else search, max(200, trials // _SCREENED), source)
    findings: list[Finding] = []
    for pair in chosen:
        prepared = [plan.prepare(data) for data in (pair.one, pair.other)]
        findings += computed(plan, pair, prepared)
        one, other = (flat(plan.measure(world, source, trials), trials) for world in prepared)
        share = alarm / len(chosen) / 2
        if one.shape != other.shape:  # how much comes out may tell the worlds apart
            fewer, more = (_widths(plan, world, source) for world in prepared)
            findings += judge_worlds(fewer, more, plan.guarantee, f"{pair.why}: how many numbers", share)
        one, other = alike(one, other)
        findings += judge_worlds(one, other, plan.guarantee, pair.why, share)
    return AuditReport(plan.kind, plan.guarantee, trials, tuple(findings))


def judge_worlds(one: Floats, other: Floats, guarantee: Guarantee, why: str, alarm: float) -> list[Finding]:
    """What trials of two worlds certify against a promise; all of it wrong with probability `alarm` at most."""
    levels, divergences = promised(guarantee), promised_divergences(guarantee)
    share = alarm / (len(levels) + len(divergences))
    first, second = statistics(one, other)
    findings = []
    for delta, eps in levels:
        found = judge(first, second, float(delta), share)
        findings.append(Finding(why, delta, eps, found.eps_lower, found.event))
    for promise in divergences:
        least = judge_divergence(first, second, float(promise.order), share)
        findings.append(Finding(why, Fraction(0), promise.eps, least, None, "measured", promise.order))
    return findings


def _widths(plan: Plan, world: object, bits: Bits) -> Floats:
    """How many numbers come out, measured one by one."""
    return np.array([[flat(plan.measure(world, bits, 1), 1).shape[1]] for _ in range(_REPEATED)], float)


def _worlds(plan: Plan, prepared: Iterable[object], trials: int, bits: Bits) -> tuple[Floats, Floats]:
    one, other = (flat(plan.measure(world, bits, trials), trials) for world in prepared)
    return alike(one, other)


def _found(plan: Plan, search: int, trials: int, bits: Bits) -> list[Pair]:
    """The best of some random pairs, by a few trials each. It is judged on fresh ones."""
    delta = min(float(delta) for delta, _ in promised(plan.guarantee))
    scored = []
    for place, pair in enumerate(random_pairs(plan, search, bits)):
        prepared = [plan.prepare(data) for data in (pair.one, pair.other)]
        one, other = statistics(*_worlds(plan, prepared, trials, bits))
        scored.append((promising(one, other, delta), -place, pair))
    return [max(scored, key=lambda entry: entry[:2])[2]] if scored else []


# Who was in the data? The attack on synthetic records alone, as the PWS Cup plays it.
#
# `run` looks at what a plan measures. Here an attacker sees synthetic records, from any generator, and a target: was the target among the rows that they
# were made from? What gives it away is how many records there are and how close they come: how many are the target, how far the nearest is, how many are near. Those
# numbers, from many draws with the target and without, go through the same judgement as every other attack, so what it
# certifies is a lower bound of the eps of the generator, wrong with probability `alarm` at most.


@takes(one=numbers_of, other=numbers_of, target=numbers_of, guarantee=Guarantee)
def membership(
    draw: Callable[[Floats], npt.ArrayLike],
    one: npt.ArrayLike,
    other: npt.ArrayLike,
    target: Sequence[float],
    guarantee: Guarantee,
    *,
    trials: int = 2000,
    alarm: float = ALARM,
) -> AuditReport:
    """Draws records from data with the target (`one`) and without (`other`), `trials` times each, and judges how close they come to it.

    `draw` makes records, rows of numbers, from such rows. A model that copies a row is found out:

    >>> rows = [[1, 1], [2, 5], [9, 9]]
    >>> found = ob.audit.membership(lambda data: data[-1:], rows, rows[:2], [9, 9], ob.Pure(1))
    >>> found.verdict
    'broken'
    """
    count = whole("trials", trials, least=100, most=10**7)
    check_level(alarm, "alarm")
    first, second, at = np.asarray(one), np.asarray(other), np.asarray(target).ravel()
    shapes = {data.shape[1:] if data.ndim > 1 else (1,) for data in (first, second)}
    same = np.array_equal(first, second)
    if shapes != {at.shape} or not len(first) + len(second) or same or not callable(draw):
        raise ParameterError(
            "the rows, the target and the draw do not fit",
            given=f"shapes {first.shape}, {second.shape} and {at.shape}, and {shown(draw)}",
            needed="rows of as many numbers as the target has, once with it and once without, and a function of rows",
            fix="ob.audit.membership(draw, rows, rows[:-1], rows[-1], guarantee)",
        )
    width = np.ptp(np.concatenate([first, second]).reshape(-1, at.size), axis=0)
    width = np.where(width > 0, width, 1.0)
    with_it, without = (
        np.array([_closeness(draw(data), at, width) for _ in range(count)]) for data in (first, second)
    )
    why = "the target among the rows, or not"
    return AuditReport(
        "synthetic records", guarantee, count, tuple(judge_worlds(with_it, without, guarantee, why, alarm))
    )


def _closeness(records: npt.ArrayLike, target: Floats, width: Floats) -> list[float]:
    """How many records there are, how many are the target, how far the nearest one is, how many lie within a tenth of the range, and where
    their mean lies, seen from it."""
    try:
        found = np.asarray(records, float).reshape(-1, target.size)
    except (TypeError, ValueError):
        raise ParameterError(
            "draw does not make records",
            given=shown(records),
            needed=f"rows of {target.size} numbers",
            fix="lambda rows: rows[:1]",
        ) from None
    if not len(found):
        return [0.0] * 5
    away = (found - target) / width
    largest = np.abs(away).max(axis=1)
    return [
        float(len(found)),
        float((largest == 0).sum()),
        float(largest.min()),
        float((largest <= 0.1).sum()),
        float(np.abs(away.mean(axis=0)).sum()),
    ]
