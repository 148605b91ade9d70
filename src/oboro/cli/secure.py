"""`oboro secure`: noise that no party knows, for two parties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from oboro.cli import secure_parties
from oboro.cli.options import Json, Output, show_json
from oboro.cli.terminal import echo, is_watched
from oboro.errors import ParameterError
from oboro.language import labelled, said

app = typer.Typer(
    help="Noise that no party knows, drawn from encrypted urns by two parties.", no_args_is_help=True
)

Eps = Annotated[str, typer.Option("--eps", help="Privacy of the answer, such as 1 or 1/3.", metavar="NUMBER")]
Delta = Annotated[
    str, typer.Option("--delta", help="The probability of an exception, such as 1e-10.", metavar="NUMBER")
]
Sensitivity = Annotated[
    int, typer.Option("--sensitivity", help="How far one unit moves the answer.", metavar="NUMBER")
]
Seconds = Annotated[float, typer.Option("--seconds", help="Time limit of the search.", metavar="NUMBER")]


@app.command(epilog="Example: oboro secure plan --eps 1 --delta 1e-10 -o noise.toml")
def plan(
    eps: Eps,
    delta: Delta,
    urns: Annotated[int, typer.Option("--urns", help="How many digit urns.", metavar="NUMBER")] = 4,
    sensitivity: Sensitivity = 1,
    method: Annotated[
        str, typer.Option("--method", help="digits, or paper for its Algorithm 2.", metavar="WORD")
    ] = "digits",
    draws: Annotated[
        int, typer.Option("--draws", help="With --method paper: draws from its urn.", metavar="NUMBER")
    ] = 2,
    stop: Annotated[
        str, typer.Option("--stop", help="With --method paper: tables or proof.", metavar="WORD")
    ] = "tables",
    init: Annotated[
        int | None,
        typer.Option("--init", help="With --method paper: entries of the largest value.", metavar="NUMBER"),
    ] = None,
    excess: Annotated[
        str,
        typer.Option(
            "--excess", help="How far E|Z| may exceed the best, as a share of it.", metavar="NUMBER"
        ),
    ] = "0.032",
    seconds: Seconds = 30,
    output: Output = None,
    json: Json = False,
) -> None:
    """Finds urns for a promise. Reads no data, spends nothing."""
    from oboro import secure

    with _bar("searching") as progress:
        made = secure.plan(
            eps=eps, delta=delta, urns=urns, sensitivity=sensitivity, method=method, draws=draws, stop=stop, init=init,
            excess=excess, seconds=seconds, progress=progress,
        )  # fmt: skip
    if output is not None:
        made.save(output)
    if json:
        show_json({**made.to_dict(), "optimum": made.optimum, "fewest": made.fewest, "hash": made.hash})
        return
    echo(said(str(made)))
    echo("  " + labelled("hash", made.hash, 12))
    if output is not None:
        echo(labelled("written", str(output)))


@app.command(epilog="Example: oboro secure verify noise.toml")
def verify(
    file: Annotated[Path, typer.Argument(help="A noise plan.", metavar="FILE")],
    view: Annotated[
        str,
        typer.Option("--view", help="everyone, or drawer: one who drew it all from one urn.", metavar="WORD"),
    ] = "everyone",
    json: Json = False,
) -> None:
    """Checks the promise of a noise plan with exact integers. Anyone can."""
    from oboro import secure

    noise = secure.NoisePlan.load(file)
    seen = secure.verify(noise, view=view)
    try:
        drawer = float(seen.drawer.high)
    except ParameterError:  # it takes more work than the promise itself
        drawer = None
    if json:
        facts = {"valid": True, "hash": noise.hash, "delta": str(noise.delta), "drawer_delta": drawer}
        show_json({**facts, "conditions": seen.conditions})
        return
    echo(f"{said('valid')}\n{said(str(noise))}")
    if noise.draws > 1:
        told = "too much work to compute" if drawer is None else f"delta {drawer:.6g}"
        echo(
            "  " + labelled("drawer", said(f"{told} for one who drew all from one urn, as in the paper"), 12)
        )
    holds = ", ".join(f"({name}) {said('yes' if ok else 'no')}" for name, ok in seen.conditions.items())
    echo("  " + labelled("Theorem 4.1", said(f"{holds}; enough, but not needed"), 12))
    echo("  " + labelled("hash", noise.hash, 12))


@app.command(epilog="Example: oboro secure compare --eps 1 --delta 1e-10")
def compare(
    eps: Eps, delta: Delta, sensitivity: Sensitivity = 1, seconds: Seconds = 30, json: Json = False
) -> None:
    """The paper's urns, digit urns, each party adding its own noise, and one party adding it."""
    from oboro import secure

    with _bar("searching") as progress:
        table = secure.compare(
            eps=eps, delta=delta, sensitivity=sensitivity, seconds=seconds, progress=progress
        )
    if json:
        show_json(table.to_dict())
    else:
        echo(str(table))


@app.command(epilog="Example: oboro secure figure kii-fig1 -o figure.svg")
def figure(
    name: Annotated[str, typer.Argument(help="kii-fig1 to kii-fig4.", metavar="NAME")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write.", metavar="FILE")],
) -> None:
    """Draws a figure of the paper, computed again, as SVG."""
    from oboro.files import write_whole
    from oboro.secure.figures import svg

    write_whole(output, svg(name).encode())
    echo(labelled("written", str(output)))


app.command("keys", epilog="Example: oboro secure keys alice")(secure_parties.keys)
app.command("assumption", epilog="Example: oboro secure assumption")(secure_parties.assumption)
app.command(
    "encrypt", epilog="Example: oboro secure encrypt 42 --low 0 --high 1000 --key alice.public -o answer.enc"
)(secure_parties.encrypt)
app.command("add", epilog="Example: oboro secure add one.enc two.enc -o sum.enc")(secure_parties.add)
app.command(
    "serve",
    epilog="Example: oboro secure serve --plan noise.toml --listen 127.0.0.1:9000 --key alice.secret --identity alice.pem --peer bob.crt",
)(secure_parties.serve)
app.command(
    "draw",
    epilog="Example: oboro secure draw --plan noise.toml --answer answer.enc --connect 127.0.0.1:9000 --identity bob.pem --peer alice.crt --ledger bob.ledger",
)(secure_parties.draw)
app.command("urns", epilog="Example: oboro secure urns --plan noise.toml --key alice.secret -o urns.bin")(
    secure_parties.urns
)
app.command("open", epilog="Example: oboro secure open drawn.bin --plan noise.toml --key alice.secret")(
    secure_parties.open_drawn
)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[float], None] | None]:
    """A progress bar for people; nothing where nobody watches."""
    if not is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(said(what), total=1.0)
        yield lambda share: bars.update(task, completed=share)
