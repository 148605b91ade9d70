"""`oboro table`: tables of counts, of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.ask import ask
from oboro.cli.options import (
    DataFile,
    DomainFile,
    DryRun,
    Eps,
    Json,
    Language,
    LedgerAt,
    Name,
    Output,
    Page,
    UnitText,
    certificate_beside,
    open_ledger,
    show_json,
)
from oboro.cli.table_forecast import forecast
from oboro.cli.table_options import (
    Count,
    Delta,
    Impossible,
    Possible,
    StrategyName,
    Total,
    Workloads,
    make_plan,
    unit_of,
)
from oboro.cli.terminal import echo
from oboro.cli.watching import progress_bar
from oboro.errors import ParameterError
from oboro.files import reads
from oboro.language import labelled, left, phrase, room, said

app = typer.Typer(
    help="Private tables of counts: meshes, and meshes by anything, of any size.", no_args_is_help=True
)

Strategies = Annotated[
    list[str] | None,
    typer.Option("--strategy", help="Only this one; repeat for more. All by default.", metavar="WORD"),
]
SeveralEps = Annotated[
    list[str] | None,
    typer.Option(
        "--eps", help="With --internal: how it would look at this eps; repeat for more.", metavar="NUMBER"
    ),
]
PublishedFile = Annotated[
    Path, typer.Argument(help="The published table: Parquet or CSV.", metavar="PUBLISHED")
]


@app.command(epilog="Example: oboro table check cells.parquet --domain city.toml --count people")
def check(data: DataFile, domain: DomainFile, count: Count = None, json: Json = False) -> None:
    """Counts what is wrong with the records. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.domain import Domain
    from oboro.tables import check as check_cells

    rows = check_cells(data, Domain.from_toml(domain), count)
    if json:
        show_json({"private": True, "problems": rows})
        return
    echo(said("for the steward's eyes only: these figures are not private") + "\n")
    problems = [phrase(row["problem"]) for row in rows]
    for problem, row in zip(problems, rows, strict=True):
        echo(f"  {left(problem, max(map(room, problems)))}  {row['records']:>14,}")


app.command(epilog="Example: oboro table forecast --domain city.toml --eps 0.5")(forecast)


@app.command(
    epilog="Example: oboro table release cells.parquet --domain city.toml --count people --eps 0.5 --ledger city.ledger -o published.parquet"
)
def release(
    data: DataFile,
    *,
    domain: DomainFile,
    count: Count = None,
    eps: Eps,
    delta: Delta = None,
    strategy: StrategyName = None,
    possible: Possible = None,
    impossible: Impossible = None,
    total: Total = None,
    workload: Workloads = None,
    ledger: LedgerAt,
    output: Output = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publishes the table and pays for it from the ledger, whose unit is protected."""
    account = open_ledger(ledger)
    plan = make_plan(domain, eps, account.unit, strategy, count, possible, impossible, total, workload, delta)
    with progress_bar():
        plans.release(plan, data, account, output=output, name=name, dry_run=dry_run, json=json)


@app.command(epilog="Example: oboro table compare cells.parquet --domain city.toml --count people --eps 0.5")
def compare(
    data: DataFile,
    *,
    domain: DomainFile,
    count: Count = None,
    unit: UnitText = None,
    eps: Eps,
    strategy: Strategies = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="How often each is run.", metavar="NUMBER")
    ] = 1,
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
            unit=unit_of(unit, domain),
            strategies=strategy,
            trials=trials,
        )
    if json:
        show_json({"private": False, **found.to_dict()})
        return
    echo(said("for public data only: these figures are not private") + "\n")
    echo(str(found))


app.command(epilog="Example: oboro table ask published.parquet row=100..131 col=7")(ask)


@app.command("map", epilog="Example: oboro table map published.parquet --domain city.toml -o map.html")
def draw_map(
    published: PublishedFile,
    *,
    domain: DomainFile,
    count: Count = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate", help="By default the one beside the table, if there is one.", metavar="FILE"
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="The title of the page.", metavar="TEXT")
    ] = None,
    language: Language = None,
    internal: Annotated[
        Path | None,
        typer.Option(
            "--internal",
            help="The TRUE cells: the page shows them beside what is released. NEVER PUBLISH IT.",
            metavar="FILE",
        ),
    ] = None,
    eps: SeveralEps = None,
    output: Page,
) -> None:
    """One page, with everything in it, that shows the published table as a map."""
    from oboro.domain import Domain
    from oboro.release import verify_certificate
    from oboro.report import Comparison, write_map

    public = Domain.from_toml(domain)
    table = _read_table(published)
    beside = certificate or certificate_beside(published)
    signed = (
        verify_certificate(beside, data=published) if certificate is not None or beside.exists() else None
    )
    comparison = None
    if internal is not None:
        from oboro.tables import plan as table_plan
        from oboro.tables import preview

        found = table_plan(public, unit=unit_of(None, domain), eps=eps[0] if eps else 1, count=count)
        with progress_bar():
            true, previews = preview(internal, found, eps or [])
        comparison = Comparison(true=true, releases=previews)
    elif eps:
        raise ParameterError(
            "--eps is for --internal",
            given="--eps",
            needed="--internal DATA as well",
            fix="--internal cells.parquet --eps 0.1",
        )
    write_map(table, public, output, certificate=signed, internal=comparison, title=title, language=language)
    echo(labelled("written", str(output)))
    if internal:
        echo(said("NEVER PUBLISH IT: it shows true counts"))


def _read_table(path: Path) -> Any:
    """A published table: it is public, so its columns are read for what they are."""
    from oboro.errors import DataError

    reads(path)
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            with pa.OSFile(str(path)) as source:  # a path, and never an address, which pyarrow would follow
                return pq.read_table(source)
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
