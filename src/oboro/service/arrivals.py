"""Datasets that are declared while a service runs: each is served when everything about it is ready, and not before.

    coding        its rows are bounded, coded and written down, as at a start
    calibrating   its slots are found on made-up rows of the declared number
    served        its ledger exists, workers find its edition, and whoever was granted a share sees it
    refused       nothing was made but the declaration: it can be mended, and declared again

The ledger is made last. What fails before leaves none behind, so that the next start is not kept from starting.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oboro.errors import OboroError, ParameterError
from oboro.ledger import Ledger
from oboro.privacy import Guarantee, Unit
from oboro.privacy.unit import check_unit
from oboro.service import edition, slots
from oboro.service.calibration import slots_of
from oboro.service.desk import Crowded, Desk
from oboro.service.door import log
from oboro.service.questions import Shape
from oboro.service.settings import Dataset, Settings, dataset_from

Found = dict[Shape, slots.Slot]
Calibrates = Callable[[Settings, Dataset, Unit, Guarantee], Found]
Step = Literal["coding", "calibrating", "served", "refused"]


@dataclass(frozen=True, slots=True)
class Account:
    """The ledger of a dataset: one that is there, or one that will be made."""

    name: str
    unit: Unit
    budget: Guarantee


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    name: str
    step: Step
    error: OboroError | None = None


class Arrivals:
    """Opens datasets one after the other, at a desk that is at work."""

    def __init__(self, desk: Desk, calibrates: Calibrates = slots_of) -> None:
        self.desk, self._calibrates = desk, calibrates
        self._progress: dict[str, Progress] = {}
        self._lock, self.declaring = threading.Lock(), threading.Lock()

    def progress(self, declared: Path) -> Progress | None:
        return self._progress.get(declared.name)

    def open(self, declared: Path, account: Account | None = None) -> str:
        """Opens what a file declares, with the ledger that it names or one that is made now; its name. Raises what is wrong with it."""
        dataset, known = self._admitted(declared, account)
        try:
            self._open(declared, dataset, known, new=account is not None)
        except BaseException:
            self._note(declared, known.name, "refused")
            raise
        return known.name

    def begin(self, declared: Path, account: Account | None = None) -> threading.Thread:
        """The same in a thread: what public facts refuse is raised at once, and `progress` tells the rest."""
        dataset, known = self._admitted(declared, account)
        said = (declared, dataset, known, account is not None)
        thread = threading.Thread(target=self._told, args=said, daemon=True)
        thread.start()
        return thread

    def _told(self, declared: Path, dataset: Dataset, account: Account, new: bool) -> None:
        try:
            self._open(declared, dataset, account, new=new)
        except Exception as error:
            log.warning("not opened", extra={"facts": {"error": type(error).__name__}})
            known = error if isinstance(error, OboroError) else OboroError("the dataset cannot be opened")
            self._progress[declared.name] = Progress(account.name, "refused", known)

    def _admitted(self, declared: Path, account: Account | None) -> tuple[Dataset, Account]:
        """What is declared, if it can be served: by public facts, and one at a time."""
        dataset = dataset_from(declared)
        if account is None:
            with Ledger.open(dataset.ledger) as own:
                account = Account(own.dataset, own.unit, own.budget)
        check_unit(dataset.unit or account.unit, account.unit, account.budget)
        edition.refuse_address(account.name)
        taken = {*self.desk.datasets, *(_others(declared) if self.desk.owner is None else ())}
        if account.name in taken:
            raise ParameterError(
                "there is a dataset of this name already",
                given=account.name,
                needed="a name of its own for each",
                fix=f"{account.name} 2",
            )
        with self._lock:
            self.refuse_another()
            self._note(declared, account.name, "coding")
        return dataset, account

    def refuse_another(self) -> None:
        """One at a time."""
        if any(one.step in ("coding", "calibrating") for one in list(self._progress.values())):
            raise Crowded("another dataset is being opened at this moment", needed="a little patience")

    def _open(self, declared: Path, dataset: Dataset, account: Account, *, new: bool) -> None:
        desk, settings = self.desk, self.desk.settings
        settings.state.mkdir(mode=0o700, exist_ok=True)
        path = edition.path_of(settings, dataset)
        part = path.with_suffix(".part")
        try:
            part.unlink(missing_ok=True)
            edition.write(edition.coded(dataset, dataset.unit or account.unit), part)
            self._note(declared, account.name, "calibrating")
            slots.keep(
                desk.database, account.name, self._calibrates(settings, dataset, account.unit, account.budget)
            )
            if new:
                Ledger.create(
                    dataset.ledger, dataset=account.name, unit=account.unit, budget=account.budget
                ).close()
            os.replace(part, path)  # from now on workers find it
        finally:
            part.unlink(missing_ok=True)
        desk.serve(edition.open_one(settings, dataset))
        self._note(declared, account.name, "served")

    def _note(self, declared: Path, name: str, step: Step) -> None:
        self._progress[declared.name] = Progress(name, step)


def _others(declared: Path) -> set[str]:
    """Names of datasets that lie in the same folder, served or not: two of one name would keep the next start from starting."""
    found = set()
    for path in declared.parent.glob("*.ledger"):
        if path.stem != declared.stem and path.with_suffix(".toml").exists():
            with suppress(OboroError), Ledger.open(path) as one:
                found.add(one.dataset)
    return found
