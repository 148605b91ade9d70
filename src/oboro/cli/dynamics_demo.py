"""`oboro dynamics demo`: a household's load through a thermal lag, from the signal to the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oboro.cli.dynamics_options import read_system, system_plan
from oboro.cli.terminal import echo
from oboro.errors import LedgerError
from oboro.language import labelled

PAGES = ("band.html", "band-with-truth.html", "outliers.html")


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write into.", metavar="FOLDER")
    ] = Path("dynamics-demo"),
    data: Annotated[
        Path | None, typer.Option("--data", help="A real load instead of a generated one.", metavar="FILE")
    ] = None,
    column: Annotated[str, typer.Option("--column", help="Its column.", metavar="COLUMN")] = "load",
) -> None:
    """Publishes a household's load through a thermal lag: a week of half hours, with the band over time and the outliers page."""
    from oboro.report.outliers import write_outliers

    made, released = publish_household(output, data, column)
    write_outliers(output / "outliers.html", eps="1", delta="1e-3")
    echo(f"{made.forecast()}\n\n{released}\n")
    for page in ("published.csv", *PAGES):
        echo(labelled("written", str(output / page)))


def fresh(output: Path, *names: str) -> None:
    """Makes the folder. Nothing that stands there already is written over: it may be somebody's data."""
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (output / name).exists():
            raise LedgerError(
                "the demo was run here before, or the folder is in use",
                given=str(output / name),
                needed="an empty folder: a demo writes over nothing",
                fix="-o another-folder",
            )


def publish_household(output: Path, data: Path | None = None, column: str = "load") -> tuple[Any, Any]:
    """Writes a feeder, a load if none is given, its release and two pages; returns the plan and the release."""
    import numpy as np

    from oboro.dynamics.household import FEEDER, household_load
    from oboro.dynamics.operators import respond
    from oboro.dynamics.signal import from_table
    from oboro.ledger import Ledger
    from oboro.privacy import Approx, unit_from
    from oboro.release import run
    from oboro.report.band import write_band

    feeder, book = output / "feeder.toml", output / "load.ledger"
    made_here = () if data is not None else ("load.csv",)
    fresh(output, "load.ledger", "feeder.toml", *made_here, "published.csv", *PAGES)
    feeder.write_text(FEEDER, encoding="utf-8")
    real = data is not None
    if data is None:
        data = output / "load.csv"
        data.write_text("load\n" + "".join(f"{x}\n" for x in household_load(336)), encoding="utf-8")
    unit = unit_from(read_system(feeder)["unit"])
    made = system_plan(feeder, unit, None, [column], eps="1", delta="1e-3", alpha="1.5")
    load = from_table(data, (column,))[: made.horizon + 1]
    ledger = Ledger.create(book, dataset="household load", unit=unit, budget=Approx(1, "1e-3"))
    released = run(made, load, ledger, name="load")
    released.save(output / "published.csv")
    truth = respond(made.system, np.zeros(made.system.states), made.prepare(load).u)[:, 0].tolist()
    signed = released.certificate
    write_band(output / "band.html", made, released, certificate=signed)
    write_band(output / "band-with-truth.html", made, released, truth=truth, private=real, certificate=signed)
    return made, released
