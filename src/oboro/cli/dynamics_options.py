"""What the commands about systems share: their options, and the plan that a TOML file and they describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.errors import ParameterError

if TYPE_CHECKING:
    from oboro.privacy import Unit

MATRICES = ("A", "B", "C", "D")

SystemArgument = Annotated[
    Path,
    typer.Argument(help="TOML file with \\[system] A, B, C, D and horizon, and \\[unit].", metavar="SYSTEM"),
]
SystemOption = Annotated[
    Path, typer.Option("--system", help="TOML file with \\[system] A, B, C, D and horizon.", metavar="FILE")
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        help="The probability of an exception, such as 1e-5; without it the promise is pure.",
        metavar="NUMBER",
    ),
]
Alpha = Annotated[
    str,
    typer.Option(
        "--alpha", help="Tail index: 2 is Gaussian, a smaller one hides larger outliers.", metavar="NUMBER"
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--where", help="Where the noise is added: input (the default) or output.", metavar="WORD"),
]
Noise = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="How it is drawn: independent (the default), shared (one A for the record) or discrete.",
        metavar="WORD",
    ),
]
Method = Annotated[
    str | None,
    typer.Option("--method", help="With --noise shared: mixture, theorem1, exact or pure.", metavar="WORD"),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon", help="The last time; by default that of the file, else of the signal.", metavar="NUMBER"
    ),
]
Column = Annotated[
    list[str],
    typer.Option("--column", help="The column of the input; repeat for more.", metavar="COLUMN"),
]


def system_plan(system: Path, unit: Unit, horizon: int | None, column: list[str], **said: Any) -> Any:
    """A plan for the system in a file, which may also say the horizon and a sigma."""
    from oboro import dynamics

    record = read_system(system)
    last = record.get("horizon") if horizon is None else horizon
    if last is None:
        raise ParameterError(
            "the horizon is not said",
            given=f"no --horizon, and no horizon in {system}",
            needed="the last time",
            fix="--horizon 200",
        )
    return dynamics.plan(
        record.get("system", {name: part for name, part in record.items() if name in MATRICES}),
        unit=unit,
        horizon=last,
        columns=column or None,
        sigma=record.get("sigma"),
        **said,
    )


def read_system(path: Path) -> dict[str, Any]:
    """What the file of a system says; its matrices may stand in a table of their own."""
    from oboro.domain.domain import check_entries, read_toml

    record = read_toml(path)
    check_entries(
        str(path), record, ("system", "horizon", "sigma", "unit", *(() if "system" in record else MATRICES))
    )
    return record


def count_samples(data: Path) -> int:
    """How many samples there are, which is public."""
    from oboro.engine import open_data

    source = open_data(data)
    return int(source.connection.execute(f"SELECT count(*) FROM {source.relation}").fetchone()[0])


def read_start(text: str) -> list[float]:
    """x0, as `--x0` gives it: numbers with commas between."""
    from oboro.exact import rational

    return [float(rational("--x0", part)) for part in text.split(",")]
