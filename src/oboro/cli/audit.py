"""`oboro audit`: attacks plans with neighbouring data, and says what it could certify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oboro.cli.options import Json, show_json
from oboro.errors import OboroError, ParameterError


def audit(
    plans: Annotated[list[Path], typer.Argument(help="Plans in TOML.", metavar="[PLAN]...")] = [],
    everything: Annotated[
        bool, typer.Option("--all", help="Small samples of the main kinds of plan.")
    ] = False,
    trials: Annotated[
        int, typer.Option("--trials", help="Measurements in each of the two worlds.")
    ] = 200_000,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write a page.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Attacks plans on their own worst-case neighbours. Spends nothing: the data are made up."""
    from oboro.audit import run, samples
    from oboro.release import load_plan

    chosen = [load_plan(path) for path in plans] + (list(samples().values()) if everything else [])
    if not chosen:
        raise ParameterError(
            "nothing to audit", given="no plan", needed="a plan file, or --all", fix="oboro audit --all"
        )
    reports = []
    for plan in chosen:
        reports.append(run(plan, trials))
        if not json:
            typer.echo(str(reports[-1]))
    if output is not None:
        from oboro.report.audit import write_audit

        write_audit(reports, output)
    if json:
        show_json([report.to_dict() for report in reports])
    if any(report.verdict != "holds" for report in reports):
        raise OboroError(
            "a promise is broken: see above",
            needed="every verdict to be 'holds'",
            fix="do not release with that plan",
        )
