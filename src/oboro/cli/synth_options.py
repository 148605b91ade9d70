"""Options of `oboro synth`, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.errors import ParameterError

if TYPE_CHECKING:
    from oboro.domain import Domain
    from oboro.privacy import Unit

Delta = Annotated[
    str | None,
    typer.Option(
        "--delta", help="The probability of an exception, such as 1e-6; with --eps.", metavar="NUMBER"
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="marginals, quality or moments for a model; gaussian for records.",
        metavar="WORD",
    ),
]
N = Annotated[
    str | None,
    typer.Option(
        "--n",
        help="The number of rows, public under replace; by default it is counted, and shown.",
        metavar="NUMBER",
    ),
]
Records = Annotated[
    str | None,
    typer.Option(
        "--records", help="With --method gaussian: how many records; each one costs.", metavar="NUMBER"
    ),
]
Least = Annotated[
    str | None,
    typer.Option(
        "--n-min",
        help="With --method gaussian, under add/remove: a public lower bound on the rows.",
        metavar="NUMBER",
    ),
]
Assumed = Annotated[
    str | None,
    typer.Option(
        "--assume-min-eigenvalue",
        help="With --method gaussian: assume this of the data, not a ridge; the promise is conditional.",
        metavar="NUMBER",
    ),
]


def read_plan(
    domain: Domain,
    unit: Unit,
    eps: str | None,
    delta: str | None,
    rho: str | None,
    method: str,
    n: str | None,
    records: str | None,
    n_min: str | None,
    assumed: str | None,
) -> Any:
    from oboro.exact import whole
    from oboro.synth import plan

    counts = {"n": n, "records": records, "n_min": n_min}
    whole_counts = {key: None if text is None else whole(key, text) for key, text in counts.items()}
    return plan(
        domain,
        unit=unit,
        eps=eps,
        delta=delta,
        rho=rho,
        method=method,
        assume_min_eigenvalue=assumed,
        **whole_counts,
    )


def read_condition(domain: Domain, text: str) -> tuple[str, Any]:
    """COLUMN=VALUE, COLUMN=VALUE,VALUE, or COLUMN=LOW..HIGH of a number or date; an empty value means missing."""
    name, equals, body = text.partition("=")
    if not equals:
        raise ParameterError(
            "--where is not understood",
            given=f"--where {text}",
            needed="COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH",
            fix="--where age=18..64",
        )
    column = domain[name]
    if body == "":
        return name, None
    for dots in ("..", ":") if column.kind != "category" else ():  # LOW:HIGH is the older spelling
        if body.count(dots) == 1:
            return name, tuple(body.split(dots))
    values: list[Any] = [body] if body in getattr(column, "values", ()) else body.split(",")
    if column.kind == "category" and isinstance(column.value(0), int):
        values = [int(value) if value.lstrip("-").isdigit() else value for value in values]
    return name, values
