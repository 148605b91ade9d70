"""`oboro secure`: noise that no party knows, for two parties."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oboro.cli.options import (
    Delivery,
    Json,
    LedgerAt,
    Output,
    To,
    argument,
    open_ledger,
    option,
    show_json,
    with_options,
)
from oboro.cli.terminal import Unprintable, Watch, echo, progress
from oboro.errors import ParameterError
from oboro.language import labelled, plain, said

if TYPE_CHECKING:
    from oboro.secure import Holder, Identity, Shelf
    from oboro.secure.draws import Exchange

# What each of two parties does: keys, encrypted answers, urns, draws, openings.

PlanFile = Annotated[Path, option("--plan FILE", "The noise plan.")]
Agreed = Annotated[
    Path,
    option("--plan FILE", "The noise plan that both agreed upon: what this draw may cost, and no other."),
]
Secret = Annotated[Path, option("--key FILE", "P1's NAME.secret.")]
Own = Annotated[Path | None, option("--identity FILE", "Our NAME.pem.")]
Peer = Annotated[Path | None, option("--peer FILE", "The other party's NAME.crt.")]
State = Annotated[
    Path | None,
    option("--state FILE", "Where used urns are written down; beside the key or ledger by default."),
]


def keys(name: Annotated[str, argument("NAME", "A name for the party.")]) -> None:
    """Makes the files of one party: NAME.secret, NAME.public, NAME.pem, NAME.crt."""
    from oboro import secure

    paths = secure.create(name)
    echo(labelled("keep", f"{paths['secret']}  {paths['pem']}"))
    echo(labelled("give away", f"{paths['public']}  {paths['crt']}"))


def assumption() -> None:
    """Prints what a draw rests on, for `oboro ledger create --assume`."""
    from oboro import secure

    echo(secure.ASSUMPTION)


def encrypt(
    value: Annotated[str, argument("VALUE", "A whole number, or - to read it from standard input.")],
    low: Annotated[int, option("--low NUMBER", "The least it can be, known without the data.")],
    high: Annotated[int, option("--high NUMBER", "The most it can be.")],
    key: Annotated[Path, option("--key FILE", "The NAME.public of the party that will open.")],
    output: To,
) -> None:
    """Clamps a number to its public bounds and encrypts it."""
    from oboro import secure

    text = (sys.stdin.readline() if value == "-" and sys.stdin else value).strip()
    try:
        number = int(text)
    except ValueError:  # the value is private: it is not repeated
        raise ParameterError(
            "VALUE is not a whole number", needed="such as 42", fix="oboro secure encrypt 42 ..."
        ) from None
    secure.Answer.encrypt(number, low=low, high=high, public=secure.load_public(key)).save(output)
    echo(labelled("written", said(f"{output}, between {low} and {high}")))


def add(
    files: Annotated[list[Path], argument("FILE", "Encrypted numbers under one key.")],
    output: To,
) -> None:
    """Adds encrypted numbers; the bounds are added too."""
    from oboro import secure

    first, *rest = [secure.Answer.load(file) for file in files]
    for one in rest:
        first = first + one
    first.save(output)
    echo(labelled("written", said(f"{output}, between {first.low} and {first.high}")))


def serve(
    plan: PlanFile,
    listen: Annotated[str, option("--listen HOST:PORT", "Where to wait for P2.")],
    key: Secret,
    identity: Own,
    peer: Peer,
    state: State = None,
    count: Annotated[int | None, option("--connections --count NUMBER", "Stop after so many.")] = None,
) -> None:
    """P1: sends fresh urns over TLS and opens what was drawn, once for each."""
    from oboro import secure
    from oboro.secure.wire import listening

    holder = _holder(plan, key, state)
    holder.noise.check_sendable()
    who = _identity(identity, peer)
    who.context(server=True)  # complains now, not at the first connection
    with listening(listen) as listener:
        host, port = listener.getsockname()[:2]
        echo(said(f"listening on {host}:{port}, plan {holder.noise.hash[:16]}"))
        secure.serve(holder, listener, who, count=count, tell=_tell)


def _tell(text: str) -> None:
    """A line on one connection. That nobody reads it any more ends no service."""
    with suppress(Unprintable):
        echo(said(plain(text)))


def urns(plan: PlanFile, key: Secret, output: To, state: State = None) -> None:
    """P1, by files: writes fresh urns for one answer."""
    from oboro import secure
    from oboro.cli import plans

    holder = _holder(plan, key, state)
    plans.check_place(output, holder.shelf.path)
    name = secure.write_urns(holder, output)
    echo(labelled("written", said(f"{output}, urns {name.hex()[:16]}")))


def open_drawn(
    file: Annotated[Path, argument("FILE", "What P2 drew.")],
    plan: PlanFile,
    key: Secret,
    state: State = None,
    json: Json = False,
) -> None:
    """P1, by files: opens what was drawn from its urns, once."""
    from oboro import secure

    name, found = secure.open_file(_holder(plan, key, state), file)
    if json:
        show_json({"value": found if isinstance(found, int) else list(found), "urns": name.hex()})
    else:
        echo("\n".join(map(str, [found] if isinstance(found, int) else found)))


@with_options
def draw(
    answer: Annotated[
        list[Path], option("--answer FILE", "The answer, encrypted for P1; for a batch, once for each.")
    ],
    plan: Agreed,
    ledger: LedgerAt,
    delivery: Delivery,
    connect: Annotated[str | None, option("--connect HOST:PORT", "Where P1 listens.")] = None,
    urns: Annotated[Path | None, option("--urns FILE", "Or: a file of urns from P1.")] = None,
    identity: Own = None,
    peer: Peer = None,
    state: State = None,
) -> None:
    """P2: pays from the ledger, draws the noise, and gets the noisy answer (with --urns: still encrypted, in -o)."""
    from oboro import secure
    from oboro.cli import plans
    from oboro.cli.terminal import budget_text
    from oboro.privacy import Conditional
    from oboro.secure.protocol import answers_of, by_file, connected

    held = answers_of("answer", [secure.Answer.load(file) for file in answer])
    noise = secure.NoisePlan.load(plan)
    needed = Conditional(noise.promise, secure.ASSUMPTION)  # the least that a draw can be paid from
    account = open_ledger(ledger, budget=budget_text(needed))
    low, high = held[0].low, held[0].high
    bound = secure.draw_plan(noise, low=low, high=high, unit=account.unit, opened=urns is None)
    shelf = _shelf(state, ledger, account.where)
    exchange: AbstractContextManager[Exchange | None]
    if delivery.dry_run:
        exchange = nullcontext()
    elif connect is not None and urns is None:
        exchange = connected(connect, held, _identity(identity, peer), shelf, bound)
    elif urns is not None and connect is None and delivery.output is not None:
        exchange = nullcontext(by_file(urns, held, shelf, bound))
    else:
        raise ParameterError(
            "where the urns come from is not said",
            given="neither or both of --connect and --urns, or --urns alone",
            needed="--connect HOST:PORT --identity OUR.pem --peer THEIR.crt, or --urns FILE -o FILE",
            fix="--connect 127.0.0.1:9000",
        )
    plans.is_given_again(account, delivery)
    if delivery.output is not None:  # before the other party is called
        plans.check_output(bound, delivery.output, shelf.path, urns, identity, peer)
    with exchange as drawn:
        plans.release(bound, drawn, account, delivery)


def _holder(plan: Path, key: Path, state: Path | None) -> Holder:
    from oboro import secure

    return secure.Holder(secure.NoisePlan.load(plan), secure.load_secret(key), _shelf(state, str(key)))


def _shelf(state: Path | None, beside: str, shown: str = "") -> Shelf:
    """Where used urns are written down; `shown` is how an address may be printed."""
    from oboro import secure

    if state is None and "://" in beside:
        raise ParameterError(
            "where used urns are written down is not said",
            given=shown,
            needed="a file",
            fix="--state urns.state",
        )
    if state is not None:
        return secure.Shelf(state)
    own, typed = Path(f"{os.path.realpath(beside)}.urns"), Path(f"{beside}.urns")
    if (
        typed.exists() and typed.resolve() != own.resolve()
    ):  # as oboro wrote it until now: it must not be forgotten
        raise ParameterError(
            "a record of used urns stands beside a link",
            given=str(typed),
            needed=f"one record, beside what the link leads to: {own}",
            fix=f"--state {shlex.quote(str(typed))}",
        )
    return secure.Shelf(own)


def _identity(own: Path | None, peer: Path | None) -> Identity:
    from oboro import secure

    if own is None or peer is None:
        raise ParameterError(
            "a connection needs a certificate on each side",
            given="no --identity" if own is None else "no --peer",
            needed="--identity OUR.pem --peer THEIR.crt",
            fix="oboro secure keys NAME",
        )
    return secure.Identity(own, peer)


app = typer.Typer(
    help="Noise that no party knows, drawn from encrypted urns by two parties.", no_args_is_help=True
)

Eps = Annotated[str, option("--eps NUMBER", "Privacy of the answer, such as 1 or 1/3.")]
Delta = Annotated[str, option("--delta NUMBER", "The probability of an exception, such as 1e-10.")]
Sensitivity = Annotated[int, option("--sensitivity NUMBER", "How far one unit moves the answer.")]
Seconds = Annotated[float, option("--seconds NUMBER", "Time limit of the search.")]


@app.command(epilog="Example: oboro secure plan --eps 1 --delta 1e-10 -o noise.toml")
def plan(
    eps: Eps,
    delta: Delta,
    urns: Annotated[int, option("--urns NUMBER", "How many digit urns.")] = 4,
    sensitivity: Sensitivity = 1,
    method: Annotated[
        str,
        option(
            "--method WORD",
            "digits; paper for its Algorithm 2; printed for its protocol too, with the drawer's delta.",
        ),
    ] = "digits",
    draws: Annotated[int, option("--draws NUMBER", "With --method paper: draws from its urn.")] = 2,
    stop: Annotated[str, option("--stop WORD", "With --method paper: tables or proof.")] = "tables",
    init: Annotated[
        int | None, option("--init NUMBER", "With --method paper: entries of the largest value.")
    ] = None,
    answers: Annotated[
        int, option("--answers NUMBER", "Noise for a batch of so many, from the same urns.")
    ] = 1,
    urn_delta: Annotated[
        str | None,
        option("--urn-delta NUMBER", "With --method printed: the delta that Algorithm 2 is given."),
    ] = None,
    excess: Annotated[
        str | None,
        option(
            "--excess NUMBER",
            "How far E|Z| may exceed the best, as a share of it: 0.032, and 0.4 for a batch, if left out.",
        ),
    ] = None,
    seconds: Seconds = 30,
    output: Output = None,
    json: Json = False,
) -> None:
    """Finds urns for a promise. Reads no data, spends nothing."""
    from oboro import secure

    with progress() as show:
        made = secure.plan(
            eps=eps, delta=delta, urns=urns, sensitivity=sensitivity, method=method, draws=draws, stop=stop, init=init,
            answers=answers, urn_delta=urn_delta, excess=excess, seconds=seconds, progress=_searching(show),
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
    file: Annotated[Path, argument("FILE", "A noise plan.")],
    view: Annotated[
        str, option("--view WORD", "everyone, or drawer: one who drew it all from one urn.")
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
    eps: Eps,
    delta: Delta,
    sensitivity: Sensitivity = 1,
    answers: Annotated[int, option("--answers NUMBER", "Also urns that a batch of so many shares.")] = 1,
    seconds: Seconds = 30,
    json: Json = False,
) -> None:
    """The paper's urns, digit urns, other work, each party adding its own noise, and one party adding it."""
    from oboro import secure

    with progress() as show:
        table = secure.compare(
            eps=eps,
            delta=delta,
            sensitivity=sensitivity,
            answers=answers,
            seconds=seconds,
            progress=_searching(show),
        )
    if json:
        show_json(table.to_dict())
    else:
        echo(str(table))


@app.command(epilog="Example: oboro secure figure kii-fig1 -o figure.svg")
def figure(
    name: Annotated[str, argument("NAME", "kii-fig1 to kii-fig4.")],
    output: Annotated[Path, option("-o --output FILE", "Where to write.")],
) -> None:
    """Draws a figure of the paper, computed again, as SVG."""
    from oboro.files import write_whole
    from oboro.secure.papers.kii import svg

    write_whole(output, svg(name).encode())
    echo(labelled("written", str(output)))


app.command("keys", epilog="Example: oboro secure keys alice")(keys)
app.command("assumption", epilog="Example: oboro secure assumption")(assumption)
app.command(
    "encrypt", epilog="Example: oboro secure encrypt 42 --low 0 --high 1000 --key alice.public -o answer.enc"
)(encrypt)
app.command("add", epilog="Example: oboro secure add one.enc two.enc -o sum.enc")(add)
app.command(
    "serve",
    epilog="Example: oboro secure serve --plan noise.toml --listen 127.0.0.1:9000 --key alice.secret --identity alice.pem --peer bob.crt",
)(serve)
app.command(
    "draw",
    epilog="Example: oboro secure draw --plan noise.toml --answer answer.enc --connect 127.0.0.1:9000 --identity bob.pem --peer alice.crt --ledger bob.ledger",
)(draw)
app.command("urns", epilog="Example: oboro secure urns --plan noise.toml --key alice.secret -o urns.bin")(
    urns
)
app.command("open", epilog="Example: oboro secure open drawn.bin --plan noise.toml --key alice.secret")(
    open_drawn
)


def _searching(show: Watch | None) -> Callable[[float], None] | None:
    return None if show is None else lambda share: show(said("searching"), share, 1)
