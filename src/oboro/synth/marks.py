"""The mark of synthetic records: a file says what it is, from which release it comes, and how it was drawn.

Parquet and Arrow carry it among their metadata, CSV and JSON in a file beside them. It holds the model and its certificate, the seed
and the conditions of the draw, and the hash of the records. Model and certificate are signed. The rest is not, since whoever has a model draws
from it without the ledger: that the records came from the model is shown by drawing them again, from the model in the mark.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from oboro._version import __version__
from oboro.arrays import Table
from oboro.domain import Category, Column, Domain
from oboro.errors import ParameterError, setting, told
from oboro.files import next_to, refuse_release, write_together, write_whole
from oboro.language import plain
from oboro.ledger.chain import HASH, Form, a_number, misfit
from oboro.records import Record
from oboro.release import Certificate, plan_from
from oboro.release.plan import FORMATS, encoded
from oboro.synth.codes import code_count
from oboro.synth.conditions import Wanted, is_everything
from oboro.synth.contents import ROWS, check_room, contents_of, table_of
from oboro.synth.plan import ModelPlan

FORMAT = "oboro synthetic 1"
NOTE = "synthetic records: drawn from what was released with noise, not rows of people"
BESIDE = ".synthetic.json"  # is appended to the name of a file that cannot carry its mark
WITHIN = (".parquet", ".arrow")
MOST_SEED = 2**128 - 1  # a seed is a number, and no place for a text
_KEY = b"oboro.synthetic"  # in the metadata of a table
_SOFTWARE = re.compile(r"oboro \d{1,3}(\.\d{1,3}){1,2}((a|b|rc)\d{1,2})?(\.dev\d{1,4})?", re.ASCII)


def _a_seed(value: object) -> None:
    if type(value) is not int or not 0 <= value <= MOST_SEED:
        raise ValueError(value)


_PARTS: dict[str, Form] = {
    "format": str,
    "note": re.compile(re.escape(NOTE)),  # what nobody signs has room for nothing else
    "records": a_number,
    "software": _SOFTWARE,
    "sha256?": HASH,
    # of what a model drew; records that are themselves a release have their certificate beside them
    "seed?": _a_seed,
    "where?": dict,
    "certificate?": dict,
    "model?": str,
}


def mark(records: int) -> Record:
    """What every mark says."""
    return {"format": FORMAT, "note": NOTE, "records": records, "software": f"oboro {__version__}"}


def mark_of_draw(
    records: int,
    seed: int,
    wanted: Mapping[int, Wanted],
    domain: Domain,
    certificate: Certificate,
    model: bytes,
) -> Record:
    """The mark of records that a model drew. Conditions are written as ranges [start, stop) of codes."""
    where = {
        domain.names[place]: [[int(a), int(b)] for a, b in zip(ranges.start, ranges.stop, strict=True)]
        for place, ranges in wanted.items()
    }
    return {
        **mark(records),
        "seed": seed,
        "where": where,
        "certificate": certificate.to_dict(),
        "model": base64.b64encode(model).decode(),
    }


def model_within(said: Record) -> bytes | None:
    """The file of the model, from a mark; None where an earlier version wrote none."""
    if "model" not in said:
        return None
    try:
        found = base64.b64decode(said["model"], validate=True)
    except ValueError:
        return b""  # no model is to be read there
    return found if base64.b64encode(found).decode() == said["model"] else b""


def marked(table: Table, said: Record) -> Table:
    """The table with its mark, which Parquet and Arrow keep."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: _written(said)})


def mark_within(table: Table) -> bytes | None:
    """The mark that a table carries, as it was written."""
    return mark_among(table.schema.metadata or {})


def mark_among(metadata: Mapping[bytes, bytes]) -> bytes | None:
    """The mark among the metadata of a table or a file."""
    return metadata.get(_KEY)


def read_mark(content: bytes) -> Record | None:
    """A mark from its text; None where it is none. Only what oboro writes is one, byte for byte: nothing stands in it twice."""
    try:
        found = json.loads(content)
        if misfit(found, _PARTS) is not None or found["format"] != FORMAT or _written(found) != content:
            return None
    except (ValueError, RecursionError):
        return None
    return dict(found)


def mark_of(table: Table) -> Record:
    """The mark of records that a model has just drawn."""
    found = mark_within(table)
    said = None if found is None else read_mark(found)
    assert said is not None
    return said


def wanted_of(where: Record, domain: Domain) -> dict[int, Wanted] | None:
    """The conditions of a draw, as they stand in a mark; None where no draw from this domain could have had them.

    They are anybody's word, and are read in normal form alone: so they hold nothing beyond what they mean.
    """
    found = {}
    totals = {total for total, _ in domain.rules.sums}
    for name, ranges in where.items():
        if name not in domain.names or name in totals or misfit(ranges, [[a_number]]) is not None:
            return None
        place = domain.names.index(name)
        if not ranges or not all(len(span) == 2 and span[0] < span[1] for span in ranges):
            return None
        if any(after[0] <= before[1] for before, after in pairwise(ranges)):
            return None
        if ranges[-1][1] > code_count(domain.columns[place]):
            return None
        start, stop = np.array(ranges, np.int64).T
        found[place] = Wanted(start, stop)
        if is_everything(found[place], domain.columns[place]):
            return None
    return found


def told_of(wanted: Mapping[int, Wanted], domain: Domain) -> Record:
    """The same conditions in values: lists of them, and of numbers and dates ranges with both ends; null is missing."""
    return {domain.names[place]: _values(domain.columns[place], one) for place, one in wanted.items()}


MOST_CONDITIONS = 100  # values and ranges, of all columns together: more may be a column of the data


def conditions_in(wanted: Mapping[int, Wanted]) -> int:
    """How many values and ranges the conditions of a draw list; neighbours count as one range."""
    return sum(one.start.size for one in wanted.values())


def shown_conditions(where: Record) -> str:
    """The conditions of a draw in a line, of which a long one is cut."""
    told = [
        f"{name} = {', '.join('null' if value is None else str(value) for value in values)}"
        for name, values in where.items()
    ]
    line = plain("; ".join(told))
    return line if len(line) <= 300 else line[:299] + "…"


def _values(column: Column, wanted: Wanted) -> list[object]:
    found: list[object] = []
    for start, stop in zip(wanted.start.tolist(), wanted.stop.tolist(), strict=True):
        last = min(stop, column.size) - 1
        if isinstance(column, Category):
            found += [column.value(code) for code in range(start, last + 1)]
        elif start < last:
            found.append(f"{column.value(start)}..{column.value(last)}")
        elif start == last:
            found.append(str(column.value(start)))
        if stop > column.size:
            found.append(None)
    return found


def digest(table: Table, ending: str) -> str:
    """The hash of records: of the file where their mark stands beside it, of the same records as CSV where it stands within."""
    return digest_of(table.to_batches(max_chunksize=ROWS), table.schema, ending)


def digest_of(batches: Iterable[Any], schema: Any, ending: str) -> str:
    """The same of records that come some at a time: the hash of what `encoded` writes, of which only a part is there at once."""
    if ending == ".json":
        return _json_digest(batches)
    from pyarrow import PythonFile, csv

    sink = _Hashed()
    with csv.CSVWriter(PythonFile(sink, mode="w"), schema) as file:
        for batch in batches:
            file.write_batch(batch)
    return sink.found


class _Hashed(io.RawIOBase):
    """A file of which only the hash is kept: as `encoded` writes CSV, with a byte order mark where any letter is more than ASCII."""

    def __init__(self) -> None:
        self._plain, self._begun, self._ascii = hashlib.sha256(), hashlib.sha256(codecs.BOM_UTF8), True

    @property
    def found(self) -> str:
        return (self._plain if self._ascii else self._begun).hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        part = bytes(content)
        self._plain.update(part)
        self._begun.update(part)
        self._ascii = self._ascii and part.isascii()
        return len(part)


def _json_digest(batches: Iterable[Any]) -> str:
    found, between = hashlib.sha256(), "["
    for batch in batches:
        if batch.num_rows:
            text = json.dumps(batch.to_pylist(), ensure_ascii=False, default=str, indent=1)
            found.update((between + text[1:-2]).encode())
            between = ","
    found.update(b"[]" if between == "[" else b"\n]")
    return found.hexdigest()


def writings(table: Table, ending: str) -> Iterator[bytes]:
    """The files of a table that hold nothing else: as oboro writes one, and as pyarrow does where nothing more is asked of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import feather

    yield encoded(table, ending)
    sink = pa.BufferOutputStream()
    (pq.write_table if ending == ".parquet" else feather.write_feather)(table, sink)
    yield bytes(sink.getvalue())


def _written(said: Record) -> bytes:
    return json.dumps(said, ensure_ascii=False, indent=2, sort_keys=True).encode() + b"\n"


# Synthetic records as a file; the extension decides the format.


def check_file(path: str | Path) -> Path:
    """Refuses a file that cannot be written, before anything is done for it."""
    where = Path(path)
    if where.suffix.lower() not in FORMATS:
        raise ParameterError(
            "the file type is unknown",
            given=told(output=str(path)),
            needed=" ".join(FORMATS),
            fix=setting(output=str(where.with_name(f"{where.stem or 'synthetic'}.parquet"))),
            argument="output",
        )
    refuse_release(where)
    if where.is_file() and not is_marked(where):
        raise ParameterError(
            f"{where} is there, and is not known to hold synthetic records alone: it may be real data",
            given=told(output=str(path)),
            needed="a new name, or that of synthetic records as they were written",
            fix=setting(output=next_to(where)),
        )
    beside = where.with_name(where.name + BESIDE)
    if where.suffix.lower() not in WITHIN and os.path.lexists(beside) and not _holds_a_mark(beside):
        raise ParameterError(
            f"{beside} is there, and is no mark of synthetic records",
            given=told(output=str(path)),
            needed="a name beside which the mark can be written",
            fix=setting(output=next_to(where)),
        )
    return where


def _holds_a_mark(beside: Path) -> bool:
    try:
        return beside.is_file() and read_mark(beside.read_bytes()) is not None
    except OSError:
        return False


def is_marked(where: Path) -> bool:
    """Whether a file says that it is synthetic, and holds what its mark was made for.

    Real data may have come into its place, or have taken over the metadata of a table that a model drew: so a mark without a hash
    is that of no file.
    """
    ending = where.suffix.lower()
    try:
        if ending in WITHIN:
            return _fits_within(where, ending)
        beside = where.with_name(where.name + BESIDE)
        said = read_mark(beside.read_bytes()) if beside.is_file() else None
        if said is None:
            return False
        with where.open("rb") as file:
            return bool(said.get("sha256") == hashlib.file_digest(file, "sha256").hexdigest())
    except Exception:  # no such file, or not what its name says: whatever the bytes are
        return False


def _fits_within(where: Path, ending: str) -> bool:
    """Whether a Parquet or Arrow file carries a mark of its own records, and holds nothing else. These are read only if it may be so."""
    import pyarrow as pa

    with pa.OSFile(str(where)) as file:
        contents = contents_of(file, ending)
        found = mark_among(contents.metadata)
        said = None if found is None else read_mark(found)
        if said is None or "sha256" not in said or "certificate" not in said:
            return False
        plan = plan_from(said["certificate"]["plan"])
        if not isinstance(plan, ModelPlan) or not contents.fits(plan.domain, said["records"]):
            return False
        check_room(contents.rows, plan.domain, where)
        table = table_of(contents, plan.domain).combine_chunks()
    if said["sha256"] != digest(table, ending):
        return False
    return where.read_bytes() in writings(marked(table, said), ending)


def write_records(table: Table, path: str | Path) -> Path | None:
    """Writes an Arrow table so that it is there whole or not at all. Returns where its mark is, if that is another file."""
    where = check_file(path)
    ending = where.suffix.lower()
    found = mark_within(table)
    said = None if found is None else read_mark(found)
    if said is None:
        write_whole(where, encoded(table, ending))
        return None
    said["sha256"] = digest(table, ending)
    if ending in WITHIN:
        write_whole(where, encoded(marked(table, said), ending))
        return None
    beside = where.with_name(where.name + BESIDE)
    write_together({beside: _written(said), where: encoded(table, ending)})
    return beside
