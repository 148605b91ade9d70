"""`oboro audit`: attacks plans with neighbouring data, and says what it could certify."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oboro.cli.options import Json, show_json
from oboro.cli.terminal import echo, is_watched
from oboro.errors import OboroError, ParameterError
from oboro.language import left, said

if TYPE_CHECKING:
    from oboro.audit import AuditReport


TRIALS = 200_000


def audit(
    plans: Annotated[list[Path], typer.Argument(help="Plans in TOML.", metavar="PLAN")] = [],
    everything: Annotated[
        bool, typer.Option("--all", help="A small sample of every kind of plan there is.")
    ] = False,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            help="Measurements in each of the two worlds: 200,000, or with --all 40,000 and fewer where one is slow.",
            show_default=False,
            metavar="NUMBER",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write a page.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Attacks plans on worst-case neighbours and random ones. Spends nothing: the data are made up."""
    if not plans and not everything:
        raise ParameterError(
            "nothing to audit", given="no plan", needed="a plan file, or --all", fix="oboro audit --all"
        )
    reports = []
    for report, brief in _reports(plans, everything, trials):
        reports.append(report)
        if not json:
            echo(_line(report) if brief and report.verdict == "holds" else said(str(report)))
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


def _reports(plans: list[Path], everything: bool, trials: int | None) -> Iterator[tuple[AuditReport, bool]]:
    """Reports, each as soon as it is there, and whether one line says enough."""
    from oboro.audit import everything as all_of_them
    from oboro.audit import run
    from oboro.audit.samples import TRIALS as EACH
    from oboro.release import load_plan

    loaded = [(path, load_plan(path)) for path in plans]
    for path, plan in loaded:
        yield replace(run(plan, trials or TRIALS), name=path.stem), False
    if everything:
        with _watched() as watch:
            for report in all_of_them(trials or EACH, watch=watch):
                yield report, True


def _line(report: AuditReport) -> str:
    closest = report.closest
    share = 100 * closest.eps_lower / max(float(closest.promised), 1e-12)
    found = said(f"{share:4.0f}% of {report.guarantee.unconditional}")
    return f"{said(report.verdict)}  {left(report.name, 40)} {said(report.how)} {found}"


@contextmanager
def _watched() -> Iterator[Callable[[str, int, int], None] | None]:
    """A progress bar on stderr, on a terminal only."""
    if not is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(said("audit"), total=1)

        def watch(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield watch
