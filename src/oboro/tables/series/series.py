"""A series that is open: its whole horizon is reserved, and its ticks are published one by one, each once.

Resumable
    Nothing private is kept between ticks, so a series may be taken up by another process, at any time: by its plan and its name. A tick is written into the ledger
    before its noise is drawn (`Ledger.begin`), and what was drawn is committed before anybody sees it. So one that died on the way was drawn at most once, and nobody saw it: it is
    lost, never drawn again, and the final table says so. A tick that was published is given back as it was stored.

    What is taken up is a reservation that says that it is drawn tick by tick. Under it no noise is drawn but that of ticks that were begun: whoever died after paying for it drew
    none, so that taking it up draws no part a second time. A run of the whole plan (`run`) reserves without that word and may have drawn everything before it died: nobody
    can prove that it was not seen, so its name is spent and gone, for a series too.

Order
    Where a person counts in fewer ticks than there are, ticks are published in their order, one after the other; one that was passed over is lost. Then rows may come late: let D_t be the ticks that hold a
    person when tick t is read, which only grow. If t_1 < ... < t_k are the ticks in which the person was counted in parts of one level, all of them are in D at the time of the last, and the last is among the
    first `max_ticks` of D: so k is at most `max_ticks`. Out of order it is not so: a late row may count in a tick that was left out, after `max_ticks` later ones counted. That none was begun between reading the
    data and writing down the tick is checked with the writing (`after`). Where `max_ticks` is all ticks, each tick of a person counts once in any order, whatever becomes of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oboro.arrays import Data
from oboro.domain import read_toml
from oboro.domain.domain import check_entries
from oboro.errors import (
    BudgetError,
    DataError,
    LedgerError,
    NameTakenError,
    PaidError,
    ParameterError,
    setting,
    told,
)
from oboro.exact import whole
from oboro.files import write_whole
from oboro.kinds import path_of, takes, text_of
from oboro.ledger import Ledger
from oboro.ledger.records import Reservation, Stored
from oboro.noise.bits import Bits, system_bits
from oboro.payment import paid
from oboro.release import Quote, Release, quote
from oboro.release.plan import made_again, plan_from
from oboro.release.release import from_content, table_in
from oboro.release.run import keep, reserve, same_plan
from oboro.tables.series.figures import SERIES
from oboro.tables.series.plan import Counted, SeriesPlan
from oboro.tables.tree.intervals import in_shapes, noisy_in, with_noisy


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """An open series. `publish` takes the data so far and gives the table of one tick; `final` that of all of them.

    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, ticks=2, max_ticks=2, count="people")
    >>> series = ob.tables.series(plan, ledger=ledger, name="1 March")
    >>> release = series.publish({"tick": [0, 0], **cells}, tick=0)
    >>> release.to_arrow().column_names
    ['tick', 'ticks', 'row', 'col', 'cells', 'people', 'estimate', 'state']
    >>> series.published, series.missing, ledger.remaining
    ([0], [1], Pure(0))
    """

    plan: SeriesPlan
    ledger: Ledger
    name: str
    _quote: Quote
    _reservation: Reservation

    @property
    def published(self) -> list[int]:
        """The ticks that were published."""
        return [tick for tick, stored in self._ticks().items() if stored.committed is not None]

    @property
    def lost(self) -> list[int]:
        """The ticks that were begun and are not published, unless they are on their way just now; those that were passed over, where ticks come in their order; and those that the final table gave up."""
        begun, over = self._ticks(), self._over()
        if over is not None and "ticks" not in over.reserved.body:  # a run of the whole: it had all of them
            return []
        passed = range(self._next(begun) if over is None else self.plan.ticks)
        return [
            tick
            for tick in range(self.plan.ticks)
            if (begun[tick].committed is None if tick in begun else tick in passed)
        ]

    @property
    def missing(self) -> list[int]:
        """The ticks that can still be published: in any order where `max_ticks` is all ticks, else in their own. None once the final table is stored."""
        begun = self._ticks()
        first = self._next(begun) if self._over() is None else self.plan.ticks
        return [tick for tick in range(first, self.plan.ticks) if tick not in begun]

    @property
    def over(self) -> bool:
        """Whether the final table is stored."""
        return self._over() is not None

    def publish(self, data: Data, tick: int, *, bits: Bits | None = None) -> Release:
        """The table of one tick, from the data of all ticks up to it. A tick that was published is given again. `bits` is for tests.

        Rows of later ticks are not looked at. Where `max_ticks` is less than all ticks, they come in their order, and no row of the past is taken away.
        """
        plan = self.plan
        tick = whole("tick", tick, least=0, most=plan.ticks - 1)
        begun = self._ticks()
        if (stored := begun.get(tick)) is not None:
            return self._given_again(tick, stored)
        if tick < self._next(begun):
            raise LedgerError(
                "a later tick was begun: which ticks of a person count is decided in their order, so this one is lost",
                given=told(tick=f"{tick}"),
                needed=f"a tick from {self._next(begun)} on; in any order only where max_ticks is all ticks",
            )
        source = plan.open(data)
        counted = plan.counted(plan.read(source), tick)
        reservation = self.ledger.begin(self._reservation, tick, after=[*begun] if plan.in_order else None)
        drawn = bits or system_bits()
        with paid(self.ledger.where, reservation.position, of="tick"):
            pieces = plan.pieces(tick)
            measured = plan.drawn(pieces, counted, drawn)
            block = plan.clock.span(*plan.clock.closing(tick)[0])
            before = self._ticks()
            done = [
                one for one in block if one == tick or (one in before and before[one].committed is not None)
            ]
            earlier = [one for other in done if other != tick for one in self._counts(before[other], other)]
            own = [Counted(piece, counts) for piece, counts in zip(pieces, measured, strict=True)]
            table = plan.provisional([*earlier, *own], done, tick)
            table = with_noisy(table, self._quote.record, measured)
        words = {**self._quote.words, "released": self._released(tick)}
        return keep(
            replace(self._quote, words=words),
            self.ledger,
            reservation,
            table,
            drawn,
            getattr(source, "engine", None),
            of="tick",
        )

    def final(self, *, incomplete: bool = False) -> Release:
        """The table of all ticks: what one release of the whole horizon would give, in law, if no tick was lost. Reads no data.

        Ticks that nobody has begun are refused unless `incomplete`: then they are given up. One that was begun and is not published is lost, as the table says; should another
        process be at it just now, it stores nothing there from then on.
        """
        if (stored := self._stored()) is not None:
            return stored
        if (missing := self.missing) and not incomplete:
            raise ParameterError(
                "some ticks are not published yet",
                given=f"without tick {_listed(missing)}",
                needed="every tick published, or lost",
                fix=setting(incomplete=True) + ", which gives them up",
            )
        while True:
            ticks = self._ticks()
            done = [tick for tick, one in ticks.items() if one.committed is not None]
            try:
                return self._final(ticks, done)
            except PaidError:  # another process was quicker, with the final table or with a tick
                if (stored := self._stored()) is not None:
                    return stored
                if self.published == done:
                    raise

    def _final(self, ticks: dict[int, Stored], done: Sequence[int]) -> Release:
        measured = [one for tick in done for one in self._counts(ticks[tick], tick)]
        lacking = [tick for tick in range(self.plan.ticks) if tick not in done]
        words = dict(self._quote.words)
        if lacking:
            words["released"] = f"{words['released']}, without tick {_listed(lacking)}, which was lost"
        table = self.plan.final(measured, done)
        drawn = (ticks[tick].committed for tick in done)
        bits = {str(one.body["facts"]["bits"]): None for one in drawn if one is not None}
        return keep(
            replace(self._quote, words=words),
            self.ledger,
            self._reservation,
            table,
            ", ".join(bits) or "none",
            of="final",
            ticks=done,
        )

    def _over(self) -> Stored | None:
        """The entry of the series, if its final table is stored."""
        stored = self.ledger.find_entry(self._reservation.position)
        return None if stored is None or stored.committed is None else stored

    def _stored(self) -> Release | None:
        """The final table, if it is stored."""
        stored, cost = self._over(), self._reservation.cost
        if stored is None or stored.committed is None:
            return None
        return from_content(self.plan, self.ledger, self.name, cost, stored.committed, stored.content())

    def save(self, path: str | Path) -> None:
        """Writes a file that names the series, for `open_series` and `oboro table tick`: its plan, its name, its ledger. Nothing private."""
        import tomli_w

        path = Path(path)
        where = self.ledger.where
        if "://" not in where:
            import os

            where = os.path.relpath(Path(where).resolve(), path.resolve().parent)
        record = {"series": {"name": self.name, "ledger": where}, "plan": self._quote.record}
        write_whole(path, tomli_w.dumps(record).encode())

    def __repr__(self) -> str:
        begun = self._ticks()
        return f"Series({self.name!r}, {len(begun)} of {self.plan.ticks} ticks, {self.plan.guarantee})"

    def _next(self, begun: Collection[int]) -> int:
        """The first tick that may be published."""
        return 1 + max(begun, default=-1) if self.plan.in_order else 0

    def _ticks(self) -> dict[int, Stored]:
        return self.ledger.ticks(self._reservation)

    def _given_again(self, tick: int, stored: Stored) -> Release:
        if stored.committed is None:
            raise LedgerError(
                "this tick was begun before, and died or is not done yet: it is never drawn again",
                given=told(tick=f"{tick}") + f", entry {stored.reserved.position}",
                needed="another tick",
            )
        cost = self._reservation.cost
        return from_content(self.plan, self.ledger, self.name, cost, stored.committed, stored.content())

    def _released(self, tick: int) -> str:
        return f"tick {tick} of a {self._quote.words['released']}: provisional"

    def _counts(self, stored: Stored, tick: int) -> Iterator[Counted]:
        """The noisy counts of a tick, as the ledger keeps them."""
        table = table_in(stored.content(), f"entry {stored.reserved.position}")
        if SERIES not in (table.schema.metadata or {}):
            raise DataError(
                "what is stored is no tick of a series", given=f"entry {stored.reserved.position}"
            )
        pieces = self.plan.pieces(tick)
        if not pieces:
            return
        counts = in_shapes(noisy_in(table), [self.plan.places.nodes(piece.level) for piece in pieces])
        for piece, own in zip(pieces, counts, strict=True):
            yield Counted(piece, own)


@takes(plan=SeriesPlan, ledger=Ledger, name=text_of)
def series(plan: SeriesPlan, *, ledger: Ledger, name: str) -> Series:
    """Opens a series: reserves its whole horizon, once. The same plan under the same name takes it up again, and costs nothing.

    Also if whoever opened it died: nothing is drawn under a series but its ticks. A run of the whole plan that died is no series, and its name is refused.

    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, ticks=2, max_ticks=2)
    >>> series = ob.tables.series(plan, ledger=ledger, name="1 March")
    >>> ledger.remaining
    Pure(0)
    >>> again = ob.tables.series(plan, ledger=ledger, name="1 March")
    >>> again
    Series('1 March', 0 of 2 ticks, eps = 1)
    """
    made: SeriesPlan = made_again(plan)
    stored = ledger.find(name)
    if stored is None:
        try:
            quoted = quote(made, ledger)
            return Series(made, ledger, name, quoted, reserve(quoted, ledger, name, ticks=made.ticks))
        except (BudgetError, NameTakenError):  # another process may have opened it meanwhile
            stored = ledger.find(name)
            if stored is None:
                raise
    written = stored.reserved.body
    if not same_plan(made, written["plan"]):
        ledger.refuse_used(name, made.to_dict())
    if "ticks" not in written and stored.committed is None:  # a run of the whole: it may have drawn all
        ledger.refuse_used(name, written["plan"])
    cost = stored.reserved.cost
    assert cost is not None
    entry = stored.reserved
    quoted = Quote(made, made.to_dict(), made.describe(), made.forecast(), cost)
    return Series(
        made, ledger, name, quoted, Reservation(entry.position, entry.hash, name, cost, stored.plan_hash)
    )


@takes(path=path_of, ledger=Ledger)
def open_series(path: str | Path, *, ledger: Ledger | None = None) -> Series:
    """Takes up the series that a file names, as `Series.save` and `oboro table series` wrote it. Never opens a new one.

    >>> plan = ob.tables.plan(mesh, unit=unit, eps=1, ticks=2, max_ticks=2)
    >>> ob.tables.series(plan, ledger=ledger, name="1 March").save("series.toml")
    >>> ob.tables.open_series("series.toml").missing
    [0, 1]
    """
    record = read_toml(path)
    found = record.get("series")
    named = found if isinstance(found, dict) else {}
    name, where = named.get("name"), named.get("ledger")
    if not isinstance(name, str) or not isinstance(where, str) or not isinstance(record.get("plan"), dict):
        raise DataError(
            f"{path} names no series",
            needed="a file that oboro table series wrote",
            fix="oboro table series ... -o series.toml",
        )
    check_entries(str(path), record, ("series", "plan"))
    check_entries(f"{path}: [series]", named, ("name", "ledger"))
    plan = plan_from(record["plan"])
    if not isinstance(plan, SeriesPlan):
        raise DataError(f"{path} names no series", given=plan.kind, needed=SeriesPlan.kind)
    if ledger is None:
        ledger = Ledger.open(where if "://" in where else Path(path).resolve().parent / where)
    if ledger.find(name) is None:
        raise LedgerError(
            "the ledger has no series of this name",
            given=told(name=repr(name)),
            needed="the ledger that the series was opened in",
        )
    return series(plan, ledger=ledger, name=name)


def _listed(ticks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ticks[:8]))
    return shown if len(ticks) <= 8 else f"{shown}, and {len(ticks) - 8} more"
