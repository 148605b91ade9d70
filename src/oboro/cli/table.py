"""`oboro table`: tables of counts, of any size."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    DataFile,
    Delivery,
    DomainFile,
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
    read_domain,
    read_unit,
    show_json,
    with_options,
)
from oboro.cli.terminal import echo, progress_bar
from oboro.errors import OboroError, ParameterError
from oboro.files import reads
from oboro.language import aligned, labelled, phrase, said

if TYPE_CHECKING:
    from oboro.privacy import Unit
    from oboro.tables.plan import TablePlan
    from oboro.tables.series.plan import SeriesPlan
    from oboro.tables.tree import Workload

# What plans of tables are made from on the command line.

Count = Annotated[
    str | None, option("--count COLUMN", "The column that says how many; without it every row counts 1.")
]
StrategyName = Annotated[
    str | None,
    option(
        "--strategy WORD",
        "How it is measured: tree, filtered, adaptive, sized, wavelet, threshold, or a rival that "
        "`oboro table compare` lists.",
    ),
]
Possible = Annotated[
    Path | None, option("--possible FILE", "File of the only cells that can hold anyone. Public.")
]
Impossible = Annotated[
    Path | None, option("--impossible FILE", "File of cells that cannot: the sea. Public.")
]
Total = Annotated[
    int | None, option("--total NUMBER", "How many there are in all, if that is public (under replace).")
]
Workloads = Annotated[
    list[str] | None,
    option(
        "--workload WORD",
        "What readers will ask, for a tree: blocks, squares, squares:3,15, rectangles, cells, marginals:sex,age, "
        "areas:municipality or never_worse; of a series each_tick:8x8 or mean_over_ticks:cells. Repeat to add; by default blocks and "
        "squares.",
    ),
]
Delta = Annotated[
    str | None,
    option(
        "--delta NUMBER",
        "The probability of an exception, such as 1e-6: a tree's noise is then Gaussian. It mostly does not help.",
    ),
]

PublishShare = Annotated[
    str | None,
    option(
        "--publish NUMBER",
        "The share of published cells that may hold nobody, for a tree: what does not stand out stays with its block.",
    ),
]


KnownTotals = Annotated[
    list[str] | None,
    option(
        "--known LEVEL=FILE",
        "Totals that are public from elsewhere and hold exactly: a file with a column LEVEL and one of totals, or total=NUMBER. "
        "By other columns too, as prefecture,sex=FILE. Repeat for more levels.",
    ),
]


def read_known(texts: list[str] | None) -> dict[str, object] | None:
    """`prefecture=totals.csv`, `total=126000000`."""
    from oboro.exact import whole

    found: dict[str, object] = {}
    for text in texts or []:
        level, equals, value = text.partition("=")
        if not equals or not level or not value:
            raise ParameterError(
                "known totals are not understood",
                given=f"--known {text}",
                needed="--known LEVEL=FILE or --known total=NUMBER",
                fix="--known prefecture=totals.csv",
            )
        found[level] = whole("total", value) if level == "total" else Path(value)
    return found or None


@dataclass(frozen=True, kw_only=True)
class Counted(Options):
    """What a plan of a table is made from."""

    domain: DomainFile
    count: Count = None
    eps: Eps
    delta: Delta = None
    strategy: StrategyName = None
    possible: Possible = None
    impossible: Impossible = None
    total: Total = None
    workload: Workloads = None
    publish: PublishShare = None
    known: KnownTotals = None

    def plan(self, unit: Unit, expected_total: int | None) -> TablePlan:
        from oboro.tables import plan

        read = {"domain": read_domain(self.domain), "workload": read_workload(self.workload)}
        known = read_known(self.known)
        made: TablePlan = plan(
            unit=unit, expected_total=expected_total, **{**asdict(self), **read, "known": known}
        )
        return made

    def series(self, unit: Unit, ticks: int, max_ticks: int | None, event: bool) -> SeriesPlan:
        """The same for a series of tables."""
        from oboro.tables import plan

        read = {"domain": read_domain(self.domain), "workload": read_workload(self.workload)}
        over = {"ticks": ticks, "max_ticks": max_ticks, "event": event}
        made: SeriesPlan = plan(
            unit=unit, **{**asdict(self), **read, **over, "known": read_known(self.known)}
        )
        return made


def unit_of(text: str | None, domain: Path) -> Unit:
    """`--unit`, or `[unit]` of the domain's file, or one person in one cell."""
    from oboro.domain import read_toml
    from oboro.privacy import Unit

    if text is None and "unit" not in read_toml(domain, "domain"):
        return Unit.cells()
    return read_unit(text, domain)


def read_workload(kinds: list[str] | None) -> Workload | None:
    """`squares:3,15` and the like, added up."""
    from oboro.exact import whole
    from oboro.kinds import unknown
    from oboro.records import read
    from oboro.tables.tree.workload import KINDS, LONG_SIDES, OVER_TICKS, SIDES, Workload

    if not kinds:
        return None
    usual = {"squares": SIDES, "rectangles": LONG_SIDES}
    parts: list[dict[str, object]] = []
    for text in kinds:
        kind, _, more = text.partition(":")
        if kind not in KINDS:
            raise unknown("workload", kind, KINDS)
        values = [value for value in more.split(",") if value]
        if kind in ("areas", *OVER_TICKS):
            parts.append({"kind": kind, **({"columns": [[value] for value in values]} if values else {})})
        elif kind == "marginals":
            parts.append({"kind": kind, **({"columns": [values]} if values else {})})
        else:
            sides = [whole("side", value) for value in values] or list(usual.get(kind, ()))
            parts.append({"kind": kind, **({"sides": sides} if sides else {})})
    found: Workload = read(Workload, parts, "workload")
    return found


# `oboro table forecast`: the error of a table before anything is spent, in print or as a page.

_GUESS = "A guess of how many there are, for the forecast, and for the strategy where none is named."
Expected = Annotated[int | None, option("--expected-n --expected-total NUMBER", _GUESS)]
ExpectedShort = Annotated[int | None, option("--expected-n NUMBER", _GUESS)]
Ticks = Annotated[
    int | None, option("--ticks NUMBER", "Of a series: how many tables come one after the other.")
]
MaxTicks = Annotated[
    int | None, option("--max-ticks NUMBER", "In how many ticks one unit counts, in one cell each.")
]
Event = Annotated[
    bool, option("--event", "With a unit of rows: protect one tick of somebody, not a person over time.")
]
ForecastPage = Annotated[Path | None, option("-o --output FILE", "Also write a page.")]


@with_options
def forecast(
    counted: Counted,
    show: Shown,
    unit: UnitText = None,
    expected_total: Expected = None,
    output: ForecastPage = None,
    language: Language = None,
    ticks: Ticks = None,
    max_ticks: MaxTicks = None,
    event: Event = False,
) -> None:
    """The error by block size, before anything is spent. Reads no data. The unit is one person in one cell unless said."""
    if output is not None and output.suffix.lower() != ".html":
        raise ParameterError(
            "a forecast is written as a page",
            given=f"-o {output}",
            needed=".html",
            fix=f"-o {shlex.quote((output.stem or 'forecast') + '.html')}",
        )
    if ticks is not None:
        if output is not None or expected_total is not None:
            raise ParameterError(
                "the forecast of a series is printed, without a guess",
                given="-o" if output is not None else "--expected-n",
                needed="--ticks alone",
            )
        made = counted.series(unit_of(unit, counted.domain), ticks, max_ticks, event)
        return plans.show_forecast(made, show)
    plan = counted.plan(unit_of(unit, counted.domain), expected_total)
    if output is not None:
        from oboro.report.forecast import write_forecast

        write_forecast(plan, output, expected_total=expected_total, language=language)
    plans.show_forecast(plan, show, plan.forecast(expected_total))
    if output is not None:
        echo(labelled("written", str(output)), err=show.json)


# `oboro table ask`: questions to a published table.

Published = Annotated[
    Path,
    argument(
        "PUBLISHED",
        "The published table: the Parquet or Arrow file, by strategy tree, filtered, adaptive or sized.",
    ),
]
Question = Annotated[
    list[str] | None,
    argument(
        "QUESTION",
        "COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH. What is not named is taken as a whole.",
    ),
]
Level = Annotated[float, option("--level NUMBER", "How sure the interval is.")]


def ask(published: Published, question: Question = None, level: Level = 0.95, json: Json = False) -> None:
    """How many a published table counts in a part of it, with an interval. Needs the file alone."""
    from oboro.tables import ask as ask_table
    from oboro.tables.tree.answers import read_question

    answer = ask_table(published, read_question(question or []), level=level)
    if json:
        show_json(answer.to_dict())
        return
    echo(said(str(answer)))


app = typer.Typer(
    help="Private tables of counts: meshes, and meshes by anything, of any size.", no_args_is_help=True
)

Strategies = Annotated[
    list[str] | None, option("--strategy WORD", "Only this one; repeat for more. All by default.")
]
Workers = Annotated[
    int | None,
    option(
        "--workers NUMBER",
        "So many processes measure the table, sub-tree by sub-tree; for strategies filtered and wavelet, and tree of one column.",
    ),
]
PartsFolder = Annotated[
    Path | None,
    option(
        "--parts FOLDER",
        "With --workers: a new folder for the table, as Parquet files; the ledger keeps the list of their hashes.",
    ),
]
SeveralEps = Annotated[
    list[str] | None,
    option("--eps NUMBER", "With --internal: how it would look at this eps; repeat for more."),
]
PublishedFile = Annotated[Path, argument("PUBLISHED", "The published table: Parquet or CSV.")]


@app.command(epilog="Example: oboro table check cells.parquet --domain city.toml --count people")
def check(
    data: DataFile,
    domain: DomainFile,
    count: Count = None,
    ticks: Annotated[
        int | None,
        option("--ticks NUMBER", "Of a series: how many ticks there are; a record without one is left out."),
    ] = None,
    json: Json = False,
) -> None:
    """Counts what is wrong with the records. FOR THE STEWARD'S EYES: this is not private."""
    from oboro.engine import open_data
    from oboro.release.forecast import in_labels
    from oboro.tables import check as check_cells
    from oboro.tables.input import TICK

    declared = read_domain(domain)
    rows, labels = check_cells(data, declared, count, ticks=ticks), dict(declared.labels)
    if json:
        show_json({"private": True, "problems": rows})
        return
    echo(said("for the steward's eyes only: these figures are not private") + "\n")
    told = [[phrase(in_labels(row["problem"], labels)), f"{row['records']:,}"] for row in rows]
    echo("\n".join(aligned(told)))
    known = [name for column in declared for name in column.sources]
    if ticks is None and TICK not in known and TICK in open_data(data).types:
        echo("\n" + said("note: ") + said(f"column {TICK!r} was not looked at; of a series: --ticks NUMBER"))


app.command(epilog="Example: oboro table forecast --domain city.toml --eps 0.5")(forecast)


@app.command(
    epilog="Example: oboro table release cells.parquet --domain city.toml --count people --eps 0.5 --ledger city.ledger -o published.parquet"
)
@with_options
def release(
    data: DataFile,
    counted: Counted,
    delivery: Delivery,
    ledger: LedgerOrDeclared = None,
    expected_total: ExpectedShort = None,
    workers: Workers = None,
    parts: PartsFolder = None,
) -> None:
    """Publishes the table and pays for it from the ledger, whose unit is protected."""
    from oboro.tables.subtrees.parts import keep_list
    from oboro.tables.subtrees.spread import spread_over

    if parts is not None and delivery.output is not None:
        raise ParameterError(
            "a table goes into a file, or into a folder of parts",
            given=f"-o {delivery.output} --parts {parts}",
            needed="one of them",
            fix=f"--parts {shlex.quote(str(parts))}",
        )
    budget = "--eps 2" if counted.delta is None else "--eps 2 --delta 1e-6"
    account = open_ledger(ledger, counted.domain, unit="cells:1:1", budget=budget)
    plans.check_delta(account, counted.delta)
    plan = counted.plan(protected(account, counted.domain), expected_total)
    notes = _forgotten(plan, data)
    with progress_bar(), spread_over(data, plan, workers, parts) as spread:
        plans.release(
            plan,
            spread,
            account,
            delivery,
            notes=notes,
            keep=None if parts is None else lambda released: keep_list(released, parts, account),
        )


# the last ones are Japanese: population, persons, counts, households, total
_LIKE_COUNTS = re.compile(
    r"n|t\d{9}|.*(count|people|persons|population|inhabitants|households|total|\u4eba\u53e3|\u4eba\u6570|\u4ef6\u6570|\u4e16\u5e2f|\u7dcf\u6570).*",
    re.IGNORECASE,
)


def _forgotten(plan: TablePlan, data: Path) -> tuple[str, ...]:
    """Says that rows are counted, where the file has a column that is called as counts are. From names alone, which are public."""
    from oboro.engine import open_data

    if plan.count is not None or "://" in str(data):
        return ()
    known = {name for column in plan.domain for name in column.sources} | {plan.unit.column}
    try:
        names = list(open_data(data).types)
    except OboroError:  # the run will say so, if it reads the file at all
        return ()
    like = next((name for name in names if name not in known and _LIKE_COUNTS.fullmatch(name)), None)
    if like is None:
        return ()
    return (f"rows are counted, one by one; to add up the column {like}: --count {shlex.quote(like)}",)


@app.command(epilog="Example: oboro table compare cells.parquet --domain city.toml --count people --eps 0.5")
def compare(
    data: DataFile,
    *,
    domain: DomainFile,
    count: Count = None,
    unit: UnitText = None,
    eps: Eps,
    strategy: Strategies = None,
    trials: Annotated[int, option("--trials NUMBER", "How often each is run.", min=1)] = 1,
    json: Json = False,
) -> None:
    """Every strategy side by side ON PUBLIC DATA: how far off each would be. Nothing of this is private."""
    from oboro.tables import compare as compare_strategies

    with progress_bar():
        found = compare_strategies(
            data,
            read_domain(domain),
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
        Path | None, option("--certificate FILE", "By default the one beside the table, if there is one.")
    ] = None,
    title: Annotated[str | None, option("--title TEXT", "The title of the page.")] = None,
    language: Language = None,
    internal: Annotated[
        Path | None,
        option(
            "--internal FILE",
            "The TRUE cells: the page shows them beside what is released. NEVER PUBLISH IT.",
        ),
    ] = None,
    eps: SeveralEps = None,
    outline: Annotated[
        Path | None,
        option("--outline FILE", "GeoJSON that is drawn beneath instead of the land. Public."),
    ] = None,
    output: Page,
) -> None:
    """One page, with everything in it, that shows the published table as a map."""
    from oboro.release import verify_certificate
    from oboro.report import Comparison, write_map

    public = read_domain(domain)
    table = read_table(published)
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
    write_map(
        table,
        public,
        output,
        certificate=signed,
        internal=comparison,
        title=title,
        language=language,
        count=count if internal is None else None,
        outline=outline,
    )
    echo(labelled("written", f"{output} ({size_text(output)})"))
    if internal:
        echo(said("NEVER PUBLISH IT: it shows true counts"))


def size_text(path: Path) -> str:
    bytes_ = path.stat().st_size
    return f"{bytes_ / 1e6:.1f} MB" if bytes_ >= 1e6 else f"{bytes_ / 1e3:.0f} kB"


def read_table(path: Path) -> Any:
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
