"""Several tables about the same persons: one row a person in some, many rows in others, joined by who they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oboro.domain import Domain
from oboro.engine import open_data
from oboro.engine.duck import DuckTable, on_this_machine
from oboro.engine.persons import check_keys, joined_records, one_record_each, persons_in
from oboro.errors import DomainError, UnitError, setting
from oboro.exact import Number
from oboro.ledger import Ledger
from oboro.privacy import Unit
from oboro.privacy.unit import check_unit
from oboro.statistics.figures import Statement
from oboro.statistics.questions import Asked
from oboro.statistics.session import Learning, Session, with_delta
from oboro.statistics.sql import read_statement, refused
from oboro.statistics.terms import promised

if TYPE_CHECKING:
    from oboro.arrays import Data
    from oboro.release import Forecast, Release
    from oboro.statistics.statement import StatementPlan


@dataclass(frozen=True, init=False, repr=False)
class PersonTables:
    """Tables that are asked in SQL. `one_row` names those that hold one record of each person.

    A question about a table with many rows may use a person's own columns: FROM visits JOIN people USING (person).

    Privacy
        The unit is the person: all records with that person's key, in all tables. A table of one record each keeps, of a
        person with several, the one that comes first by its declared columns, in the order of their values (missing ones
        last). That looks at this person's records alone, and so does a join on the key: which joined rows carry a key
        depends on the records with that key in both tables and on nothing else. So two datasets that differ in one person
        differ, after the join, in rows of that person alone. There, once, contributions are bounded to `max_rows`, as for
        any table with that unit. A table of one record each is bounded to 1. The key itself is never released. Under
        replace n is the number of persons in all tables together.

    >>> visits = {"who": [1, 1, 2], "days": [3, 1, 8]}
    >>> town = ob.Domain([ob.Category("town", ["a", "b"])])
    >>> stays = ob.Domain([ob.Integer("days", 0, 30)])
    >>> unit = ob.Unit.person("who", 5)
    >>> ledger = ob.Ledger.create("stays.ledger", dataset="stays", unit=unit, budget=ob.Pure(1))
    >>> tables = ob.PersonTables(
    ...     {"people": ({"who": [1, 2], "town": ["a", "b"]}, town), "visits": (visits, stays)},
    ...     one_row=["people"],
    ...     ledger=ledger,
    ... )
    >>> tables  # tables.sql("SELECT town, AVG(days) FROM visits JOIN people USING (who) GROUP BY town", eps="0.1")
    PersonTables(dataset='stays', tables=['people', 'visits'], one_row=['people'])
    >>> tables["people"].unit.max_rows, tables["visits"].unit.max_rows
    (1, 5)
    """

    ledger: Ledger
    unit: Unit
    n: int | None
    domains: Mapping[str, Domain]
    sources: Mapping[str, DuckTable]
    one_row: tuple[str, ...]
    joins: dict[tuple[str, str], DuckTable] = field(repr=False, compare=False)

    def __init__(
        self,
        tables: Mapping[str, tuple[Data, Domain]],
        *,
        one_row: Sequence[str],
        ledger: Ledger,
        unit: Unit | None = None,
    ) -> None:
        unit = unit or ledger.unit
        if unit.kind != "person":
            raise UnitError(
                "tables are joined by the person that is protected",
                given=str(unit),
                needed="a unit of persons",
                fix=setting(unit=Unit.person("person", 10)),
            )
        check_unit(unit, ledger.unit, ledger.budget)
        for name in one_row:
            if name not in tables:
                raise DomainError(
                    "there is no such table", given=name, needed=", ".join(tables), argument="one_row"
                )
        sources = {
            name: on_this_machine(open_data(data), "a join of tables") for name, (data, _) in tables.items()
        }
        domains = {name: domain for name, (_, domain) in tables.items()}
        for name, source in sources.items():
            for column in domains[name]:
                if column.sources != (column.name,):
                    raise DomainError(
                        "tables of persons have columns of one field each",
                        given=f"{name}: {column.name}",
                        needed="integers, reals, categories and days",
                        fix=f"a domain without {column.name}",
                    )
            source.need(*[one for column in domains[name] for one in column.sources], str(unit.column))
        check_keys(sources.values(), unit)
        n: int | None = None
        if unit.adjacency == "replace":
            n = len(set().union(*(persons_in(source, unit) for source in sources.values())))
        for name in one_row:
            sources[name] = one_record_each(sources[name], domains[name].columns, unit)
        for fact, value in (
            ("ledger", ledger),
            ("unit", unit),
            ("n", n),
            ("domains", domains),
            ("sources", sources),
            ("one_row", tuple(one_row)),
            ("joins", {}),
        ):
            object.__setattr__(self, fact, value)

    def __getitem__(self, name: str) -> Session:
        """One table, to be asked as any session is."""
        return self._session(name, self.sources[name], self.domains[name])

    def sql(self, text: str, *, delta: Number | None = None, **asked: Any) -> Release:
        """What a statement asks: one batch, one table, one price."""
        statement = self.statement(text)
        assert isinstance(statement.asked, Session)
        return statement.asked.run(self._plan(statement, delta, asked), asked.get("name"))

    def plan(self, text: str, *, delta: Number | None = None, **asked: Any) -> StatementPlan:
        """The plan of a statement."""
        return self._plan(self.statement(text), delta, asked)

    def forecast(self, text: str, *, delta: Number | None = None, **asked: Any) -> Forecast:
        """The error that is to be expected: free."""
        return self.plan(text, delta=delta, **asked).forecast()

    def statement(self, text: str) -> Statement:
        """A statement that was understood."""
        return read_statement(text, self._find)

    def _plan(self, statement: Statement, delta: Number | None, given: Mapping[str, Any]) -> StatementPlan:
        asked: Asked = dict(given)  # type: ignore[assignment]
        statement.asked._known(asked, "sql")
        return statement.plan(with_delta(promised(asked.get("eps"), asked.get("rho")), delta), asked)

    def _find(self, name: str, joined: str | None, key: str | None) -> Learning[Any]:
        names = {one.casefold(): one for one in self.domains}
        for one in (name, *([] if joined is None else [joined])):
            if one.casefold() not in names:
                raise refused("there is no such table", f"FROM {one}", f"one of {', '.join(self.domains)}")
        name = names[name.casefold()]
        if joined is None:
            return self[name]
        joined = names[joined.casefold()]
        if key != self.unit.column:
            raise refused("a JOIN is on the person", f"USING ({key})", f"USING ({self.unit.column})")
        if joined not in self.one_row:
            name, joined = joined, name  # one record each, joined to many, is the same rows
        if joined not in self.one_row or name == joined:
            raise refused(
                "a JOIN needs a table of one row a person",
                f"{name} JOIN {joined}",
                f'[tables.{joined}] key = "{key}"',
            )
        many, own = self.domains[name], self.domains[joined]
        both = [column.name for column in own if column.name in many.names]
        if both:
            raise DomainError(
                "both tables have a column of one name",
                given=", ".join(both),
                needed="different names",
                fix=f"{joined}_{both[0]}",
            )
        source = self._joined(name, joined)
        return self._session(name, source, Domain([*many, *own]))

    def _joined(self, name: str, joined: str) -> DuckTable:
        """Rows with the columns of their person's record: joined once, however often they are asked."""
        records = self.sources[joined]
        if records.edition is not None:
            records.edition.check()
        if (name, joined) not in self.joins:
            found = joined_records(
                self.sources[name],
                self.domains[name].columns,
                records,
                self.domains[joined].columns,
                self.unit,
            )
            self.joins.setdefault((name, joined), found)
        return self.joins[name, joined]

    def _session(self, name: str, source: DuckTable, domain: Domain) -> Session:
        if self.n is not None:
            source.counted[self.unit.column] = self.n
        unit = self.unit
        if name in self.one_row:
            unit = Unit.person(str(unit.column), 1, unit.adjacency)
        session = Session(source, domain=domain, ledger=self.ledger, unit=unit, name=name)
        object.__setattr__(session, "everybody", False)
        return session

    def __repr__(self) -> str:
        return f"PersonTables(dataset={self.ledger.dataset!r}, tables={list(self.domains)}, one_row={list(self.one_row)})"
