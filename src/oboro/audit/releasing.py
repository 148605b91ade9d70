"""Whole releases, watched: what stood in the ledger when noise was drawn, and what certificates tell."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.ledger import Ledger
from oboro.noise import bits as source_of_bits
from oboro.noise.bits import Bits
from oboro.release import Pair, Plan
from oboro.release import run as run_plan

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


def _parts(record: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(record, dict):
        for name, value in record.items():
            yield from _parts(value, f"{before}.{name}" if before else name)
    else:
        yield before, record
