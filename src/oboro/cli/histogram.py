"""`oboro histogram`: counts of every bin of one or more columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    DomainFile,
    DryRun,
    Eps,
    ExpectedN,
    Json,
    LedgerAt,
    Name,
    Output,
    SavePlan,
    UnitText,
    open_ledger,
    option,
    read_domain,
    read_unit,
    show_checked,
    show_json,
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


@app.command(
    epilog="Example: oboro histogram forecast --domain people.toml --column age --edges age=0:120:10 --unit row --eps 0.2"
)
def forecast(
    *,
    domain: DomainFile,
    column: Columns,
    edges: Edges = [],
    unit: UnitText = None,
    eps: Eps,
    expected_n: ExpectedN = None,
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The error of each count, before anything is spent. Reads no data."""
    plan = _plan(domain, column, eps, read_unit(unit, domain), edges, expected_n)
    plans.show_forecast(plan, json=json, save=save_plan)


@app.command(
    epilog="Example: oboro histogram release people.csv --domain people.toml --column region --eps 0.2 --ledger people.ledger -o published.csv"
)
def release(
    data: DataFile,
    *,
    domain: DomainFile,
    column: Columns,
    edges: Edges = [],
    eps: Eps,
    ledger: LedgerAt,
    output: Output = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publishes the counts and pays for them from the ledger, whose unit is protected."""
    account = open_ledger(ledger, domain)
    plan = _plan(domain, column, eps, account.unit, edges)
    plans.release(plan, data, account, output=output, name=name, dry_run=dry_run, json=json)


@app.command(epilog="Example: oboro histogram check people.csv --domain people.toml")
def check(data: DataFile, domain: DomainFile, column: Columns = [], json: Json = False) -> None:
    """Counts values that are missing, unknown or out of bounds. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.engine import check_columns, open_data

    public = read_domain(domain)
    rows = check_columns(open_data(data), [public[name] for name in column or public.names])
    if json:
        show_json({"private": True, "columns": rows})
        return
    show_checked(rows)


def _plan(
    domain: Path, columns: list[str], eps: str, unit: Unit, edges: list[str], expected_n: int | None = None
) -> Any:
    from oboro.statistics import histogram_plan

    return histogram_plan(
        read_domain(domain),
        columns,
        unit=unit,
        eps=eps,
        edges=dict(map(read_edges, edges)),
        expected_n=expected_n,
    )


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
