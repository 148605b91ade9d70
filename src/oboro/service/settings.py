"""service.toml: where a service listens, where it keeps its jobs, and which datasets it answers about. Public facts alone.

address = "127.0.0.1:8750"
database = "service.db"                 # or postgresql://user@host/database
workers = 2

[[datasets]]
declared = "people.toml"                # data, ledger, [unit], [[columns]]: as for `oboro query`
rows = 200_000                          # about how many rows there are at most: slots are made for so many
edition = "2026"                        # another word when the data is another
sharing = true                          # whether one analyst's answer is another's too, free
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path

from oboro.domain import Domain, Integer, read_toml
from oboro.domain.domain import SERVED
from oboro.errors import DataError, ParameterError, told
from oboro.exact import positive, whole
from oboro.kinds import nearest, shown
from oboro.language import Lines
from oboro.ledger.file import is_address
from oboro.privacy import Unit, unit_from
from oboro.records import Record


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest questions that are taken, and how often: public, alike for everybody."""

    body: int = 65_536  # bytes of a request
    cells: int = 65_536  # bins of a histogram, values of a column that are chosen among
    groups: int = 1_024
    table_cells: int = 1 << 20
    questions: int = 32  # of a batch
    columns: int = 8  # of one question
    rows: int = 100_000  # made-up rows at a time
    forecasts_per_minute: int = 600
    questions_per_minute: int = 120
    requests_per_minute: int = 3_000
    waiting: int = 1_000  # questions that may be on their way
    streams: int = 16  # clocks that one person watches at once


@dataclass(frozen=True, slots=True)
class Dataset:
    """What a service says and does about one dataset. Its name is its ledger's."""

    data: Path
    ledger: str
    domain: Domain
    unit: Unit | None  # None: the ledger's
    count: str | None = None
    rows: int = 200_000
    edition: str = "1"
    sharing: bool = False
    approve_above: Fraction | None = None
    table: str = "data"  # what it is called in SQL: as the file that declares it


@dataclass(frozen=True, slots=True)
class Settings:
    """A service.toml, read and checked; paths are relative to the file."""

    file: Path
    host: str
    port: int
    database: str
    datasets: tuple[Dataset, ...]
    workers: int = 2
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False  # TLS ends at a reverse proxy, on this machine or in this network
    proxy: str = "127.0.0.1"  # where it stands: what it says of its clients is believed
    limits: Limits = Limits()
    folder: Path | None = None  # where stewards may put what they declare in the studio
    upload: int = 0  # bytes of a file that is put there, at most
    alone: bool = False  # for one steward at this machine: whoever calls it by another name is refused

    @property
    def state(self) -> Path:
        """Where what is made at the start lies: editions. Nobody else reads it."""
        return self.file.parent / f".{self.file.stem}-state"

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


_WORDS = (
    "address",
    "database",
    "workers",
    "certificate",
    "key",
    "behind_proxy",
    "limits",
    "datasets",
    "studio",
)
_DATASET = ("declared", *SERVED, "count")


def read_settings(file: str | Path) -> Settings:
    """The settings that a file declares; refused before anything is opened if they cannot be used."""
    file = Path(file)
    record = read_toml(file, "file")
    _known(file, record, _WORDS)
    host, port = _address(file, record.get("address", "127.0.0.1:8750"))
    database = _text(file, record, "database", "service.db")
    certificate, key = (
        file.parent / record[name] if name in record else None for name in ("certificate", "key")
    )
    if (certificate is None) != (key is None):
        raise ParameterError(
            f"{file}: TLS needs both files",
            given="one of them",
            needed="certificate and key",
            fix=Lines('certificate = "tls.crt"\nkey = "tls.key"'),
        )
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise DataError(
                f"no such file: {path}", given=f"{file}", needed="the certificate and the key of TLS"
            )
    proxy = _proxy(file, record.get("behind_proxy", False))
    listed = record.get("datasets")
    folder, upload = _studio(file, record.get("studio"))
    if listed is None and folder is not None:
        listed = []
    if (
        not isinstance(listed, list)
        or not (listed or folder)
        or not all(isinstance(one, dict) for one in listed)
    ):
        raise DataError(
            f"{file} names no dataset",
            given="no [[datasets]]",
            needed="a table for each dataset",
            fix=Lines('[[datasets]]\ndeclared = "people.toml"'),
        )
    limits = record.get("limits", {})
    _known(file, limits, tuple(one.name for one in fields(Limits)))
    settings = Settings(
        file=file,
        host=host,
        port=port,
        database=database if is_address(database) else str(file.parent / database),
        datasets=(*(_dataset(file, one) for one in listed), *_declared(file, folder, listed)),
        workers=whole("workers", record.get("workers", 2), least=1, most=256),
        certificate=certificate,
        key=key,
        behind_proxy=proxy is not None,
        proxy=proxy or "127.0.0.1",
        limits=Limits(**{name: whole(name, value, least=1, most=2**40) for name, value in limits.items()}),
        folder=folder,
        upload=upload,
    )
    return settings


def _studio(file: Path, record: object) -> tuple[Path | None, int]:
    """Where stewards may put files in the studio, and how large one may be."""
    if record is None:
        return None, 0
    if not isinstance(record, dict):
        raise ParameterError(
            f"{file}: studio is not understood",
            given=shown(record),
            needed="a table",
            fix=Lines('[studio]\nfolder = "declared"'),
        )
    _known(file, record, ("folder", "upload"))
    folder = file.parent / _text(file, record, "folder", None)
    if not folder.is_dir():
        raise DataError(
            f"no such folder: {folder}", given=f"{file}", needed="a folder for what is declared in the studio"
        )
    return folder, whole("upload", record.get("upload", 100_000_000), least=1, most=2**40)


def _declared(file: Path, folder: Path | None, listed: list[Record]) -> list[Dataset]:
    """What was declared in the studio, in the order of names: each with a ledger beside it."""
    if folder is None:
        return []
    named = {(file.parent / str(one.get("declared"))).resolve() for one in listed}
    return [
        dataset_from(path)
        for path in sorted(folder.glob("*.toml"))
        if path.with_suffix(".ledger").exists() and path.resolve() not in named
    ]


def refuse_open(settings: Settings) -> None:
    """Refuses to listen on an address that others reach without TLS: tokens and answers would be read on the way."""
    if settings.certificate is not None or settings.behind_proxy or _is_local(settings.host):
        return
    raise ParameterError(
        "a service that others reach needs TLS",
        given=f'address = "{settings.host}:{settings.port}"',
        needed="certificate and key, or behind_proxy = true where a reverse proxy ends TLS",
        fix='address = "127.0.0.1:8750"',
    )


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _dataset(file: Path, record: Record) -> Dataset:
    _known(file, record, _DATASET)
    declared = file.parent / _text(file, record, "declared", None)
    found = read_toml(declared, "declared")
    record = {**found.get("service", {}), **record}  # the service's own file goes before the declaration
    for key in ("data", "ledger"):
        if not isinstance(found.get(key), str):
            raise DataError(
                f"{declared} does not say where the {key} is",
                given=f"no {key}",
                needed=f'{key} = "..."',
                fix=f'{key} = "people.{"parquet" if key == "data" else "ledger"}"',
            )
    domain = Domain.from_dict(found, where=str(declared))
    unit = unit_from(found["unit"]) if "unit" in found else None
    _codable(declared, domain, unit)
    ledger = found["ledger"]
    above = record.get("approve_above")
    return Dataset(
        data=declared.parent / found["data"],
        ledger=ledger if is_address(ledger) else str(declared.parent / ledger),
        domain=domain,
        unit=unit,
        count=record.get("count", found.get("count")),
        rows=whole("rows", record.get("rows", 200_000), least=1, most=2**38),
        edition=_text(file, record, "edition", "1"),
        sharing=_yes_or_no(file, "sharing", record.get("sharing", False)),
        approve_above=None if above is None else positive("approve_above", above),
        table=declared.stem,
    )


def dataset_from(declared: Path) -> Dataset:
    """A dataset as its declaration alone says it: what is declared in the studio."""
    return _dataset(declared, {"declared": declared.name})


def _codable(declared: Path, domain: Domain, unit: Unit | None) -> None:
    """Refuses what an edition cannot hold: public facts of the declaration."""
    names = {name for column in domain for name in column.sources}
    if unit is not None and unit.column in names:
        raise DataError(
            f"{declared} declares the column that says whose a row is",
            given=f"{unit.column}",
            needed="a domain without it: a service never tells who is who",
            fix=f"no [[columns]] table for {unit.column!r}",
        )
    for column in domain:
        if isinstance(column, Integer) and max(abs(column.low), abs(column.high)) >= 2**62:
            raise DataError(
                f"{declared}: column {column.name!r} is too wide for a service",
                given=f"{column.low} to {column.high}",
                needed="whole numbers within 2^62",
            )


def _address(file: Path, text: object) -> tuple[str, int]:
    host, colon, port = str(text).rpartition(":")
    if not isinstance(text, str) or not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise ParameterError(
            f"{file}: address is not understood",
            given=told(address=shown(text)),
            needed="a host and a port",
            fix='address = "127.0.0.1:8750"',
        )
    return host.strip("[]"), int(port)


def _proxy(file: Path, value: object) -> str | None:
    """Where the reverse proxy stands: on this machine, or at an address of this network."""
    if isinstance(value, str):
        try:
            return str(ipaddress.ip_network(value)).removesuffix("/32").removesuffix("/128")
        except ValueError:
            raise ParameterError(
                f"{file}: behind_proxy is not the address of a proxy",
                given=told(behind_proxy=shown(value)),
                needed="true for one on this machine, or its address",
                fix='behind_proxy = "10.0.0.2"',
            ) from None
    return "127.0.0.1" if _yes_or_no(file, "behind_proxy", value) else None


def _yes_or_no(file: Path, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(
            f"{file}: {name} is yes or no",
            given=told(**{name: shown(value)}),
            needed="true or false",
            fix=f"{name} = true",
        )
    return value


def _text(file: Path, record: Mapping[str, object], name: str, default: str | None) -> str:
    value = record.get(name, default)
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(
            f"{file} does not say {name}",
            given=told(**{name: shown(value)}),
            needed="a text",
            fix=f'{name} = "{default or "people.toml"}"',
        )
    return value


def _known(file: Path, record: Mapping[str, object], words: tuple[str, ...]) -> None:
    for name in record:
        if name not in words:
            close = nearest(name, words)
            raise ParameterError(
                f"{file}: {name!r} is not known" + (f": did you mean {close!r}?" if close else ""),
                given=name,
                needed=", ".join(words),
                fix=f"{close} = ..." if close else f"{shlex.quote(str(file))} without {name}",
            )
