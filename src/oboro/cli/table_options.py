"""What plans of tables are made from on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli.options import read_unit

if TYPE_CHECKING:
    from oboro.privacy import Unit
    from oboro.tables.plan import TablePlan
    from oboro.tables.tree import Workload

Count = Annotated[
    str | None,
    typer.Option(
        "--count", help="The column that says how many; without it every row counts 1.", metavar="COLUMN"
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        help="How it is measured: tree (the default), filtered, adaptive, wavelet, threshold, or a rival that "
        "`oboro table compare` lists.",
        metavar="WORD",
    ),
]
Possible = Annotated[
    Path | None,
    typer.Option("--possible", help="File of the only cells that can hold anyone. Public.", metavar="FILE"),
]
Impossible = Annotated[
    Path | None,
    typer.Option("--impossible", help="File of cells that cannot: the sea. Public.", metavar="FILE"),
]
Total = Annotated[
    int | None,
    typer.Option(
        "--total", help="How many there are in all, if that is public (under replace).", metavar="NUMBER"
    ),
]
Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        help="What readers will ask, for a tree: blocks, squares, squares:3,15, rectangles, cells, marginals:sex,age "
        "or never_worse. Repeat to add; by default blocks and squares.",
        metavar="WORD",
    ),
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        help="The probability of an exception, such as 1e-6: a tree's noise is then Gaussian. It mostly does not help.",
        metavar="NUMBER",
    ),
]


def make_plan(
    domain: Path,
    eps: str,
    unit: Unit,
    strategy: str | None,
    count: str | None,
    possible: Path | None,
    impossible: Path | None,
    total: int | None,
    workload: list[str] | None,
    delta: str | None,
) -> TablePlan:
    """A plan from what was typed."""
    from oboro.domain import Domain
    from oboro.tables import plan

    public = Domain.from_toml(domain)
    return plan(
        public,
        unit=unit,
        eps=eps,
        strategy=strategy,
        count=count,
        possible=possible,
        impossible=impossible,
        total=total,
        workload=_workload(workload),
        delta=delta,
    )


def unit_of(text: str | None, domain: Path) -> Unit:
    """`--unit`, or `[unit]` of the domain's file, or one person in one cell."""
    from oboro.domain import read_toml
    from oboro.privacy import Unit

    if text is None and "unit" not in read_toml(domain):
        return Unit.cells()
    return read_unit(text, domain)


def _workload(kinds: list[str] | None) -> Workload | None:
    """`squares:3,15` and the like, added up."""
    from oboro.exact import whole
    from oboro.kinds import unknown
    from oboro.records import read
    from oboro.tables.tree.workload import KINDS, LONG_SIDES, SIDES, Workload

    if not kinds:
        return None
    usual = {"squares": SIDES, "rectangles": LONG_SIDES}
    parts: list[dict[str, Any]] = []
    for text in kinds:
        kind, _, more = text.partition(":")
        if kind not in KINDS:
            raise unknown("workload", kind, KINDS)
        values = [value for value in more.split(",") if value]
        if kind == "marginals":
            parts.append({"kind": kind, **({"columns": [values]} if values else {})})
        else:
            sides = [whole("side", value) for value in values] or list(usual.get(kind, ()))
            parts.append({"kind": kind, **({"sides": sides} if sides else {})})
    found: Workload = read(Workload, parts, "workload")
    return found
