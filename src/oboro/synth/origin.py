"""Where synthetic records say that they come from: what their mark tells a report. It is `check` that verifies all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oboro.domain import Domain
from oboro.errors import CertificateError, OboroError, ParameterError, setting
from oboro.files import CERTIFICATE, content_of
from oboro.records import Record
from oboro.release import Certificate, plan_from, verify_certificate
from oboro.release.certificate import certificate_from
from oboro.synth.check import certificate_within, check_agreement, drawn_again
from oboro.synth.conditions import Wanted
from oboro.synth.contents import check_room, contents_of, no_room, records_of
from oboro.synth.marks import (
    BESIDE,
    WITHIN,
    digest,
    digest_of,
    mark_among,
    mark_within,
    model_within,
    read_mark,
    told_of,
    wanted_of,
)
from oboro.synth.model import loaded
from oboro.synth.plan import ModelPlan
from oboro.synth.records import GaussianPlan

if TYPE_CHECKING:
    from oboro.synth.model import Model


@dataclass(frozen=True, slots=True)
class Origin:
    """The domain that records were drawn from, the conditions of the draw, and whether the file says from which model."""

    domain: Domain | None = None
    where: Record = field(default_factory=dict)
    marked: bool = False
    changed: bool = False  # they carry a mark that was written for other records
    certificate: Certificate | None = None  # of the release that they name, signed by the key in it


def check_order(data: Any, synthetic: Any, fix: str | None = None) -> None:
    """Refuses synthetic records in the place of the real ones, where those that stand in theirs say nothing of the kind.

    Whoever learns from records that are synthetic themselves compares two tables with marks, in any order.
    """
    if not _says(data) or _says(synthetic):
        return
    files = all(isinstance(table, str | os.PathLike) for table in (data, synthetic))
    order = setting(data=str(synthetic), synthetic=str(data)) if files else "the two the other way round"
    raise ParameterError(
        "the real table comes first, and this one says that it is synthetic",
        given=str(data) if files else "a table with the mark of synthetic records",
        needed="the real table, and then the synthetic one",
        fix=fix or order,
    )


def _says(table: Any) -> bool:
    """Whether a table says that it is synthetic."""
    written = _written(table)
    return written is not None and read_mark(written) is not None


def origin_of(synthetic: Any, model: Model | None) -> Origin:
    """By the mark of a file or an Arrow table, and the model if it is given: a mark of another model is refused."""
    found = None if (written := _written(synthetic)) is None else read_mark(written)
    unmarked = Origin() if model is None else Origin(model.plan.domain, certificate=model.certificate)
    if found is None or "certificate" not in found:
        return unmarked if model is not None else _released(synthetic) or unmarked
    try:
        certificate = certificate_from(found["certificate"], Path(BESIDE))
        certificate.verify_signature()
        record = certificate.record
        plan = plan_from(record["plan"])
    except OboroError:  # a mark is anybody's word: one that says nothing is none
        return unmarked
    if not isinstance(plan, ModelPlan):
        return unmarked
    if model is not None:
        mine = model.certificate.record
        if mine["content"] != record["content"] or mine["ledger"] != record["ledger"]:
            raise CertificateError(
                f"{_named(synthetic)} was drawn from another model",
                given=f"entry {mine['ledger']['reserved_at']} of {mine['ledger']['id']}",
                needed=f"entry {record['ledger']['reserved_at']} of {record['ledger']['id']}",
            )
    wanted = wanted_of(found.get("where", {}), plan.domain)
    told_where = {} if wanted is None else told_of(wanted, plan.domain)
    if wanted is None or not _fits(synthetic, found, certificate, plan.domain, wanted, model):
        return Origin(plan.domain, told_where, changed=True)
    signed = certificate if model is None else model.certificate
    return Origin(plan.domain, told_where, marked=True, certificate=signed)


def _fits(
    synthetic: Any,
    said: Record,
    certificate: Certificate,
    domain: Domain,
    wanted: Mapping[int, Wanted],
    model: Model | None,
) -> bool:
    """Whether records are those that their mark was written for: by its hash, and by drawing them again from the model, given or in the mark.

    Anybody can write a mark with a hash, for real rows too. Marks of earlier versions hold no model: then this finds only rows that came
    into the place of others, whose mark was left beside them.
    """
    try:
        ending, found = _digest(synthetic, said["records"], domain)
        if found is None or said.get("sha256", found) != found:
            return False
        inside = None if model is not None else model_within(said)
        if inside is not None:
            where = Path(_named(synthetic))
            check_agreement(where, certificate, certificate_within(inside, where), None)
            model = loaded(inside, where)
    except CertificateError:  # a mark is anybody's word
        return False
    except MemoryError:
        raise no_room(_named(synthetic)) from None
    if model is None:
        return "sha256" in said or "seed" in said
    drawn = drawn_again(said, wanted, model)
    return drawn is not None and digest(drawn, ending) == found


def _named(synthetic: Any) -> str:
    return str(synthetic) if isinstance(synthetic, str | os.PathLike) else "the synthetic table"


def _digest(synthetic: Any, records: int, domain: Domain) -> tuple[str, str | None]:
    """As what records are hashed, and their hash; None where they cannot be those of a mark, and are not read any further."""
    import pyarrow as pa

    names = [*domain.names]
    if isinstance(synthetic, pa.Table):
        if (synthetic.num_rows, synthetic.column_names) != (records, names):
            return ".parquet", None
        check_room(records, domain, _named(synthetic))
        return ".parquet", digest(synthetic, ".parquet")
    path = Path(synthetic)
    ending = path.suffix.lower()
    if ending not in WITHIN:
        with path.open("rb") as file:
            if records * len(names) > os.fstat(file.fileno()).st_size:
                return ending, None
            check_room(records, domain, path)
            return ending, hashlib.file_digest(file, "sha256").hexdigest()
    try:
        with pa.OSFile(str(path)) as file:
            contents = contents_of(file, ending)
            if not contents.fits(domain, records):
                return ending, None
            check_room(records, domain, path)
            return ending, digest_of(contents.batches(domain), records_of(domain), ending)
    except (MemoryError, OboroError):
        raise
    except Exception:  # whoever reads the records says so
        return ending, None


def _released(synthetic: Any) -> Origin | None:
    """Of records that are a release themselves, whose certificate stands beside them and has their hash."""
    if not isinstance(synthetic, str | os.PathLike):
        return None
    path = Path(synthetic)
    try:
        record = verify_certificate(path.with_name(path.name + CERTIFICATE), data=path)
        plan = plan_from(record["plan"])
    except (OboroError, OSError):
        return None
    if not isinstance(plan, GaussianPlan):
        return None
    return Origin(plan.domain, certificate=Certificate(record, ""))


def _written(synthetic: Any) -> bytes | None:
    """The mark of records as it was written; None where there is none to be read."""
    import pyarrow as pa

    if isinstance(synthetic, pa.Table):
        return mark_within(synthetic)
    if not isinstance(synthetic, str | os.PathLike):
        return None
    path = Path(synthetic)
    ending = path.suffix.lower()
    try:
        if ending not in WITHIN:
            beside = path.with_name(path.name + BESIDE)
            return content_of(beside, needed="a mark")
        with pa.OSFile(str(path)) as file:
            return mark_among(contents_of(file, ending).metadata)
    except Exception:  # no file of this kind: whoever reads the records says so
        return None
