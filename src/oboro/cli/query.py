"""`oboro query` and `oboro check`: questions to a dataset that a TOML file declares."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oboro.cli import plans
from oboro.cli.options import (
    Delivery,
    EpsOrNone,
    ExpectedN,
    Json,
    NotNegative,
    Rho,
    argument,
    open_ledger,
    option,
    protected,
    show_checked,
    show_json,
    show_rules,
    with_options,
)
from oboro.cli.terminal import echo
from oboro.errors import DataError, OboroError, ParameterError
from oboro.kinds import nearest
from oboro.language import Lines, labelled, plain, said

if TYPE_CHECKING:
    from oboro.domain import Domain
    from oboro.privacy import Unit
    from oboro.records import Record

# The TOML file that declares a dataset: where data and ledger are, who is protected, what values are possible.

EXAMPLE = """data = "{data}"
ledger = "{ledger}"

[unit]
kind = "row"

[[columns]]
kind = "integer"
name = "{column}"
low = 0
high = 120"""
_DATA = (".csv", ".tsv", ".gz", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class Declared:
    """What a TOML file says about a dataset; paths are relative to the file."""

    data: str | Path  # a file, or the address of a table of a cluster
    ledger: str
    unit: Unit | None
    domain: Domain
    name: str | None = None  # of the table in SQL


def read(file: Path, question: str = "", command: str = "query") -> Declared:
    """The declaration of a dataset, for a command."""
    from oboro.domain import Domain, read_toml
    from oboro.engine.cluster import ADDRESS
    from oboro.ledger.file import is_address
    from oboro.privacy import unit_from

    if file.suffix.lower() in _DATA and file.is_file():
        raise _data_itself(file, question, command)
    record = read_toml(file)
    if "tables" in record:
        raise DataError(
            f"{file} declares several tables, which are asked in SQL",
            given="[tables]",
            needed="a statement of SQL",
            fix=f'oboro sql {shlex.quote(str(file))} "SELECT COUNT(*) FROM ..." --eps 0.1',
        )
    for key in ("data", "ledger"):
        if not isinstance(record.get(key), str):
            raise _unsaid(file, record, key)
    ledger = record["ledger"]
    return Declared(
        data=record["data"] if record["data"].startswith(ADDRESS) else file.parent / record["data"],
        ledger=ledger if is_address(ledger) else str(file.parent / ledger),
        unit=unit_from(record["unit"]) if "unit" in record else None,
        domain=Domain.from_dict(record, where=str(file)),
        name=record.get("name"),
    )


def _unsaid(file: Path, record: Record, key: str) -> OboroError:
    """The error for a file that lacks an entry: with the lines to write above what it has, and no column of it twice."""
    from oboro.domain import Domain

    if "columns" not in record:
        fix = _example("people.parquet", "people.ledger", "age")
    else:
        try:
            Domain.from_dict(record, where=str(file))
        except OboroError as error:  # among others an entry that stands below the columns, and is theirs
            return error
        beside = (file.with_suffix(ending) for ending in _DATA)
        data = next((one.name for one in beside if one.is_file()), "people.csv")
        usual = {"data": data, "ledger": f"{Path(data).stem}.ledger"}
        missing = [name for name in usual if not isinstance(record.get(name), str)]
        fix = Lines("\n".join(f'{name} = "{plain(usual[name])}"' for name in missing))
    return DataError(
        f"{file} does not say where the {key} is",
        given=f"no {key}",
        needed=f'{key} = "..." above the first line in brackets',
        fix=fix,
    )


def _data_itself(file: Path, question: str, command: str) -> DataError:
    """Data was given in place of the file that declares it: the lines to write, with columns that are there."""
    names = _names(file)
    asked = [name for name in names if name in question.replace(",", " ").split()]
    column = (asked or names or ["age"])[0]
    stem = file.name.partition(".")[0]
    lines = _example(file.name, f"{stem}.ledger", column)
    declared = file.with_name(f"{stem}.toml")
    write = plain(f"write {stem}.toml, and ask {stem}.toml:")
    return DataError(
        f"{file} is data; a question needs a file that declares it",
        given=f"columns: {', '.join(names)}" if names else str(file),
        needed="a TOML file with data, ledger, who is protected, and the bounds of each column, "
        "known without looking at the data",
        fix=f"oboro {command} {shlex.quote(str(declared))}" + ("" if command == "check" else " ...")
        if declared.exists()
        else Lines(f"{write}\n{lines}"),
    )


def _example(data: str, ledger: str, column: str) -> Lines:
    return Lines(EXAMPLE.format(data=plain(data), ledger=plain(ledger), column=plain(column)))


def _names(file: Path) -> list[str]:
    """The names of the columns: public in a schema, and in a text file if its first line reads as names."""
    from oboro.engine import open_data

    try:
        names = list(open_data(file).types)
    except OboroError:
        return []
    header = all(name.replace(" ", "_").replace("-", "_").isidentifier() for name in names)
    return names if header else []


PeopleFile = Annotated[
    Path, argument("FILE", "TOML that declares data, ledger, \\[unit] and \\[\\[columns]].")
]
Question = Annotated[
    list[str],
    argument(
        "QUESTION",
        "count, sum, mean, variance, covariance, median, quantile or histogram, and columns: mean income.",
    ),
]
Where = Annotated[
    str | None,
    option("--where CONDITION", 'Only such rows: "age >= 20 and region = \'north\'", or "age = 20..39".'),
]
By = Annotated[
    list[str],
    option(
        "--by COLUMN",
        "One answer for each value of a column; repeat for more. Also bins(age, 10), day=year, day=month.",
    ),
]
Edges = Annotated[
    list[str],
    option(
        "--edges COLUMN=EDGES", "Of a histogram: COLUMN=FIRST:LAST:WIDTH, or COLUMN=18,65 with open ends."
    ),
]
BallOption = Annotated[
    str | None,
    option("--ball NORM:RADIUS", "Of a sum, mean or covariance: clip rows to a ball, as l2:50 or l1:50."),
]
Origin = Annotated[
    str | None,
    option(
        "--origin NUMBERS", "Of a mean, a public guess of it; of the ball, a number for each column: 30,50."
    ),
]
Method = Annotated[
    str | None,
    option(
        "--method WORD",
        "Of a median or quantile: smooth, for noise that follows the data; of quantiles: joint, splitting or independent.",
    ),
]
Delta = Annotated[
    str | None, option("--delta NUMBER", "With --method smooth and --eps: Laplace noise, and this delta.")
]
FunctionFile = Annotated[
    Path | None,
    option(
        "--function FILE",
        "Of a sum: a Python file that ends with a def of a row, from 0 to 1, such as row\\['age'] / 120.",
    ),
]
WORDS = ("count", "sum", "mean", "variance", "covariance", "median", "quantile", "histogram")


@with_options
def query(
    file: PeopleFile,
    question: Question,
    delivery: Delivery,
    where: Where = None,
    by: By = [],
    edges: Edges = [],
    ball: BallOption = None,
    origin: Origin = None,
    method: Method = None,
    delta: Delta = None,
    function: FunctionFile = None,
    eps: EpsOrNone = None,
    rho: Rho = None,
    expected_n: ExpectedN = None,
    not_negative: NotNegative = False,
) -> None:
    """Asks one question of a dataset, and pays for it from its ledger."""
    from oboro.statistics import Session
    from oboro.statistics.session import check_private

    text = " ".join(question)
    declared = read(file, text)
    ledger = open_ledger(declared.ledger, file, budget="--eps 2" if rho is None else "--rho 2")
    plans.check_delta(ledger, delta)
    unit = protected(ledger, file)
    session = Session(declared.data, domain=declared.domain, unit=unit, ledger=ledger)
    clip = read_ball(ball, origin)
    asked: Any = session.plan
    asked = asked if where is None else asked.where(where)
    asked = asked.by(*by) if by else asked
    way = {name: given for name, given in (("method", method), ("delta", delta)) if given is not None}
    if function is not None:
        clip |= {"function": read_function(function)}
    several = [one.strip() for one in text.split(";")]
    if len(several) > 1:
        with_price = session.where(where) if where is not None else session
        batch = (with_price.by(*by) if by else with_price).batch(eps=eps, rho=rho)
        for one in several:
            ask(batch, one, edges, clip, way)(expected_n=expected_n)
        plan: Any = batch.plan
    else:
        plan = ask(asked, text, edges, clip, way)(eps=eps, rho=rho, expected_n=expected_n)
    check_private(plan, session.n)
    plans.release(plan, session.source, ledger, delivery, not_negative=not_negative)


def check(file: PeopleFile, json: Json = False) -> None:
    """Counts values that are missing, unknown or out of bounds, and rows that break a rule. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.engine import check_columns, check_rules, open_data
    from oboro.files import in_utf8

    declared = read(file, command="check")
    source = open_data(declared.data)
    rows, rules = check_columns(source, declared.domain.columns), check_rules(source, declared.domain)
    garbled = lines_not_utf8(declared.data)
    if json:
        show_json({"private": True, "columns": rows, "rules": rules, "lines_not_utf8": garbled})
        return
    show_checked(rows)
    show_rules(rules)
    if garbled and isinstance(declared.data, Path):
        echo("\n" + said(f"{garbled:,} lines are not UTF-8: a text that cannot be read is unknown"))
        echo(labelled("fix", in_utf8(declared.data)))


def lines_not_utf8(path: str | Path) -> int:
    """How many lines of a text file cannot be read as UTF-8; other files say themselves what they hold."""
    if isinstance(path, str) or path.suffix.lower() not in (".csv", ".tsv"):
        return 0
    wrong = 0
    with path.open("rb") as file:
        for line in file:
            try:
                line.decode()
            except UnicodeDecodeError:
                wrong += 1
    return wrong


def ask(
    questions: Any,
    text: str,
    edges: list[str] = [],
    clip: dict[str, object] | None = None,
    way: dict[str, str] | None = None,
) -> Callable[..., Any]:
    """The method that a question names, with its columns and numbers filled in; `clip` says ball=... or
    function=..., `way` method=..., if anything."""
    word, *rest = text.replace(",", " ").split() or [""]
    numbers = [part for part in rest if part[0].isdigit() or part[0] == "."]
    columns = [part for part in rest if part not in numbers]
    one = len(columns) == 1 and not numbers
    if clip and word not in ("sum", "mean", "variance", "covariance"):
        raise ParameterError(
            "a ball is for sums, means and covariances", given=text, fix='"mean height weight" --ball l2:50'
        )
    if clip and "function" in clip:
        if word != "sum" or not columns or numbers or len(clip) > 1:
            raise ParameterError(
                "a function is for sums, without a ball", given=text, fix='"sum age income" --function g.py'
            )
        return lambda **asked: questions.sum_of(clip["function"], columns=columns, **asked)
    if way and word not in ("median", "quantile"):
        raise ParameterError(
            "a method is for medians and quantiles", given=text, fix='"median income" --method smooth'
        )
    if word in ("sum", "mean", "covariance") and columns and not numbers:
        return lambda **asked: getattr(questions, word)(columns, **(clip or {}), **asked)
    if word == "variance" and one:
        return lambda **asked: questions.covariance(columns, **(clip or {}), **asked)
    if word == "count" and not rest:
        return lambda **asked: questions.count(**asked)
    if word == "median" and one:
        return lambda **asked: questions.median(columns[0], **(way or {}), **asked)
    if word == "quantile" and len(columns) == 1 and numbers:
        at = numbers[0] if len(numbers) == 1 else numbers
        return lambda **asked: questions.quantile(columns[0], at, **(way or {}), **asked)
    if word == "histogram" and columns and not numbers:
        from oboro.cli.histogram import read_edges

        cut = dict(map(read_edges, edges))
        return lambda **asked: questions.histogram(columns, edges=cut, **asked)
    close = nearest(word, WORDS) if word not in WORDS else None
    raise ParameterError(
        "the question is not understood" + (f": did you mean {close!r}?" if close else ""),
        given=text,
        needed="count, or one of sum, mean, variance, covariance, median, histogram with columns, "
        "or quantile with a column and numbers",
        fix=f'"{" ".join([close, *rest])}"'
        if close
        else '"mean income", "quantile income 0.1 0.5 0.9", "count" --where "age >= 20"',
    )


def read_function(file: Path) -> str:
    """The text of a function."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(
            "the file of the function cannot be read",
            given=f"--function {file}",
            needed="a Python file in UTF-8",
            fix="--function g.py",
        ) from None


def read_ball(ball: str | None, origin: str | None) -> dict[str, object]:
    """l2:50 and 30,50 as arguments of a question."""
    from oboro.statistics import Ball

    at = None if origin is None else origin.replace(",", " ").split()
    if ball is None:
        return {} if at is None else {"origin": at}
    norm, colon, radius = ball.partition(":")
    if not colon:
        raise ParameterError(
            "the ball is not understood",
            given=f"--ball {ball}",
            needed="a norm and a radius",
            fix="--ball l2:50",
        )
    return {"ball": Ball(norm, radius, at)}
