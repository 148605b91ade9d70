"""`oboro dynamics`: the output of a linear system, published under heavy-tailed noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
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
from oboro.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from oboro.privacy import Unit

app = typer.Typer(
    help="Private outputs of linear systems: a plant, a building, a feeder.", no_args_is_help=True
)

SystemArgument = Annotated[
    Path, typer.Argument(help="TOML file with [system] A, B, C, D, horizon and [unit].", metavar="SYSTEM")
]
SystemOption = Annotated[
    Path, typer.Option("--system", help="TOML file with [system] A, B, C, D and horizon.", metavar="FILE")
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta", help="The probability of an exception; without it the promise is pure.", metavar="NUMBER"
    ),
]
Alpha = Annotated[
    str,
    typer.Option(
        "--alpha", help="Tail index: 2 is Gaussian, smaller hides larger outliers.", metavar="NUMBER"
    ),
]
Where = Annotated[str, typer.Option("--where", help="input or output: where the noise is added.")]
Noise = Annotated[
    str, typer.Option("--noise", help="independent, shared (one A for the record) or discrete.")
]
Method = Annotated[
    str | None, typer.Option("--method", help="mixture, theorem1, exact or pure, for shared noise.")
]
Horizon = Annotated[
    int | None,
    typer.Option("--horizon", help="The last time; else the file's, else the signal's.", metavar="T"),
]
Column = Annotated[
    list[str],
    typer.Option("--column", help="The column of the input; repeat for several inputs.", metavar="NAME"),
]
SavePlan = Annotated[
    Path | None, typer.Option("--save-plan", help="Also write the plan as TOML.", metavar="FILE")
]


@app.command()
def plan(
    system: SystemArgument,
    eps: Eps,
    delta: Delta = None,
    alpha: Alpha = "1.5",
    where: Where = "input",
    noise: Noise = "independent",
    method: Method = None,
    horizon: Horizon = None,
    unit: UnitText = None,
    column: Column = [],
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The median error and the 95% band of the output over time, before anything is spent. Reads no data."""
    made = _plan(
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


@app.command()
def release(
    data: DataFile,
    system: SystemOption,
    eps: Eps,
    ledger: LedgerAt,
    column: Column = [],
    delta: Delta = None,
    alpha: Alpha = "1.5",
    where: Where = "input",
    noise: Noise = "independent",
    method: Method = None,
    horizon: Horizon = None,
    x0: Annotated[
        str | None, typer.Option("--x0", help="The private start, such as 0,0.5.", metavar="NUMBERS")
    ] = None,
    output: Output = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publishes the output of the system and pays for it from the ledger, whose unit is protected."""
    account = open_ledger(ledger)
    signal: Any = data
    if horizon is None and "horizon" not in _toml(system):
        horizon = max(_length(data) - 1, 0)
    made = _plan(
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

        signal = {"u": from_table(data, made.columns), "x0": [_number(part) for part in x0.split(",")]}
    plans.release(made, signal, account, output=output, name=name, dry_run=dry_run, json=json)


@app.command()
def band(
    published: Annotated[
        Path,
        typer.Argument(
            help="A file that `release` wrote, with its certificate beside it.", metavar="PUBLISHED"
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.", metavar="FILE")] = Path(
        "band.html"
    ),
) -> None:
    """A page with the published output in its 95% band over time, from the file and its certificate alone."""
    import pyarrow as pa

    from oboro.engine import open_data
    from oboro.release import plan_from, verify_certificate
    from oboro.report.outliers import write_band

    certified = verify_certificate(published.with_name(published.name + ".certificate.json"), data=published)
    source = open_data(published)
    source.need("t", "y")
    source.connection.execute("SET preserve_insertion_order = true")
    rows = source.connection.execute(
        f"SELECT CAST(t AS BIGINT), CAST(y AS DOUBLE) FROM {source.relation}"
    ).fetchnumpy()
    t, y = rows.values()
    outputs = len(certified["plan"]["system"]["D"])
    numbered = {} if outputs == 1 else {"output": [i % outputs + 1 for i in range(len(t))]}
    write_band(output, plan_from(certified["plan"]), pa.table({"t": t, **numbered, "y": y}))
    typer.echo(f"written    {output}")


@app.command()
def outliers(
    eps: Eps,
    delta: Annotated[str, typer.Option("--delta", help="The probability of an exception.", metavar="NUMBER")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.", metavar="FILE")] = Path(
        "outliers.html"
    ),
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
    typer.echo("how often an outlier is found, at 1% false alarms\n")
    typer.echo(
        "  " + "noise".ljust(34) + "median".rjust(8) + "".join(f"{size:>9g}" for size in found[0].sizes)
    )
    for one in found:
        typer.echo(
            "  "
            + one.noise.ljust(34)
            + f"{one.median:8.2f}"
            + "".join(f"{100 * rate:8.1f}%" for rate in one.rates)
        )
    typer.echo(f"\nwritten    {output}")


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write into.", metavar="FOLDER")
    ] = Path("dynamics-demo"),
    data: Annotated[
        Path | None, typer.Option("--data", help="A real load instead of a generated one.", metavar="FILE")
    ] = None,
    column: Annotated[str, typer.Option("--column", help="Its column.", metavar="NAME")] = "load",
) -> None:
    """Publishes a household's load through a thermal lag: a week of half hours, with the band over time and the outliers page."""
    import numpy as np

    from oboro.dynamics.household import FEEDER, household_load
    from oboro.dynamics.operators import respond
    from oboro.dynamics.signal import from_table
    from oboro.ledger import Ledger
    from oboro.privacy import Approx, unit_from
    from oboro.release import run
    from oboro.report.outliers import write_band, write_outliers

    output.mkdir(parents=True, exist_ok=True)
    feeder, book = output / "feeder.toml", output / "load.ledger"
    if book.exists():
        raise LedgerError(
            "the demo was run here before",
            given=str(book),
            needed="an empty folder: a ledger is never overwritten",
            fix="-o another-folder",
        )
    feeder.write_text(FEEDER, encoding="utf-8")
    if data is None:
        data = output / "load.csv"
        data.write_text("load\n" + "".join(f"{x}\n" for x in household_load(336)), encoding="utf-8")
    unit = unit_from(_toml(feeder)["unit"])
    made = _plan(
        feeder,
        unit,
        None,
        [column],
        eps="1",
        delta="1e-3",
        alpha="1.5",
        where="input",
        noise="independent",
        method=None,
    )
    ledger = Ledger.create(book, dataset="household load", unit=unit, budget=Approx(1, "1e-3"))
    typer.echo(f"{made.forecast()}\n")
    load = from_table(data, (column,))[: made.horizon + 1]
    released = run(made, load, ledger, name="load")
    released.save(output / "published.csv")
    truth = respond(made.system, np.zeros(made.system.states), made.prepare(load).u)[:, 0].tolist()
    write_band(output / "band.html", made, released)
    # the generated household does not exist: its truth may be shown
    write_band(output / "band-with-truth.html", made, released, truth=truth, private=data.parent != output)
    write_outliers(output / "outliers.html", eps="1", delta="1e-3")
    typer.echo(f"{released}\n")
    for page in ("published.csv", "band.html", "band-with-truth.html", "outliers.html"):
        typer.echo(f"written    {output / page}")


def _plan(system: Path, unit: Unit, horizon: int | None, column: list[str], **said: Any) -> Any:
    from oboro import dynamics

    record = _toml(system)
    last = record.get("horizon") if horizon is None else horizon
    if last is None:
        raise ParameterError(
            "the horizon is not said",
            given=f"no --horizon, and no horizon in {system}",
            needed="the last time",
            fix="--horizon 200",
        )
    return dynamics.plan(
        record.get("system", record), unit=unit, horizon=last, columns=column or None, **said
    )


def _toml(path: Path) -> dict[str, Any]:
    from oboro.domain import read_toml

    return dict(read_toml(path))


def _length(data: Path) -> int:
    """How many samples there are, which is public."""
    from oboro.engine import open_data

    source = open_data(data)
    return int(source.connection.execute(f"SELECT count(*) FROM {source.relation}").fetchone()[0])


def _number(text: str) -> float:
    from oboro.exact import rational

    return float(rational("--x0", text))
