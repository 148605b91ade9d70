"""What a process of the service holds open: for each dataset its public facts, its ledger, and in workers its edition."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from oboro.engine import Source, count_units, open_data
from oboro.engine.coded import edition
from oboro.errors import DataError
from oboro.ledger import Ledger
from oboro.ledger.chain import sha256
from oboro.privacy import Unit
from oboro.privacy.unit import check_unit
from oboro.service.questions import Facts
from oboro.service.settings import Dataset, Settings
from oboro.tables.cells import LARGEST_TOTAL
from oboro.tables.input import fields_of


@dataclass(frozen=True)
class Opened:
    """A dataset as it was opened: the facts are public, the edition is not."""

    settings: Dataset
    ledger: Ledger
    facts: Facts
    path: Path  # of the edition, which only the service's own user can read

    @cached_property
    def source(self) -> Source:
        return open_data(self.path)


def make(settings: Settings) -> list[Opened]:
    """Opens every dataset for the first time: rows are bounded, coded and written down, once."""
    shutil.rmtree(settings.state, ignore_errors=True)
    settings.state.mkdir(mode=0o700)
    for dataset in settings.datasets:
        with Ledger.open(dataset.ledger) as ledger:
            unit = dataset.unit or ledger.unit
            check_unit(unit, ledger.unit, ledger.budget)
        write(coded(dataset, unit), path_of(settings, dataset))
    return opened(settings)


def coded(dataset: Dataset, unit: Unit, data: object = None) -> object:
    """The edition of a dataset; `data` in its place are rows that were made up."""
    fields = [field for column in dataset.domain for field in fields_of(column)]
    return edition(
        open_data(dataset.data if data is None else data), fields, unit, dataset.count, LARGEST_TOTAL
    )


def write(table: object, path: Path) -> None:
    from pyarrow import feather

    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        feather.write_feather(table, file, compression="uncompressed")


def opened(settings: Settings) -> list[Opened]:
    """The datasets whose editions are written, by any process. One that is being declared at this moment has none yet."""
    found = [open_one(settings, one) for one in settings.datasets if path_of(settings, one).exists()]
    names = [one.facts.dataset for one in found]
    if len(set(names)) < len(names):
        raise DataError(
            "two datasets of the service have one name",
            given=", ".join(names),
            needed="a ledger of its own for each, with a name of its own",
        )
    return found


def open_one(settings: Settings, dataset: Dataset) -> Opened:
    """A dataset whose edition is written."""
    ledger, path = Ledger.open(dataset.ledger), path_of(settings, dataset)
    unit = dataset.unit or ledger.unit
    public = unit.adjacency == "replace" and unit.kind in ("row", "person")
    facts = Facts(
        ledger.dataset,
        dataset.domain,
        unit,
        count_units(open_data(path), unit) if public else None,
        dataset.count,
        dataset.edition,
        settings.limits,
        dataset.table,
    )
    return Opened(dataset, ledger, facts, path)


def refuse_address(name: str) -> None:
    """Refuses a name that cannot stand in an address: browsers take dots for the folder itself, or the one above."""
    if name in ("", ".", "..") or "/" in name:
        raise DataError(
            "the name of a dataset cannot stand in an address", given=name, needed="a name without a slash"
        )


def close(settings: Settings) -> None:
    """What was written down at the start goes with the service."""
    shutil.rmtree(settings.state, ignore_errors=True)


def path_of(settings: Settings, dataset: Dataset) -> Path:
    """Where an edition lies: by the ledger that pays for it, so that a dataset that is declared later moves no other's."""
    return settings.state / f"{sha256(dataset.ledger.encode())[:32]}.arrow"
