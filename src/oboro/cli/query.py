"""`oboro query` and `oboro check`: questions to a dataset that a TOML file declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import DryRun, Json, Name, Output, open_ledger, show_json
from oboro.errors import DataError, ParameterError

if TYPE_CHECKING:
    from oboro.domain import Domain
    from oboro.privacy import Unit

PeopleFile = Annotated[
    Path, typer.Argument(help="TOML that declares data, ledger, [unit] and [[columns]].", metavar="FILE")
]
Question = Annotated[
    str,
    typer.Argument(
        help="count, sum, mean, variance, covariance, median, quantile or histogram, and columns: 'mean income'.",
        metavar="QUESTION",
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--where", help='Only rows that meet a condition: "age >= 20".', metavar="CONDITION"),
]
By = Annotated[
    list[str], typer.Option("--by", help="One answer for each value of a column.", metavar="COLUMN")
]
Eps = Annotated[
    str | None, typer.Option("--eps", help="Privacy to spend. Never defaulted.", metavar="NUMBER")
]
Rho = Annotated[
    str | None, typer.Option("--rho", help="zCDP to spend, with Gaussian noise.", metavar="NUMBER")
]
ExpectedN = Annotated[
    int | None,
    typer.Option("--expected-n", help="A guess of how many there are, for the forecast.", metavar="N"),
]
Edges = Annotated[
    list[str],
    typer.Option(
        "--edges", help="Of a histogram: NAME=FIRST:LAST:WIDTH or NAME=0,18,65,120.", metavar="NAME=EDGES"
    ),
]

EXAMPLE = 'data = "people.parquet"\nledger = "people.ledger"\n[unit]\nkind = "row"\n[[columns]]\n...'


@dataclass(frozen=True)
class Declared:
    """What a TOML file says about a dataset; paths are relative to the file."""

    data: Path
    ledger: str
    unit: Unit | None
    domain: Domain


def query(
    file: PeopleFile,
    question: Question,
    eps: Eps = None,
    rho: Rho = None,
    where: Where = None,
    by: By = [],
    edges: Edges = [],
    expected_n: ExpectedN = None,
    output: Output = None,
    name: Name = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Asks one question of a dataset, and pays for it from its ledger: oboro query people.toml "mean income" --eps 0.1"""
    from oboro.statistics import Session

    declared = read(file)
    ledger = open_ledger(declared.ledger)
    session = Session(declared.data, domain=declared.domain, unit=declared.unit, ledger=ledger)
    asked: Any = session.plan
    asked = asked if where is None else asked.where(where)
    asked = asked.by(*by) if by else asked
    plan = ask(asked, question, edges)(eps=eps, rho=rho, expected_n=expected_n)
    plans.release(plan, session.source, ledger, output=output, name=name, dry_run=dry_run, json=json)


def check(file: PeopleFile, json: Json = False) -> None:
    """Counts values that are missing, unknown or out of bounds. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.engine import check_columns, open_data

    declared = read(file)
    rows = check_columns(open_data(declared.data), declared.domain.columns)
    if json:
        show_json({"private": True, "columns": rows})
        return
    typer.echo("for the steward's eyes only: these figures are not private\n")
    cells = [list(rows[0]), *[[str(value) for value in row.values()] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        typer.echo("  " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def ask(questions: Any, text: str, edges: list[str] = []) -> Callable[..., Any]:
    """The method that a question names, with its columns and numbers filled in."""
    word, *rest = text.replace(",", " ").split() or [""]
    numbers = [part for part in rest if part[0].isdigit() or part[0] == "."]
    columns = [part for part in rest if part not in numbers]
    one = len(columns) == 1 and not numbers
    if word == "count" and not rest:
        return lambda **said: questions.count(**said)
    if word in ("sum", "variance", "median") and one:
        return lambda **said: getattr(questions, word)(columns[0], **said)
    if word in ("mean", "covariance") and columns and not numbers:
        return lambda **said: getattr(questions, word)(columns, **said)
    if word == "quantile" and len(columns) == 1 and numbers:
        return lambda **said: questions.quantile(columns[0], numbers, **said)
    if word == "histogram" and columns and not numbers:
        from oboro.cli.histogram import read_edges

        cut = dict(map(read_edges, edges))
        return lambda **said: questions.histogram(columns, edges=cut, **said)
    raise ParameterError(
        "the question is not understood",
        given=text,
        needed="count, or one of sum, mean, variance, covariance, median, histogram with columns, "
        "or quantile with a column and numbers",
        fix='"mean income"   "quantile income 0.1 0.5 0.9"   "count" --where "age >= 20"',
    )


def read(file: Path) -> Declared:
    """The declaration of a dataset."""
    from oboro.domain import Domain, read_toml
    from oboro.privacy import unit_from

    record = read_toml(file)
    for key in ("data", "ledger"):
        if not isinstance(record.get(key), str):
            raise DataError(
                f"{file} does not say where the {key} is",
                given=f"no {key}",
                needed=f'{key} = "..."',
                fix=EXAMPLE,
            )
    ledger = record["ledger"]
    return Declared(
        data=file.parent / record["data"],
        ledger=ledger if "://" in ledger else str(file.parent / ledger),
        unit=unit_from(record["unit"]) if "unit" in record else None,
        domain=Domain.from_dict(record, where=str(file)),
    )
