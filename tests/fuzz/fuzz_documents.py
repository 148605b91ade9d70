"""A valid document for every parser, and who reads it. A bad document is a valid one with bytes or parts bent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_calls import model
from fuzz_world import World

import oboro as ob
from oboro.records import read
from oboro.secure import wire


@dataclass(frozen=True, slots=True)
class Document:
    """A valid file and its reader. A `record` is bent part by part instead of byte by byte."""

    valid: bytes
    suffix: str
    read: Callable[[Path], Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A valid nested record and its reader."""

    valid: Any
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A valid text and its reader."""

    valid: str
    read: Callable[[str], Any]


def documents(world: World) -> dict[str, Document]:
    """Files of every kind that oboro reads."""

    def file(name: str, read: Callable[[Path], Any], suffix: str | None = None) -> Document:
        path = world.path(name)
        return Document(path.read_bytes(), suffix or path.suffix, read)

    _write_tables(world)
    prepare = world.histogram.prepare
    return {
        "domain TOML": file("domain.toml", ob.Domain.from_toml),
        "plan TOML": file("plan.toml", ob.load_plan),
        "table plan TOML": file("table.toml", ob.load_plan),
        "signal plan TOML": file("signal.toml", ob.load_plan),
        "noise plan TOML": file("noise.toml", ob.secure.NoisePlan.load),
        "session TOML": file("people.toml", lambda path: world.command(["check", str(path)])),
        "system TOML": file("system.toml", lambda path: world.command(["dynamics", "plan", str(path), "--eps", "1", "--delta", "1e-3"])),
        "CSV": file("people.csv", prepare),
        "Parquet": file("people.parquet", prepare),
        "Arrow": file("people.arrow", prepare),
        "Arrow, as it lies": file("plain.arrow", prepare),
        "Arrow, with codes": file("coded.arrow", prepare),
        "e-Stat": file("estat.txt", ob.tables.read_estat),
        "model": file("model.oboro", ob.synth.load),
        "encrypted answer": file("answer.bin", ob.secure.Answer.load),
        "urns": file("urns.bin", lambda path: _draw(world, path)),
        "drawn answer": file("urns.bin", lambda path: ob.secure.open_file(_holder(world), path)),
        "public key": file("alice.public", ob.secure.load_public),
        "secret key": file("alice.secret", _private(ob.secure.load_secret)),
        "certificate": file("published.parquet.certificate.json", ob.verify_certificate, ".json"),
        "ledger": Document(_closed(world, "row.ledger"), ".ledger", _verify),
        "ledger export": file("export.json", ob.ledger.verify_export),
        "published table": file("table.parquet", lambda path: ob.tables.ask(path, {"row": (0, 3)})),
        "map": file("table.parquet", lambda path: world.command(["table", "map", str(path), "--domain", "grid.toml", "-o", "map.html"])),
        "output band": file("output.csv", lambda path: world.command(["dynamics", "band", str(path), "-o", "band.html"])),
    }  # fmt: skip


def records(world: World) -> dict[str, Record]:
    """The same, after their syntax was understood: every plan, and everything that is read by itself."""
    certificate = json.loads(world.path("published.parquet.certificate.json").read_text())
    export = json.loads(world.path("export.json").read_text())
    found = {f"plan: {name}": Record(plan.to_dict(), _planned) for name, plan in ob.audit.samples().items()}
    return found | {
        "domain": Record(world.domain.to_dict(), ob.Domain.from_dict),
        "noise plan": Record(
            world.noise.to_dict(), lambda record: read(ob.secure.NoisePlan, record, "the noise plan")
        ),
        "signal plan": Record(world.signal.to_dict(), _planned),
        "synthetic plan": Record(model(world).plan.to_dict(), _planned),
        "certificate": Record(certificate, lambda record: _as_json(world, record, ob.verify_certificate)),
        "ledger export": Record(export, lambda record: _as_json(world, record, ob.ledger.verify_export)),
        "guarantee": Record(ob.Conditional(ob.Approx(1, "1e-6"), ["x"]).to_dict(), ob.privacy.guarantee_from),
        "unit": Record(ob.Unit.person("who", 3).to_dict(), ob.privacy.unit_from),
    }


def texts(world: World) -> dict[str, Text]:
    """One-line languages."""
    mesh = ob.Mesh("m", level="500m")
    return {
        "condition": Text("age >= 20 and (region = 'north' or not age in (3, 4))", world.session.plan.where),
        "head": Text(f"12:{'a' * 64}", ob.ledger.Head.parse),
        "mesh code": Text("533945263", mesh.code),
        "mesh region": Text("5339", lambda text: ob.Mesh("m", level="500m", region=[text])),
        "mesh level": Text("500m", lambda text: ob.Mesh("m", level=text)),
        "date": Text("2026-04-01", ob.Date("d", "2026-01-01", "2026-12-31").code),
        "number": Text("12/35", ob.Pure),
        "question": Text("quantile age 0.1, 0.5", lambda text: world.command(["query", "people.toml", text, "--eps", "1e-9", "--dry-run"])),
        "--where": Text("age >= 20", lambda text: world.command(["query", "people.toml", "count", "--where", text, "--eps", "1e-9", "--dry-run"])),
        "--edges": Text("age=0:120:40", lambda text: world.command(["query", "people.toml", "histogram age", "--edges", text, "--eps", "1e-9", "--dry-run"])),
        "--unit": Text("person:who:20,replace", lambda text: world.command(["histogram", "forecast", "--domain", "domain.toml", "--column", "age", "--eps", "1", "--unit", text])),
        "table question": Text("row=0:3", lambda text: world.command(["table", "ask", "table.parquet", text])),
        "synthetic condition": Text("age=20:30", lambda text: world.command(["synth", "sample", "model.oboro", "-n", "3", "-o", "s.csv", "--where", text])),
    }  # fmt: skip


def messages_of(world: World) -> dict[str, Record]:
    """Messages of the two-party protocol, as bytes."""
    answer = world.path("answer.bin").read_bytes()
    urns = world.path("urns.bin").read_bytes()
    valid = {
        wire.ANSWER: answer,
        wire.URNS: urns[:4000],
        wire.OPENED: wire.pack(wire.OPENED, bytes(40)),
        wire.REFUSED: wire.pack(wire.REFUSED, "no: 朧".encode()),
        wire.BEGIN: wire.pack(wire.BEGIN, bytes(48)),
        wire.DRAWN: wire.pack(wire.DRAWN, bytes(176)),
    }
    return {
        f"message {kind}": Record(data, lambda data, kind=kind: wire.unpack(kind, data))
        for kind, data in valid.items()
    } | {"message to open": Record(valid[wire.DRAWN], lambda data: _holder(world).open(data))}


def _planned(record: Any) -> Any:
    """A plan that was understood must also be able to say what it is."""
    plan = ob.release.plan_from(record)
    return plan.to_dict(), plan.describe()


def _as_json(world: World, record: Any, read: Callable[[Path], Any]) -> Any:
    path = world.path("bent.json")
    path.write_text(json.dumps(record, default=str), encoding="utf-8", errors="surrogatepass")
    return read(path)


def _private(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def only_ours(path: Path) -> Any:
        path.chmod(0o600)
        return read(path)

    return only_ours


def _holder(world: World) -> Any:
    secret = ob.secure.load_secret(world.path("alice.secret"))
    return ob.secure.Holder(world.noise, secret, ob.secure.Shelf(world.path("shelf")))


def _draw(world: World, path: Path) -> Any:
    """Refused for the assumption, if not for the file: nothing is ever drawn here."""
    answer = ob.secure.Answer.load(world.path("answer.bin"))
    return ob.secure.draw_from_file(
        path, answer, world.ledger, ob.secure.Shelf(world.path("drawn.state")), world.noise
    )


def _closed(world: World, name: str) -> bytes:
    """All of a ledger in one file."""
    copy = world.path(f"whole-{name}")
    with ob.Ledger.open(world.path(name)) as ledger:
        ledger.backup(copy)
    with sqlite3.connect(copy) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return copy.read_bytes()


def _verify(path: Path) -> Any:
    try:
        with ob.Ledger.open(path) as ledger:
            return ledger.verify(), ledger.history(), ledger.remaining, ledger.find("x")
    finally:
        for extra in path.parent.glob(f"{path.name}-*"):
            extra.unlink()


def _write_tables(world: World) -> None:
    from pyarrow import csv, feather, parquet

    table = csv.read_csv(world.path("people.csv"))
    parquet.write_table(table, world.path("people.parquet"))
    feather.write_feather(table, world.path("people.arrow"))
    coded = table.set_column(1, "region", table.column("region").dictionary_encode())
    feather.write_feather(table, world.path("plain.arrow"), compression="uncompressed")
    feather.write_feather(coded, world.path("coded.arrow"), compression="uncompressed")
