"""`oboro dynamics`: the output of a linear system, published under heavy-tailed noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    Delivery,
    Eps,
    Json,
    Language,
    LedgerOrDeclared,
    Options,
    Page,
    Shown,
    UnitText,
    argument,
    certificate_beside,
    open_ledger,
    option,
    protected,
    read_unit,
    show_json,
    with_options,
)
from oboro.cli.terminal import echo
from oboro.errors import CertificateError, LedgerError, ParameterError
from oboro.language import aligned, labelled, said

if TYPE_CHECKING:
    from oboro.privacy import Unit
    from oboro.records import Record

# What the commands about systems share: their options, and the plan that a TOML file and they describe.

MATRICES = ("A", "B", "C", "D")

SystemArgument = Annotated[
    Path,
    argument(
        "SYSTEM", "TOML file with \\[system] A, B, C, D and horizon, and \\[unit]; or the word identity."
    ),
]
SystemOption = Annotated[
    Path,
    option(
        "--system FILE",
        "TOML file with \\[system] A, B, C, D and horizon; or the word identity: the signal itself.",
    ),
]
ExpectedSd = Annotated[
    str | None,
    option(
        "--expected-sd NUMBER", "How far the output varies, about: says what single samples will be good for."
    ),
]
Delta = Annotated[
    str | None,
    option(
        "--delta NUMBER", "The probability of an exception, such as 1e-5; without it the promise is pure."
    ),
]
Alpha = Annotated[
    str, option("--alpha NUMBER", "Tail index: 2 is Gaussian, a smaller one hides larger outliers.")
]
Where = Annotated[
    str | None, option("--where WORD", "Where the noise is added: input (the default) or output.")
]
Noise = Annotated[
    str | None,
    option(
        "--noise WORD",
        "How it is drawn: independent (the default), shared (one A for the record) or discrete.",
    ),
]
Method = Annotated[
    str | None, option("--method WORD", "With --noise shared: mixture, theorem1, exact or pure.")
]
Horizon = Annotated[
    int | None, option("--horizon NUMBER", "The last time; by default that of the file, else of the signal.")
]
Column = Annotated[list[str], option("--column COLUMN", "The column of the input; repeat for more.")]


@dataclass(frozen=True, kw_only=True)
class Noisy(Options):
    """What is said of the noise, and of the signal, whatever is done with it."""

    column: Column = field(default_factory=list)
    horizon: Horizon = None
    eps: Eps
    delta: Delta = None
    alpha: Alpha = "1.5"
    where: Where = None
    noise: Noise = None
    method: Method = None


def system_plan(system: Path, unit: Unit, how: Noisy) -> Any:
    """A plan for the system in a file, which may also say the horizon and a sigma."""
    from oboro import dynamics

    record = read_system(system)
    said = asdict(how)
    column, horizon = said.pop("column"), said.pop("horizon")
    last = record.get("horizon") if horizon is None else horizon
    if last is None:
        raise ParameterError(
            "the horizon is not said",
            given=f"no --horizon, and no horizon in {system}",
            needed="the last time",
            fix="--horizon 200",
        )
    return dynamics.plan(
        record.get("system", {name: part for name, part in record.items() if name in MATRICES}),
        unit=unit,
        horizon=last,
        columns=column or None,
        sigma=record.get("sigma"),
        **said,
    )


def read_system(path: Path) -> Record:
    """What the file of a system says; its matrices may stand in a table of their own."""
    from oboro.domain.domain import check_entries, read_toml

    if _is_identity(path):
        return {"system": str(path)}
    record = read_toml(path, "system")
    check_entries(
        str(path), record, ("system", "horizon", "sigma", "unit", *(() if "system" in record else MATRICES))
    )
    return record


def _is_identity(system: Path) -> bool:
    """Whether a word stands where a file is named."""
    from oboro.dynamics.system import IDENTITY

    return str(system) == IDENTITY and not system.exists()


def _unit(text: str | None, system: Path) -> Unit:
    return read_unit(text, None if _is_identity(system) else system, "system")


def count_samples(data: Path) -> int:
    """How many samples there are, which is public."""
    from oboro.engine import count_units, open_data
    from oboro.privacy import Unit

    return count_units(open_data(data), Unit.row())


def read_start(text: str) -> list[float]:
    """x0, as `--x0` gives it: numbers with commas between."""
    from oboro.exact import rational

    return [float(rational("--x0", part)) for part in text.split(",")]


# `oboro dynamics demo`: a household's load through a thermal lag, from the signal to the pages.

PAGES = ("band.html", "band-with-truth.html", "outliers.html")


def demo(
    output: Annotated[Path, option("-o --output FOLDER", "The folder to write into.")] = Path(
        "dynamics-demo"
    ),
    data: Annotated[Path | None, option("--data FILE", "A real load instead of a generated one.")] = None,
    column: Annotated[str, option("--column COLUMN", "Its column.")] = "load",
) -> None:
    """Publishes a household's load through a thermal lag: a week of half hours, with the band over time and the outliers page."""
    from oboro.report.band import write_outliers

    released = publish_household(output, data, column, tell=lambda forecast: echo(f"{forecast}\n"))
    write_outliers(output / "outliers.html", eps="1", delta="1e-3")
    echo(f"{released}\n")
    for page in ("published.csv", *PAGES):
        echo(labelled("written", str(output / page)))


def fresh(output: Path, *names: str) -> None:
    """Makes the folder. Nothing that stands there already is written over: it may be somebody's data."""
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (output / name).exists():
            raise LedgerError(
                "the demo was run here before, or the folder is in use",
                given=str(output / name),
                needed="an empty folder: a demo writes over nothing",
                fix="-o another-folder",
            )


def publish_household(
    output: Path,
    data: Path | None = None,
    column: str = "load",
    tell: Callable[[object], None] | None = None,
) -> Any:
    """Writes a feeder, a load if none is given, its release and two pages; returns the release."""
    import numpy as np

    from oboro.dynamics.signal import from_table
    from oboro.dynamics.system import FEEDER, household_load, respond
    from oboro.ledger import Ledger
    from oboro.privacy import Approx, unit_from
    from oboro.release import run
    from oboro.report.band import write_band

    feeder, book = output / "feeder.toml", output / "load.ledger"
    made_here = () if data is not None else ("load.csv",)
    fresh(output, "load.ledger", "feeder.toml", *made_here, "published.csv", *PAGES)
    feeder.write_text(FEEDER, encoding="utf-8")
    real = data is not None
    if data is None:
        data = output / "load.csv"
        data.write_text("load\n" + "".join(f"{x}\n" for x in household_load(336)), encoding="utf-8")
    unit = unit_from(read_system(feeder)["unit"])
    made = system_plan(feeder, unit, Noisy(column=[column], eps="1", delta="1e-3"))
    load = from_table(data, (column,))[: made.horizon + 1]
    ledger = Ledger.create(book, dataset="household load", unit=unit, budget=Approx(1, "1e-3"))
    released = run(made, load, ledger, name="load", tell=tell)
    released.save(output / "published.csv")
    truth = respond(made.system, np.zeros(made.system.states), made.prepare(load).u)[:, 0].tolist()
    signed = released.certificate
    dated: dict[str, Any] = {} if real else {"start": "2026-04-01", "every": "30min", "measured_in": "kWh"}
    write_band(output / "band.html", made, released, certificate=signed, **dated)
    shown = output / "band-with-truth.html"
    write_band(shown, made, released, truth=truth, private=real, certificate=signed, **dated)
    return released


app = typer.Typer(
    help="Private outputs of linear systems: a plant, a building, a feeder.", no_args_is_help=True
)
app.command()(demo)


@app.command(epilog="Example: oboro dynamics plan feeder.toml --eps 1 --delta 1e-3")
@with_options
def plan(
    system: SystemArgument, how: Noisy, show: Shown, unit: UnitText = None, expected_sd: ExpectedSd = None
) -> None:
    """The same as `oboro dynamics forecast`, with the file of the system first."""
    made = system_plan(system, _unit(unit, system), how)
    plans.show_forecast(made, show, made.forecast(expected_sd))


@app.command(epilog="Example: oboro dynamics forecast --system feeder.toml --eps 1 --delta 1e-3")
@with_options
def forecast(
    system: SystemOption, how: Noisy, show: Shown, unit: UnitText = None, expected_sd: ExpectedSd = None
) -> None:
    """The median error and the 95% band of the output over time, before anything is spent. Reads no data."""
    made = system_plan(system, _unit(unit, system), how)
    plans.show_forecast(made, show, made.forecast(expected_sd))


@app.command(
    epilog="Example: oboro dynamics release load.csv --system feeder.toml --column load --eps 1 --delta 1e-3 --ledger load.ledger -o published.csv"
)
@with_options
def release(
    data: DataFile,
    system: SystemOption,
    how: Noisy,
    delivery: Delivery,
    ledger: LedgerOrDeclared = None,
    x0: Annotated[str | None, option("--x0 NUMBERS", "The private start, such as 0,0.5.")] = None,
    expected_sd: ExpectedSd = None,
) -> None:
    """Publishes the output of the system and pays for it from the ledger, whose unit is protected."""
    account = open_ledger(
        ledger, None if _is_identity(system) else system, unit="signal:1:2", budget="--eps 2 --delta 1e-3"
    )
    unit = protected(account, None if _is_identity(system) else system, "system")
    signal: Any = data
    if how.horizon is None and "horizon" not in read_system(system):
        how = replace(how, horizon=max(count_samples(data) - 1, 0))
    made = system_plan(system, unit, how)
    if x0 is not None:
        from oboro.dynamics.signal import check_start, from_table

        start = read_start(x0)
        check_start(len(start), made.system.states)
        if not delivery.dry_run:
            signal = {"u": from_table(data, made.columns), "x0": start}
    worth = made.forecast(expected_sd)
    plans.release(made, signal, account, delivery, forecast=lambda _: worth)


@app.command(epilog="Example: oboro dynamics band published.csv -o band.html")
def band(
    published: Annotated[
        Path, argument("PUBLISHED", "A file that `release` wrote, with its certificate beside it.")
    ],
    start: Annotated[
        str | None,
        option("--start DATE", "The date of the first sample, such as 2026-04-01 or 2026-04-01T00:30."),
    ] = None,
    every: Annotated[
        str | None, option("--every TIME", "How far samples are apart: 30min, 1h or 1d; by default 1h.")
    ] = None,
    measured_in: Annotated[
        str | None, option("--measured-in TEXT", "The unit of the output, such as kWh.")
    ] = None,
    language: Language = None,
    output: Page = Path("band.html"),
) -> None:
    """A page with the published output in its 95% band over time, from the file and its certificate alone."""
    import numpy as np
    import pyarrow as pa

    from oboro.dynamics import SignalPlan
    from oboro.engine import open_data
    from oboro.engine.duck import on_this_machine
    from oboro.release import plan_from, verify_certificate
    from oboro.report.band import write_band

    certified = verify_certificate(certificate_beside(published), data=published)
    plan = plan_from(certified["plan"])
    if not isinstance(plan, SignalPlan):
        raise _no_output(published, plan.kind)
    source = on_this_machine(open_data(published), "a picture")
    source.need("t", "y")
    source.connection.execute("SET preserve_insertion_order = true")
    rows = source.connection.execute(
        f"SELECT TRY_CAST(t AS BIGINT) AS t, TRY_CAST(y AS DOUBLE) AS y FROM {source.relation}"
    ).fetchnumpy()
    t, y = rows.values()
    outputs = plan.system.outputs
    sound = not any(np.ma.is_masked(column) for column in (t, y)) and len(t) and len(t) % outputs == 0
    if not sound or min(t) < 0 or max(t) > plan.horizon:
        raise _no_output(published, f"{len(t)} rows, some perhaps without a time or a number")
    numbered = {} if outputs == 1 else {"output": [i % outputs + 1 for i in range(len(t))]}
    table = pa.table({"t": t, **numbered, "y": y})
    write_band(
        output,
        plan,
        table,
        certificate=certified,
        start=start,
        every=every,
        measured_in=measured_in,
        language=language,
    )
    echo(labelled("written", str(output)))


def _no_output(published: Path, given: str) -> CertificateError:
    return CertificateError(
        f"{published} is not the output of a system", given=given, needed="what dynamics release wrote"
    )


@app.command(epilog="Example: oboro dynamics outliers --eps 1 --delta 1e-3 -o outliers.html")
def outliers(
    eps: Annotated[str, option("--eps NUMBER", "Privacy of the noise, such as 1 or 1/3.")],
    delta: Annotated[str, option("--delta NUMBER", "The probability of an exception, such as 1e-5.")],
    output: Page = Path("outliers.html"),
    json: Json = False,
) -> None:
    """How well an outlier hides under Gaussian, Laplace and stable noise, as a page. Reads no data."""
    from oboro.dynamics.outliers import detections
    from oboro.report.band import write_outliers

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
    rows = [[said("noise"), said("median"), *(f"{size:g}" for size in found[0].sizes)]]
    for one in found:
        rows.append([said(one.noise), f"{one.median:.2f}", *(f"{100 * rate:.1f}%" for rate in one.rates)])
    echo("\n".join(aligned(rows)))
    echo("\n" + labelled("written", str(output)))
