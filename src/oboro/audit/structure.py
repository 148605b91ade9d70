"""What a release must not show by its form: attacks that need no statistics.

    grid          every measurement is a whole number, and both worlds lie on the same lattice
    silence       no error, warning, log line or print that depends on values, however hostile they are
    order         rows in another order are the same data
    ledger        nothing is drawn before it is reserved, nor from bits that were not handed in
    certificate   the signed pages of two worlds differ only where they must

The last two watch whole releases. Each gives a `Trait`. Timing is measured by `timing`, and never promised.
"""

from __future__ import annotations

import io
import logging
import math
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oboro.exact import about, whole
from oboro.language import aligned
from oboro.ledger import Ledger
from oboro.noise import bits as source_of_bits
from oboro.noise.bits import Bits, UnsafeBitsWarning, UnsafeDeterministicBits, system_bits
from oboro.release import Pair, Plan
from oboro.release import run as run_plan

if TYPE_CHECKING:
    from oboro.arrays import Values

# Whole releases, watched: what stood in the ledger when noise was drawn, and what certificates tell.

MAY_DIFFER = ("content.sha256", "content.rows", "ledger.id", "ledger.hash", "time", "public_key")


@dataclass(frozen=True, slots=True)
class Trait:
    """One attack: what it looked at, whether the promise held, and what it saw."""

    attack: str
    holds: bool
    seen: str


class WatchedBits(Bits):
    """Real bits that note what stood in the ledger when the first of them were drawn."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.entries: tuple[str, ...] | None = None
        super().__init__()

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        if self.entries is None:
            self.entries = tuple(entry.kind for entry in self.ledger.history())
        return super().words(count)


def spending(plan: Plan, pair: Pair) -> Trait:
    """A whole release, with watched bits handed in and watched bits behind the back."""
    with _ledger(plan) as ledger:
        given, hidden = WatchedBits(ledger), WatchedBits(ledger)
        with _system(hidden):
            run_plan(plan, pair.one, ledger, bits=given)
    if hidden.entries is not None:
        return Trait("ledger", False, "noise came from bits that were not handed in")
    if given.entries != ("create", "reserve"):
        return Trait("ledger", False, f"when noise was drawn the ledger held {given.entries}")
    return Trait("ledger", True, "reserved, then drawn")


def certificates(plan: Plan, pair: Pair) -> Trait:
    """The certificates of both worlds, part by part."""
    pages = []
    for data in (pair.one, pair.other):
        with _ledger(plan) as ledger:
            pages.append(dict(_parts(run_plan(plan, data, ledger, "attack").certificate.record)))
    parts = pages[0].keys() | pages[1].keys()
    told = sorted(
        part for part in parts if pages[0].get(part) != pages[1].get(part) and part not in MAY_DIFFER
    )
    if told:
        return Trait("certificate", False, f"{told[0]} differs between neighbours")
    return Trait("certificate", True, f"{len(parts)} parts, the same but for {', '.join(MAY_DIFFER)}")


@contextmanager
def _ledger(plan: Plan) -> Iterator[Ledger]:
    """A ledger that the plan just fits into."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attack.ledger"
        with Ledger.create(path, dataset="made up", unit=plan.unit, budget=plan.guarantee) as ledger:
            yield ledger


@contextmanager
def _system(bits: Bits) -> Iterator[None]:
    """Whoever asks for the system's bits gets these."""
    before = source_of_bits._system
    source_of_bits._system = bits
    try:
        yield
    finally:
        source_of_bits._system = before


def _parts(record: object, before: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(record, dict):
        for name, value in record.items():
            yield from _parts(value, f"{before}.{name}" if before else name)
    else:
        yield before, record


# A stopwatch on two worlds.


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a stopwatch tells two worlds apart: 1/2 is never, 1 is always."""

    advantage: float
    error: float  # three standard deviations of the advantage
    rounds: int

    def __str__(self) -> str:
        return f"told apart {about(self.advantage, 3)} ± {about(self.error, 2)} of the time, {self.rounds:,} rounds"


def timing(plan: Plan, pair: Pair, *, rounds: int = 1000, bits: Bits | None = None) -> Timing:
    """Times `measure` in both worlds, in turns. Reported; oboro promises nothing about time."""
    source = bits or system_bits()
    prepared = [plan.prepare(data) for data in (pair.one, pair.other)]
    took = np.empty((2, rounds))
    for turn in range(rounds):
        for world in (turn % 2, 1 - turn % 2):
            start = time.perf_counter_ns()
            plan.measure(prepared[world], source)
            took[world, turn] = time.perf_counter_ns() - start
    first = np.sort(took[0])
    quicker, not_slower = (
        np.searchsorted(first, took[1], side).mean() / rounds for side in ("left", "right")
    )
    below = (
        float(quicker + not_slower) / 2
    )  # P(the first is quicker); a clock that ticks slowly gives ties, half each
    return Timing(max(below, 1 - below), 3 * math.sqrt((2 * rounds + 1) / (12 * rounds**2)), rounds)


__all__ = [
    "HOSTILE",
    "Structure",
    "Timing",
    "Trait",
    "attack",
    "certificates",
    "grid",
    "lattice",
    "order",
    "silence",
    "spending",
    "timing",
    "with_value",
]

HOSTILE = ("", "NaN", "x", "-1", "1e999", "-inf", "0x10", "9" * 40, "2026-99-99", "'; --", "\0", None)
_ENOUGH = 30  # different values before a lattice is believed


@dataclass(frozen=True, slots=True)
class Structure:
    """All structural attacks on one plan."""

    plan: str
    traits: tuple[Trait, ...]

    @property
    def verdict(self) -> str:
        return "holds" if all(trait.holds for trait in self.traits) else "broken"

    @property
    def broken(self) -> tuple[str, ...]:
        """The attacks that succeeded."""
        return tuple(trait.attack for trait in self.traits if not trait.holds)

    def __str__(self) -> str:
        rows = [[trait.attack, "ok" if trait.holds else "BROKEN", trait.seen] for trait in self.traits]
        return "\n".join([f"{self.verdict}: {self.plan}", *aligned(rows, "<")])


def attack(plan: Plan, pair: Pair | None = None, *, trials: int = 200, bits: Bits | None = None) -> Structure:
    """Every structural attack on a plan, on its own first pair of neighbours or on `pair`. The data are made up."""
    trials = whole("trials", trials, least=1, most=10**6)
    pair = pair or next(iter(plan.neighbours()))
    source = bits or system_bits()
    traits = (grid(plan, pair, trials, source), silence(plan, pair, source), order(plan, pair))
    return Structure(plan.kind, (*traits, spending(plan, pair), certificates(plan, pair)))


# -- floating point --------------------------------------------------------------------------------------------


def grid(plan: Plan, pair: Pair, trials: int, bits: Bits) -> Trait:
    """Whole numbers only, and the same lattice in both worlds: else a value could come from one of them alone."""
    worlds = []
    for data in (pair.one, pair.other):
        single = list(_arrays(plan.measure(plan.prepare(data), bits)))
        if floats := [part for part in single if part.dtype.kind not in "iub"]:
            return Trait(
                "grid",
                False,
                f"{floats[0].dtype} numbers came out: floating point shows where they came from",
            )
        worlds.append(_many(plan, data, trials, bits))
    for place in range(min(world.shape[1] for world in worlds)):
        one, other = (lattice(world[:, place]) for world in worlds)
        if one is not None and other is not None and one != other:
            return Trait(
                "grid",
                False,
                f"number {place} lies on {_shown(one)} in one world, {_shown(other)} in the other",
            )
    return Trait("grid", True, "whole numbers, on the same lattice in both worlds")


def lattice(values: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """(step, offset) of the whole numbers that were seen; None where they are too few to say."""
    seen = np.unique(values)
    if seen.size < _ENOUGH:
        return None
    step = math.gcd(*(int(gap) for gap in np.diff(seen)))
    return step, int(seen[0]) % step


def _many(plan: Plan, data: object, trials: int, bits: Bits) -> npt.NDArray[np.int64]:
    """One row of whole numbers for each trial."""
    measured = plan.measure(plan.prepare(data), bits, trials)
    parts = [np.asarray(part).reshape(trials, -1) for part in _arrays(measured)]
    return np.concatenate([np.zeros((trials, 0)), *parts], axis=1).astype(np.int64)


def _arrays(measured: object) -> Iterator[Values]:
    """Everything in a measurement that is a number."""
    if isinstance(measured, np.ndarray | np.generic | int | float):
        yield np.asarray(measured)
    elif isinstance(measured, dict):
        for part in measured.values():
            yield from _arrays(part)
    elif callable(
        numbers := getattr(measured, "numbers", None)
    ):  # what was drawn, without what follows from it
        yield numbers()
    elif is_dataclass(measured):
        for each in fields(measured):
            yield from _arrays(getattr(measured, each.name))
    elif isinstance(measured, Sequence) and not isinstance(measured, str | bytes):
        for part in measured:
            yield from _arrays(part)


def _shown(found: tuple[int, int]) -> str:
    return f"multiples of {found[0]} and {found[1]}"


# -- errors, warnings, logs, prints, row order -------------------------------------------------------------------


def silence(plan: Plan, pair: Pair, bits: Bits) -> Trait:
    """Both worlds, and hostile values in every place, go the same way and leave no trace."""
    seen: dict[str, str] = {}
    worlds = {"one world": pair.one, "the other": pair.other}
    worlds |= {
        f"a value {value!r}": data
        for value in HOSTILE
        if (data := with_value(plan, pair.one, value)) is not None
    }
    for name, data in worlds.items():
        seen[name] = _trace(plan, data, bits)
    ways = set(seen.values())
    if ways == {next(iter(ways))} and next(iter(ways)).startswith("quiet"):
        return Trait("silence", True, f"{len(worlds)} kinds of data, no trace of any")
    usual = seen["one world"]
    loud = next((name for name, trace in seen.items() if not trace.startswith("quiet") or trace != usual))
    return Trait("silence", False, f"{loud}: {seen[loud]}")


def _trace(plan: Plan, data: object, bits: Bits) -> str:
    """Everything that can be seen of a run but its numbers."""
    out, log = io.StringIO(), io.StringIO()
    with (
        _listening(log),
        redirect_stdout(out),
        redirect_stderr(out),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            schema = plan.publish(plan.measure(plan.prepare(data), bits)).schema
            columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    said = [str(warning.message) for warning in warned] + [text.getvalue() for text in (out, log)]
    return " ".join(text for text in said if text) or f"quiet: {columns}"


@contextmanager
def _listening(log: io.StringIO) -> Iterator[None]:
    handler, root = logging.StreamHandler(log), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def with_value(plan: Plan, data: object, value: str | None) -> object:
    """The same rows as text, with a hostile value in the first of them; None where data are no table of rows."""
    columns = _columns(plan, data)
    if columns is None or not columns or not next(iter(columns.values())):
        return None
    kept = plan.unit.column  # how many persons there are may be public: it stays
    return {
        name: list(values) if name == kept else [value, *(None if v is None else str(v) for v in values[1:])]
        for name, values in columns.items()
    }


def order(plan: Plan, pair: Pair) -> Trait:
    """Rows in another order, and the same bits, give the same measurements."""
    compared = 0
    for data in (pair.one, pair.other):
        columns = _columns(plan, data)
        if columns is None:
            return Trait("order", True, "the data have an order of their own")
        turned = {name: list(reversed(values)) for name, values in columns.items()}
        if not _same(*(plan.measure(plan.prepare(rows), _repeatable()) for rows in (columns, turned))):
            return Trait("order", False, "the same rows in another order are measured as something else")
        compared += len(next(iter(columns.values()), []))
    return Trait("order", True, f"{compared} rows backwards, the same numbers")


def _repeatable() -> Bits:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeBitsWarning)
        return UnsafeDeterministicBits("the same in both worlds")


def _columns(plan: Plan, data: object) -> dict[str, list[object]] | None:
    """Data as columns of Python values, where rows are what is protected."""
    if plan.unit.kind not in ("row", "person", "cells"):
        return None
    if hasattr(data, "column_names") and hasattr(data, "to_pydict"):
        return dict(data.to_pydict())
    if isinstance(data, dict) and data and all(isinstance(name, str) for name in data):
        columns = {name: np.asarray(values).tolist() for name, values in data.items()}
        return columns if all(isinstance(values, list) for values in columns.values()) else None
    return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if is_dataclass(one):
        return all(_same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(one == other)
