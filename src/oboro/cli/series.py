"""`oboro table series`, `tick`, `final` and `play`: tables that come one after the other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    Force,
    Json,
    Language,
    LedgerOrDeclared,
    Output,
    Page,
    To,
    argument,
    open_ledger,
    option,
    protected,
    show_json,
    with_options,
)
from oboro.cli.table import Counted, Event, MaxTicks, read_table, size_text
from oboro.cli.terminal import echo, typed
from oboro.errors import ParameterError
from oboro.files import replaces_releases
from oboro.language import labelled, said

if TYPE_CHECKING:
    from oboro.tables import Series

Ticks = Annotated[int, option("--ticks NUMBER", "How many tables come: the horizon, reserved as a whole.")]
SeriesName = Annotated[str, option("--name TEXT", "The name of the series in the ledger.")]
SeriesFile = Annotated[Path, option("--series FILE", "The series, as `oboro table series` wrote it.")]
LedgerElsewhere = Annotated[
    str | None,
    option("--ledger LEDGER", "The ledger, where it is not the one that the file names."),
]


@with_options
def series(
    counted: Counted,
    ticks: Ticks,
    name: SeriesName,
    output: To,
    ledger: LedgerOrDeclared = None,
    max_ticks: MaxTicks = None,
    event: Event = False,
    json: Json = False,
) -> None:
    """Opens a series: plans it, pays for its whole horizon from the ledger, and writes a file that names it. Reads no data."""
    from oboro.tables import series as open_

    _check_series_file(output)
    budget = "--eps 2" if counted.delta is None else "--eps 2 --delta 1e-6"
    account = open_ledger(ledger, counted.domain, unit="cells:1:1", budget=budget)
    plans.check_delta(account, counted.delta)
    plan = counted.series(protected(account, counted.domain), ticks, max_ticks, event)
    plans.check_place(output)  # before anything is spent, and when it is known what was read
    known = account.find(name) is not None
    if not json:
        found = plans.with_notes(plan.forecast(), plans.of_unit(plan, account))
        echo(typed(f"{plans.in_labels(plan, found)}\n"), err=True)
    opened = open_(plan, ledger=account, name=name)
    opened.save(output)
    cost = account.price(opened.plan.unit, opened.plan.guarantee)
    if json:
        show_json(
            {
                "name": name,
                "ticks": ticks,
                "cost": cost.to_dict(),
                "given_again": known,
                "remaining": account.remaining.to_dict(),
                "output": str(output),
            }
        )
        return
    echo(labelled("written", str(output)))
    echo(labelled("spent", said("nothing: it was open already") if known else str(cost)))
    echo(labelled("remaining", str(account.remaining)))


def tick(
    data: DataFile,
    series: SeriesFile,
    tick: Annotated[int, option("--tick NUMBER", "Which tick, from 0 on.")],
    output: Output = None,
    force: Force = False,
    ledger: LedgerElsewhere = None,
    json: Json = False,
) -> None:
    """Publishes one tick from the data of all ticks up to it, once. Asked again, it gives what was published."""
    opened = _opened(series, ledger)
    known = tick in opened.published
    if force or known:
        replaces_releases()
    if output is not None:
        plans.check_output(opened.plan, output, data)
    if not known and not json:
        _tell_of_texts(data, opened.plan.ticks)
    released = opened.publish(data, tick=tick)
    plans.give(released, opened.ledger, output=output, json=json, given_again=known, paid_before=True)


def final(
    series: SeriesFile,
    output: Output = None,
    force: Force = False,
    incomplete: Annotated[bool, option("--incomplete", "Give up ticks that nobody has begun.")] = False,
    ledger: LedgerElsewhere = None,
    json: Json = False,
) -> None:
    """The table of all ticks, from what was published. Reads no data, and spends nothing."""
    opened = _opened(series, ledger)
    known = opened.over
    if force or known:
        replaces_releases()
    if output is not None:
        plans.check_output(opened.plan, output)
    released = opened.final(incomplete=incomplete)
    plans.give(released, opened.ledger, output=output, json=json, given_again=known, paid_before=True)


def play(
    published: Annotated[
        list[Path], argument("PUBLISHED", "Tables of one series: ticks, the final one, or both. Parquet.")
    ],
    output: Page,
    title: Annotated[str | None, option("--title TEXT", "The title of the page.")] = None,
    language: Language = None,
) -> None:
    """One page that plays the hours: the map over time, small multiples, and the line of one place with its band."""
    from oboro.report import write_hours

    write_hours([read_table(path) for path in published], output, title=title, language=language)
    echo(labelled("written", f"{output} ({size_text(output)})"))


def _opened(file: Path, where: str | None) -> Series:
    from oboro.tables import open_series

    return open_series(file, ledger=None if where is None else open_ledger(where))


def _tell_of_texts(data: Path, ticks: int) -> None:
    """A text file does not say what its columns hold: what is left out of it is for `check` to count, and this says so, whatever it holds."""
    from oboro.engine import open_data
    from oboro.tables.input import TICK

    if open_data(data).types.get(TICK) == "VARCHAR":
        told = f"a record whose {TICK} is no whole number, such as a date, is left out: oboro table check ... --ticks {ticks} counts them"
        echo(said("note: ") + said(told), err=True)


def _check_series_file(output: Path) -> None:
    """Refuses a file of another kind."""
    if output.suffix.lower() != ".toml":
        raise ParameterError(
            "a series is written as TOML",
            given=f"-o {output}",
            needed=".toml",
            fix=f"-o {shlex.quote((output.stem or 'series') + '.toml')}",
        )


_EXAMPLES: dict[Any, str] = {
    series: "oboro table series --domain mesh.toml --ticks 24 --max-ticks 24 --eps 1 --ledger mesh.ledger "
    '--name "1 March" -o series.toml',
    tick: "oboro table tick day.parquet --series series.toml --tick 5 -o 05.parquet",
    final: "oboro table final --series series.toml -o day-final.parquet",
    play: "oboro table play day-final.parquet -o day.html",
}


def add_to(app: typer.Typer) -> None:
    """The commands of a series, among those of tables."""
    for command, example in _EXAMPLES.items():
        app.command(epilog=f"Example: {example}")(command)
