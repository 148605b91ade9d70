"""Whether a file is synthetic data, and of which release: its mark, its certificate and, with the model, the draw itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oboro.errors import CertificateError, DataError, ParameterError, setting, told
from oboro.files import CERTIFICATE, content_of
from oboro.kinds import path_of, takes, text_of
from oboro.records import Record
from oboro.release import Certificate, plan_from, verify_certificate
from oboro.release.certificate import certificate_from, unpacked, verify_unpacked
from oboro.synth.conditions import Wanted
from oboro.synth.contents import Contents, check_room, contents_of, no_room, records_of
from oboro.synth.marks import (
    BESIDE,
    MOST_CONDITIONS,
    WITHIN,
    check_file,
    conditions_in,
    digest,
    digest_of,
    mark_among,
    marked,
    model_within,
    read_mark,
    told_of,
    wanted_of,
    write_records,
    writings,
)
from oboro.synth.model import MOST_RECORDS, Model, load, loaded
from oboro.synth.plan import ModelPlan
from oboro.synth.records import GaussianPlan


@takes(path=path_of, model=path_of, public_key=text_of, output=path_of)
def check(
    path: str | Path,
    *,
    model: str | Path | None = None,
    public_key: str | None = None,
    output: str | Path | None = None,
) -> Record:
    """Checks that a file is synthetic data, and says of which release; raises `CertificateError` if it is not.

    The signature of the certificate is verified, and the records are drawn again by the seed of their mark, from the model in it or from `model`, the file
    of one: then it is certain that they came from it ("redrawn"), under the versions of NumPy and of oboro that drew them. A mark of an earlier version holds no model:
    then it is what whoever wrote the file says. Records of the Gaussian method are a release themselves, and
    their hash is signed. A model is checked too.

    The conditions of the draw ("where") were chosen by whoever drew, and nobody signs them: the records say nothing beyond the model but what the conditions say.
    "conditions" is how many values and ranges they list. More than 100 may be a column of real data: then "may_hold_data" is true.

    A Parquet or Arrow file has room for more than a table shows: other metadata, labels that no record has, values under nulls. It holds the records alone
    ("alone") if it is what oboro or pyarrow writes of them, byte for byte. One that another program wrote, or another version of pyarrow, may hold the
    same records and is not known to be alone: `output` is where they are written anew, as they were drawn again.

    >>> model = ob.synth.release(data, ob.synth.plan(domain, unit=unit, rho="0.5"), ledger=ledger)
    >>> import pyarrow.parquet as pq
    >>> pq.write_table(model.sample(100), "made.parquet")
    >>> checked = ob.synth.check("made.parquet")
    >>> checked["plan"], checked["records"], checked["redrawn"], checked["alone"]
    ('synth.quality', 100, True, True)
    """
    where = Path(path)
    if output is not None:
        check_file(output)
    try:
        return _checked(where, model, public_key, output)
    except MemoryError:
        raise no_room(where) from None


def _checked(
    where: Path, model: str | Path | None, public_key: str | None, output: str | Path | None
) -> Record:
    content = _content(where)
    if unpacked(content) is not None:
        _without(model=model, output=output)
        certificate = load(where).certificate
        certificate.verify_signature(public_key)
        return _told("model", certificate, None, signed=True, unchanged=True, redrawn=False, alone=True)
    contents = _contents(content, where)
    mark = _mark(where, contents)
    if mark is None or "certificate" not in mark:
        return _release(where, model, public_key, output)
    certificate = certificate_from(mark["certificate"], where)
    certificate.verify_signature(public_key)
    plan = plan_from(certificate.record["plan"])
    if not isinstance(plan, ModelPlan):
        raise _no_synthetic(where, certificate)
    wanted = wanted_of(mark.get("where", {}), plan.domain)
    if wanted is None or not _holds(mark["records"], content, contents, plan):
        raise CertificateError(
            f"the mark of {where} is not that of a draw from its model",
            given="conditions that do not fit the domain"
            if wanted is None
            else f"{mark['records']:,} records in {len(content):,} bytes",
            needed="a mark as oboro wrote it",
        )
    found = _found(where, content, contents, mark, plan)
    if found is None or found != mark.get("sha256", found):
        raise CertificateError(
            f"{where} does not hold the records that were marked",
            given="other columns, another number of records, or more than they can hold"
            if found is None
            else f"sha256 {found}",
            needed=f"{mark['records']:,} records, sha256 {mark.get('sha256', 'unknown')}",
        )
    drawer, inside = None if model is None else load(model), model_within(mark)
    if drawer is not None:
        check_agreement(where, certificate, drawer.certificate, public_key)
    if inside is not None:  # whichever draws: nothing else stands in the mark
        check_agreement(where, certificate, certificate_within(inside, where), public_key)
        drawer = drawer or loaded(inside, where)
    drawn = None if drawer is None else _drawn_again(where, mark, wanted, drawer, found)
    if output is not None and drawn is None:
        raise ParameterError(
            "there is nothing to draw the records again from",
            given=told(output=str(output)),
            needed="a mark that holds the model, or the model",
            fix=setting(model="model.oboro"),
            argument="output",
        )
    alone = drawn is not None and (
        contents is None or content in writings(marked(drawn, mark), where.suffix.lower())
    )
    if output is not None:
        write_records(marked(drawn, mark), output)
    return _told(
        "records",
        certificate,
        {**mark, "where": told_of(wanted, plan.domain)},
        signed=False,
        conditions=conditions_in(wanted),
        unchanged="sha256" in mark,
        redrawn=drawn is not None,
        alone=alone,
    )


def model_in(where: Path, content: bytes) -> bytes | None:
    """The file of the model, from the mark of synthetic records; None where there is none to be read."""
    try:
        mark = _mark(where, _contents(content, where))
    except (CertificateError, DataError):
        return None
    return None if mark is None else model_within(mark)


def certificate_within(packed: bytes, where: Path) -> Certificate:
    """That of the model in a mark, checked against what stands beside it there."""
    parts = unpacked(packed)
    if parts is None:
        raise CertificateError(
            f"the mark of {where} cannot be read",
            given="a model in it that was changed, or that a newer version wrote",
            needed="a mark as oboro wrote it",
        )
    return verify_unpacked(*parts, where)


def _told(
    what: str, certificate: Certificate, mark: Record | None, conditions: int = 0, **checked: bool
) -> Record:
    record = certificate.record
    return {
        "synthetic": what,
        "records": record["content"]["rows"]
        if mark is None and what == "records"
        else (mark or {}).get("records"),
        "plan": record["plan"]["kind"],
        "seed": (mark or {}).get("seed"),
        "where": (mark or {}).get("where", {}),
        "conditions": conditions,
        "may_hold_data": conditions > MOST_CONDITIONS,
        **checked,
        "certificate": record,
    }


def _holds(records: int, content: bytes, contents: Contents | None, plan: ModelPlan) -> bool:
    """Whether a file can hold so many records: as text a value takes at least a byte, with what divides it from the next.

    A mark is anybody's word, and as many records are drawn again as it says.
    """
    most = MOST_RECORDS if contents is not None else min(len(content) // len(plan.domain), MOST_RECORDS)
    return records <= most


def _found(
    where: Path, content: bytes, contents: Contents | None, mark: Record, plan: ModelPlan
) -> str | None:
    """The hash of the records in a file; None where its footer speaks of others than the mark, which are not read."""
    if contents is not None and not contents.fits(plan.domain, mark["records"]):
        return None
    check_room(mark["records"], plan.domain, where)
    if contents is None:
        return hashlib.sha256(content).hexdigest()
    drawn = records_of(plan.domain)
    if contents.schema.types != drawn.types:
        # a type that reads the same may hold more: milliseconds of a day, labels that no record has
        raise CertificateError(
            f"{where} does not hold what the model draws",
            given=", ".join(map(str, contents.schema.types)),
            needed=", ".join(map(str, drawn.types)),
        )
    try:
        return digest_of(contents.batches(plan.domain), drawn, where.suffix.lower())
    except MemoryError:
        raise
    except Exception:  # whatever the bytes are: not a file that oboro wrote
        raise _unreadable(where) from None


def _content(where: Path) -> bytes:
    return content_of(where, needed="a file of synthetic records, or a model")


def _contents(content: bytes, where: Path) -> Contents | None:
    """What a file that carries its mark within says of its records; None for other files."""
    import pyarrow as pa

    ending = where.suffix.lower()
    if ending not in WITHIN:
        return None
    try:
        return contents_of(pa.BufferReader(content), ending)
    except Exception:  # whatever the bytes are: not a file that oboro wrote
        raise _unreadable(where) from None


def _unreadable(where: Path) -> DataError:
    ending = where.suffix.lower()
    return DataError(f"{where} cannot be read", given=str(where), needed=f"a file that is what {ending} says")


def _mark(where: Path, contents: Contents | None) -> Record | None:
    if contents is not None:
        written = mark_among(contents.metadata)
    else:
        beside = where.with_name(where.name + BESIDE)
        written = content_of(beside, needed="a mark") if os.path.lexists(beside) else None
    if written is None:
        return None
    mark = read_mark(written)
    if mark is None:
        raise CertificateError(
            f"the mark of {where} cannot be read",
            given="a text that was changed, or that a newer version wrote",
            needed="a mark as oboro wrote it",
        )
    return mark


def _release(
    where: Path, model: str | Path | None, public_key: str | None, output: str | Path | None
) -> Record:
    """Records that are a release themselves: their certificate stands beside them."""
    beside = where.with_name(where.name + CERTIFICATE)
    if not beside.exists():
        raise CertificateError(
            f"{where} does not say that it is synthetic",
            given=f"no mark in it, and neither {where.name + BESIDE} nor {beside.name} beside it",
            needed="a file that oboro synth sample or oboro synth release wrote, with what stood beside it",
        )
    _without(model=model, output=output)
    record = verify_certificate(beside, data=where, public_key=public_key)
    certificate = Certificate(record, "")
    if not isinstance(plan_from(record["plan"]), GaussianPlan):
        raise _no_synthetic(where, certificate)
    return _told("records", certificate, None, signed=True, unchanged=True, redrawn=False, alone=True)


def _without(**paths: str | Path | None) -> None:
    for argument, path in paths.items():
        if path is not None:
            raise ParameterError(
                "there is no draw to repeat: the file is a release itself",
                given=told(**{argument: str(path)}),
                needed="the file alone",
                argument=argument,
            )


def _no_synthetic(where: Path, certificate: Certificate) -> CertificateError:
    return CertificateError(
        f"{where} is not synthetic data",
        given=str(certificate.record["plan"].get("kind")),
        needed="a release of synthetic data",
    )


def check_agreement(
    where: Path, certificate: Certificate, model: Certificate, public_key: str | None
) -> None:
    """The certificate of a model is that of the mark: the same key signed the same facts.

    Only `file`, the hash of the model's own file, is in the certificate of a model that was saved and not in that of one that was not.
    """
    model.verify_signature(public_key)
    mine, theirs = model.record, certificate.record
    if mine["content"] != theirs["content"] or mine["ledger"] != theirs["ledger"]:
        raise CertificateError(
            f"{where} was drawn from another model",
            given=f"entry {mine['ledger']['reserved_at']} of {mine['ledger']['id']}",
            needed=f"entry {theirs['ledger']['reserved_at']} of {theirs['ledger']['id']}",
        )
    if any(mine.get(part) != theirs.get(part) for part in {*mine, *theirs} - {"file"}):
        raise CertificateError(
            f"the mark of {where} holds another certificate than the model",
            given=f"signed with {theirs['public_key']}",
            needed=f"the certificate of the model, signed with {mine['public_key']}",
        )


def _drawn_again(where: Path, mark: Record, wanted: Mapping[int, Wanted], model: Model, found: str) -> Any:
    """The records of the mark, drawn again; refused where the file holds others."""
    drawn = drawn_again(mark, wanted, model)
    again = None if drawn is None else digest(drawn, where.suffix.lower())
    if again != found:
        raise CertificateError(
            f"{where} does not hold what the model draws",
            given=f"sha256 {found}",
            needed=f"sha256 {again}, or the version that drew them, if that was another",
        )
    return drawn


def drawn_again(mark: Record, wanted: Mapping[int, Wanted], model: Model) -> Any:
    """The records of a mark, drawn again; None where it is that of no draw."""
    if "seed" not in mark:
        return None
    try:
        return model.draw(mark["records"], wanted, mark["seed"])
    except ParameterError:  # conditions that leave no record
        return None
