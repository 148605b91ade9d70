"""What the first forecast of each page needs, made ready when a studio starts: modules are imported and loops compiled by forecasts.

Forecasts are of public facts alone. A made-up dataset is forecast first, so that one which is declared later finds everything ready.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

from oboro.domain import Category, Domain, Grid, Integer
from oboro.errors import OboroError
from oboro.privacy import Unit
from oboro.records import Record
from oboro.service.desk import Desk
from oboro.service.edition import Opened
from oboro.service.questions import Facts, plan_of
from oboro.service.settings import Limits
from oboro.service.studio.page import templates

_SIDE = 16


class Readiness:
    """A thread that makes the forecasts of all pages ready. What it cannot forecast it leaves to whoever asks."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._stopped = desk, threading.Event()
        self._thread = threading.Thread(target=self._prepare, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until all is ready."""
        self._thread.join()

    def stop(self) -> None:
        """Nothing is begun any more; what is under way is finished first."""
        self._stopped.set()
        self._thread.join()

    def _prepare(self) -> None:
        for name in (
            "ask_forecast.html",
            "tables_forecast.html",
            "synthetic_forecast.html",
            "ask_refused.html",
        ):
            templates().get_template(name)
        for question in _questions():
            if self._stopped.is_set():
                return
            plan, _ = plan_of(question, _FACTS)
            plan.forecast()
        for opened in list(self._desk.datasets.values()):
            self._open(opened)

    def _open(self, opened: Opened) -> None:
        """The forecasts that the pages of a dataset open with."""
        from oboro.service.studio import ask, synthetic, tables
        from oboro.service.studio.price import outlook

        for page in (ask, tables, synthetic):
            if self._stopped.is_set():
                return
            with suppress(OboroError):
                outlook(self._desk, opened, page.opening(opened), page.WAY)


_FACTS = Facts(
    "made up",
    Domain(
        [Grid("row", "col", shape=(_SIDE, _SIDE)), Integer("age", 0, 99), Category("place", ("a", "b", "c"))]
    ),
    Unit.person("who", 4),
    None,
    None,
    "made up",
    Limits(),
)


def _questions() -> Iterator[Record]:
    """One of each kind that a page asks, in each way that loads something of its own."""
    from oboro.service.studio.tables import STRATEGIES

    yield {"question": "mean", "columns": ["age"], "eps": "0.1", "expected_n": 1000}
    for strategy in (None, *STRATEGIES):
        yield {"question": "table", "columns": ["row,col", "place"], "eps": "0.1", "strategy": strategy}
    for method in ("marginals", "quality", "moments"):
        yield {
            "question": "synthetic",
            "columns": ["age", "place"],
            "method": method,
            "eps": "1",
            "delta": "1e-6",
        }
