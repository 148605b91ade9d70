"""`oboro synth`: synthetic records, from a draft of the domain to the quality report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    DomainFile,
    DryRun,
    EpsOrNone,
    Json,
    Language,
    LedgerAt,
    Name,
    Page,
    Rho,
    SavePlan,
    To,
    UnitText,
    open_ledger,
    read_unit,
    show_json,
)
from oboro.cli.synth_options import (
    Assumed,
    Delta,
    Least,
    Method,
    N,
    Records,
    read_condition,
    read_plan,
)
from oboro.cli.terminal import echo
from oboro.errors import ParameterError
from oboro.language import labelled, plain, said

app = typer.Typer(help="Synthetic records that behave like the real ones.", no_args_is_help=True)


@app.command(epilog="Example: oboro synth draft people.csv -o draft.toml")
def draft(data: DataFile, output: To) -> None:
    """Writes a draft of a domain to edit. It LOOKS AT THE DATA: bounds and values must be set from knowledge."""
    from oboro.synth.draft import RARE, WARNING, draft

    done = draft(data, output)
    echo(labelled("written", said(f"{output}: {len(done.columns)} columns")))
    echo("  " + said(f"NOT PRIVATE: this draft was {WARNING}"))
    echo("  " + said("it is no domain yet: no command reads it as long as a mark is left in it"))
    if done.rare:
        told = f"marked RARE, held by fewer than {RARE} rows: {done.rare:,} in all; keep only what is known without the data"
        echo("  " + said(told))
    for name in done.left_out:
        why = "too many different texts, or nothing in it"
        echo("  " + said(f"left out: {plain(name)} ({why}); declare it, or leave it out for good"))


@app.command(epilog="Example: oboro synth forecast --domain people.toml --unit row --eps 1 --delta 1e-6")
def forecast(
    domain: DomainFile,
    unit: UnitText = None,
    eps: EpsOrNone = None,
    delta: Delta = None,
    rho: Rho = None,
    method: Method = "marginals",
    n: N = None,
    records: Records = None,
    n_min: Least = None,
    assume_min_eigenvalue: Assumed = None,
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The error of what the model is made of, before anything is spent. Reads no data."""
    from oboro.domain import Domain

    plan = read_plan(
        Domain.from_toml(domain),
        read_unit(unit, domain),
        eps,
        delta,
        rho,
        method,
        n,
        records,
        n_min,
        assume_min_eigenvalue,
    )
    plans.show_forecast(plan, json=json, save=save_plan)


@app.command(
    epilog="Example: oboro synth release people.csv --domain people.toml --eps 1 --delta 1e-6 --ledger people.ledger -o model.oboro"
)
def release(
    data: DataFile,
    *,
    domain: DomainFile,
    eps: EpsOrNone = None,
    delta: Delta = None,
    rho: Rho = None,
    method: Method = "marginals",
    n: N = None,
    records: Records = None,
    n_min: Least = None,
    assume_min_eigenvalue: Assumed = None,
    ledger: LedgerAt,
    output: To,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Learns a model (a file .oboro), or with --method gaussian draws records, and pays for it from the ledger."""
    from oboro.domain import Domain

    account = open_ledger(ledger)
    public = Domain.from_toml(domain)
    if n is None and account.unit.kind == "row" and account.unit.adjacency == "replace":
        if dry_run:
            raise ParameterError(
                "a dry run reads no data",
                given="no --n",
                needed="the number of rows, which is public under replace",
                fix="--n 32561",
            )
        from oboro.synth.coding import count_rows

        n = str(count_rows(data))
        counted = said(f"n = {int(n):,} rows, counted; under replace this number is public")
        echo(counted + "\n", err=True)
    plan = read_plan(public, account.unit, eps, delta, rho, method, n, records, n_min, assume_min_eigenvalue)
    plans.release(plan, data, account, output=output, name=name, dry_run=dry_run, json=json)


@app.command(
    epilog="Example: oboro synth sample model.oboro -n 10000 --where age=18..64 -o synthetic.parquet"
)
def sample(
    model: Annotated[Path, typer.Argument(help="A model that `oboro synth release` wrote.", metavar="MODEL")],
    output: To,
    n: Annotated[str, typer.Option("-n", "--records", help="How many records.", metavar="NUMBER")],
    where: Annotated[
        list[str],
        typer.Option(
            "--where",
            help="Only such records: COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH; repeat for more.",
            metavar="CONDITION",
        ),
    ] = [],
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="Repeats a draw. The model is public, so this harms nobody.", metavar="NUMBER"
        ),
    ] = None,
) -> None:
    """Draws records from a model: as many as you like, at no further cost."""
    from oboro.exact import whole
    from oboro.synth.model import load
    from oboro.synth.writing import check_file, write_records

    check_file(output)
    count = whole("-n", n)
    loaded = load(model)
    table = loaded.sample(count, dict(read_condition(loaded.domain, text) for text in where), seed=seed)
    write_records(table, output)
    echo(labelled("written", said(f"{output}: {table.num_rows:,} synthetic records")))
    echo("  " + labelled("guarantee", said(str(loaded.guarantee))))
    echo("  " + labelled("unit", said(str(loaded.unit))))


@app.command(epilog="Example: oboro synth report people.csv synthetic.parquet -o quality.html")
def report(
    data: DataFile,
    synthetic: Annotated[Path, typer.Argument(help="The synthetic records.", metavar="SYNTHETIC")],
    output: Page,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The model they came from: its promise is shown.", metavar="FILE"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="The column of two labels that a classifier learns.", metavar="COLUMN"),
    ] = None,
    language: Language = None,
    json: Json = False,
) -> None:
    """How good the records are, as one HTML page. INTERNAL: it shows real data and is not private."""
    from oboro.report.quality import write_quality
    from oboro.synth import quality
    from oboro.synth.model import load

    certificate = None if model is None else load(model).certificate
    measured = quality(data, synthetic, target=target)
    write_quality(measured, output, certificate=certificate, language=language)
    if json:
        show_json({**measured.to_dict(), "output": str(output)})
        return
    echo(f"{said(str(measured))}\n\n{labelled('written', str(output))}")


@app.command(
    epilog="Example: oboro synth account --n 1e7 --dims 6 --records 1e7 --delta 1e-5 --min-eigenvalue 0.01"
)
def account(
    n: Annotated[
        str,
        typer.Option(
            "--n", help="Rows of the data; under add/remove a public lower bound.", metavar="NUMBER"
        ),
    ],
    dims: Annotated[int, typer.Option("--dims", help="Numeric columns.", metavar="NUMBER")],
    records: Annotated[
        str, typer.Option("--records", help="Synthetic records that are published; public.", metavar="NUMBER")
    ],
    delta: Annotated[
        str, typer.Option("--delta", help="The probability of an exception, such as 1e-5.", metavar="NUMBER")
    ],
    min_eigenvalue: Annotated[
        str | None,
        typer.Option(
            "--min-eigenvalue", help="Assumed of the data's covariance in [-1, 1].", metavar="NUMBER"
        ),
    ] = None,
    ridge: Annotated[
        str | None,
        typer.Option("--ridge", help="Added to the covariance; then nothing is assumed.", metavar="NUMBER"),
    ] = None,
    json: Json = False,
) -> None:
    """What Gaussian synthetic records cost by the randomness of sampling alone, by every bound. Reads no data."""
    from oboro.synth import account as account_for

    costs = account_for(
        n=n, dims=dims, records=records, delta=delta, min_eigenvalue=min_eigenvalue, ridge=ridge
    )
    if json:
        show_json(costs.to_dict())
    else:
        echo(said(str(costs)))
