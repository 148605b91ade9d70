"""`oboro table forecast`: the error of a table before anything is spent, in print or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oboro.cli import plans
from oboro.cli.options import DomainFile, Eps, Json, Language, SavePlan, UnitText, show_json
from oboro.cli.table_options import (
    Count,
    Delta,
    Impossible,
    Possible,
    StrategyName,
    Total,
    Workloads,
    make_plan,
    unit_of,
)
from oboro.cli.terminal import echo
from oboro.errors import ParameterError
from oboro.language import labelled, plain, said

Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-n",
        "--expected-total",
        help="A guess of how many there are, for the forecast.",
        metavar="NUMBER",
    ),
]
Page = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Also write a page.", metavar="FILE"),
]


def forecast(
    *,
    domain: DomainFile,
    count: Count = None,
    unit: UnitText = None,
    eps: Eps,
    delta: Delta = None,
    strategy: StrategyName = None,
    possible: Possible = None,
    impossible: Impossible = None,
    total: Total = None,
    workload: Workloads = None,
    expected_total: Expected = None,
    output: Page = None,
    language: Language = None,
    save_plan: SavePlan = None,
    json: Json = False,
) -> None:
    """The error by area, before anything is spent. Reads no data. The unit is one person in one cell unless said."""
    if output is not None and output.suffix.lower() != ".html":
        raise ParameterError(
            "a forecast is written as a page",
            given=f"-o {output}",
            needed=".html",
            fix=f"-o {output.stem or 'forecast'}.html",
        )
    own = unit_of(unit, domain)
    plan = make_plan(domain, eps, own, strategy, count, possible, impossible, total, workload, delta)
    if output is not None:
        from oboro.report.forecast import write_forecast

        write_forecast(plan, output, expected_total=expected_total, language=language)
    if expected_total is None:
        plans.show_forecast(plan, json=json, save=save_plan)
    elif json:
        facts = {"released": plan.describe()["released"], "guarantee": plan.guarantee.to_dict()}
        show_json({**facts, "forecast": plan.forecast(expected_total).to_dict()})
    else:
        plans.show_forecast(plan, json=False, save=save_plan)
        for note in plan.forecast(expected_total).notes:
            if note not in plan.forecast().notes:
                echo(f"  {said('note')}: {said(plain(note))}")
    if output is not None:
        echo(labelled("written", str(output)), err=json)
