"""`oboro histogram`: counts of every bin of one or more columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    Delivery,
    DomainFile,
    Eps,
    ExpectedN,
    Json,
    LedgerOrDeclared,
    NotNegative,
    Options,
    Shown,
    UnitText,
    open_ledger,
    option,
    protected,
    read_domain,
    read_unit,
    show_checked,
    show_json,
    show_rules,
    with_options,
)
from oboro.errors import ParameterError

if TYPE_CHECKING:
    from oboro.privacy import Unit

app = typer.Typer(help="Private counts of every bin of one or more columns.", no_args_is_help=True)

Columns = Annotated[list[str], option("--column COLUMN", "A column of the domain; repeat for more.")]
Edges = Annotated[
    list[str],
    option("--edges COLUMN=EDGES", "Intervals of a column: COLUMN=FIRST:LAST:WIDTH or COLUMN=0,18,65,120."),
]


@dataclass(frozen=True, kw_only=True)
class Counted(Options):
    """What is counted, and at which price."""

    domain: DomainFile
    column: Columns
    edges: Edges = field(default_factory=list)
    eps: Eps

    def plan(self, unit: Unit, expected_n: int | None = None) -> Any:
        from oboro.statistics import histogram_plan

        public, edges = read_domain(self.domain), dict(map(read_edges, self.edges))
        return histogram_plan(
            public, self.column, unit=unit, eps=self.eps, edges=edges, expected_n=expected_n
        )


@app.command(
    epilog="Example: oboro histogram forecast --domain people.toml --column age --edges age=0:120:10 --unit row --eps 0.2"
)
@with_options
def forecast(counted: Counted, show: Shown, unit: UnitText = None, expected_n: ExpectedN = None) -> None:
    """The error of each count, before anything is spent. Reads no data."""
    plans.show_forecast(counted.plan(read_unit(unit, counted.domain), expected_n), show)


@app.command(
    epilog="Example: oboro histogram release people.csv --domain people.toml --column region --eps 0.2 --ledger people.ledger -o published.csv"
)
@with_options
def release(
    data: DataFile,
    counted: Counted,
    delivery: Delivery,
    ledger: LedgerOrDeclared = None,
    not_negative: NotNegative = False,
) -> None:
    """Publishes the counts and pays for them from the ledger, whose unit is protected."""

    account = open_ledger(ledger, counted.domain)
    plan = counted.plan(protected(account, counted.domain))
    plans.release(plan, data, account, delivery, not_negative=not_negative)


@app.command(epilog="Example: oboro histogram check people.csv --domain people.toml")
def check(data: DataFile, domain: DomainFile, column: Columns = [], json: Json = False) -> None:
    """Counts values that are missing, unknown or out of bounds, and rows that break a rule. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.engine import check_columns, check_rules, open_data

    public = read_domain(domain)
    source = open_data(data)
    rows = check_columns(source, [public[name] for name in column or public.names])
    rules = check_rules(source, public.only(*column) if column else public)
    if json:
        show_json({"private": True, "columns": rows, "rules": rules})
        return
    show_checked(rows)
    show_rules(rules)


def read_edges(text: str) -> tuple[str, list[Any]]:
    """COLUMN=FIRST:LAST:WIDTH, both ends included where the width leads there, or COLUMN=A,B,C, open at both ends."""
    from oboro.exact import positive, rational

    name, equals, body = text.partition("=")
    parts = body.split(":")
    if equals and len(parts) == 3:
        first, last, width = (
            rational("FIRST", parts[0]),
            rational("LAST", parts[1]),
            positive("WIDTH", parts[2]),
        )
        if 0 < (last - first) / width <= 10**6:
            inner = [first + width * i for i in range(int((last - first) / width) + 1)]
            return name, inner if inner[-1] == last else [*inner, last]
    elif equals and body and ":" not in body:
        return name, body.split(",")
    raise ParameterError(
        "--edges is not understood",
        given=f"--edges {text}",
        needed="COLUMN=FIRST:LAST:WIDTH or COLUMN=A,B,C",
        fix="--edges age=0:120:10",
    )
