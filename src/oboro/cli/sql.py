"""`oboro sql`: a statement of SQL to declared tables, or a prompt for several."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oboro.cli import plans
from oboro.cli.options import (
    Delivery,
    EpsOrNone,
    ExpectedN,
    NotNegative,
    Rho,
    argument,
    open_ledger,
    option,
    protected,
    with_options,
)
from oboro.cli.query import PeopleFile, read
from oboro.cli.terminal import echo, typed
from oboro.errors import DataError, OboroError, ParameterError
from oboro.kinds import shown
from oboro.language import Lines, labelled, said

if TYPE_CHECKING:
    from oboro.ledger import Ledger
    from oboro.statistics import PersonTables, Session
    from oboro.statistics.figures import Statement

Text = Annotated[
    str | None,
    argument("STATEMENT", "SELECT region, AVG(age) FROM people GROUP BY region. Without one: a prompt."),
]
Delta = Annotated[
    str | None,
    option("--delta NUMBER", "With --eps: figures are composed tightly, at this delta, such as 1e-6."),
]
EXAMPLE = """ledger = "people.ledger"

[unit]
kind = "person"
column = "person"
max_rows = 10

[tables.people]
data = "people.parquet"
key = "person"

[[tables.people.columns]]
kind = "category"
name = "region"
values = ["north", "south"]

[tables.visits]
data = "visits.parquet"

[[tables.visits.columns]]
kind = "integer"
name = "days"
low = 0
high = 30"""


@with_options
def sql(
    file: PeopleFile,
    delivery: Delivery,
    statement: Text = None,
    eps: EpsOrNone = None,
    rho: Rho = None,
    delta: Delta = None,
    expected_n: ExpectedN = None,
    not_negative: NotNegative = False,
) -> None:
    """Asks a statement of SQL, and pays for it from the ledger. All its figures share one price."""
    from oboro.statistics.session import check_private

    budget = "--rho 2" if rho is not None else "--eps 2" if delta is None else "--eps 2 --delta 1e-5"
    asked, ledger = opened(file, budget)
    if statement is None:
        _check_prompt(delivery, not_negative)
        prompt(asked, ledger, Price(eps, rho, delta), expected_n)
        return
    read_it, plan = planned(asked, statement, Price(eps, rho, delta), expected_n)
    check_private(plan, asked.n)
    plans.release(plan, read_it.asked.source, ledger, delivery, not_negative=not_negative)


def _check_prompt(delivery: Delivery, not_negative: bool) -> None:
    """Refuses what the prompt would not heed: whoever says --dry-run there must not pay."""
    given = {
        "-o": delivery.output,
        "--name": delivery.name,
        "--force": delivery.force,
        "--dry-run": delivery.dry_run,
        "--json": delivery.json,
        "--not-negative": not_negative,
    }
    if words := [word for word, value in given.items() if value not in (None, False)]:
        raise ParameterError(
            "the prompt has no such option",
            given=" ".join(words),
            needed="a statement, for which they are",
            fix='oboro sql people.toml "SELECT COUNT(*) FROM people" --eps 0.1 --dry-run',
        )


@dataclass(frozen=True)
class Price:
    """What a statement may cost, as it was typed."""

    eps: str | None
    rho: str | None
    delta: str | None


def planned(
    asked: Session | PersonTables, text: str, price: Price, expected_n: int | None
) -> tuple[Any, Any]:
    """A statement that was understood, and its plan."""
    from oboro.statistics.session import with_delta
    from oboro.statistics.sql import read_statement
    from oboro.statistics.terms import promised

    statement: Statement = read_statement(text, asked._find)
    promise = with_delta(promised(price.eps, price.rho), price.delta)
    return statement, statement.plan(promise, {"expected_n": expected_n})


def opened(file: Path, budget: str) -> tuple[Session | PersonTables, Ledger]:
    """The tables that a file declares, and the ledger that pays."""
    from oboro.domain import read_toml
    from oboro.statistics import PersonTables, Session

    tables = read_toml(file).get("tables") if file.suffix.lower() == ".toml" else None
    if tables is None:
        declared = read(file, "", "sql")
        ledger = open_ledger(declared.ledger, file, budget=budget)
        unit = protected(ledger, file)
        return Session(
            declared.data, domain=declared.domain, unit=unit, ledger=ledger, name=declared.name
        ), ledger
    parts, one_row, unit, where = read_tables(file)
    ledger = open_ledger(where, file, unit="person:person:10", budget=budget)
    return PersonTables(parts, one_row=one_row, ledger=ledger, unit=unit), ledger


def read_tables(file: Path) -> tuple[dict[str, Any], list[str], Any, str]:
    """Several tables: data and domain of each, which have one row a person, who is protected, and the ledger."""
    from oboro.domain import Domain, read_toml
    from oboro.domain.domain import check_entries
    from oboro.ledger.file import is_address
    from oboro.privacy import unit_from

    record = read_toml(file)
    check_entries(str(file), record, ("tables", "unit", "ledger"))
    unit = unit_from(record["unit"]) if "unit" in record else None
    tables, ledger = record["tables"], record.get("ledger")
    wrong = not isinstance(tables, dict) or not tables or not isinstance(ledger, str)
    parts: dict[str, Any] = {}
    one_row: list[str] = []
    for name, one in ({} if wrong else tables).items():
        if not isinstance(one, dict) or not isinstance(one.get("data"), str):
            wrong = True
            break
        check_entries(f"{file}: tables.{name}", one, ("data", "key", "columns"))
        domain = Domain.from_dict({"columns": one.get("columns")}, where=f"{file}: tables.{name}")
        parts[name] = (file.parent / one["data"], domain)
        if "key" in one:
            if unit is not None and one["key"] != unit.column:
                raise DataError(
                    "the key of a table is the person that is protected",
                    given=f"tables.{name}: key = {shown(one['key'])}",
                    needed=f'key = "{unit.column}"',
                    fix=f'key = "{unit.column}"',
                )
            one_row.append(name)
    if wrong:
        raise DataError(
            f"{file} does not declare its tables",
            given=", ".join(record),
            needed="a ledger, and for each table where its data is and what values are possible",
            fix=Lines(EXAMPLE),
        )
    assert isinstance(ledger, str)
    return parts, one_row, unit, ledger if is_address(ledger) else str(file.parent / ledger)


# The prompt: the forecast and the price of each statement, and a yes before anything is spent.

_HELP = "a statement of SQL asks; eps 0.2 sets the price; left, columns, quit"


def prompt(asked: Session | PersonTables, ledger: Ledger, price: Price, expected_n: int | None) -> None:
    """Asks for statements, one line each, until the input ends."""
    _complete(_words(asked))
    echo(said(_HELP))
    while True:
        try:
            line = input("oboro> ").strip().removesuffix(";").strip()
        except (EOFError, KeyboardInterrupt):
            echo("")
            return
        word, _, rest = line.partition(" ")
        if not line:
            continue
        if line.lower() in ("quit", "exit"):
            return
        if line.lower() == "left":
            echo(labelled("remaining", str(ledger.remaining)))
        elif line.lower() == "columns":
            echo("\n".join(_words(asked)))
        elif word.lower() in ("eps", "rho") and rest:
            said_now = rest.strip()
            price = (
                replace(price, eps=said_now, rho=None)
                if word.lower() == "eps"
                else Price(None, said_now, None)
            )
        elif line.lower() == "help":
            echo(said(_HELP))
        else:
            try:
                _ask(asked, ledger, line, price, expected_n)
            except OboroError as error:
                echo(typed(str(error)), err=True)


def _ask(
    asked: Session | PersonTables, ledger: Ledger, text: str, price: Price, expected_n: int | None
) -> None:
    from oboro.release import quote, run
    from oboro.statistics.session import check_private

    if price.eps is None and price.rho is None:
        raise ParameterError(
            "the price is not said yet", given="neither eps nor rho", needed="eps, or rho", fix="eps 0.1"
        )
    statement, plan = planned(asked, text, price, expected_n)
    check_private(plan, asked.n)
    terms = quote(plan, ledger)
    echo(typed(str(plans.with_notes(terms.forecast, plans.of_unit(plan, ledger)))))
    echo(labelled("would cost", str(terms.cost)))
    echo(labelled("remaining", str(ledger.remaining)))
    if _answered(said("ask and pay? yes or no:") + " ") not in ("yes", "y"):
        echo(said("nothing was spent"))
        return
    plans.give(run(plan, statement.asked.source, ledger), ledger, output=None, json=False, given_again=False)


def _answered(question: str) -> str:
    """What is typed; nothing where the input ends or is broken off. A yes is no line to be had again with the arrow keys."""
    keep = _history()
    try:
        keep(False)
        return input(question).strip().lower()
    except (EOFError, KeyboardInterrupt):
        echo("")
        return ""
    finally:
        keep(True)


def _history() -> Callable[[bool], None]:
    """Turns on and off that lines are kept, where the terminal has readline."""
    try:
        import readline
    except ImportError:
        return lambda _: None
    return readline.set_auto_history


def _words(asked: Session | PersonTables) -> list[str]:
    """What can be named, table by table: the columns, and the person, who can be counted."""
    from oboro.statistics import Session

    domains = {asked.table: asked.domain} if isinstance(asked, Session) else dict(asked.domains)
    person = [str(asked.unit.column)] if asked.unit.kind == "person" else []
    return [f"{table}: {', '.join([*domain.names, *person])}" for table, domain in domains.items()]


def _complete(lines: list[str]) -> None:
    """Names of tables and columns at a press of Tab, and the lines of earlier sessions, where the terminal has readline."""
    try:
        import readline
    except ImportError:
        return
    known = sorted({word for line in lines for word in line.replace(":", "").replace(",", "").split()})

    def complete(start: str, place: int) -> str | None:
        fits = [word for word in known if word.casefold().startswith(start.casefold())]
        return fits[place] if place < len(fits) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n(),;=<>+-*/")
    readline.parse_and_bind("tab: complete")
    if os.environ.get("OBORO_HISTORY"):
        import atexit
        from contextlib import suppress

        history = os.environ["OBORO_HISTORY"]
        with suppress(OSError):
            readline.read_history_file(history)
        atexit.register(_keep, readline, history)


def _keep(readline: Any, history: str) -> None:
    from contextlib import suppress

    with suppress(OSError):
        readline.write_history_file(history)
