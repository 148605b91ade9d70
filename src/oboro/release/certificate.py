"""The signed page that goes out with a release. It contains nothing private.

Anyone with the public key can check who released what, under which promise, and that the file was not
changed since. It cannot show that the promise is true: for that there is the code, and the audit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import CertificateError, InputError, LedgerError
from oboro.files import CERTIFICATE, MANIFEST, reads, write_whole
from oboro.kinds import path_of, takes, text_of
from oboro.ledger import Entry, Ledger, canonical
from oboro.ledger.chain import (
    HASH,
    Form,
    a_number,
    a_time,
    in_order,
    is_hex,
    laid_out,
    misfit,
    nothing,
    quick,
    read_laid_out,
    worded,
)
from oboro.privacy import Guarantee, Unit, guarantee_from, unit_from
from oboro.records import Record
from oboro.release.forecast import Forecast
from oboro.release.plan import Plan, plan_from, unbundled

FORMAT = "oboro certificate 2"
_FORMAT_OF_0_1 = "oboro certificate 1"
BUNDLED = ("measurements.parquet", f"measurements.parquet{CERTIFICATE}")  # what stands in a file with its own
_INDENT = 2


def _a_forecast(value: object) -> None:
    """The table that `Forecast.to_dict` writes."""
    form = {"title": str, "columns": [str], "rows": [[(str, int)]], "notes": [str]}
    if type(value) is not dict or misfit(value, form) is not None:
        raise ValueError(value)
    cells = [cell for row in value["rows"] for cell in row if type(cell) is int]
    if any(len(row) != len(value["columns"]) for row in value["rows"]) or any(
        abs(n) > 10**300 for n in cells
    ):
        raise ValueError(value)


_FACTS: dict[str, Form] = {  # what `run` writes down of a release; other entries have other facts, or none
    "released": str,
    "domain?": (dict, nothing),
    "noise": dict,
    "rows": a_number,
    "software": str,
    "bits": str,
}
quick(_FACTS)
_PARTS: dict[str, Form] = {  # what a reader may rely on, whoever signed it
    "format": str,
    "released": str,
    "name": (str, nothing),
    "dataset": str,
    "unit": worded(unit_from),
    "guarantee": worded(guarantee_from),
    "domain": (dict, nothing),
    "noise": dict,
    "plan": dict,
    "forecast": _a_forecast,
    "content": {"format": str, "rows": a_number, "sha256": HASH},
    "ledger": {
        "id": str,
        "position": a_number,
        "hash": HASH,
        "reserved_at": a_number,
        "cost": guarantee_from,
        "spent": guarantee_from,
        "budget": guarantee_from,
    },
    "software": str,
    "bits": str,
    "time": a_time,
    "public_key": HASH,
}
_FILE: dict[str, Form] = {"name": re.compile(r"[^/\0]+"), "bytes": a_number, "sha256": HASH}


@dataclass(frozen=True, slots=True)
class Certificate:
    """A signed record; `record` holds everything but the signature.

    >>> release = ob.run(plan, data, ledger)
    >>> release.certificate.record["guarantee"]
    {'kind': 'pure', 'eps': '0.1', 'in_words': 'eps = 0.1'}
    >>> release.certificate.verify_signature(ledger.public_key)
    """

    record: Record
    signature: str

    def to_dict(self) -> dict[str, object]:
        return {**self.record, "signature": self.signature}

    @takes(path=path_of)
    def save(self, path: str | Path) -> None:
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """The one file that it is: byte for byte."""
        return laid_out(_in_order(self.to_dict()), _INDENT)

    @takes(public_key=text_of)
    def verify_signature(self, public_key: str | None = None) -> None:
        """Raises `CertificateError` unless the record is what the key signed."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        claimed = self.record.get("public_key")
        if public_key is not None and public_key.strip().lower() != claimed:
            raise CertificateError(
                "the certificate was signed with another key",
                given=f"signed with {claimed}, which the certificate names itself",
                needed=f"{public_key.strip()}, the key that you expect",
                fix="ask the publisher for the public keys of the ledger (oboro ledger show)",
            )
        try:
            if not is_hex(self.signature, 64):
                raise InvalidSignature
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(claimed)))
            key.verify(bytes.fromhex(self.signature), canonical(self.record).encode())
        except (InvalidSignature, ValueError, TypeError):  # also a record that has no canonical form
            raise CertificateError(
                "the signature does not fit the certificate",
                given="a text that was changed, or a forged signature",
                needed="the original file",
            ) from None


def certify(
    plan: Plan,
    ledger: Ledger,
    name: str | None,
    cost: Guarantee,
    committed: Entry,
    *,
    record: Record | None = None,
    forecast: Forecast | None = None,
) -> Certificate:
    """The certificate of a committed release, from public facts alone; `record` and `forecast` if they are known already."""
    facts = committed.body["facts"]
    if wrong := misfit(facts, _FACTS, "facts"):
        raise LedgerError(
            "the entry was not written by run: it has no certificate",
            given=f"{wrong} of entry {committed.position}",
            needed="a release that oboro itself made",
        )
    public_key, sign = ledger.signer(committed if record is not None else None)
    written = {
        "format": FORMAT,
        "released": facts["released"],
        "name": name,
        "dataset": ledger.dataset,
        "unit": {**plan.unit.to_dict(), "in_words": str(plan.unit)},
        "guarantee": {**plan.guarantee.to_dict(), "in_words": str(plan.guarantee)},
        "domain": facts.get("domain"),
        "noise": facts["noise"],
        "plan": plan.to_dict() if record is None else record,
        "forecast": (plan.forecast() if forecast is None else forecast).to_dict(),
        "content": {"format": "parquet", "rows": facts["rows"], "sha256": committed.body["sha256"]},
        "ledger": {
            "id": ledger.id,
            "position": committed.position,
            "hash": committed.hash,
            "reserved_at": committed.body["reservation"],
            "cost": cost.to_dict(),
            "spent": committed.body["spent"],
            "budget": ledger.budget.to_dict(),
        },
        "software": facts["software"],
        "bits": facts["bits"],
        "time": committed.body["time"],
        "public_key": public_key,
    }
    return _signed(written, sign)


def certify_file(
    certificate: Certificate, name: str, content: bytes, sign: Callable[[bytes], bytes]
) -> Certificate:
    """The same certificate, bound to a file."""
    file = {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return _signed({**certificate.record, "file": file}, sign)


@takes(path=path_of)
def read_certificate(path: str | Path) -> Certificate:
    """Reads a certificate, or that of a model from its file; checks its form, not its truth.

    Only the bytes that oboro writes are one.

    >>> release = ob.run(plan, data, ledger)
    >>> where = release.save("ages.csv")
    >>> ob.release.read_certificate(where).record["dataset"]
    'people'
    """
    content = _content(path)
    parts = unpacked(content)
    return _read(content if parts is None else parts[1], path)


def certificate_from(record: Record, path: str | Path) -> Certificate:
    """The certificate that stands in the mark of another file; its form is checked, not its truth."""
    inside = {name: value for name, value in record.items() if name != "signature"}
    try:
        content = Certificate(inside, record["signature"]).to_bytes()
    except (KeyError, ValueError, TypeError, RecursionError):  # no such parts, or no numbers that JSON has
        content = b""
    return _read(content, path)


def unpacked(content: bytes) -> tuple[bytes, bytes] | None:
    """What was released and its certificate, from a file that carries both; None for any other file."""
    try:
        parts = unbundled(content, BUNDLED)
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        EOFError,
        OSError,
    ):
        return None
    return parts[BUNDLED[0]], parts[BUNDLED[1]]


def verify_unpacked(
    released: bytes, certificate: bytes, path: str | Path, public_key: str | None = None
) -> Certificate:
    """The certificate of a file that carries it, checked against what stands beside it in there."""
    read = _read(certificate, path)
    read.verify_signature(public_key)
    file = read.record.get("file")
    if file is None:
        raise CertificateError(
            "the certificate is not bound to a file", needed="a certificate that save() wrote"
        )
    _compare(file, hashlib.sha256(released).hexdigest(), path)
    return read


def _content(path: str | Path) -> bytes:
    reads(path)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise CertificateError(f"no such file: {path}", fix="the path of a certificate.json") from None
    except OSError:
        return b""


def _read(content: bytes, path: str | Path) -> Certificate:
    """The certificate that some bytes are; `path` is how an error calls them."""
    record = read_laid_out(content, _INDENT)
    if record is None or not isinstance(record.get("signature"), str) or not _is_in_order(record):
        raise CertificateError(
            f"{path} is not a certificate",
            given="no JSON, or not laid out as oboro writes it, or something in it twice",
            needed="JSON with a signature, byte for byte as oboro wrote it",
            fix="the original file",
        )
    if record.get("format") not in (FORMAT, _FORMAT_OF_0_1):
        raise CertificateError(
            "the certificate has another format",
            given=repr(record.get("format")),
            needed=FORMAT,
            fix="a version of oboro that knows it",
        )
    wrong = misfit(record, {**_PARTS, "file?": _FILE, "signature": str})
    if wrong is None:
        try:
            wrong = _unlike(record)
        except InputError:
            wrong = "plan"
    if wrong is not None:
        raise CertificateError(
            f"{path} is incomplete",
            given=f"{wrong} is missing, or not what oboro writes, or does not agree with the rest",
            needed=", ".join(_PARTS),
            fix="the original file",
        )
    signature = record.pop("signature")
    return Certificate(record, signature)


@takes(path=path_of, data=path_of, public_key=text_of)
def verify_certificate(
    path: str | Path, *, data: str | Path | None = None, public_key: str | None = None
) -> Record:
    """Checks signature and file hash with the public key alone; returns the record, or raises.

    The data file is looked for beside the certificate, under the name that it had, unless `data` says where. The file
    of a model carries its certificate within, and is checked by itself. Of a folder of parts, all of them are checked.

    >>> release = ob.run(plan, data, ledger)
    >>> where = release.save("ages.csv")
    >>> ob.verify_certificate(where, public_key=ledger.public_key)["guarantee"]["in_words"]
    'eps = 0.1'
    """
    if Path(path).is_dir() and data is None:
        from oboro.release.folder import verify_folder

        return verify_folder(path, public_key=public_key)
    content = _content(path)
    parts = unpacked(content)
    if parts is not None:
        if data is not None:
            raise CertificateError(
                "the certificate stands in one file with what was released",
                given=str(data),
                needed="that file alone",
            )
        return verify_unpacked(*parts, path, public_key).record
    certificate = _read(content, path)
    certificate.verify_signature(public_key)
    file = certificate.record.get("file")
    if file is None:
        if data is not None:
            raise CertificateError(
                "the certificate is not bound to a file",
                given=str(data),
                needed="a certificate that save() wrote",
            )
        return certificate.record
    where = Path(data) if data is not None else Path(path).parent / os.path.basename(file["name"])
    reads(where)
    digest = hashlib.sha256()
    try:
        with where.open("rb") as handle:
            while part := handle.read(1 << 20):
                digest.update(part)
    except OSError:
        raise CertificateError(
            f"the released file is not there: {where}",
            needed="the file that the certificate speaks of",
            fix=f"--data {shlex.quote(file['name'])}",
        ) from None
    _compare(file, digest.hexdigest(), where)
    if file["name"] == MANIFEST:
        from oboro.release.folder import check_parts

        check_parts(where)
    return certificate.record


def _compare(file: Record, found: str, where: str | Path) -> None:
    if found != file["sha256"]:
        raise CertificateError(
            f"{where} is not the file that was certified",
            given=f"sha256 {found}",
            needed=f"sha256 {file['sha256']}",
        )


def promised(record: Record) -> tuple[Unit, Guarantee]:
    """Who is protected, and how: from what programs read, and not from the words beside it."""
    unit = {key: value for key, value in record["unit"].items() if key != "in_words"}
    guarantee = {key: value for key, value in record["guarantee"].items() if key != "in_words"}
    return unit_from(unit), guarantee_from(guarantee)


def laws_of(noise: object) -> list[str]:
    """The different laws of noise of a release, which may consist of several parts."""
    parts = noise.values() if isinstance(noise, dict) else noise if isinstance(noise, list) else ()
    own = [noise["law"]] if isinstance(noise, dict) and isinstance(noise.get("law"), str) else []
    return list(dict.fromkeys([*own, *(law for part in parts for law in laws_of(part))]))


def _in_order(record: Record) -> Record:
    """The record with its names where they belong: in alphabetical order, everywhere.

    0.1 wrote the parts in the order of `_PARTS`. Within a part it did not always keep to one order, and what it wrote
    has to verify.
    """
    if record.get("format") != _FORMAT_OF_0_1:
        return in_order(record)
    known = [*_PARTS, "file", "signature"]
    return {name: record[name] for name in sorted(record, key=lambda name: (*known, name).index(name))}


def _is_in_order(record: Record) -> bool:
    return laid_out(_in_order(record), _INDENT) == laid_out(record, _INDENT)


def _unlike(record: Record) -> str | None:
    """What says something else than the promise that programs read: the words beside it, or the plan; None if nothing does."""
    for part, promise in zip(("unit", "guarantee"), promised(record), strict=True):
        if record[part]["in_words"] != str(promise):
            return f"{part}.in_words"
        planned = record["plan"].get(part)
        read = unit_from if part == "unit" else guarantee_from
        if planned is None:  # a plan whose record says it in other words
            planned = getattr(plan_from(record["plan"]), part).to_dict()
        if read(planned) != promise:
            return f"plan.{part}"
    return None


def _signed(record: Record, sign: Callable[[bytes], bytes]) -> Certificate:
    return Certificate(record, sign(canonical(record).encode()).hex())
