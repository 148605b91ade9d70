"""`oboro table`: tables of counts, of any size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.ask import ask
from oboro.cli.options import (
    DataFile,
    DomainFile,
    DryRun,
    Eps,
    Json,
    LedgerAt,
    Name,
    Output,
    UnitText,
    open_ledger,
    read_unit,
    show_json,
)
from oboro.cli.watching import progress_bar
from oboro.errors import ParameterError

if TYPE_CHECKING:
    from oboro.privacy import Unit

app = typer.Typer(
    help="Private tables of counts: meshes, and meshes by anything, of any size.", no_args_is_help=True
)

Count = Annotated[
    str | None,
    typer.Option(
        "--count", help="The column that says how many; without it every row counts 1.", metavar="NAME"
    ),
]
StrategyName = Annotated[
    str | None, typer.Option("--strategy", help="How it is measured; by default tree.", metavar="NAME")
]
Possible = Annotated[
    Path | None,
    typer.Option("--possible", help="File of the only cells that can hold anyone. Public.", metavar="FILE"),
]
Impossible = Annotated[
    Path | None,
    typer.Option("--impossible", help="File of cells that cannot: the sea. Public.", metavar="FILE"),
]
Total = Annotated[
    int | None,
    typer.Option(
        "--total", help="How many there are in all, if that is public (under replace).", metavar="NUMBER"
    ),
]
SavePlan = Annotated[
    Path | None, typer.Option("--save-plan", help="Also write the plan as TOML.", metavar="FILE")
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-total", help="A guess at how many there are, for what it means to them.", metavar="NUMBER"
    ),
]
Strategies = Annotated[
    list[str] | None,
    typer.Option("--strategy", help="One of them; repeat for more. All by default.", metavar="NAME"),
]
SeveralEps = Annotated[
    list[str] | None,
    typer.Option("--eps", help="With --internal: how it would look at this eps; repeat.", metavar="NUMBER"),
]
PublishedFile = Annotated[
    Path, typer.Argument(help="The published table: Parquet or CSV.", metavar="PUBLISHED")
]


@app.command()
def check(data: DataFile, domain: DomainFile, count: Count = None, json: Json = False) -> None:
    """Counts what is wrong with the records. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.domain import Domain
    from oboro.tables import check as check_cells

    rows = check_cells(data, Domain.from_toml(domain), count)
    if json:
        show_json({"private": True, "problems": rows})
        return
    typer.echo("for the steward's eyes only: these figures are not private\n")
    width = max(len(row["problem"]) for row in rows)
    for row in rows:
        typer.echo(f"  {row['problem'].ljust(width)}  {row['records']:>14,}")


@app.command()
def forecast(
    domain: DomainFile,
    eps: Eps,
    unit: UnitText = None,
    strategy: StrategyName = None,
    count: Count = None,
    possible: Possible = None,
    impossible: Impossible = None,
    total: Total = None,
    expected_total: Expected = None,
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The error by area, before anything is spent. Reads no data. The unit is one person in one cell unless said."""
    plan = _plan(domain, eps, _unit(unit, domain), strategy, count, possible, impossible, total)
    if expected_total is None:
        plans.show_forecast(plan, json=json, save=save_plan)
        return
    found = plan.forecast(expected_total)
    if json:
        show_json(
            {
                "released": plan.describe()["released"],
                "guarantee": plan.guarantee.to_dict(),
                "forecast": found.to_dict(),
            }
        )
        return
    plans.show_forecast(plan, json=False, save=save_plan)
    for note in found.notes:
        if note not in plan.forecast().notes:
            typer.echo(f"  note: {note}")


@app.command()
def release(
    data: DataFile,
    domain: DomainFile,
    eps: Eps,
    ledger: LedgerAt,
    count: Count = None,
    strategy: StrategyName = None,
    possible: Possible = None,
    impossible: Impossible = None,
    total: Total = None,
    output: Output = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publishes the table and pays for it from the ledger, whose unit is protected."""
    account = open_ledger(ledger)
    plan = _plan(domain, eps, account.unit, strategy, count, possible, impossible, total)
    with progress_bar():
        plans.release(plan, data, account, output=output, name=name, dry_run=dry_run, json=json)


@app.command()
def compare(
    data: DataFile,
    domain: DomainFile,
    eps: Eps,
    count: Count = None,
    unit: UnitText = None,
    strategy: Strategies = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="How often each is run.")] = 1,
    json: Json = False,
) -> None:
    """Every strategy side by side ON PUBLIC DATA: how far off each would be. Nothing of this is private."""
    from oboro.domain import Domain
    from oboro.tables import compare as compare_strategies

    with progress_bar():
        found = compare_strategies(
            data,
            Domain.from_toml(domain),
            eps=eps,
            count=count,
            unit=_unit(unit, domain),
            strategies=strategy,
            trials=trials,
        )
    if json:
        show_json({"private": False, **found.to_dict()})
        return
    typer.echo("for public data only: these figures are not private\n")
    typer.echo(str(found))


app.command()(ask)


@app.command("map")
def draw_map(
    published: PublishedFile,
    domain: DomainFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.", metavar="FILE")],
    count: Count = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="By default the one beside the table, if there is one."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the page.")] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="en or ja; otherwise the reader's browser decides.")
    ] = None,
    internal: Annotated[
        Path | None,
        typer.Option(
            "--internal",
            help="The TRUE cells: the page shows them beside what is released. NEVER PUBLISH IT.",
            metavar="DATA",
        ),
    ] = None,
    eps: SeveralEps = None,
) -> None:
    """One page, with everything in it, that shows the published table as a map."""
    from oboro.domain import Domain
    from oboro.release import read_certificate
    from oboro.report import Comparison, write_map

    public = Domain.from_toml(domain)
    table = _read_table(published)
    beside = certificate or published.with_name(published.name + ".certificate.json")
    signed = read_certificate(beside) if certificate is not None or beside.exists() else None
    comparison = None
    if internal is not None:
        from oboro.tables import plan as table_plan
        from oboro.tables import preview

        found = table_plan(public, unit=_unit(None, domain), eps=eps[0] if eps else 1, count=count)
        with progress_bar():
            true, previews = preview(internal, found, eps or [])
        comparison = Comparison(true=true, releases=previews or {"published": table})
    elif eps:
        raise ParameterError(
            "--eps is for --internal",
            given="--eps",
            needed="--internal DATA as well",
            fix="--internal cells.parquet --eps 0.1",
        )
    write_map(table, public, output, certificate=signed, internal=comparison, title=title, language=language)
    typer.echo(f"written    {output}" + ("\nNEVER PUBLISH IT: it shows true counts" if internal else ""))


def _plan(
    domain: Path,
    eps: str,
    unit: Unit,
    strategy: str | None,
    count: str | None,
    possible: Path | None,
    impossible: Path | None,
    total: int | None,
) -> Any:
    from oboro.domain import Domain
    from oboro.tables import plan

    public = Domain.from_toml(domain)
    return plan(
        public,
        unit=unit,
        eps=eps,
        strategy=strategy,
        count=count,
        possible=possible,
        impossible=impossible,
        total=total,
    )


def _unit(text: str | None, domain: Path) -> Unit:
    """`--unit`, or `[unit]` of the domain's file, or one person in one cell."""
    from oboro.domain import read_toml
    from oboro.privacy import Unit

    if text is None and "unit" not in read_toml(domain):
        return Unit.cells()
    return read_unit(text, domain)


def _read_table(path: Path) -> Any:
    """A published table: it is public, so its columns are read for what they are."""
    from oboro.errors import DataError

    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            return pq.read_table(path)
        if path.suffix.lower() == ".csv":
            import pyarrow.csv as csv

            return csv.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read", given=str(error).partition("\n")[0]) from None
    raise DataError(
        f"the file type of {path.name} is unknown",
        given=path.suffix or "no extension",
        needed=".parquet or .csv",
    )
