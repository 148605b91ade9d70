"""Where synthetic records say that they come from: what their mark tells a report. Nothing is verified here: `check` does that."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oboro.domain import Domain
from oboro.errors import CertificateError, OboroError
from oboro.files import reads
from oboro.records import Record
from oboro.release import plan_from
from oboro.release.certificate import certificate_from
from oboro.synth.marks import BESIDE, WITHIN, mark_within, read_mark, told_of, wanted_of
from oboro.synth.plan import ModelPlan

if TYPE_CHECKING:
    from oboro.synth.model import Model


@dataclass(frozen=True, slots=True)
class Origin:
    """The domain that records were drawn from, the conditions of the draw, and whether the file says from which model."""

    domain: Domain | None = None
    where: Record = field(default_factory=dict)
    marked: bool = False


def origin_of(synthetic: Any, model: Model | None) -> Origin:
    """By the mark of a file or an Arrow table, and the model if it is given: a mark of another model is refused."""
    found = None if (written := _written(synthetic)) is None else read_mark(written)
    unmarked = Origin(None if model is None else model.plan.domain)
    if found is None or "certificate" not in found:
        return unmarked
    try:
        record = certificate_from(found["certificate"], Path(BESIDE)).record
        plan = plan_from(record["plan"])
    except OboroError:  # a mark is anybody's word: one that says nothing is none
        return unmarked
    if not isinstance(plan, ModelPlan):
        return unmarked
    if model is not None:
        mine = model.certificate.record
        if mine["content"] != record["content"] or mine["ledger"] != record["ledger"]:
            where = synthetic if isinstance(synthetic, str | os.PathLike) else "the synthetic table"
            raise CertificateError(
                f"{where} was drawn from another model",
                given=f"entry {mine['ledger']['reserved_at']} of {mine['ledger']['id']}",
                needed=f"entry {record['ledger']['reserved_at']} of {record['ledger']['id']}",
            )
    wanted = wanted_of(found.get("where", {}), plan.domain)
    return Origin(plan.domain, {} if wanted is None else told_of(wanted, plan.domain), marked=True)


def _written(synthetic: Any) -> bytes | None:
    """The mark of records as it was written; None where there is none to be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(synthetic, pa.Table):
        return mark_within(synthetic)
    if not isinstance(synthetic, str | os.PathLike):
        return None
    path = Path(synthetic)
    ending = path.suffix.lower()
    try:
        if ending not in WITHIN:
            beside = path.with_name(path.name + BESIDE)
            reads(beside)
            return beside.read_bytes()
        if ending == ".parquet":
            return mark_within(pq.read_schema(path).empty_table())
        with pa.memory_map(str(path)) as file:
            return mark_within(pa.ipc.open_file(file).schema.empty_table())
    except Exception:  # no file of this kind: whoever reads the records says so
        return None
