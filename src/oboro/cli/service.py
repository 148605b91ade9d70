"""`oboro serve`, `oboro analyst` and `oboro token`: a service that analysts ask, and who they are."""

from __future__ import annotations

import getpass
import shlex
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oboro.cli.options import Json, argument, option, show_json
from oboro.cli.terminal import echo
from oboro.errors import DataError, ParameterError
from oboro.language import aligned, labelled, said

if TYPE_CHECKING:
    from oboro.ledger import Ledger
    from oboro.service.settings import Settings

analyst = typer.Typer(no_args_is_help=True, help="Who may ask a service, and how much.")
token = typer.Typer(
    no_args_is_help=True, help="What opens a service: tokens of analysts, stewards and auditors."
)

ServiceFile = Annotated[
    Path, argument("FILE", "TOML that declares the service: address, database, \\[\\[datasets]].")
]


def serve(
    file: Annotated[
        Path | None, argument("FILE", "TOML that declares the service: address, database, \\[\\[datasets]].")
    ] = None,
    demo: Annotated[
        bool,
        option("--demo", "A dataset of people who do not exist, an analyst and a steward, in a new folder."),
    ] = False,
    calibrate: Annotated[
        bool, option("--calibrate", "Find the slots on made-up data of the declared size, and stop.")
    ] = False,
    output: Annotated[
        Path | None, option("-o --output FOLDER", "With --demo: the folder to write into.")
    ] = None,
    port: Annotated[
        int | None, option("--port NUMBER", "With --demo: where it listens on this machine.")
    ] = None,
) -> None:
    """Serves datasets to analysts who never see the data: their questions are answered at public times."""
    from oboro.service.settings import read_settings

    _needs_extra()
    if demo == (file is not None):
        raise ParameterError(
            "say what to serve",
            given="neither" if file is None else "both",
            needed="a file, or --demo",
            fix="oboro serve --demo",
        )
    if not demo and (output is not None or port is not None):
        raise ParameterError(
            "--output and --port are for the demonstration",
            given="a file",
            needed="address in the file",
            fix="oboro serve --demo --port 8750",
        )
    if file is not None:
        settings = read_settings(file)
        if calibrate:
            _calibrate(settings)
        else:
            _run(settings)
        return
    from oboro.service.demo import DATASET, make

    made = make(output or Path(tempfile.mkdtemp(prefix="oboro-service-")), port if port is not None else 8750)
    if calibrate:
        _calibrate(made.settings)
    echo(labelled("written", said(f"{made.settings.file}, a service about people who do not exist")) + "\n")
    echo(labelled("analyst", f"lab-3 {made.analyst}"))
    echo(labelled("steward", made.steward))
    echo(labelled("auditor", made.auditor) + "\n")
    lines = [
        "import oboro as ob",
        f'people = ob.connect("{made.settings.address}", token="{made.analyst}")["{DATASET}"]',
        "people.describe()",
        'people.forecast.mean("income", eps="0.1")',
        'people.where("age >= 20").mean("income", eps="0.1")',
    ]
    echo(labelled("next", said("in another terminal, python:")))
    echo("\n".join(f"  {line}" for line in lines) + "\n")
    _run(made.settings)


def studio(
    file: Annotated[
        Path | None,
        argument(
            "FILE", "TOML that declares data, ledger, \\[unit] and \\[\\[columns]]; the studio can write it."
        ),
    ] = None,
    port: Annotated[
        int | None,
        option(
            "--port NUMBER", "Where it listens on this machine; a free one, if not said.", min=0, max=65535
        ),
    ] = None,
    browser: Annotated[bool, option("--no-browser", "Print the address, and open nothing.")] = False,
) -> None:
    """Opens the studio on this machine: ask, publish and watch the budget, with a slider in place of an eps."""
    import webbrowser

    _needs_extra("jinja2", "segno")
    from oboro.service.studio.local import Studio

    made = Studio(file, port or 0)

    def ready(address: str) -> None:
        echo(labelled("studio", address))
        echo(labelled("note", said("the address opens once, in one browser; Ctrl-C ends the studio")))
        if not browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # it was asked to stop, and did
        made.run(ready)
    echo(labelled("done", said("the studio has ended; what was spent stands in the ledger")))


def _run(settings: Settings) -> None:
    from oboro.service.server import Service

    with suppress(KeyboardInterrupt):  # it was asked to stop, and did
        Service(settings).run(lambda address: echo(labelled("serving", said(f"{address}, until Ctrl-C"))))
    echo(labelled("done", said("the service has stopped: what was admitted waits for the next start")))


def _calibrate(settings: Settings) -> None:
    from oboro.service import slots
    from oboro.service.calibration import calibrate
    from oboro.service.database import Database

    database = Database(settings.database)
    for dataset in settings.datasets:
        name, found = calibrate(settings, dataset)
        slots.keep(database, name, found)
        head = [said("question"), said("numbers, at most"), said("turn, ms"), said("slot, ms")]
        rows = [
            [shape.kind, f"{shape.size:,}", f"{slot.work:,}", f"{slot.slot:,}"]
            for shape, slot in found.items()
        ]
        echo(labelled("dataset", name))
        echo("\n".join(aligned([head, *rows], "<>>>")) + "\n")
    database.close()


@analyst.command(
    "add",
    epilog='Example: oboro analyst add service.toml lab-3 --dataset "people 2026" --eps 0.5 --per month',
)
def add(
    file: ServiceFile,
    name: Annotated[str, argument("NAME", "Who it is: letters, digits, dots, dashes.")],
    dataset: Annotated[str | None, option("--dataset TEXT", "What may be asked about.")] = None,
    eps: Annotated[
        str | None, option("--eps NUMBER", "How much may be spent, within the dataset's budget.")
    ] = None,
    delta: Annotated[str | None, option("--delta NUMBER", "With --eps, where the budget has one.")] = None,
    rho: Annotated[str | None, option("--rho NUMBER", "In place of --eps, where the budget is rho.")] = None,
    per: Annotated[
        str | None,
        option("--per PERIOD", "So much each hour, day, week, month or year; in all, if not said."),
    ] = None,
    approve_above: Annotated[
        str | None, option("--approve-above NUMBER", "What costs more needs a steward's approval.")
    ] = None,
    role: Annotated[str, option("--role WORD", "analyst, steward or auditor.")] = "analyst",
    steward: Annotated[str | None, option("--steward NAME", "Who decided it.")] = None,
) -> None:
    """Makes somebody known to a service, and gives an analyst a share of a dataset's budget."""
    from oboro.service import people
    from oboro.service.database import Database
    from oboro.service.grants import amount_of
    from oboro.service.settings import read_settings

    settings = read_settings(file)
    people.checked_name(name)
    granted = dataset is not None
    if granted != (eps is not None or rho is not None):
        raise ParameterError(
            "a grant is of a dataset, and of so much",
            given="one of them",
            needed="--dataset and --eps",
            fix='--dataset "people 2026" --eps 0.5 --per month',
        )
    ledger = _ledger_of(settings, dataset) if dataset is not None else None
    amount = None if ledger is None else amount_of(ledger.budget, eps, delta, rho)
    limit = None
    if ledger is not None and approve_above is not None:
        limit = amount_of(
            ledger.budget,
            approve_above if rho is None else None,
            delta,
            approve_above if rho is not None else None,
        )
    database = Database(settings.database)
    people.add(database, name, role)
    if ledger is not None and amount is not None:
        ledger.grant(name, amount, per=per, approve_above=limit, by=steward)
        often = said("in all") if per is None else said(f"each {per}")
        echo(labelled("granted", f"{name}: {amount}, {often}"))
        ledger.close()
    else:
        echo(labelled("added", f"{name}, {role}"))
    database.close()


@analyst.command("list", epilog="Example: oboro analyst list service.toml")
def list_people(file: ServiceFile, json: Json = False) -> None:
    """Everybody whom a service knows."""
    from oboro.service import people
    from oboro.service.database import Database
    from oboro.service.settings import read_settings

    database = Database(read_settings(file).database)
    found = people.listed(database)
    database.close()
    if json:
        show_json([{"name": name, "role": role} for name, role, _ in found])
        return
    echo("\n".join(aligned([[said("name"), said("role")], *[[name, role] for name, role, _ in found]], "<<")))


@analyst.command("password", epilog="Example: oboro analyst password service.toml steward")
def password(
    file: ServiceFile,
    name: Annotated[str, argument("NAME", "Whose it is.")],
) -> None:
    """Sets a password, with which somebody may get a token of half a day. It is asked for, or read from standard input."""
    from oboro.service import people
    from oboro.service.database import Database
    from oboro.service.settings import read_settings

    database = Database(read_settings(file).database)
    people.set_password(database, name, _secret())
    database.close()
    echo(labelled("done", said("the password is kept by argon2id")))


@token.command("create", epilog="Example: oboro token create service.toml lab-3")
def create(
    file: ServiceFile,
    name: Annotated[str, argument("NAME", "Whose it is.")],
    days: Annotated[
        int | None,
        option("--days NUMBER", "How long it opens anything; for good, if not said.", min=1, max=3650),
    ] = None,
) -> None:
    """Makes a token. It is shown once."""
    from oboro.service import people
    from oboro.service.database import Database
    from oboro.service.settings import read_settings

    database = Database(read_settings(file).database)
    made = people.create_token(database, name, days=days)
    database.close()
    echo(labelled("token", made))
    echo(labelled("id", made.split("_")[1]))
    echo(labelled("note", said("it is not kept, and cannot be shown again")))


@token.command("revoke", epilog="Example: oboro token revoke service.toml 0123456789abcdef")
def revoke(file: ServiceFile, number: Annotated[str, argument("ID", "The id of a token.")]) -> None:
    """Closes a token: from now on it opens nothing."""
    from oboro.service import people
    from oboro.service.database import Database
    from oboro.service.settings import read_settings

    database = Database(read_settings(file).database)
    known = people.revoke_token(database, number.split("_")[1] if number.startswith("oboro_") else number)
    database.close()
    if not known:
        raise ParameterError(
            "there is no such token, or it was revoked before",
            given="an id that is not known",
            needed="one of those that are listed",
            fix=f"oboro token list {shlex.quote(str(file))}",
        )
    echo(labelled("done", said("the token opens nothing any more")))


@token.command("list", epilog="Example: oboro token list service.toml")
def list_tokens(file: ServiceFile, json: Json = False) -> None:
    """The ids of all tokens: nothing that opens anything."""
    from oboro.service import people
    from oboro.service.database import Database
    from oboro.service.settings import read_settings

    database = Database(read_settings(file).database)
    rows = people.tokens_of(database)
    database.close()
    if json:
        show_json([{"id": row.id, "name": row.person, "revoked": row.revoked is not None} for row in rows])
        return
    shown = [[row.id, row.person, said("revoked") if row.revoked is not None else ""] for row in rows]
    echo("\n".join(aligned([["id", said("name"), ""], *shown], "<<<")))


def _secret() -> str:
    """A password, from whoever sits here or from a pipe: never from the command line, which others see."""
    try:
        return getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    except (OSError, ValueError, AttributeError):
        return ""


def _ledger_of(settings: Settings, dataset: str) -> Ledger:
    from oboro.ledger import Ledger

    names = []
    for one in settings.datasets:
        ledger = Ledger.open(one.ledger)
        if ledger.dataset == dataset:
            return ledger
        names.append(ledger.dataset)
        ledger.close()
    raise DataError(
        f"the service has no dataset {dataset!r}",
        given=f'--dataset "{dataset}"',
        needed=", ".join(names),
        fix=f'--dataset "{names[0]}"',
    )


def _needs_extra(*more: str) -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "jinja2", *more)):
        raise DataError(
            "a service needs parts that are not installed",
            given="no fastapi, uvicorn, jinja2 or segno",
            needed="the extra `service`",
            fix="pip install 'oboro[service]'",
        )
