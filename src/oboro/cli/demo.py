"""`oboro demo`: a first release on generated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oboro.errors import LedgerError

PEOPLE = 20_000


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write into.", metavar="FOLDER")
    ] = Path("oboro-demo"),
) -> None:
    """Generates data, creates a ledger, publishes a private histogram with its certificate, and checks it."""
    from oboro.domain import Category, Domain, Integer
    from oboro.ledger import Ledger
    from oboro.privacy import Pure, Unit
    from oboro.release import price, run, verify_certificate
    from oboro.statistics import histogram_plan

    output.mkdir(parents=True, exist_ok=True)
    ledger_path = output / "people.ledger"
    if ledger_path.exists():
        raise LedgerError(
            "the demo was run here before",
            given=str(ledger_path),
            needed="an empty folder: a ledger is never overwritten",
            fix="oboro demo -o another-folder",
        )
    people = output / "people.csv"
    people.write_text(_generated(), encoding="utf-8")
    domain = Domain([Integer("age", 0, 120), Category("region", ["north", "south"])])
    domain.to_toml(output / "people.toml")
    typer.echo(f"{PEOPLE:,} generated people in {people}\n")

    ledger = Ledger.create(ledger_path, dataset="demo people", unit=Unit.row(), budget=Pure(1))
    plan = histogram_plan(
        domain, ["region", "age"], unit=ledger.unit, eps="0.5", edges={"age": range(0, 121, 20)}
    )
    typer.echo(f"{plan.forecast()}\n")
    typer.echo(f"will cost  {price(plan, ledger)} of {ledger.budget}\n")
    release = run(plan, people, ledger, name="people by region and age")
    published = output / "published.csv"
    certificate = release.save(published)
    typer.echo(
        f"{release}\n\nwritten    {published}\n           {certificate}\nremaining  {ledger.remaining}\n"
    )
    verify_certificate(certificate, public_key=ledger.public_key)
    typer.echo(f"verified   oboro certificate verify {certificate}")


def _generated() -> str:
    """Ages and regions of people who do not exist, the same every time. This is data, not noise."""
    import random

    draw = random.Random("oboro demo")
    rows = [
        f"{min(120, max(0, int(draw.gauss(44, 23))))},{draw.choice(('north', 'north', 'south'))}"
        for _ in range(PEOPLE)
    ]
    return "age,region\n" + "\n".join(rows) + "\n"
