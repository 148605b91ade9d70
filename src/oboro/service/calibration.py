"""Slots, found on made-up data of the declared size: how long each kind and size of question takes here.

Nothing of the data is looked at, and nothing is spent: made-up rows are paid for from a ledger that is thrown away.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from oboro.domain import Integer, Real
from oboro.engine import count_units, open_data
from oboro.errors import OboroError
from oboro.ledger import Ledger
from oboro.ledger.file import is_address
from oboro.privacy import ZCDP, Approx, Guarantee, Pure, Unit
from oboro.records import Record
from oboro.release.run import Quote, keep, reserve
from oboro.service import answers
from oboro.service.edition import coded, write
from oboro.service.made_up import made_up
from oboro.service.questions import SIZES, Facts, Shape, plan_of
from oboro.service.settings import Dataset, Settings
from oboro.service.slots import Slot

_TIMES = 5
_FEW = 20  # rows of a rehearsal
_LONGER = 8  # times as long as the longest that was seen: others work on the same machine
_FLOOR = 400  # milliseconds: now and then a disk takes a tenth of a second for one entry
_GRAIN = 10
_REQUESTS = 10  # milliseconds that the requests themselves take, to ask and to fetch
_ROOM = 2  # times as long as the work: with half of a core idle, what wants it seldom waits
_AWAY = 10  # times as long as a look at the head of a ledger on a server: what the ways to it and back take, for an answer


def calibrate(settings: Settings, dataset: Dataset) -> tuple[str, dict[Shape, Slot]]:
    """The slots of one dataset, by its name."""
    with Ledger.open(dataset.ledger) as own:
        away = _away(own) if is_address(dataset.ledger) else 0.0
        return own.dataset, slots_of(settings, dataset, own.unit, own.budget, away)


def _away(ledger: Ledger) -> float:
    """Milliseconds that an answer takes on its ways to the server of its ledger."""
    times = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        ledger.head()
        times.append(1000 * (time.perf_counter() - began))
    return _AWAY * median(times)


def slots_of(
    settings: Settings, dataset: Dataset, pays: Unit, budget: Guarantee, away: float = 0.0
) -> dict[Shape, Slot]:
    """The slots of one dataset, whose ledger need not exist yet: it has this unit, and a budget of this kind."""
    crowd = max(1.0, settings.workers / (os.cpu_count() or 1))
    with _pretended(settings, dataset, pays, budget, dataset.rows) as (facts, source, ledger):
        return _slots(facts, source, ledger, away, crowd)


def rehearse(settings: Settings, dataset: Dataset, pays: Unit, budget: Guarantee) -> None:
    """Answers one question of every kind about a few made-up rows: what answers need is loaded before the first one is asked for, whose
    slot has no time for it."""
    done = set()
    with (
        suppress(Exception),  # whatever fails here, a worker works all the same
        _pretended(settings, dataset, pays, budget, _FEW) as (facts, source, ledger),
    ):
        for question in examples(facts):
            if question["question"] not in done:
                with suppress(Exception):  # what is not allowed here is not asked
                    _timed(plan_of(question, facts)[0], source, ledger)
                    done.add(question["question"])


@contextmanager
def _pretended(
    settings: Settings, dataset: Dataset, pays: Unit, budget: Guarantee, many: int
) -> Iterator[tuple[Facts, Any, Ledger]]:
    """So many made-up rows in place of a dataset's, with a ledger that pays for anything."""
    with tempfile.TemporaryDirectory(prefix="oboro-") as folder:
        unit = dataset.unit or pays
        ample = {ZCDP: ZCDP(10**6), Approx: Approx(10**6, "0.5")}.get(type(budget.unconditional), Pure(10**6))
        path = Path(folder, "made-up.arrow")
        rows = made_up(dataset.domain, unit, many, count=dataset.count)
        write(coded(dataset, unit, rows), path)
        source = open_data(path)
        public = unit.adjacency == "replace" and unit.kind in ("row", "person")
        facts = Facts(
            "made up",
            dataset.domain,
            unit,
            count_units(source, unit) if public else None,
            dataset.count,
            "made up",
            settings.limits,
            dataset.table,
        )
        ledger = Ledger.create(Path(folder, "made-up.ledger"), dataset="made up", unit=pays, budget=ample)
        try:
            yield facts, source, ledger
        finally:
            ledger.close()


def _slots(facts: Facts, source: object, ledger: Ledger, away: float, crowd: float) -> dict[Shape, Slot]:
    """`crowd`: how many workers share a core. A turn is twice as long as all that is done for an answer, in front too: half as many
    are admitted in a second as a machine carries that does nothing else."""
    seen: dict[Shape, list[float]] = {}
    for question in examples(facts):
        try:
            plan, shape = plan_of(question, facts)
            times = [_timed(plan, source, ledger) for _ in range(_TIMES)]
        except OboroError:
            continue  # a question that this domain or this budget does not allow
        seen.setdefault(shape, []).extend(times[1:])  # the first may load what the others have
    found: dict[Shape, Slot] = {}
    for shape in sorted(seen, key=lambda shape: (shape.kind, shape.size)):
        times = [one + away for one in seen[shape]]
        slot = Slot(_up(crowd * _ROOM * (median(times) + _REQUESTS)), _up(_FLOOR + _LONGER * max(times)))
        smaller = [found[other] for other in found if other.kind == shape.kind and other.size < shape.size]
        found[shape] = Slot(
            max([slot.work, *(one.work for one in smaller)]), max([slot.slot, *(one.slot for one in smaller)])
        )
    return found


def _timed(plan: Any, source: Any, ledger: Ledger) -> float:
    """Milliseconds from the question to the answer."""
    from oboro.noise.bits import system_bits

    began = time.perf_counter()
    quote = Quote(
        plan, plan.to_dict(), plan.describe(), plan.forecast(), ledger.price(plan.unit, plan.guarantee)
    )
    reservation = reserve(quote, ledger, None)
    data, bits = plan.open(source), system_bits()
    table = plan.publish(plan.measure(plan.prepare(data), bits))
    answers.packed(keep(quote, ledger, reservation, table, bits, getattr(data, "engine", None)))
    return 1000 * (time.perf_counter() - began)


def _up(milliseconds: float) -> int:
    return _GRAIN * (int(milliseconds) // _GRAIN + 1)


def examples(facts: Facts) -> Iterator[Record]:
    """Questions of every kind, for each size the largest that the domain allows."""
    domain = facts.domain
    yield from (
        {"question": "table", "columns": list(names), "eps": "1"}
        for names in _sets(facts, facts.limits.table_cells)
    )
    if facts.tabled:
        return
    numbers = [column.name for column in domain if isinstance(column, Integer | Real)]
    groups = [(), *_sets(facts, facts.limits.groups)]
    for by in groups:
        said: Record = {"by": list(by), "eps": "1"}
        yield {"question": "count", **said}
        if facts.unit.kind == "person":
            yield {"question": "persons", **said}
        for name in numbers[:1]:
            for kind in ("sum", "mean", "variance", "median"):
                yield {"question": kind, "columns": [name], **said}
            yield {"question": "quantile", "columns": [name], "quantiles": ["0.1", "0.5", "0.9"], **said}
        if len(numbers) > 1:
            yield {"question": "covariance", "columns": numbers[:4], **said}
    for names in _sets(facts, facts.limits.cells):
        yield {"question": "histogram", "columns": list(names), "eps": "1"}
    for column in domain:
        if column.size <= facts.limits.cells:
            yield {"question": "top", "columns": [column.name], "k": 3, "eps": "1"}
            yield {"question": "mode", "columns": [column.name], "eps": "1"}
    yield from (
        {"question": "synthetic", "columns": list(names), "method": method, **price}
        for names in _models(facts)
        for method in ("marginals", "quality", "moments")
        for price in (
            {"eps": "1", "delta": "1e-6"},
            {"eps": "1"},
            {"rho": "0.1"},
        )  # some of them are not the ledger's currency
    )
    figures = ["COUNT(*)", *(f'{word}("{name}")' for name in numbers[:2] for word in ("AVG", "MEDIAN"))]
    for by in groups:
        keys = [f'"{name}"' for name in by]
        grouped = f" GROUP BY {', '.join(keys)}" if by else ""
        text = f'SELECT {", ".join([*keys, *figures])} FROM "{facts.table}"{grouped}'
        yield {"question": "sql", "sql": text, "eps": "1"}
    for many in (2, 8, facts.limits.questions):
        asked = [{"question": "mean", "columns": [name]} for name in (numbers or [])] or [
            {"question": "count"}
        ]
        yield {"question": "batch", "questions": (asked * many)[:many], "eps": "1"}


def _models(facts: Facts) -> Iterator[tuple[str, ...]]:
    """For each size of slots the columns that a model of it may be made of: as many as there may be, and the widest."""
    rising = sorted(facts.domain, key=lambda column: column.size)
    found = set()
    for size in SIZES:
        for order in (rising, rising[::-1]):
            chosen, total = [], 0
            for column in order:
                if total + column.size <= min(size, facts.limits.cells):
                    chosen.append(column.name)
                    total += column.size
            if chosen:
                found.add(tuple(name for name in facts.domain.names if name in chosen))
    yield from sorted(found)


def _sets(facts: Facts, most: int) -> list[tuple[str, ...]]:
    """For each size of slots the columns whose combinations come nearest to it from below."""
    plain = [column for column in facts.domain if len(column.sources) == 1 or facts.tabled]
    sets = [tuple(chosen) for many in (1, 2, 3) for chosen in combinations(plain, many)]
    found: list[tuple[str, ...]] = []
    for below, size in zip((0, *SIZES), SIZES, strict=False):
        fitting = [one for one in sets if below < prod(column.size for column in one) <= min(size, most)]
        if fitting:
            largest = max(fitting, key=lambda one: prod(column.size for column in one))
            found.append(tuple(column.name for column in largest))
    return found
