"""`oboro ledger`: the durable account of what has been spent."""

from __future__ import annotations

import math
import os
import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oboro.cli import plans
from oboro.cli.options import (
    Force,
    Json,
    Output,
    To,
    UnitText,
    argument,
    open_ledger,
    option,
    read_budget,
    read_unit,
    show_json,
)
from oboro.cli.terminal import echo
from oboro.errors import OboroError, ParameterError
from oboro.exact import show as show_number
from oboro.files import replaces_releases
from oboro.language import aligned, labelled, phrase, plain, said

if TYPE_CHECKING:
    from oboro.ledger import Entry, Ledger
    from oboro.ledger import Head as LedgerHead
    from oboro.privacy import Guarantee

app = typer.Typer(
    help="Create, show, verify, export, back up and upgrade a ledger, and fetch what it paid for.",
    no_args_is_help=True,
)

Where = Annotated[str, argument("LEDGER", "The ledger: a file, or a postgresql:// address.")]
Head = Annotated[str | None, option("--head HEAD", "POSITION:HASH that was kept elsewhere.")]


@app.command(
    epilog='Example: oboro ledger create people.ledger --dataset "people 2026" --unit row --eps 2 --delta 1e-5'
)
def create(
    ledger: Where,
    dataset: Annotated[str, option("--dataset TEXT", "The name of the data that this ledger is for.")],
    unit: UnitText = None,
    domain: Annotated[Path | None, option("--domain FILE", "TOML file with a \\[unit] table.")] = None,
    eps: Annotated[
        str | None,
        option(
            "--eps NUMBER",
            "The budget, such as 2: the most that may ever be spent. Best with a --delta: it pays for more.",
        ),
    ] = None,
    delta: Annotated[
        str | None,
        option(
            "--delta NUMBER",
            "With --eps, such as 1e-6: pays for all. Without: questions, tables, and noisier synthetic data.",
        ),
    ] = None,
    rho: Annotated[
        str | None,
        option(
            "--rho NUMBER",
            "A budget of zCDP, in place of --eps: pays what is asked for in rho, or in eps alone.",
        ),
    ] = None,
    order: Annotated[
        str | None, option("--order NUMBER", "With --eps: a budget of Rényi privacy of this order.")
    ] = None,
    per: Annotated[
        str | None,
        option("--per PERIOD", "Opens the budget bit by bit: each hour, day, week, month or year (UTC)."),
    ] = None,
    instalment: Annotated[
        str | None, option("--instalment NUMBER", "With --per: how much of the budget each period opens.")
    ] = None,
    instalment_delta: Annotated[
        str | None,
        option("--instalment-delta NUMBER", "With --delta and --per: how much delta each period opens."),
    ] = None,
    unused: Annotated[
        str, option("--unused WORD", "With --per: what a period leaves unused is kept, or lapses.")
    ] = "kept",
    assume: Annotated[
        list[str],
        option("--assume TEXT", "An assumption that conditional plans may rest on; repeat for more."),
    ] = [],
    json: Json = False,
) -> None:
    """Decides, once, who is protected and how much may be spent."""
    from oboro.ledger import Ledger

    part = None
    if instalment is not None:
        small = (None, instalment) if rho is not None else (instalment, None)
        part = read_budget(small[0], instalment_delta if delta is not None else None, small[1], order, assume)
    made = Ledger.create(
        ledger,
        dataset=dataset,
        unit=read_unit(unit, domain),
        budget=read_budget(eps, delta, rho, order, assume),
        per=per,
        instalment=part,
        unused=unused,
    )
    if json:
        show_json(
            {
                "id": made.id,
                "dataset": made.dataset,
                "unit": made.unit.to_dict(),
                "budget": made.budget.to_dict(),
                "periods": None if made.periods is None else made.periods.to_dict(),
                "public_key": made.public_key,
                "pays_for": _pays_for(made.budget),
            }
        )
        return
    echo(said(f"created {plain(made.where)}"))
    for label, text in _decided(made).items():
        echo("  " + labelled(label, text, 11))
    echo("  " + labelled("pays for", said(_pays_for(made.budget)), 11))


_PAYS_FOR = {  # by the currency of a budget
    "approx": "all that has a price in eps, or in eps and delta: questions, tables, synthetic data, signals",
    "pure": "all that has a price in eps alone: questions, tables, and synthetic data, noisier than with a delta; no signals",
    "zcdp": "all that has a price in rho, or in eps alone: many questions, and synthetic data; nothing with a delta",
    "renyi": "all that has a price in eps alone, in rho, or in eps of this order or a higher one; nothing with a delta",
}


def _pays_for(budget: Guarantee) -> str:
    """By the currency; a delta of 0 is none."""
    from oboro.privacy import Approx

    promised = budget.unconditional
    nothing = isinstance(promised, Approx) and promised.delta == 0
    return _PAYS_FOR["pure" if nothing else promised.kind]


@app.command(epilog="Example: oboro ledger show people.ledger")
def show(ledger: Where, json: Json = False) -> None:
    """What was decided, what was spent, what remains, and every release."""
    from oboro.ledger.schema import VERSION

    account = open_ledger(ledger)
    head = account.head()
    entries = account.history()
    if json:
        show_json(
            {
                "id": account.id,
                "dataset": account.dataset,
                "unit": account.unit.to_dict(),
                "budget": account.budget.to_dict(),
                "spent": account.spent.to_dict(),
                "remaining": account.remaining.to_dict(),
                "available": account.available.to_dict(),
                "periods": None if account.periods is None else account.periods.to_dict(),
                "accounts": [
                    {"name": one.name, "spent": one.spent.to_dict(), "available": one.available.to_dict()}
                    for one in account.accounts()
                ],
                "public_key": account.public_key,
                "head": str(head),
                "schema": account.schema,
                "entries": [{"position": e.position, "kind": e.kind, **e.body} for e in entries],
            }
        )
        return
    spent = {"spent": said(str(account.spent)), "remaining": said(str(account.remaining))}
    if account.periods is not None:
        spent["open now"] = said(str(account.available))
    for label, text in {**_decided(account), **spent, "head": str(head)}.items():
        echo(labelled(label, text, 11))
    if account.schema < VERSION:
        old = f"of an older oboro; to spend from it: oboro ledger upgrade {shlex.quote(account.where)}"
        echo(labelled("note", said(old), 11))
    if account.periods is not None:
        _draw(account, entries)
    _list_accounts(account)
    _list(entries)


@app.command(epilog="Example: oboro ledger fetch people.ledger --entry 3 -o again.csv")
def fetch(
    ledger: Where,
    entry: Annotated[int | None, option("--entry NUMBER", "Its number in `oboro ledger show`.")] = None,
    name: Annotated[str | None, option("--name TEXT", "Or its name.")] = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Gives back a release that was paid for, as it was stored. Costs nothing, reads no data."""
    from oboro.release import fetch as fetch_release

    account = open_ledger(ledger)
    released = fetch_release(account, name=name, entry=entry)
    if force:
        replaces_releases()
    if output is not None:
        plans.check_output(released.plan, output, rows=released.outgoing().num_rows)
    plans.give(released, account, output=output, json=json)


@app.command(epilog="Example: oboro ledger verify people.ledger --head 4:9fb5...")
def verify(
    ledger: Annotated[
        str, argument("LEDGER", "The ledger, or an export of one: a file, or a postgresql:// address.")
    ],
    head: Head = None,
    json: Json = False,
) -> None:
    """Finds any altered, missing or reordered entry; with --head also a truncated or restored ledger."""
    from oboro.ledger import verify_export
    from oboro.ledger.copies import looks_exported
    from oboro.ledger.file import is_address

    named = (
        ledger.endswith(".json") and not Path(ledger).exists()
    )  # nobody calls a ledger so: what is missing is an export
    exported = not is_address(ledger) and (named or looks_exported(ledger))
    checked = verify_export(ledger, _head(head)) if exported else open_ledger(ledger).verify(_head(head))
    key = checked.keys[-1].public_key
    if json:
        show_json(
            {
                "valid": True,
                "entries": checked.entries,
                "head": str(checked.head),
                "public_key": key,
                "exported": exported,
            }
        )
        return
    facts = {"head": str(checked.head), "public key": key}
    echo(
        "\n".join(
            [
                said(f"valid: {checked.entries} entries"),
                *("  " + labelled(label, text, 11) for label, text in facts.items()),
            ]
        )
    )
    if exported and head is None:  # a stranger's own chain is valid too
        note = "compare the public key with one the publisher gave you another way"
        echo(f"  {said('note: ')}{said(note)}")
    if head is None:
        note = "keep the head elsewhere; without it a truncated or restored ledger looks valid"
        echo(f"  {said('note: ')}{said(note)}")


@app.command(epilog="Example: oboro ledger export people.ledger -o entries.json")
def export(ledger: Where, output: To) -> None:
    """Writes all entries as JSON, for those who watch over the ledger. No released data, no private key."""
    open_ledger(ledger).export(output)
    echo(labelled("written", str(output)))


@app.command(epilog="Example: oboro ledger backup people.ledger -o copy.ledger")
def backup(ledger: Where, output: To) -> None:
    """A consistent copy while the ledger is in use. The private key is not copied: keep it separately."""
    open_ledger(ledger).backup(output)
    echo(labelled("written", said(f"{output} (the private key is not in it)")))


@app.command("rotate-key", epilog="Example: oboro ledger rotate-key people.ledger")
def rotate_key(ledger: Where) -> None:
    """A new signing key, recorded in the chain and signed by the old one."""
    account = open_ledger(ledger)
    account.rotate_key()
    echo(labelled("public key", account.public_key, 11))


@app.command(epilog="Example: oboro ledger upgrade people.ledger")
def upgrade(
    ledger: Where,
    backup: Annotated[
        Path | None, option("--backup FILE", "A new file for the ledger as it was; by default beside it.")
    ] = None,
) -> None:
    """Makes the ledger of an older oboro one of this version, and says so in its chain. Older versions refuse it then."""
    from oboro.ledger.file import is_address
    from oboro.ledger.schema import VERSION

    account = open_ledger(ledger)
    schema = account.schema
    if schema == VERSION:
        echo(said(f"nothing to upgrade: {account.where} is of this version"))
        return
    if backup is None and is_address(ledger):
        raise ParameterError(
            "where the ledger as it was is kept is not said",
            given=account.where,
            needed="a new file",
            fix="--backup before.ledger",
        )
    kept = backup or _free(f"{ledger}.schema{schema}")
    entry = account.upgrade(kept)
    echo(labelled("written", said(f"{kept} (the ledger as it was, without the private key)")))
    echo(said(f"upgraded {account.where} from schema {schema} to {VERSION}"))
    echo("  " + labelled("head", str(entry.head), 5))


def _free(name: str) -> Path:
    """A name that nothing has: an upgrade that was cut short may have left its copy."""
    path, number = Path(name), 1
    while os.path.lexists(path):
        number += 1
        path = Path(f"{name}-{number}")
    return path


def _draw(ledger: Ledger, entries: list[Entry]) -> None:
    """What each period spent, as a bar as long as its share of the instalment; the last ones."""
    from oboro.ledger.periods import amounts, number_of

    assert ledger.periods is not None
    per, whole = ledger.periods.per, amounts(ledger.periods.instalment)[0]
    spent: dict[int, tuple[str, Fraction]] = {}
    for entry in entries:
        label, before = spent.get(number_of(per, entry.time), (f"{entry.time:{_LABELS[per]}}", Fraction(0)))
        cost = Fraction(0) if entry.cost is None else amounts(entry.cost)[0]
        spent[number_of(per, entry.time)] = label, before + cost
    rows = [[*said("period, spent").split(", "), ""]]
    for label, amount in list(spent.values())[-12:]:
        bar = "#" * min(40, math.ceil(20 * amount / whole))
        rows.append([label, show_number(amount), bar])
    echo("\n".join(["", *aligned(rows, "<><")]))


_LABELS = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}


def _list_accounts(ledger: Ledger) -> None:
    rows = [said("account, granted, spent, open now").split(", ")]
    for one in ledger.accounts():
        terms = said(str(one.amount)) + (f" / {said(one.per)}" if one.per else "")
        granted = terms if one.granted is not None else said("revoked")
        rows.append([one.name, granted, said(str(one.spent)), said(str(one.available))])
    if len(rows) > 1:
        echo("\n".join(["", *aligned(rows, "<<")]))


def _decided(ledger: Ledger) -> dict[str, str]:
    """What stands fast from the beginning, line by line."""
    paced = ledger.periods
    return {
        "dataset": ledger.dataset,
        "unit": said(str(ledger.unit)),
        "budget": said(str(ledger.budget)),
        **(
            {}
            if paced is None
            else {
                "instalment": f"{said(str(paced.instalment))} / {said(paced.per)}{said(f' ({paced.unused})')}"
            }
        ),
        "public key": ledger.public_key,
    }


def _planned(record: dict[str, Any]) -> object:
    """What a plan that was paid for would release, in its words; its kind, where it is not one of ours."""
    from oboro.release import plan_from

    try:
        return plan_from(record).describe()["released"]
    except OboroError:
        return record.get("kind")


def _list(entries: list[Entry]) -> None:
    """Every reservation: its number, when, what became of it, what it cost, what was released, and its name."""
    released = {
        entry.body["reservation"]: entry.body["facts"].get("released")
        for entry in entries
        if entry.kind == "commit"
    }
    published: dict[int, int] = {}  # ticks of each series
    for entry in entries:
        if entry.kind == "tick" and entry.position in released:
            published[entry.body["series"]] = published.get(entry.body["series"], 0) + 1
    rows = [said("entry, time, state, cost, name, what was released").split(", ")]
    for entry in entries:
        if entry.kind == "reserve":
            done = entry.position in released
            what = released.get(entry.position) or _planned(entry.body["plan"])
            ticks = entry.body.get("ticks")
            state = "released" if done else "spent, not released"
            if ticks is not None and not done:
                state = f"open, {published.get(entry.position, 0)} of {ticks} ticks"
            rows.append(
                [
                    f"{entry.position}",
                    f"{entry.time:%Y-%m-%d %H:%M}",
                    said(state),
                    said(str(entry.cost)),
                    entry.name or "-",
                    phrase(what) if isinstance(what, str) else "-",  # one's own entries say what they like
                ]
            )
    if len(rows) > 1:
        echo("\n".join(["", *aligned(rows, "><")]))


def _head(text: str | None) -> LedgerHead | None:
    from oboro.ledger import Head

    return None if text is None else Head.parse(text)
