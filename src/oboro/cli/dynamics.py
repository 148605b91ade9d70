"""`oboro dynamics`: the output of a linear system, published under heavy-tailed noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.dynamics_demo import demo
from oboro.cli.dynamics_options import (
    Alpha,
    Column,
    Delta,
    Horizon,
    Method,
    Noise,
    SystemArgument,
    SystemOption,
    Where,
    count_samples,
    read_start,
    read_system,
    system_plan,
)
from oboro.cli.options import (
    DataFile,
    DryRun,
    Eps,
    Json,
    LedgerAt,
    Name,
    Output,
    Page,
    SavePlan,
    UnitText,
    certificate_beside,
    open_ledger,
    read_unit,
    show_json,
)
from oboro.cli.terminal import echo
from oboro.language import labelled, left, right, said

app = typer.Typer(
    help="Private outputs of linear systems: a plant, a building, a feeder.", no_args_is_help=True
)
app.command()(demo)


@app.command(epilog="Example: oboro dynamics plan feeder.toml --eps 1 --delta 1e-3")
def plan(
    system: SystemArgument,
    *,
    column: Column = [],
    horizon: Horizon = None,
    unit: UnitText = None,
    eps: Eps,
    delta: Delta = None,
    alpha: Alpha = "1.5",
    where: Where = None,
    noise: Noise = None,
    method: Method = None,
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The same as `oboro dynamics forecast`, with the file of the system first."""
    made = system_plan(
        system,
        read_unit(unit, system),
        horizon,
        column,
        eps=eps,
        delta=delta,
        alpha=alpha,
        where=where,
        noise=noise,
        method=method,
    )
    plans.show_forecast(made, json=json, save=save_plan)


@app.command(epilog="Example: oboro dynamics forecast --system feeder.toml --eps 1 --delta 1e-3")
def forecast(
    *,
    system: SystemOption,
    column: Column = [],
    horizon: Horizon = None,
    unit: UnitText = None,
    eps: Eps,
    delta: Delta = None,
    alpha: Alpha = "1.5",
    where: Where = None,
    noise: Noise = None,
    method: Method = None,
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The median error and the 95% band of the output over time, before anything is spent. Reads no data."""
    plan(
        system,
        column=column,
        horizon=horizon,
        unit=unit,
        eps=eps,
        delta=delta,
        alpha=alpha,
        where=where,
        noise=noise,
        method=method,
        save_plan=save_plan,
        json=json,
    )


@app.command(
    epilog="Example: oboro dynamics release load.csv --system feeder.toml --column load --eps 1 --delta 1e-3 --ledger load.ledger -o published.csv"
)
def release(
    data: DataFile,
    *,
    system: SystemOption,
    column: Column = [],
    horizon: Horizon = None,
    x0: Annotated[
        str | None, typer.Option("--x0", help="The private start, such as 0,0.5.", metavar="NUMBERS")
    ] = None,
    eps: Eps,
    delta: Delta = None,
    alpha: Alpha = "1.5",
    where: Where = None,
    noise: Noise = None,
    method: Method = None,
    ledger: LedgerAt,
    output: Output = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publishes the output of the system and pays for it from the ledger, whose unit is protected."""
    account = open_ledger(ledger)
    signal: Any = data
    if horizon is None and "horizon" not in read_system(system):
        horizon = max(count_samples(data) - 1, 0)
    made = system_plan(
        system,
        account.unit,
        horizon,
        column,
        eps=eps,
        delta=delta,
        alpha=alpha,
        where=where,
        noise=noise,
        method=method,
    )
    if x0 is not None:
        from oboro.dynamics.signal import from_table

        signal = {"u": from_table(data, made.columns), "x0": read_start(x0)}
    plans.release(made, signal, account, output=output, name=name, dry_run=dry_run, json=json)


@app.command(epilog="Example: oboro dynamics band published.csv -o band.html")
def band(
    published: Annotated[
        Path,
        typer.Argument(
            help="A file that `release` wrote, with its certificate beside it.", metavar="PUBLISHED"
        ),
    ],
    output: Page = Path("band.html"),
) -> None:
    """A page with the published output in its 95% band over time, from the file and its certificate alone."""
    import pyarrow as pa

    from oboro.engine import open_data
    from oboro.release import plan_from, verify_certificate
    from oboro.report.band import write_band

    certified = verify_certificate(certificate_beside(published), data=published)
    source = open_data(published)
    source.need("t", "y")
    source.connection.execute("SET preserve_insertion_order = true")
    rows = source.connection.execute(
        f"SELECT CAST(t AS BIGINT), CAST(y AS DOUBLE) FROM {source.relation}"
    ).fetchnumpy()
    t, y = rows.values()
    outputs = len(certified["plan"]["system"]["D"])
    numbered = {} if outputs == 1 else {"output": [i % outputs + 1 for i in range(len(t))]}
    table = pa.table({"t": t, **numbered, "y": y})
    write_band(output, plan_from(certified["plan"]), table, certificate=certified)
    echo(labelled("written", str(output)))


@app.command(epilog="Example: oboro dynamics outliers --eps 1 --delta 1e-3 -o outliers.html")
def outliers(
    eps: Annotated[
        str, typer.Option("--eps", help="Privacy of the noise, such as 1 or 1/3.", metavar="NUMBER")
    ],
    delta: Annotated[
        str, typer.Option("--delta", help="The probability of an exception, such as 1e-5.", metavar="NUMBER")
    ],
    output: Page = Path("outliers.html"),
    json: Json = False,
) -> None:
    """How well an outlier hides under Gaussian, Laplace and stable noise, as a page. Reads no data."""
    from oboro.dynamics.outliers import detections
    from oboro.report.outliers import write_outliers

    write_outliers(output, eps=eps, delta=delta)
    found = detections(eps=eps, delta=delta, sizes=(5, 10, 20, 50))
    if json:
        show_json(
            {
                "output": str(output),
                "rows": [
                    {"noise": d.noise, "median": d.median, "sizes": d.sizes, "rates": d.rates} for d in found
                ],
            }
        )
        return
    echo(said("how often an outlier is found, at 1% false alarms") + "\n")
    head = left(said("noise"), 34) + right(said("median"), 8)
    echo("  " + head + "".join(f"{size:>9g}" for size in found[0].sizes))
    for one in found:
        echo(
            "  "
            + left(said(one.noise), 34)
            + f"{one.median:8.2f}"
            + "".join(f"{100 * rate:8.1f}%" for rate in one.rates)
        )
    echo("\n" + labelled("written", str(output)))
