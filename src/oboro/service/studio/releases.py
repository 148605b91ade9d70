"""Releases: what was published, each with its chart, its certificate in words, and its files."""

from __future__ import annotations

import re
import shlex
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends
from fastapi.responses import Response

from oboro.domain import Domain
from oboro.errors import OboroError
from oboro.files import CERTIFICATE
from oboro.ledger.chain import Entry
from oboro.privacy import guarantee_from
from oboro.records import Record
from oboro.release import Release, plan_from
from oboro.release.certificate import certify_file
from oboro.release.release import checked_ending
from oboro.release.run import fetch
from oboro.report import chart, promise
from oboro.service import database as schema
from oboro.service.desk import Unknown
from oboro.service.edition import Opened
from oboro.service.studio import budgets
from oboro.service.studio.answer import forecast_rows, grid_of, picture, rows_of, table_of, text_of
from oboro.service.studio.page import Form, Visit, fields, for_roles, in_language, shown, to

router = APIRouter()
Here = Annotated[Visit, Depends(for_roles("analyst", "steward"))]
Fields = Annotated[Form, Depends(fields)]
_FILES = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".oboro": "application/octet-stream",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_MOST = 200


def listed(here: Visit) -> list[Record]:
    """What somebody may see, the newest first: a steward everything that was published, an analyst what they asked."""
    found = []
    for opened in here.desk.visible(here.person):
        history = opened.ledger.history()
        committed = {entry.body["reservation"] for entry in history if entry.kind == "commit"}
        own = None if here.person.role == "steward" else _own(here, opened)
        for entry in history:
            if (
                entry.kind == "reserve"
                and entry.position in committed
                and (own is None or entry.position in own)
            ):
                found.append(_line(here, opened, entry))
    return sorted(found, key=lambda one: str(one["time"]), reverse=True)


def _own(here: Visit, opened: Opened) -> set[int]:
    """The entries whose answers have left for this analyst."""
    from oboro.service import jobs
    from oboro.service.database import now

    table, time = schema.jobs, now()
    with here.desk.database.reading() as connection:
        rows = list(
            connection.execute(
                sa.select(table).where(
                    table.c.dataset == opened.facts.dataset, table.c.account == here.person.name
                )
            )
        )
        led = [jobs.resolved(connection, row) for row in rows]
    return {row.entry for row in led if row.entry is not None and jobs.state_at(row, time)[0] == "done"}


def _line(here: Visit, opened: Opened, entry: Entry) -> Record:
    name = entry.name
    return {
        "place": to("releases", opened.facts.dataset, entry.position),
        "dataset": opened.facts.dataset,
        "words": here.name(released(entry.body["plan"])),
        "name": "" if name is None or name.startswith("q-") else name,
        "account": entry.account or "",
        "cost": budgets.amount(guarantee_from(entry.body["cost"])),
        "time": entry.body["time"],
        "when": here.when(iso=str(entry.body["time"])),
    }


def released(record: Record) -> str:
    try:
        return str(plan_from(record).describe()["released"])
    except OboroError:
        return str(record.get("kind", ""))


@router.get("/releases")
def releases(here: Here, asked: Fields) -> Response:
    """The list, with search."""
    wanted = asked.get("search", "").strip().lower()
    found = [
        one
        for one in listed(here)
        if not wanted
        or all(
            word in " ".join(str(one[key]) for key in ("words", "name", "dataset", "account", "when")).lower()
            for word in wanted.split()
        )
    ]
    part = here.request.headers.get("hx-request") == "true"
    return shown(
        here,
        "releases_list.html" if part else "releases.html",
        releases=found[:_MOST],
        more=max(0, len(found) - _MOST),
        search=asked.get("search", ""),
    )


def given(here: Visit, dataset: str, entry: int) -> tuple[Opened, Release, Record]:
    """A release, if it is there for whoever looks."""
    opened = here.desk.dataset(dataset, here.person)
    stored = opened.ledger.find_entry(entry) if 0 <= entry < 2**62 else None
    own = here.person.role == "steward" or entry in _own(here, opened)
    if stored is None or stored.committed is None or not own:
        raise Unknown("there is no such release", needed="one of those that are listed")
    release = fetch(opened.ledger, entry=stored.reserved.position)
    return opened, release, dict(stored.reserved.body)


@router.get("/releases/{dataset}/{entry:int}")
def one(dataset: str, entry: int, here: Here) -> Response:
    """A release: its chart, its table, its certificate in words, its files."""
    opened, release, body = given(here, dataset, entry)
    record: Any = release.certificate.record
    table = table_of(release)
    head, rows, more = rows_of(here, table, release.plan.key_columns)
    stem = _stem(release, entry)
    endings = [
        ending
        for ending in release.plan.formats or (".csv", ".parquet")
        if ending in _FILES and (ending != ".xlsx" or find_spec("xlsxwriter") is not None)
    ]
    within = endings[0] == ".oboro"  # a model carries its certificate
    bound = f"{stem}{endings[0]}{'' if within else CERTIFICATE}"
    return shown(
        here,
        "release.html",
        dataset=dataset,
        entry=entry,
        title=here.name(record["released"]),
        value=rows[0][head.index(here.sentence("value"))] if _single(table) else None,
        ends=_ends(table),
        drawn=picture(here, table, release.plan),
        head=head,
        rows=rows,
        more=more,
        readable=release.plan.readable,
        leaves_out=here.sentence(release.plan.leaves_out) if release.plan.intervals is not None else None,
        footnote=None if release.plan.footnote is None else here.sentence(release.plan.footnote),
        promised=in_language(promise.promise(record), here.language),
        **_errors(here, record.get("forecast", {}), getattr(release.plan, "domain", None)),
        check=f"oboro certificate verify {shlex.quote(bound)} --key {record['public_key']}",
        key=record["public_key"],
        when=here.when(iso=str(record["time"])),
        cost=budgets.amount(release.cost),
        account=body.get("account", {}).get("name") if isinstance(body.get("account"), dict) else None,
        map=to("releases", dataset, entry, "map") if grid_of(release.plan) is not None else None,
        files=[(f"{stem}{ending}", to("releases", dataset, entry, f"{stem}{ending}")) for ending in endings],
        certificate=None if within else to("releases", dataset, entry, bound),
        model=to("synthetic", dataset, entry)
        if release.plan.kind.startswith("synth.") and ".oboro" in release.plan.formats
        else None,
        hours=to("tables", dataset, "series", entry) if "ticks" in body else None,
        free=body.get("edition") == opened.facts.edition,
    )


def _errors(here: Visit, forecast: Record, domain: Domain | None) -> Record:
    """The forecast of the certificate: by block size as a chart, otherwise as a small table."""
    if forecast.get("columns", [""])[:1] == ["block size"]:
        labels = dict(domain.labels) if domain is not None else {}
        drawn = in_language(promise.error_by_size(forecast, labels), here.language)
        return {"errors": drawn, "expected": None}
    found = chart.forecast_of(forecast)
    return {"errors": "", "expected": None if found is None else forecast_rows(here, found)}


def _single(table: Any) -> bool:
    return table.num_rows == 1 and "value" in table.column_names


def _ends(table: Any) -> tuple[str, str] | None:
    if not _single(table) or "low" not in table.column_names:
        return None
    return text_of(table.column("low")[0].as_py()), text_of(table.column("high")[0].as_py())


def _stem(release: Release, entry: int) -> str:
    words = "".join(
        sign if sign.isascii() and sign.isalnum() else "-"
        for sign in str(release.certificate.record["released"])
    )
    return f"{'-'.join(part for part in words.split('-') if part)[:60] or 'release'}-{entry}"


@router.get("/releases/{dataset}/{entry:int}/map")
def map_page(dataset: str, entry: int, here: Here) -> Response:
    """The map of a table, as a page of its own, complete in itself."""
    from oboro.report import write_map

    _, release, _ = given(here, dataset, entry)
    plan: Any = release.plan
    if grid_of(plan) is None:
        raise Unknown("there is no map of this release", needed="a table by place")
    with tempfile.TemporaryDirectory(prefix="oboro-") as folder:
        path = Path(folder, "map.html")
        write_map(
            release.to_arrow(), plan.domain, path, certificate=release.certificate, language=here.language
        )
        page = path.read_text(encoding="utf-8")
    return whole_page(page)


def whole_page(page: str) -> Response:
    """A page that is complete in itself, under the policy that it states."""
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    headers = {"content-security-policy": f"{policy[1]}; frame-ancestors 'none'"}
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


@router.get("/releases/{dataset}/{entry:int}/{file}")
def file(dataset: str, entry: int, file: str, here: Here) -> Response:
    """A file of a release, or the certificate that is bound to it."""
    opened, release, _ = given(here, dataset, entry)
    name = file.removesuffix(CERTIFICATE)
    ending = checked_ending(release.plan, Path(name))
    if ending not in _FILES or "/" in file:
        raise Unknown("there is no such file", needed=", ".join(_FILES))
    content = contents(release, ending)
    if file != name:
        signed = certify_file(release.certificate, name, content, opened.ledger.sign)
        return download(signed.to_bytes(), "application/json", file)
    return download(content, _FILES[ending], name)


def contents(release: Release, ending: str) -> bytes:
    """A release as a file, byte for byte as `save` writes it."""
    if ending == ".xlsx":
        return release._workbook(None)
    if ending == ".oboro":
        with tempfile.TemporaryDirectory(prefix="oboro-") as folder:
            path = Path(folder, "model.oboro")
            release.save(path)
            return path.read_bytes()
    table = release.outgoing()
    if ending == ".parquet" and table is release.to_arrow():
        return release.content
    return bytes(release.plan.encoded(table, ending))


def download(content: bytes, kind: str, name: str) -> Response:
    from urllib.parse import quote

    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(content, media_type=kind, headers=headers)
