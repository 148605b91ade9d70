"""`oboro synth`: synthetic records, from a draft of the domain to the quality report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    DomainFile,
    DryRun,
    Json,
    LedgerAt,
    Name,
    UnitText,
    open_ledger,
    read_unit,
    show_json,
)
from oboro.errors import ParameterError

if TYPE_CHECKING:
    from oboro.domain import Domain
    from oboro.privacy import Unit

app = typer.Typer(help="Synthetic records that behave like the real ones.", no_args_is_help=True)

To = Annotated[Path, typer.Option("-o", "--output", help="Where to write.", metavar="FILE")]
Eps = Annotated[
    str | None,
    typer.Option("--eps", help="Privacy to spend, such as 0.1 or 1/3. Never defaulted.", metavar="NUMBER"),
]
Delta = Annotated[
    str | None,
    typer.Option("--delta", help="With --eps: the probability that the promise excepts.", metavar="NUMBER"),
]
Rho = Annotated[
    str | None,
    typer.Option(
        "--rho", help="Instead of --eps and --delta: zCDP, for a ledger in that currency.", metavar="NUMBER"
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="marginals, quality or moments give a model; gaussian gives records.",
        metavar="METHOD",
    ),
]
N = Annotated[
    str | None,
    typer.Option(
        "--n",
        help="The number of rows, public under replace; by default it is counted, and shown.",
        metavar="NUMBER",
    ),
]
Records = Annotated[
    str | None,
    typer.Option("--records", help="gaussian: how many records; each one costs.", metavar="NUMBER"),
]
Least = Annotated[
    str | None,
    typer.Option("--n-min", help="gaussian, add/remove: a public lower bound on the rows.", metavar="NUMBER"),
]
Assumed = Annotated[
    str | None,
    typer.Option(
        "--assume-min-eigenvalue",
        help="gaussian: assume this of the data instead of a ridge; the promise is conditional.",
        metavar="NUMBER",
    ),
]


@app.command()
def draft(data: DataFile, output: To) -> None:
    """Writes a draft of a domain to edit. It LOOKS AT THE DATA: bounds and values must be set from knowledge."""
    from oboro.synth.draft import WARNING, draft

    domain, left_out = draft(data, output)
    typer.echo(f"written {output}: {len(domain)} columns\n  this draft was {WARNING}")
    for name in left_out:
        typer.echo(
            f"  left out: {name} (too many different texts, or nothing in it); declare it, or leave it out for good"
        )


@app.command()
def forecast(
    domain: DomainFile,
    eps: Eps = None,
    delta: Delta = None,
    rho: Rho = None,
    unit: UnitText = None,
    method: Method = "marginals",
    n: N = None,
    records: Records = None,
    n_min: Least = None,
    assume_min_eigenvalue: Assumed = None,
    save_plan: Annotated[
        Path | None, typer.Option("--save-plan", help="Also write the plan as TOML.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """The error of what the model is made of, before anything is spent. Reads no data."""
    from oboro.domain import Domain

    plan = _plan(
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


@app.command()
def release(
    data: DataFile,
    domain: DomainFile,
    ledger: LedgerAt,
    output: To,
    eps: Eps = None,
    delta: Delta = None,
    rho: Rho = None,
    method: Method = "marginals",
    n: N = None,
    records: Records = None,
    n_min: Least = None,
    assume_min_eigenvalue: Assumed = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Learns a model (a file .oboro), or with --method gaussian draws records, and pays for it from the ledger."""
    from oboro.domain import Domain
    from oboro.release import price

    account = open_ledger(ledger)
    _check_output(output, method)
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
        typer.echo(f"n = {int(n):,} rows, counted; under replace this number is public\n", err=True)
    plan = _plan(public, account.unit, eps, delta, rho, method, n, records, n_min, assume_min_eigenvalue)
    if method == "gaussian" or dry_run:
        plans.release(
            plan, data, account, output=None if dry_run else output, name=name, dry_run=dry_run, json=json
        )
        return
    from oboro.synth import release as release_model

    price(plan, account)
    if not json:
        typer.echo(f"{plan.forecast()}\n", err=True)
    model = release_model(data, plan, ledger=account, name=name)
    model.save(output)
    if json:
        facts = {
            "released": plan.describe()["released"],
            "guarantee": plan.guarantee.to_dict(),
            "unit": plan.unit.to_dict(),
        }
        show_json(
            {
                **facts,
                "name": name,
                "output": str(output),
                "remaining": account.remaining.to_dict(),
                "ledger": model.certificate.record["ledger"],
            }
        )
        return
    typer.echo(f"{model}\n\nwritten    {output}\nremaining  {account.remaining}")


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(help="A model that `oboro synth release` wrote.", metavar="MODEL")],
    output: To,
    n: Annotated[str, typer.Option("-n", "--records", help="How many records.", metavar="NUMBER")],
    where: Annotated[
        list[str],
        typer.Option(
            "--where",
            help="A condition: COLUMN=VALUE, COLUMN=A,B,C or COLUMN=LOW:HIGH; repeat for more.",
            metavar="CONDITION",
        ),
    ] = [],
    seed: Annotated[
        int | None, typer.Option("--seed", help="Repeats a draw. The model is public, so this harms nobody.")
    ] = None,
) -> None:
    """Draws records from a model: as many as you like, at no further cost."""
    from oboro.exact import whole
    from oboro.synth.model import load
    from oboro.synth.writing import check_file, write_records

    check_file(output)
    count = whole("-n", n)
    loaded = load(model)
    table = loaded.sample(count, dict(_condition(loaded.domain, text) for text in where), seed=seed)
    write_records(table, output)
    typer.echo(
        f"written {output}: {table.num_rows:,} synthetic records\n  guarantee  {loaded.guarantee}\n  unit       {loaded.unit}"
    )


@app.command()
def report(
    data: DataFile,
    synthetic: Annotated[Path, typer.Argument(help="The synthetic records.", metavar="SYNTHETIC")],
    output: To,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="The model they came from: its promise is shown.", metavar="MODEL"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="The column of two labels that a classifier learns.", metavar="NAME"),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="en or ja; by default the reader's own.")
    ] = None,
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
    typer.echo(f"{measured}\n\nwritten {output}")


@app.command()
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
    delta: Annotated[str, typer.Option("--delta", metavar="NUMBER")],
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
        typer.echo(str(costs))


def _plan(
    domain: Domain,
    unit: Unit,
    eps: str | None,
    delta: str | None,
    rho: str | None,
    method: str,
    n: str | None,
    records: str | None,
    n_min: str | None,
    assumed: str | None,
) -> Any:
    from oboro.exact import whole
    from oboro.synth import plan

    counts = {"n": n, "records": records, "n_min": n_min}
    whole_counts = {key: None if text is None else whole(key, text) for key, text in counts.items()}
    return plan(
        domain,
        unit=unit,
        eps=eps,
        delta=delta,
        rho=rho,
        method=method,
        assume_min_eigenvalue=assumed,
        **whole_counts,
    )


def _check_output(output: Path, method: str) -> None:
    if method == "gaussian":
        plans.check_output(output)
    elif output.suffix.lower() != ".oboro":
        raise ParameterError(
            "a model is kept in a file that ends in .oboro",
            given=f"-o {output}",
            needed=".oboro",
            fix=f"-o {output.stem or 'model'}.oboro",
        )
    elif not output.parent.is_dir():
        raise ParameterError(
            "the folder of --output does not exist",
            given=f"-o {output}",
            needed="a folder that exists",
            fix=f"-o {output.name}",
        )


def _condition(domain: Domain, text: str) -> tuple[str, Any]:
    """COLUMN=VALUE, COLUMN=A,B,C, or COLUMN=LOW:HIGH of a number or date; an empty value means missing."""
    name, equals, body = text.partition("=")
    if not equals:
        raise ParameterError(
            "--where is not understood",
            given=f"--where {text}",
            needed="COLUMN=VALUE, COLUMN=A,B,C or COLUMN=LOW:HIGH",
            fix="--where age=18:64",
        )
    column = domain[name]
    if body == "":
        return name, None
    if column.kind != "category" and body.count(":") == 1:
        return name, tuple(body.split(":"))
    values: list[Any] = [body] if body in getattr(column, "values", ()) else body.split(",")
    if column.kind == "category" and isinstance(column.value(0), int):
        values = [int(value) if value.lstrip("-").isdigit() else value for value in values]
    return name, values
