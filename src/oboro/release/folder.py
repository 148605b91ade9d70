"""A release that is too large for the ledger: a folder of Parquet files, and a signed list of their hashes, which the ledger keeps.

manifest.parquet                     part, rows, bytes and sha256 of each file: what was committed
manifest.parquet.certificate.json    its certificate
part-00000.parquet ...               the rows, in the order of cells
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oboro.arrays import Table
from oboro.errors import CertificateError, DataError, ParameterError, setting, told
from oboro.files import CERTIFICATE, MANIFEST, reads
from oboro.records import Record
from oboro.release.certificate import verify_certificate

PART = "part-{:05d}.parquet"
_IS_PART = re.compile(r"part-\d{5}\.parquet")
_MARK = b"oboro.manifest"
_PIECE = 1 << 20


def manifest(parts: Sequence[tuple[str, int, int, str]]) -> Table:
    """The list of parts: the name of each, its rows, its bytes and its hash."""
    import pyarrow as pa

    columns = list(zip(*parts, strict=True)) or [()] * 4
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.string())
    names = ("part", "rows", "bytes", "sha256")
    table = pa.table([pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names=names)
    return table.replace_schema_metadata({_MARK: b"1"})


def is_manifest(table: Table) -> bool:
    """Whether this is the list of the parts of a release, and not its rows."""
    return _MARK in (table.schema.metadata or {})


def check_whole(table: Table, data: object) -> None:
    """Refuses a stored list of parts where it was not for a folder that the data is measured: it is not the table."""
    if is_manifest(table) and getattr(data, "parts", None) is None:
        raise DataError(
            "this release went into a folder of parts: the ledger keeps the list of their hashes alone",
            given="its name, without the folder",
            needed="the folder that it was written to, or another name",
            fix=setting(parts="FOLDER"),
            argument="parts",
        )


def check_folder(folder: Path, own: str | None = None) -> None:
    """Makes the folder; refuses one in which something is, but what is called `own`. Before anything is paid for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wrong = "the folder is not empty" if any(path.name != own for path in folder.iterdir()) else None
    except OSError:
        wrong = "the folder cannot be made, or is none"
    if wrong is not None:
        raise ParameterError(
            wrong,
            given=told(parts=str(folder)),
            needed="a path at which there is nothing yet, or an empty folder",
            argument="parts",
        )


def verify_folder(folder: str | Path, *, public_key: str | None = None) -> Record:
    """Checks the signature, the list of parts and each part; returns the record, or raises."""
    folder = Path(folder)
    where = folder / MANIFEST
    record = verify_certificate(folder / (MANIFEST + CERTIFICATE), data=where, public_key=public_key)
    if _listed(where) is None:
        raise CertificateError(
            f"{where} is no list of parts",
            needed="a folder that oboro table release --parts wrote",
        )
    return record


def check_parts(where: Path) -> None:
    """Checks what lies beside a list of parts: just these, each as it was certified. Any other file is left alone."""
    listed = _listed(where)
    if listed is None:
        return
    for one in listed:
        found = _hashed(where.parent / one["part"])
        if found != one["sha256"]:
            raise CertificateError(
                f"{where.parent / one['part']} is not the part that was certified",
                given="nothing" if found is None else f"sha256 {found}",
                needed=f"sha256 {one['sha256']}",
            )
    known = {one["part"] for one in listed} | {where.name, MANIFEST + CERTIFICATE}
    beside = sorted(path.name for path in where.parent.iterdir() if path.name not in known)
    if beside:
        raise CertificateError(
            "the folder has a part that was not certified",
            given=beside[0],
            needed="the parts that its list names, and nothing else",
        )


def _listed(where: Path) -> list[dict[str, Any]] | None:
    """The parts that a list names; None if the file is no such list."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pa.OSFile(str(where)) as source:
            table = pq.read_table(source)
        listed: list[dict[str, Any]] = table.to_pylist()
        names = [one["part"] for one in listed]
        good = all(_IS_PART.fullmatch(name) for name in names) and len(set(names)) == len(names)
    except (OSError, pa.ArrowException, KeyError, TypeError):
        return None
    return listed if good and is_manifest(table) else None


def _hashed(path: Path) -> str | None:
    """The hash of a file; None of one that is not there, and of a pipe or a device, which may have no end."""
    reads(path)
    digest = hashlib.sha256()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as handle:
            while piece := handle.read(_PIECE):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()
