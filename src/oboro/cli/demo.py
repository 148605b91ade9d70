"""`oboro demo`: a population mesh, from generated cells to a published table, its certificate and a map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from oboro.cli.options import option
from oboro.cli.terminal import echo
from oboro.language import labelled, said


def demo(
    output: Annotated[Path, option("-o --output FOLDER", "The folder to write into.")] = Path("oboro-demo"),
) -> None:
    """Generates a city that does not exist, publishes its population mesh privately, and draws the map.

    And the load of a household that does not exist either, over time.
    """
    import pyarrow.parquet as pq
    import tomli_w

    from oboro.cli.dynamics import fresh, publish_household
    from oboro.domain import Domain, Grid
    from oboro.files import write_whole
    from oboro.ledger import Ledger
    from oboro.privacy import Pure, Unit
    from oboro.release import run, verify_certificate
    from oboro.report import write_map
    from oboro.tables import plan as table_plan

    where = {
        name: output / name
        for name in ("city.ledger", "cells.parquet", "city.toml", "published.parquet", "map.html")
    }
    fresh(output, *where, "household")
    cells = _generated()
    with where["cells.parquet"].open("wb") as file:  # by its path, pyarrow might take it for an address
        pq.write_table(cells, file)
    domain = Domain([Grid("row", "col", shape=(512, 512))])
    unit = Unit.cells()
    declared = {"data": "cells.parquet", "ledger": "city.ledger", "count": "people", "unit": unit.to_dict()}
    write_whole(where["city.toml"], tomli_w.dumps({**declared, **domain.to_dict()}).encode())
    city = said(f"{cells.num_rows:,} inhabited cells of 512 x 512, nobody in them is real")
    echo(labelled("generated", city) + "\n")

    ledger = Ledger.create(where["city.ledger"], dataset="demo city", unit=unit, budget=Pure(1))
    plan = table_plan(domain, unit=unit, eps="0.5", count="people")

    def tell(forecast: object) -> None:
        echo(f"{forecast}\n")
        echo(labelled("will cost", said(f"{plan.guarantee} of a budget of {ledger.budget}")) + "\n")

    release = run(plan, where["cells.parquet"], ledger, "population mesh", tell=tell)
    certificate = release.save(where["published.parquet"])
    signed = verify_certificate(certificate, public_key=ledger.public_key)
    write_map(
        release.to_arrow(),
        domain,
        where["map.html"],
        certificate=signed,
    )
    echo(f"{release}\n")
    echo(labelled("written", said(f"{where['published.parquet']}, a non-negative table")))
    echo(labelled("", said(f"{certificate}, signed")))
    echo(labelled("", said(f"{where['map.html']}, the map: open it in a browser")))
    publish_household(output / "household")
    page = output / "household" / "band-with-truth.html"
    echo(labelled("", said(f"{page}, a household's load over time, in its band")))
    echo(labelled("remaining", str(ledger.remaining)) + "\n")
    echo(labelled("next", f"oboro certificate verify {certificate}"))
    echo(labelled("", f"oboro ledger show {where['city.ledger']}"))
    echo(labelled("", f"oboro studio {where['city.toml']}"))
    echo(labelled("", said("the studio, in a browser: it needs pip install 'oboro[service]'")))


def _generated() -> Any:
    """The inhabited cells of the generated city as a table of row, col and people."""
    import numpy as np
    import pyarrow as pa

    from oboro.tables import city

    people = city()
    row, col = np.nonzero(people)
    return pa.table({"row": row, "col": col, "people": people[row, col]})
