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
from oboro.privacy import Pure, Unit, translate
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
    for place, dataset in enumerate(settings.datasets):
        ledger = Ledger.open(dataset.ledger)
        unit = dataset.unit or ledger.unit
        translate(Pure(1), unit, ledger.unit)  # refuses a unit that the ledger does not protect
        write(coded(dataset, unit), _path(settings, place))
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
    """The datasets that `make` has opened before, in any process."""
    found = []
    for place, dataset in enumerate(settings.datasets):
        ledger, path = Ledger.open(dataset.ledger), _path(settings, place)
        unit = dataset.unit or ledger.unit
        public = unit.adjacency == "replace" and unit.kind in ("row", "person")
        n = count_units(open_data(path), unit) if public else None
        facts = Facts(
            ledger.dataset,
            dataset.domain,
            unit,
            n,
            dataset.count,
            dataset.edition,
            settings.limits,
            dataset.table,
        )
        found.append(Opened(dataset, ledger, facts, path))
    names = [one.facts.dataset for one in found]
    if len(set(names)) < len(names):
        raise DataError(
            "two datasets of the service have one name",
            given=", ".join(names),
            needed="a ledger of its own for each, with a name of its own",
        )
    return found


def close(settings: Settings) -> None:
    """What was written down at the start goes with the service."""
    shutil.rmtree(settings.state, ignore_errors=True)


def _path(settings: Settings, place: int) -> Path:
    return settings.state / f"{place}.arrow"
