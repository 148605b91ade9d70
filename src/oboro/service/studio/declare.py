"""Declare: from a file to a dataset. Names of columns come from the file; what values are possible comes from knowledge.

Nothing of the data is read to fill in a bound: a hint says what must be known. `check` looks at the data, behind a red bar, for the
steward's eyes. What is written is a TOML file, and the page and the file are two spellings of one declaration.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from oboro.domain import Domain
from oboro.domain.domain import SERVED
from oboro.domain.rules import RULES
from oboro.engine import check_columns, open_data
from oboro.errors import DataError, OboroError, ParameterError
from oboro.files import write_whole
from oboro.language import Lines
from oboro.ledger.file import is_address
from oboro.privacy import Approx, Pure, Unit, unit_from
from oboro.records import Record
from oboro.service.arrivals import Account, Arrivals, Progress
from oboro.service.desk import Unknown
from oboro.service.studio.page import Form, Visit, for_roles, form, gone_to, shown, to, told_of

router = APIRouter()
Steward = Annotated[Visit, Depends(for_roles("steward"))]
Sent = Annotated[Form, Depends(form)]
_ENDINGS = (".csv", ".parquet")
_NAME = re.compile(r"\w[\w.-]{0,99}")  # letters of any script
_KINDS = ("integer", "real", "category", "date")
_EXAMPLE = "1"
EXAMPLE_RULES = '[[impossible]]\nwork = "retired"\nage = "..29"'


def is_name(name: str) -> bool:
    """Whether a file may be called so, and its ledger and key after it: systems count bytes."""
    return _NAME.fullmatch(name) is not None and len(name.encode()) <= 200


def folder(here: Visit) -> Path:
    """Where what is declared lies; refused where the service's file names none."""
    found = here.desk.settings.folder
    if found is None:
        raise DataError(
            "this service takes no files",
            given="no [studio] in its file",
            needed="a folder, and how large a file may be",
            fix=Lines('[studio]\nfolder = "declared"\nupload = 100_000_000'),
        )
    return found


def data_file(here: Visit, name: str) -> Path:
    path = folder(here) / name
    if not is_name(name) or not name.lower().endswith(_ENDINGS) or not path.is_file():
        raise Unknown("there is no such file", needed=f"a file of the folder: {', '.join(_ENDINGS)}")
    return path


# Files


@router.get("/declare")
def declare(here: Steward) -> Response:
    """Drop a file, or take one that lies in the folder."""
    place = here.desk.settings.folder
    files = (
        []
        if place is None
        else sorted(
            path.name
            for path in place.iterdir()
            if path.suffix.lower() in _ENDINGS and is_name(path.name) and path.is_file()
        )
    )
    listed = (
        [(name, (place / f"{Path(name).stem}.toml").is_file()) for name in files] if place is not None else []
    )
    return shown(
        here,
        "declare.html",
        folder=None if place is None else str(place),
        files=listed,
        most=f"{here.desk.settings.upload / 1e6:,.0f} MB",
    )


@router.put("/declare/file")
async def upload(request: Request, here: Steward) -> Response:
    """A file that was dropped, as it is. One that is there is not written over."""
    name = request.query_params.get("name", "")
    try:
        place = folder(here)
        if not is_name(name) or not name.lower().endswith(_ENDINGS):
            raise ParameterError(
                "the file cannot be taken",
                given=name[:100],
                needed="letters, digits, dots and dashes, and .csv or .parquet",
                fix="people.csv",
            )
        path = place / name
        part = place / f".{secrets.token_hex(8)}.part"  # its own: two files of one name may come at once
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                async for chunk in request.stream():
                    file.write(chunk)
            os.link(part, path)
        except FileExistsError:
            raise ParameterError(
                "there is a file of this name already",
                given=name,
                needed="another name",
                fix=f"{path.stem}-2{path.suffix}",
            ) from None
        finally:
            part.unlink(missing_ok=True)
    except OboroError as error:
        told = told_of(here, error)
        return JSONResponse({"message": told["message"], "needed": told["needed"]}, status_code=422)
    return JSONResponse({"place": to("declare", name)})


# One declaration, in two spellings


def columns_in(path: Path) -> list[tuple[str, str]]:
    """Names and how they are stored: integer, real, category or date. No value is looked at but the heads of a text file."""
    found, source = [], open_data(path)
    source.check_separator()
    for name, kind in source.types.items():
        stored = str(kind).upper()
        if any(word in stored for word in ("INT", "LONG")):
            found.append((name, "integer"))
        elif any(word in stored for word in ("DOUBLE", "FLOAT", "DECIMAL", "REAL", "NUMERIC")):
            found.append((name, "real"))
        elif "DATE" in stored or "TIMESTAMP" in stored:
            found.append((name, "date"))
        else:
            found.append((name, "category"))
    return found


def listed_in(record: Record, name: str) -> list[Any]:
    """A list of a declaration, whatever was typed in its place."""
    found = record.get(name)
    return found if isinstance(found, list) else []


def fields_of(here: Visit, record: Record, names: list[tuple[str, str]]) -> list[Record]:
    """A declaration as the fields of the page, a line for each column of the file."""
    declared = {
        str(column.get("name")): column
        for column in listed_in(record, "columns")
        if isinstance(column, dict) and column.get("kind") in _KINDS
    }
    unit = record.get("unit", {}) if isinstance(record.get("unit"), dict) else {}
    stored_as = {
        "integer": here.say("stored as whole numbers"),
        "real": here.say("stored as numbers"),
        "date": here.say("stored as dates"),
        "category": here.say("stored as text"),
    }
    lines = []
    for name, stored in names:
        column = declared.get(name, {})
        kind = "person" if unit.get("column") == name else column.get("kind", "")
        lines.append(
            {
                "name": name,
                "told": stored_as[stored],
                "kind": kind,
                "low": str(column.get("low", column.get("first", ""))),
                "high": str(column.get("high", column.get("last", ""))),
                "step": str(column.get("step", "")),
                "values": "\n".join(str(value) for value in listed_in(column, "values")),
                "missing": str(column.get("missing", "")),
            }
        )
    return lines


def record_of(sent: Form, path: Path, names: list[tuple[str, str]]) -> Record:
    """The fields of the page as a declaration. What is not understood stays as it was typed: the declaration itself refuses it."""
    stem = path.stem
    record: Record = {"data": path.name, "ledger": f"{stem}.ledger"}
    person = next((name for at, (name, _) in enumerate(names) if sent.get(f"kind.{at}") == "person"), None)
    adjacency = "replace" if sent.get("adjacency") == "replace" else "add/remove"
    unit: Record = {"kind": "row"}
    if person is not None:
        unit = {"kind": "person", "column": person, "max_rows": _number(sent.get("max_rows") or "1")}
    if adjacency == "replace":
        unit["adjacency"] = adjacency
    record["unit"] = unit
    if served := _served(sent):
        record["service"] = served
    record["columns"] = []
    for at, (name, stored) in enumerate(names):
        kind = sent.get(f"kind.{at}", "")
        if kind not in _KINDS:
            continue
        column: Record = {"kind": kind, "name": name}
        given = {part: sent.get(f"{part}.{at}", "").strip() for part in ("low", "high", "step", "missing")}
        if kind == "category":
            values = [
                line.strip()
                for line in sent.get(f"values.{at}", "").replace("\r", "").split("\n")
                if line.strip()
            ]
            whole = stored == "integer" and all(re.fullmatch(r"-?\d{1,15}", value) for value in values)
            column["values"] = [int(value) if whole else value for value in values]
        else:
            ends = ("first", "last") if kind == "date" else ("low", "high")
            for part, text in zip(ends, (given["low"], given["high"]), strict=True):
                if text:
                    column[part] = text if kind in ("date", "real") else _number(text)
            if given["step"]:
                column["step"] = given["step"] if kind == "real" else _number(given["step"])
        if given["missing"]:
            column["missing"] = (
                given["missing"] if kind in ("category", "date", "real") else _number(given["missing"])
            )
        record["columns"].append(column)
    return {**record, **rules_in(sent.get("rules", ""))}


# What is known of records beforehand, as a part of the TOML by itself


def rules_text(record: Record) -> str:
    """The rules of a declaration or of a domain, as its file has them; a list of one value as that value."""
    rules = {name: record[name] for name in RULES if name in record}
    if isinstance(conditions := rules.get("impossible"), list) and all(
        isinstance(one, dict) for one in conditions
    ):
        rules["impossible"] = [
            {name: met[0] if isinstance(met, list) and len(met) == 1 else met for name, met in one.items()}
            for one in conditions
        ]
    return written(rules)


def rules_in(text: str) -> Record:
    """The same, read. A day is the text that it would be among the fields of a question."""
    record: Record = json.loads(json.dumps(_toml(text), default=str))
    if others := [name for name in record if name not in RULES]:
        raise ParameterError(
            "what is known of records is not understood",
            given=", ".join(others)[:200],
            needed="[[impossible]], [known.COLUMN] or [sums]",
            fix=Lines(EXAMPLE_RULES),
        )
    return record


def _toml(text: str) -> Record:
    try:
        record = tomllib.loads(text.replace("\r", ""))
        written(record)  # as it goes back to the page
    except tomllib.TOMLDecodeError as error:
        raise ParameterError("this is not valid TOML", given=str(error)[:200], needed="TOML") from None
    except (ValueError, RecursionError) as error:
        raise ParameterError(
            "this is not valid TOML",
            given="tables nested too deeply"
            if isinstance(error, RecursionError)
            else "a number of too many digits",
            needed="numbers of at most 4,300 digits, and a few tables within one another",
        ) from None
    return record


def _served(sent: Form) -> Record:
    """How a service serves it; nothing on one machine, where the page does not ask."""
    found: Record = {name: text for name in SERVED if (text := sent.get(f"service.{name}", "").strip())}
    if "rows" in found:
        found["rows"] = _number(str(found["rows"]))
    if "sharing" in found:
        found["sharing"] = found["sharing"] == "yes"
    return found


def _number(text: str) -> int | str:
    bare = text.replace(",", "").replace("_", "").strip()
    return int(bare) if re.fullmatch(r"-?\d{1,18}", bare) else text


def written(record: Record) -> str:
    import tomli_w

    return str(tomli_w.dumps(record))


def checked(record: Record) -> tuple[Domain, Unit]:
    """The domain and the unit that a declaration states; raises what is wrong with it."""
    try:
        return Domain.from_dict(record, where="the declaration"), unit_from(record["unit"])
    except (KeyError, TypeError):
        raise ParameterError("the declaration is not understood", needed="[unit] and [[columns]]") from None


@router.get("/declare/{file}")
def columns(file: str, here: Steward) -> Response:
    """The declaration of a file, column by column, with its TOML beside it."""
    path = data_file(here, file)
    names = columns_in(path)
    known = path.with_suffix(".toml")
    record: Record = {
        "data": path.name,
        "ledger": f"{path.stem}.ledger",
        "unit": {"kind": "row"},
        "columns": [],
    }
    if known.is_file():
        record = _kept(known) or record
    return shown(here, "declared.html", **_facts(here, path, record, names))


def _facts(here: Visit, path: Path, record: Record, names: list[tuple[str, str]]) -> Record:
    unit = record.get("unit") if isinstance(record.get("unit"), dict) else {}
    assert isinstance(unit, dict)
    service = record.get("service") if isinstance(record.get("service"), dict) else {}
    ledger = path.with_suffix(".ledger")
    served = {one.settings.ledger for one in here.desk.datasets.values()}
    return {
        "file": path.name,
        "stem": path.stem,
        "lines": fields_of(here, record, names),
        "max_rows": unit.get("max_rows", 1),
        "adjacency": unit.get("adjacency", "add/remove"),
        "whose": unit.get("column"),
        "toml": written(record),
        "rules": rules_text(record),
        "example": EXAMPLE_RULES,
        "wrong": _wrong(here, record),
        "oob": False,
        "service": {
            "rows": 200_000,
            "edition": "1",
            "approve_above": "",
            "sharing": False,
            **(service or {}),
        },
        "there": ledger.exists(),
        "served": str(ledger) in served,
    }


def _wrong(here: Visit, record: Record) -> Record | None:
    try:
        checked(record)
    except OboroError as error:
        return dict(told_of(here, error))
    return None


@router.post("/declare/{file}/toml")
def to_toml(file: str, here: Steward, sent: Sent) -> Response:
    """From the fields to TOML."""
    path = data_file(here, file)
    names = columns_in(path)
    record = record_of(sent, path, names)
    _names_no_file(here, record)
    return shown(here, "declared_toml.html", **{**_facts(here, path, record, names), "oob": True})


@router.post("/declare/{file}/fields")
def to_fields(file: str, here: Steward, sent: Sent) -> Response:
    """From TOML to the fields."""
    path = data_file(here, file)
    record = _read(here, sent)
    return shown(here, "declared_fields.html", **_facts(here, path, record, columns_in(path)))


def _read(here: Visit, sent: Form) -> Record:
    """What was typed as TOML. It names no other file of this machine: what a page may read lies in its folder."""
    record = _toml(sent.get("toml", ""))
    named = [one for one in listed_in(record, "columns") if isinstance(one, dict) and "table" in one]
    if named and not here.local:
        raise ParameterError(
            "a table of areas cannot be named in a page",
            given=str(named[0]["table"])[:100],
            needed="a declaration that lies beside the service's own file",
        )
    _names_no_file(here, record)
    return record


def _names_no_file(here: Visit, record: Record) -> None:
    """What is impossible may be a table in a file: one on the machine of a service is not for a page to open."""
    if not here.local and isinstance(record.get("impossible"), str):
        raise ParameterError(
            "a table of combinations cannot be named in a page",
            given=str(record["impossible"])[:100],
            needed="the conditions themselves",
        )


@router.post("/declare/{file}/check")
def check(file: str, here: Steward, sent: Sent) -> Response:
    """Counts values that are missing, unknown or out of bounds. NOT PRIVATE: for the steward's eyes."""
    path = data_file(here, file)
    domain, _ = checked(_read(here, sent))
    rows = check_columns(open_data(path), domain.columns)
    head = list(rows[0]) if rows else []
    return shown(
        here,
        "checked.html",
        head=[here.sentence(name) for name in head],
        rows=[[value if isinstance(value, str) else f"{value:,}" for value in row.values()] for row in rows],
    )


@router.post("/declare/{file}")
def save(file: str, here: Steward, sent: Sent) -> Response:
    """Declares it: it is opened, and served as soon as all is ready. From then on what is spent is never given back."""
    path = data_file(here, file)
    record = _read(here, sent)
    record["data"], record["ledger"] = path.name, f"{path.stem}.ledger"
    _, unit = checked(record)
    name, eps, delta = (sent.get(part, "").strip() for part in ("name", "eps", "delta"))
    budget = Approx(eps or _EXAMPLE, delta) if delta else Pure(eps or _EXAMPLE)
    arrivals: Arrivals = here.request.app.state.arrivals
    with arrivals.declaring:  # what is being opened, or was, stays as it was declared
        arrivals.refuse_another()
        _refuse_second(here, path)
        write_whole(path.with_suffix(".toml"), written(record).encode())
        return _opened(here, path, Account(name or path.stem, unit, budget))


def _refuse_second(here: Visit, path: Path) -> None:
    """Refuses a second ledger for one file, and to write over what is not its declaration."""
    declared = path.with_suffix(".toml")
    if path.with_suffix(".ledger").exists():
        raise ParameterError(
            "this file has a ledger already: who is protected and the budget stand in it",
            given=f"{path.stem}.ledger",
            needed="a file that was not declared before",
        )
    if declared.exists() and _kept(declared).get("data") != path.name:
        raise ParameterError(
            "there is another file of the name that the declaration would have",
            given=declared.name,
            needed="a file of another name",
            fix=f"{path.stem}-2{path.suffix}",
        )
    if (other := _ledger_of(here, path)) is not None:
        raise ParameterError(
            "rows of this file are paid for from another ledger: a second one would be a second budget",
            given=other,
            needed="a file that was not declared before",
        )


def _ledger_of(here: Visit, path: Path) -> str | None:
    """The ledger that pays for a file already: of a dataset that is served, or of another declaration in the folder."""
    place = path.resolve()
    for one in here.desk.datasets.values():
        if one.settings.data.resolve() == place:
            return one.settings.ledger
    for declared in sorted(path.parent.glob("*.toml")):
        record = _kept(declared)
        data, ledger = record.get("data"), record.get("ledger")
        if (
            isinstance(data, str)
            and isinstance(ledger, str)
            and (declared.parent / data).resolve() == place
            and (is_address(ledger) or (declared.parent / ledger).exists())
        ):
            return ledger
    return None


@router.post("/declare/{file}/serve")
def serve(file: str, here: Steward) -> Response:
    """Serves what was declared before, with the ledger that it has."""
    path = data_file(here, file)
    if not path.with_suffix(".ledger").exists():
        raise Unknown("this file is not declared yet", needed="its columns, and a ledger")
    return _opened(here, path, None)


def _opened(here: Visit, path: Path, account: Account | None) -> Response:
    arrivals: Arrivals = here.request.app.state.arrivals
    if here.local:
        return gone_to(to("ask", arrivals.open(path.with_suffix(".toml"), account)))
    arrivals.begin(path.with_suffix(".toml"), account)
    return gone_to(to("declare", path.name, "opening"))


@router.get("/declare/{file}/opening")
def opening(file: str, here: Steward) -> Response:
    """How far it is: it can be left, and comes to its end by itself."""
    path = data_file(here, file)
    found: Progress | None = here.request.app.state.arrivals.progress(path.with_suffix(".toml"))
    if found is None:
        return gone_to(to("declare", path.name))
    words = [
        ("coding", here.say("Rows are bounded, coded and written down.")),
        ("calibrating", here.say("Times at which answers leave are found, on made-up rows.")),
        ("served", here.say("It is served.")),
    ]
    at = next((number for number, (word, _) in enumerate(words) if word == found.step), 0)
    at += found.step == "served"  # the last is done when it is reached
    spoken = {"done": here.say("done"), "now": here.say("under way"), "later": ""}
    steps = [
        (word, told, state, spoken[state])
        for number, (word, told) in enumerate(words)
        for state in ("done" if number < at else "now" if number == at else "later",)
    ]
    return shown(
        here,
        "declared_opening.html",
        file=path.name,
        name=found.name,
        step=found.step,
        steps=steps,
        error=None if found.error is None else told_of(here, found.error),
    )


def _kept(declared: Path) -> Record:
    """A declaration that lies there, if it is one."""
    with suppress(tomllib.TOMLDecodeError, UnicodeDecodeError):
        return tomllib.loads(declared.read_text(encoding="utf-8"))
    return {}
