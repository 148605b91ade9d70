"""Plan records with one field changed: refused on loading, or a plan whose noise is right.

`python tests/plans --tries 100000` makes as many as asked; the short tests a few thousand.
"""

from __future__ import annotations

import copy
import math
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from oboro.audit.enumeration import computed
from oboro.errors import InputError
from oboro.exact import rational, show
from oboro.noise.bits import system_bits
from oboro.records import functions_of
from oboro.release import Plan, plan_from
from support import audited

Path = tuple[str | int, ...]
LARGEST = 4096  # numbers of a record beyond which its data are not made up: they would not fit into a test


@dataclass
class Outcome:
    """What a series of mutations came to."""

    tries: int = 0
    refused: int = 0
    same: int = 0
    held: int = 0
    too_large: int = 0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.tries:,} mutations: {self.refused:,} refused, {self.same:,} the same plan, {self.held:,} another plan whose noise is "
            f"right, {self.too_large:,} of these too large to be measured here; {len(self.broken)} broken"
        )


def all_records() -> dict[str, dict[str, Any]]:
    return {name: plan.to_dict() for name, plan in audited().items() if not holds_function(plan)}


def holds_function(plan: Any) -> bool:
    return bool(functions_of(plan))


def places(record: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a record, from the top."""
    yield path
    inner = (
        record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    )
    for key, value in inner:
        yield from places(value, (*path, key))


def at(record: Any, path: Path) -> Any:
    for key in path:
        record = record[key]
    return record


def changed(record: Any, path: Path, value: Any) -> Any:
    """A copy with another value at one place."""
    made = copy.deepcopy(record)
    if not path:
        return value
    at(made, path[:-1])[path[-1]] = value
    return made


def removed(record: Any, path: Path) -> Any:
    made = copy.deepcopy(record)
    del at(made, path[:-1])[path[-1]]
    return made


def variants(value: Any) -> Iterator[Any]:
    """Other values for one place, of the same kind and of others."""
    yield from (None, True, "", "nonsense", -1, 0, [], {})
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (
            value + 1,
            value - 1,
            2 * value,
            value // 2,
            -value,
            10 * value + 3,
            2**31,
            2**63,
            2**200,
            str(value),
            float(value),
            0.5,
        )
    elif isinstance(value, str):
        yield from (value + "x", value.upper(), value[::-1], value + "\n", f" {value}")
        try:
            number = rational("value", value)
        except InputError:
            return
        for other in (
            10 * number,
            number / 10,
            number * 1000003,
            number / 10**6,
            -number,
            1 / number if number else 1,
            number + 1,
        ):
            yield show(rational("value", other))
        yield from ("0", "1e300", "1e-300", "nan", "inf", "1/0", int(number), float(number))
    elif isinstance(value, list):
        yield from (value[1:], value[:-1], value[::-1], value * 2, [value], [*value, None])
    elif isinstance(value, dict):
        yield from ({**value, "nonsense": 1}, [value], {key: value[key] for key in list(value)[:1]})


def every_mutation(records: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(sample, what was done, the record) for every place of every record."""
    donors: dict[str, list[Any]] = {}
    for record in records.values():
        for path in places(record):
            if path and isinstance(path[-1], str) and at(record, path) not in donors.setdefault(path[-1], []):
                donors[path[-1]].append(at(record, path))
    for name, record in records.items():
        for path in places(record):
            if not path:
                continue
            where = ".".join(map(str, path))
            yield name, f"{where} removed", removed(record, path)
            others = donors.get(str(path[-1]), [])
            for value in (*variants(at(record, path)), *others):
                yield name, f"{where} = {value!r}"[:200], changed(record, path, value)


def chosen(tries: int, seed: int = 0) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """So many mutations, each by chance: of one field, now and then of two."""
    rng = random.Random(seed)
    records = all_records()
    names = list(records)
    donors = [(path[-1], at(record, path)) for record in records.values() for path in places(record) if path]
    for _ in range(tries):
        name = rng.choice(names)
        record, done = records[name], []
        for _ in range(1 if rng.random() < 0.8 else 2):
            path = rng.choice([path for path in places(record) if path])
            where, way = ".".join(map(str, path)), rng.random()
            if way < 0.1:
                record = removed(record, path)
                done.append(f"{where} removed")
                continue
            mine = [value for key, value in donors if key == path[-1]]
            value = rng.choice(mine) if mine and way < 0.4 else rng.choice(list(variants(at(record, path))))
            record = changed(record, path, value)
            done.append(f"{where} = {value!r}"[:200])
        yield name, "; ".join(done), record


def judge(name: str, done: str, record: dict[str, Any], original: dict[str, Any], outcome: Outcome) -> None:
    """Refused, or the same plan, or another that keeps its promise on its own worst cases."""
    outcome.tries += 1
    try:
        plan = plan_from(record)
    except InputError:
        outcome.refused += 1
        return
    except Exception as error:
        outcome.broken.append(f"{name}: {done}: {type(error).__name__}: {error}")
        return
    if plan.to_dict() == original:
        outcome.same += 1
        return
    found = wrong_with(plan) if small(plan.to_dict()) else "too large"
    if found == "too large":
        outcome.too_large += 1
        found = static_wrong(plan)
    if found is None:
        outcome.held += 1
    else:
        outcome.broken.append(f"{name}: {done}: {found}")


def static_wrong(plan: Plan) -> str | None:
    """What needs no data: the record reads back, and the promise covers the parts."""
    if plan_from(plan.to_dict(), functions_of(plan)) != plan:
        return "it does not read back"
    return None if plan.guarantee.covers(plan.cost) else f"{plan.guarantee} for a cost of {plan.cost}"


def wrong_with(plan: Plan) -> str | None:
    """What is wrong with a plan, on its own worst cases: an exception, or more loss than it promises."""
    if (found := static_wrong(plan)) is not None:
        return found
    bits = system_bits()
    for number, pair in enumerate(plan.neighbours()):
        if number == 3:
            break
        ends = []
        for data in (pair.one, pair.other):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.simplefilter("ignore", ResourceWarning)  # of what other tests left open
                    table = plan.publish(plan.measure(plan.prepare(data), bits))
                ends.append(("a table", *table.column_names))
            except Exception as error:
                ends.append((type(error).__name__, str(error)))
        if ends[0] == ends[1] and "nothing was reserved" in ends[0][1]:
            return (
                None  # a function that does not fit these columns: refused on made-up rows, whatever the data
            )
        if ends[0] != ends[1] or ends[0][0] != "a table":
            return f"{pair.why}: {ends[0]}, {ends[1]}"
        for finding in computed(plan, pair):
            if not finding.holds:
                return f"{pair.why}: eps {finding.eps_lower} for {finding.promised}"
    return None


def small(record: Any) -> bool:
    """Whether its data can be made up in a test, and measured there whatever else runs."""
    if isinstance(record, dict):
        sizes = [v for k, v in record.items() if k == "shape"]
        if any(
            math.prod(side for side in one if type(side) is int) > LARGEST
            for one in sizes
            if isinstance(one, list)
        ):
            return False
        return not hurried(record.get("seconds")) and all(small(value) for value in record.values())
    if isinstance(record, list):
        return all(small(value) for value in record)
    if isinstance(record, str):
        try:
            number = rational("value", record)
        except InputError:
            return True
        return number == 0 or Fraction(1, 1000) <= abs(number) <= 10**12
    return not isinstance(record, int) or abs(record) <= LARGEST


def hurried(seconds: Any) -> bool:
    """Whether a function has so little time that the load of the machine decides, on made-up rows, if it returns."""
    try:
        return isinstance(seconds, str) and rational("seconds", seconds) < 2
    except InputError:
        return False


def attempt(tries: int, seed: int = 0) -> Outcome:
    outcome, records = Outcome(), all_records()
    for name, done, record in chosen(tries, seed):
        judge(name, done, record, records[name], outcome)
    return outcome
