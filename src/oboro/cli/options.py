"""Options that several commands share, with one spelling each, and how they are read."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from oboro.cli.terminal import IN_A_FILE, as_table, echo, hold
from oboro.errors import DataError, InputError, LedgerError, ParameterError, UnitError, told
from oboro.kinds import nearest
from oboro.language import Lines, aligned, labelled, plain, said

if TYPE_CHECKING:
    from oboro.domain import Domain
    from oboro.ledger import Ledger
    from oboro.privacy import Guarantee, Unit
    from oboro.records import Record


def option(spelt: str, help: str, **more: Any) -> Any:
    """An option as a user types it, `"-o --output FILE"`, and what it is for. Without a last word it is a switch."""
    words = spelt.split()
    metavar = None if words[-1].startswith("-") else words.pop()
    return typer.Option(*words, help=help, metavar=metavar, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    return typer.Argument(help=help, metavar=metavar, **more)


DataFile = Annotated[Path, argument("DATA", "The data: Parquet, CSV, TSV or Arrow.")]
DomainFile = Annotated[Path, option("--domain FILE", "TOML file that says what values are possible.")]
LedgerAt = Annotated[
    str,
    option(
        "--ledger LEDGER", "The ledger that pays: a file, or a postgresql:// address.", envvar="OBORO_LEDGER"
    ),
]
LedgerOrDeclared = Annotated[
    str | None,
    option(
        "--ledger LEDGER",
        "The ledger that pays: a file, or a postgresql:// address. By default the one that --domain names.",
        envvar="OBORO_LEDGER",
    ),
]
Eps = Annotated[str, option("--eps NUMBER", "Privacy to spend, such as 0.1 or 1/3. Never defaulted.")]
EpsOrNone = Annotated[
    str | None, option("--eps NUMBER", "Privacy to spend, such as 0.1 or 1/3. Never defaulted.")
]
Rho = Annotated[
    str | None, option("--rho NUMBER", "zCDP to spend, such as 0.05, in place of --eps: Gaussian noise.")
]
UnitText = Annotated[
    str | None,
    option(
        "--unit UNIT",
        "Who is protected: row, person:COLUMN:MAX_ROWS, cells:MAX_CELLS:MAX_PER_CELL or signal:DISTANCE:NORM; "
        "add ',replace' for that adjacency.",
    ),
]
ExpectedN = Annotated[
    int | None, option("--expected-n NUMBER", "A guess of how many there are, for the forecast.")
]
SavePlan = Annotated[Path | None, option("--save-plan FILE", "Also write the plan as TOML.")]
To = Annotated[Path, option("-o --output FILE", "Where to write.")]


def _a_page(output: Path) -> Path:
    if output.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(
            "what this command writes is a page",
            given=f"-o {output}",
            needed=".html",
            fix=f"-o {shlex.quote(str(output.with_name((output.stem or 'page') + '.html')))}",
        )
    from oboro.report.page import check_page

    check_page(output)  # before the work that a page takes
    return output


Page = Annotated[Path, option("-o --output FILE", "The page to write: .html.", callback=_a_page)]
Language = Annotated[
    str | None, option("--language WORD", "en or ja; otherwise the reader's browser decides.")
]
Output = Annotated[
    Path | None, option("-o --output FILE", "Where to write; the extension decides the format.")
]
Name = Annotated[str | None, option("--name TEXT", "A name for the release: asked again, it costs nothing.")]
Force = Annotated[bool, option("--force", "Replace a release, and its certificate, that stands at -o.")]
DryRun = Annotated[bool, option("--dry-run", "Price and forecast only. Spends nothing, looks at no value.")]
Json = Annotated[bool, option("--json", "Print JSON.")]


@dataclass(frozen=True)
class Options:
    """Options that commands share: a frozen dataclass below this, with a field for each."""


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """For Typer, to which each field of an argument that is `Options` is an option of its own."""
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Options)
    }
    shown: list[Parameter] = []
    for one in signature(command).parameters.values():
        if one.name not in groups:
            shown.append(one.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[one.name]))
            continue
        kinds = get_type_hints(groups[one.name], include_extras=True)
        for field in fields(groups[one.name]):
            shown.append(
                Parameter(
                    field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=kinds[field.name]
                )
            )

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    run.__signature__ = signature(command).replace(parameters=shown)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default


@dataclass(frozen=True)
class Delivery(Options):
    """What every releasing command takes: where the release goes, under which name, or nowhere."""

    output: Output = None
    name: Name = None
    force: Force = False
    dry_run: DryRun = False
    json: Json = False


NotNegative = Annotated[
    bool,
    option("--not-negative", "Of counts: give each raw and at 0 or more, with an interval for each."),
]


@dataclass(frozen=True)
class Shown(Options):
    """What every forecast takes."""

    save_plan: SavePlan = None
    json: Json = False


def read_unit(text: str | None, domain_file: Path | None = None, argument: str = "domain") -> Unit:
    """The unit from `--unit`, or from `[unit]` in the domain's TOML file."""
    from oboro.privacy import unit_from

    declared = {} if domain_file is None else _declared(domain_file, argument)
    if text is None:
        record = declared.get("unit")
        if record is None:
            raise UnitError(
                "the unit is not said",
                given="no --unit" + (f", and no [unit] in {domain_file}" if domain_file else ""),
                needed="who is protected",
                fix="--unit row, or --unit person:user_id:20",
            )
        return unit_from(record)
    unit = _unit(text)
    if "unit" in declared and unit_from(declared["unit"]) != unit:
        raise UnitError(
            "--unit is not the unit that the file states",
            given=f"--unit {text}, and in {domain_file}: {unit_from(declared['unit'])}",
            needed="the unit of the file",
            fix="without --unit",
        )
    return unit


def _unit(text: str) -> Unit:
    """A unit as it is typed."""
    from oboro.privacy import Unit
    from oboro.privacy.unit import ADJACENCIES

    body, comma, adjacency = text.partition(",")
    adjacency = adjacency.strip() if comma else "add/remove"
    kind, *parts = body.split(":")
    if kind in ("row", "person", "cells") and adjacency not in ADJACENCIES and ":" not in adjacency:
        raise UnitError(  # here, for what was typed before the comma stays
            "adjacency is unknown",
            given=f"--unit {text}",
            needed='"add/remove" or "replace"',
            fix=_meant(kind, parts, nearest(adjacency, ADJACENCIES) or "add/remove"),
        )
    *before, last = body.replace(" ", ":").split(":")
    if not comma and last in ADJACENCIES and len(before) > (before[:1] == ["person"]):
        kind, *parts = before  # behind another sign than a comma: a fix keeps it
        kind = nearest(kind, _KINDS) or kind
        raise _not_understood(text, "", _meant(kind, parts, last))
    if kind == "row" and not parts:
        return Unit.row(adjacency)
    if kind == "person" and len(parts) == 2:
        return Unit.person(parts[0], _int("MAX_ROWS", parts[1], _meant(kind, parts, adjacency)), adjacency)
    if kind == "cells" and len(parts) <= 2:
        fix = _meant(kind, parts, adjacency)
        limits = [*(_int("MAX_CELLS and MAX_PER_CELL", part, fix) for part in parts), 1, 1]
        return Unit.cells(limits[0], limits[1], adjacency)
    if kind == "signal" and 1 <= len(parts) <= 2 and (not comma or adjacency == "replace"):
        return Unit.signal(*parts)
    close = nearest(kind, _KINDS) if kind not in _KINDS else None
    if (
        kind == "person" and parts and (len(parts) > 2 or ":" in adjacency)
    ):  # part of the name would be another one
        raise UnitError(
            "--unit takes no name of a column with a colon or a comma",
            given=f"--unit {text}",
            needed="person:COLUMN:MAX_ROWS, or a file that states the unit",
            fix=_in_a_file(text),
        )
    raise _not_understood(
        text, f": did you mean {close!r}?" if close else "", _meant(close or kind, parts, adjacency)
    )


def _not_understood(text: str, guess: str, fix: str) -> UnitError:
    return UnitError(
        "--unit is not understood" + guess,
        given=f"--unit {text}",
        needed="row, person:COLUMN:MAX_ROWS, cells:MAX_CELLS:MAX_PER_CELL or signal:DISTANCE:NORM, with ',replace' if wanted",
        fix=fix,
    )


_KINDS = {"row": (), "person": ("user_id", "20"), "cells": ("1", "1"), "signal": ("1", "2")}


def _meant(kind: str, parts: Sequence[str], adjacency: str) -> str:
    """A unit as it is typed, with what can be used of the parts that were given, and usual parts in place of the others."""
    kind = kind if kind in _KINDS else "person"
    held = [
        part if part and (kind == "signal" or _is_count(part) or not usual.isdecimal()) else usual
        for part, usual in zip_longest(parts[: len(_KINDS[kind])], _KINDS[kind], fillvalue="")
    ]
    beside = ",replace" if adjacency == "replace" else ""
    return f"--unit {shlex.quote(':'.join([kind, *held]) + beside)}"


def _in_a_file(text: str) -> Lines:
    """A person whose column has a name that cannot be typed, as a file states it: the last number is the limit."""
    from oboro.privacy import Unit
    from oboro.privacy.unit import ADJACENCIES

    body, _, adjacency = text.rpartition(",")
    body, adjacency = (body, adjacency) if adjacency in ADJACENCIES else (text, "add/remove")
    column, _, rows = body.partition(":")[2].rpartition(":")
    most = int(rows) if _is_count(rows) and 0 < int(rows) <= 2**31 else 20
    return as_table(Unit.person(column, most, adjacency))


def _is_count(part: str) -> bool:
    return part.isdecimal() and len(part) <= 18


def read_domain(file: Path) -> Domain:
    """The domain that `--domain` names."""
    from oboro.domain import Domain, read_toml

    return Domain.from_dict(read_toml(file, "domain"), where=str(file))


def _declared(file: Path, argument: str) -> Record:
    """What a file declares, all of it checked: a domain with its unit, or tables, or a system with its unit."""
    from oboro.domain.domain import DECLARES, Domain, check_entries, read_toml

    record = read_toml(file, argument)
    if "columns" in record:
        Domain.from_dict(record, where=str(file))
    elif "tables" in record:
        from oboro.cli.sql import read_tables

        read_tables(file)
    else:
        check_entries(str(file), record, (*DECLARES, "system", "horizon", "sigma", "A", "B", "C", "D"))
    return record


def _int(name: str, text: str, fix: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"{name} is not a whole number", given=text, fix=fix) from None


def read_budget(
    eps: str | None, delta: str | None, rho: str | None, order: str | None, assume: list[str]
) -> Guarantee:
    """The budget from its parts: --eps; --eps and --delta; --rho; --order and --eps."""
    from oboro.exact import positive
    from oboro.privacy import ZCDP, Approx, Conditional, Pure, Renyi

    given = {
        name
        for name, value in (("eps", eps), ("delta", delta), ("rho", rho), ("order", order))
        if value is not None
    }
    for argument, amount in (("eps", eps), ("rho", rho)):
        if amount is not None:
            positive(argument, amount)
    budget: Guarantee
    if given == {"eps"} and eps is not None:
        budget = Pure(eps)
    elif given == {"eps", "delta"} and eps is not None and delta is not None:
        budget = Approx(eps, delta)
    elif given == {"rho"} and rho is not None:
        budget = ZCDP(rho)
    elif given == {"eps", "order"} and eps is not None and order is not None:
        budget = Renyi(order, eps)
    else:
        raise ParameterError(
            "the budget is not said",
            given=" ".join(f"--{name}" for name in sorted(given)) or "nothing",
            needed="--eps and --delta, or --eps, or --rho, or --order and --eps",
            fix=_budget_fix(given),
        )
    return Conditional(budget, assume) if assume else budget


def _budget_fix(given: set[str]) -> str:
    """What to add, or the first that is too much."""
    beside = {"eps", "delta", "order"} if "rho" in given else {"delta"} if "order" in given else set()
    return next((f"without --{name}" for name in sorted(given & beside)), "--eps 2 --delta 1e-5")


def open_ledger(
    where: str | None, declared: Path | None = None, *, unit: str = "row", budget: str = "--eps 2"
) -> Ledger:
    """The ledger of a command: `where`, or else the one that the file `declared` names, and never another than that. Where there is none: the line that makes one, for the unit that the file `declared` says,
    or else for the `unit` that such a command usually protects, with a budget that it can be paid from."""
    from oboro.domain import read_toml
    from oboro.ledger import Ledger
    from oboro.ledger.file import is_address

    where = _paying(where, declared)
    if not is_address(where) and not Path(where).exists():
        said_there = False
        with suppress(InputError):  # what is wrong with the file is said when it is read
            said_there = declared is not None and "unit" in read_toml(declared)
        protects = f"--domain {shlex.quote(str(declared))}" if said_there else f"--unit {shlex.quote(unit)}"
        place = shlex.quote(where or "city.ledger")
        raise LedgerError(
            "there is no ledger here",
            given=told(ledger=where),
            needed="a ledger that was created for this data",
            fix=f"oboro ledger create {place} --dataset {shlex.quote(_called(where))} {protects} {budget}"
            if said_there or _is_typed(unit)
            else IN_A_FILE,
        )
    opened = Ledger.open(where)
    hold(opened, declared)
    return opened


def _is_typed(unit: str) -> bool:
    """Whether `--unit` takes this text, which a name of a column stands in."""
    try:
        return unit == plain(unit) and bool(_unit(unit))
    except InputError:
        return False


def _paying(where: str | None, declared: Path | None) -> str:
    """Which ledger pays. What a file names is a fact of its data: what is typed beside it may be spelt otherwise, and lead nowhere else."""
    from oboro.domain import read_toml
    from oboro.ledger.file import is_address

    named = None
    with suppress(*([] if where is None else [InputError])):  # without --ledger, the file has to say it
        named = None if declared is None else read_toml(declared, "domain").get("ledger")
    if not isinstance(named, str):  # what else it may be is refused when the file is read
        named = None
    elif not is_address(named):  # it lies beside the file
        assert declared is not None
        named = str(declared.parent / named)
    if named is None:
        if where is not None:
            return where
        raise ParameterError(
            "the ledger that pays is not said",
            given="no --ledger" + (f", and no ledger in {declared}" if declared else ""),
            needed="the ledger of this data",
            fix="--ledger people.ledger",
            argument="ledger",
        )
    was_typed = any(word == "--ledger" or word.startswith("--ledger=") for word in sys.argv)
    if where is None or (not was_typed and where == os.environ.get("OBORO_LEDGER")):
        return named
    if not _are_one(where, named):
        raise ParameterError(
            f"{declared} names another ledger for this data",
            given=told(ledger=where),
            needed=named,
            fix="without --ledger",
            argument="ledger",
        )
    return where


def _are_one(one: str, other: str) -> bool:
    """Whether two names lead to the same ledger: the same file, or of addresses one with the same id."""
    from oboro.ledger import Ledger
    from oboro.ledger.file import is_address

    if one == other:
        return True
    if is_address(one) and is_address(other):
        with Ledger.open(one) as first, Ledger.open(other) as second:
            return first.id == second.id
    if is_address(one) or is_address(other):
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def protected(ledger: Ledger, declared: Path | None, argument: str | None = "domain") -> Unit:
    """Who a release protects: whom the file `declared` states, or where it states nobody, the unit of the ledger.

    Refused where the ledger does not account for the unit of the file: nobody who was promised protection goes without.
    """
    from oboro.domain import read_toml
    from oboro.privacy import unit_from
    from oboro.privacy.unit import check_unit

    stated = None if declared is None else read_toml(declared, argument).get("unit")
    if stated is None:
        return ledger.unit
    unit = unit_from(stated)
    check_unit(unit, ledger.unit, ledger.budget)
    return unit


def _called(ledger: str) -> str:
    """What the data of a ledger may be called: as the ledger is."""
    return Path(ledger.partition("?")[0]).stem.partition(".")[0] or "city"


def certificate_beside(published: Path) -> Path:
    """Where the certificate of a released file is kept."""
    if not published.name:
        raise DataError("no file was named", given=f"{published}", needed="the file that was released")
    return published.with_name(f"{published.name}.certificate.json")


def show_checked(rows: list[dict[str, object]]) -> None:
    """What a check found, as a table: for the steward's eyes."""
    echo(said("for the steward's eyes only: these figures are not private") + "\n")
    cells = [[said(head) for head in rows[0]], *[[str(value) for value in row.values()] for row in rows]]
    sides = "".join("<" if isinstance(value, str) else ">" for value in rows[0].values())
    echo("\n".join(aligned(cells, sides)))


_MOST_RULES = 20  # of which each is told, whatever was found


def show_rules(rules: list[dict[str, Any]]) -> None:
    """What a check found of the rules of the domain; of many rules those that are broken."""
    if not rules:
        return
    echo("")
    told = [one for one in rules if len(rules) <= _MOST_RULES or _is_broken(one)]
    for one in told[:_MOST_RULES]:
        echo(_told(one))
    if (more := len(told) - _MOST_RULES) > 0:
        echo(said(f"{more:,} further rules are broken; --json has all of them"))
    if not told:
        echo(said(f"no row breaks any of {len(rules):,} rules"))


def _is_broken(one: Record) -> bool:
    return bool(one["declared"] != one["in_data"] if one["rule"] == "known" else one["breaking"])


def _told(one: Record) -> str:
    """A rule and what was found of it, in a line."""
    if one["rule"] == "known":
        column, value = plain(one["column"]), plain(str(one["value"]))
        return said(  # numbers first: a value may have spaces
            f"{one['declared']:,} declared, {one['in_data']:,} in the data: known total of {column} = {value}"
        )
    if one["rule"] == "impossible":
        says = plain(one["says"])
        return said(f"{one['breaking']:,} of {one['rows']:,} rows meet impossible {one['number']} ({says})")
    parts = plain(" + ".join(one["parts"]))
    total, breaking, rows = plain(one["column"]), one["breaking"], one["rows"]
    if not one["missing"]:
        return said(f"{total} is not {parts} in {breaking:,} of {rows:,} rows")
    return said(
        f"{total} is not {parts} in {breaking:,} of {rows:,} rows; a value is missing in {one['missing']:,} of these"
    )


def show_valid(
    facts: Mapping[str, str], key: str | None, unsigned: str | None = None, *notes: str, head: str = "valid"
) -> None:
    """What a signature holds for, and whose word for the key that is; `unsigned` says what it does not hold for."""
    head = head if unsigned is None else "NOT VERIFIED"
    echo("\n".join([said(head), *("  " + labelled(label, text) for label, text in facts.items())]))
    for one in (*([] if unsigned is None else [unsigned]), *notes):
        echo(f"  {said('note: ')}{said(one)}")
    if key is None:
        note = "compare that key with one the publisher gave you another way, or pass it with --key"
        echo(f"  {said('note: ')}{said(note)}")


def show_json(record: object) -> None:
    echo(
        json.dumps(
            record, ensure_ascii=False, indent=None if os.environ.get("OBORO_COMPACT") else 2, default=str
        )
    )
