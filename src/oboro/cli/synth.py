"""`oboro synth`: synthetic records, from a draft of the domain to the quality report."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    Delivery,
    DomainFile,
    EpsOrNone,
    Json,
    Language,
    LedgerOrDeclared,
    Options,
    Page,
    Rho,
    Shown,
    To,
    UnitText,
    argument,
    open_ledger,
    option,
    protected,
    read_domain,
    read_unit,
    show_json,
    show_valid,
    with_options,
)
from oboro.cli.terminal import echo, progress_bar
from oboro.errors import DataError, ParameterError
from oboro.language import labelled, phrase, plain, said

if TYPE_CHECKING:
    from oboro.privacy import Unit
    from oboro.synth.draft import Draft

# Options of `oboro synth`, and how they are read.

Delta = Annotated[
    str | None,
    option(
        "--delta NUMBER",
        "With --eps: the probability of an exception, such as 1e-6. Without it: eps alone, more noise.",
    ),
]
Method = Annotated[
    str,
    option("--method WORD", "quality, marginals (quick) or moments for a model; gaussian for records."),
]
Seconds = Annotated[
    str | None,
    option("--seconds NUMBER", "With --method quality: how long it may take, about; 60 by default."),
]
N = Annotated[
    str | None,
    option("--n NUMBER", "The number of rows, public under replace; by default it is counted, and shown."),
]
Records = Annotated[
    str | None, option("--records NUMBER", "With --method gaussian: how many records; each one costs.")
]
Least = Annotated[
    str | None,
    option("--n-min NUMBER", "With --method gaussian, under add/remove: a public lower bound on the rows."),
]
Assumed = Annotated[
    str | None,
    option(
        "--assume-min-eigenvalue NUMBER",
        "With --method gaussian: assume this of the data, not a ridge; the promise is conditional.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Learned(Options):
    """What is learned, how, and at which price."""

    domain: DomainFile
    eps: EpsOrNone = None
    delta: Delta = None
    rho: Rho = None
    method: Method = "quality"
    seconds: Seconds = None
    n: N = None
    records: Records = None
    n_min: Least = None
    assume_min_eigenvalue: Assumed = None

    def plan(self, unit: Unit) -> Any:
        from oboro.exact import whole
        from oboro.synth import plan

        typed = {**asdict(self), "domain": read_domain(self.domain)}
        for name, least in (("n", 1), ("records", 1), ("n_min", 3), ("seconds", 1)):
            typed[name] = (
                None if typed[name] is None else whole(name, typed[name], least=least, open=name != "seconds")
            )
        return plan(unit=unit, **typed)


app = typer.Typer(help="Synthetic records that behave like the real ones.", no_args_is_help=True)


@app.command(epilog="Example: oboro synth draft people.csv -o draft.toml")
def draft(data: DataFile, output: To, json: Json = False) -> None:
    """Writes a draft of a domain to edit. It LOOKS AT THE DATA: bounds and values must be set from knowledge."""
    from oboro.synth.draft import MANY, draft

    done = draft(data, output)
    if json:
        show_json(
            {
                "private": True,
                "output": str(output),
                "columns": list(done.columns),
                "left_out": {name: done.said.get(name, MANY) for name in done.left_out},
                "rare": done.rare,
                "notes": {name: note for name, note in done.said.items() if name not in done.left_out},
            }
        )
    else:
        _tell_draft(done, output)
    if not done.columns:
        raise DataError(
            "nothing could be drafted",
            given="data of which every column was left out",
            needed="a column of numbers, of days as 2013-10-22, or of few texts",
            fix="declare the columns by hand, or mend what is said of them",
        )


def _tell_draft(done: Draft, output: Path) -> None:
    from oboro.synth.draft import MANY, RARE, WARNING

    echo(labelled("written", said(f"{output}: {len(done.columns)} columns")))
    echo("  " + said(f"NOT PRIVATE: this draft was {WARNING}"))
    echo("  " + said("it is no domain yet: no command reads it as long as a mark is left in it"))
    if done.rare:
        told = f"marked RARE, held by fewer than {RARE} rows: {done.rare:,} in all; keep only what is known without the data"
        echo("  " + said(told))
    for name in done.left_out:
        why = done.said.get(name, MANY)
        echo("  " + said(f"left out: {plain(name)} ({why}); declare it, or leave it out for good"))
    for name, note in done.said.items():
        if name not in done.left_out:
            echo("  " + said(f"column {plain(name)}: {note}"))


@app.command(epilog="Example: oboro synth forecast --domain people.toml --unit row --eps 1 --delta 1e-6")
@with_options
def forecast(learned: Learned, show: Shown, unit: UnitText = None) -> None:
    """The error of what the model is made of, before anything is spent. Reads no data."""
    plans.show_forecast(learned.plan(read_unit(unit, learned.domain)), show)


@app.command(
    epilog="Example: oboro synth release people.csv --domain people.toml --eps 1 --delta 1e-6 --ledger people.ledger -o model.oboro"
)
@with_options
def release(data: DataFile, learned: Learned, ledger: LedgerOrDeclared = None, *, delivery: Delivery) -> None:
    """Learns a model (a file .oboro), or with --method gaussian draws records, and pays for it from the ledger."""
    account = open_ledger(ledger, learned.domain, budget="--eps 2 --delta 1e-6")
    unit = protected(account, learned.domain)
    if learned.method != "gaussian":  # which needs one
        plans.check_delta(account, learned.delta)
    if learned.n is None and unit.kind == "row" and unit.adjacency == "replace":
        if delivery.dry_run:
            raise ParameterError(
                "a dry run reads no data",
                given="no --n",
                needed="the number of rows, which is public under replace",
                fix="--n NUMBER",
            )
        from oboro.synth.codes import count_rows

        n = count_rows(data)
        least = 2 if learned.method == "gaussian" else 1
        if n < least:  # nobody typed --n, and another number would not be that of the file
            raise DataError(
                "the data has no rows" if n == 0 else "the data has too few rows",
                given=f"{n} rows",
                needed=f"at least {least}: under replace their number is public, and part of the plan",
                fix="a file with more rows",
            )
        echo(said(f"n = {n:,} rows, counted; under replace this number is public") + "\n", err=True)
        learned = replace(learned, n=str(n))
    plan = learned.plan(unit)
    if not delivery.dry_run and (delivery.name is None or account.find(delivery.name) is None):
        from oboro.engine import open_data

        person = () if plan.unit.column is None else (plan.unit.column,)
        read = getattr(plan, "learned", plan.domain).names
        open_data(data).need(*read, *person)  # before a forecast is shown that nobody needs
    forgotten = plans.of_delta(plan, account) if learned.method != "gaussian" else ()
    with progress_bar():
        plans.release(plan, data, account, delivery, notes=forgotten)


@app.command(
    epilog="Example: oboro synth sample model.oboro -n 10000 --where age=18..64 -o synthetic.parquet"
)
def sample(
    model: Annotated[
        Path, argument("MODEL", "A model that `oboro synth release` wrote, or records with it in their mark.")
    ],
    output: To,
    n: Annotated[str, option("-n --records NUMBER", "How many records.")],
    where: Annotated[
        list[str],
        option(
            "--where CONDITION",
            "Only such records: COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH; COLUMN= for missing ones. Repeat for other columns.",
        ),
    ] = [],
    seed: Annotated[
        int | None, option("--seed NUMBER", "Repeats a draw. The model is public, so this harms nobody.")
    ] = None,
    json: Json = False,
) -> None:
    """Draws records from a model: as many as you like, at no further cost."""
    from oboro.exact import whole
    from oboro.synth.conditions import read_conditions
    from oboro.synth.marks import check_file, mark_of, told_of, wanted_of, write_records
    from oboro.synth.model import MOST_RECORDS, load

    check_file(output)
    count = whole("-n", n, most=MOST_RECORDS, open=True)
    with progress_bar():
        loaded = load(model)
    table = loaded.sample(count, read_conditions(loaded.domain, where), seed=seed)
    beside = write_records(table, output)
    if json:
        made = mark_of(table)
        show_json(
            {
                "output": str(output),
                "mark": None if beside is None else str(beside),
                "records": table.num_rows,
                "seed": made["seed"],
                "where": told_of(wanted_of(made["where"], loaded.domain) or {}, loaded.domain),
                "guarantee": loaded.guarantee.to_dict(),
                "unit": loaded.unit.to_dict(),
            }
        )
        return
    echo(labelled("written", said(f"{output}: {table.num_rows:,} synthetic records")))
    told = "in the file itself" if beside is None else str(beside)
    echo("  " + labelled("mark", said(told)))
    echo("  " + labelled("guarantee", said(str(loaded.guarantee))))
    echo("  " + labelled("unit", said(str(loaded.unit))))


@app.command(epilog="Example: oboro synth check synthetic.parquet --model model.oboro")
def check(
    file: Annotated[Path, argument("FILE", "Synthetic records, or a model.")],
    model: Annotated[
        Path | None,
        option("--model FILE", "The model they came from, in place of the one in their mark."),
    ] = None,
    key: Annotated[
        str | None, option("--key HEX", "The public key you trust, in hex. Without it, the one in the file.")
    ] = None,
    output: Annotated[
        Path | None,
        option("-o --output FILE", "Also write the records anew, as they were drawn again."),
    ] = None,
    json: Json = False,
) -> None:
    """Checks that a file is synthetic, of which release, and that it was not changed."""
    from oboro.files import next_to
    from oboro.release.certificate import promised
    from oboro.synth import check
    from oboro.synth.marks import MOST_CONDITIONS, shown_conditions

    with progress_bar():
        checked = check(file, model=model, public_key=key, output=output)
    verified = checked["signed"] or (checked["redrawn"] and checked["alone"])
    valid = verified and not checked["may_hold_data"]
    if json:
        written = {} if output is None else {"output": str(output)}
        show_json({"valid": valid, "key_checked": key is not None, **checked, **written})
        raise typer.Exit(0 if valid else 1)
    record = checked["certificate"]
    unit, guarantee = promised(record)
    many = checked["records"]
    compared = (
        "drawn again from the model: the same"
        if checked["redrawn"]
        else "the hash in the certificate fits"
        if checked["signed"]
        else "as they were marked; with --model they are drawn again and compared"
        if checked["unchanged"]
        else "their mark has no hash; with --model they are drawn again and compared"
    )
    facts = {
        "synthetic": said("a model") if many is None else said(f"{many:,} records"),
        "compared": said(compared),
        **({"where": shown_conditions(checked["where"])} if checked["where"] else {}),
        "released": phrase(record["released"]),
        "plan": checked["plan"],
        "dataset": record["dataset"],
        "unit": said(str(unit)),
        "guarantee": said(str(guarantee)),
        "ledger": said(f"entry {record['ledger']['reserved_at']} of {record['ledger']['id']}"),
        "time": record["time"],
        "signed by": record["public_key"],
    }
    # nobody signs a mark: whoever has the model draws without the ledger
    unsigned = "verified: the signature of the release that the mark names. Not verified: that these records came from it, which the mark alone says; anybody can write a mark"
    if output is None:
        anew = shlex.join(["oboro", "synth", "check", str(file), "-o", next_to(file)])
        around = f"verified: these records. Not verified: the file around them, which may hold more than a table shows. oboro did not write it, or another version of pyarrow did. Before you pass it on, write it anew: {anew}"
    else:
        around = f"verified: these records. Not verified: {file}, which may hold more than a table shows, and is not to be passed on. {output} holds these records anew, and nothing else"
    notes = []
    if checked["where"]:
        listed = checked["conditions"]
        notes.append(
            f"the conditions were chosen by whoever drew, and nobody signs them: these records say nothing beyond the model but what the conditions say, values and ranges: {listed:,}"
        )
    if checked["may_hold_data"]:
        notes.append(
            f"more than {MOST_CONDITIONS} values or ranges may be a column of real data, and then these records are: pass them on only if you know where the conditions come from"
        )
    show_valid(
        facts,
        key,
        None if verified else around if checked["redrawn"] else unsigned,
        *notes,
        head="valid, under conditions that may hold data" if checked["may_hold_data"] else "valid",
    )
    if output is not None:
        echo("  " + labelled("written", str(output)))
    raise typer.Exit(0 if valid else 1)


@app.command(epilog="Example: oboro synth report people.csv synthetic.parquet -o quality.html")
def report(
    data: DataFile,
    synthetic: Annotated[Path, argument("SYNTHETIC", "The synthetic records.")],
    output: Page,
    model: Annotated[
        Path | None,
        option(
            "--model FILE",
            "The model they came from: its promise is shown, and its domain says what columns hold.",
        ),
    ] = None,
    target: Annotated[
        str | None, option("--target COLUMN", "The column of two labels that a classifier learns.")
    ] = None,
    language: Language = None,
    json: Json = False,
) -> None:
    """How good the records are, as one HTML page. INTERNAL: it shows real data and is not private."""
    from oboro.report.quality import write_quality
    from oboro.synth import quality
    from oboro.synth.model import load
    from oboro.synth.origin import check_order

    swapped = ["oboro", "synth", "report", str(synthetic), str(data), "-o", str(output)]
    for name, value in (("--model", model), ("--target", target), ("--language", language)):
        swapped += [] if value is None else [name, str(value)]
    check_order(data, synthetic, shlex.join(swapped))
    loaded = None if model is None else load(model)
    measured = quality(data, synthetic, target=target, model=loaded)
    write_quality(measured, output, language=language)
    if json:
        show_json({**measured.to_dict(), "output": str(output)})
        return
    echo(f"{measured}\n\n{labelled('written', str(output))}")


@app.command(
    epilog="Example: oboro synth account --n 1e7 --dims 6 --records 1e7 --delta 1e-5 --min-eigenvalue 0.01"
)
def account(
    n: Annotated[str, option("--n NUMBER", "Rows of the data; under add/remove a public lower bound.")],
    dims: Annotated[int, option("--dims NUMBER", "Numeric columns.")],
    records: Annotated[str, option("--records NUMBER", "Synthetic records that are published; public.")],
    delta: Annotated[str, option("--delta NUMBER", "The probability of an exception, such as 1e-5.")],
    min_eigenvalue: Annotated[
        str | None, option("--min-eigenvalue NUMBER", "Assumed of the data's covariance in [-1, 1].")
    ] = None,
    ridge: Annotated[
        str | None, option("--ridge NUMBER", "Added to the covariance; then nothing is assumed.")
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
