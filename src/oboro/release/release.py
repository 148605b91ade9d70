"""A release: what a plan run on data gives. It is public, and it can be printed, converted and saved."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oboro.errors import ParameterError
from oboro.exact import about
from oboro.kinds import path_of, takes
from oboro.language import labelled, phrase, right, room, said
from oboro.ledger import Entry, Ledger
from oboro.privacy import Guarantee, Unit
from oboro.release.certificate import Certificate, certify, certify_file
from oboro.release.files import write_whole
from oboro.release.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = (".parquet", ".csv", ".arrow", ".json")
_SHOWN = 12  # rows of a table that are printed


@dataclass(frozen=True, slots=True)
class Release:
    """Value, guarantee and certificate of one run. Nothing in it is private."""

    plan: Plan
    name: str | None
    cost: Guarantee
    certificate: Certificate
    _table: Any = field(repr=False)
    _content: bytes = field(repr=False)
    _sign: Callable[[bytes], bytes] = field(repr=False)

    @property
    def guarantee(self) -> Guarantee:
        return self.plan.guarantee

    @property
    def unit(self) -> Unit:
        return self.plan.unit

    @property
    def value(self) -> Any:
        """A number where the release is one number; otherwise the table."""
        if self._table.num_rows == 1 and "value" in self._table.column_names:
            return self._table.column("value")[0].as_py()
        return self._table

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_pandas(self) -> Any:
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        import polars

        return polars.from_arrow(self._table)

    def interval(self, level: float = 0.95, **where: Any) -> Any:
        """The table with `low` and `high` columns that cover the noise; only where their width is public.

        With `where`, such as row=(100, 131), sex="F": the answer for that part of the table, where the plan has one.
        """
        if where and (ask := getattr(self.plan, "ask", None)) is not None:
            return ask(self._table, where, level)
        intervals = getattr(self.plan, "intervals", None)
        if intervals is None:
            raise ParameterError(
                "this release has no interval",
                given=self.plan.kind,
                needed="a plan whose noise has a public width",
                fix="release.value",
            )
        low, high = intervals(self._table, level)
        return self._table.append_column("low", [low]).append_column("high", [high])

    @takes(path=path_of, certificate=path_of)
    def save(self, path: str | Path, *, certificate: str | Path | None = None) -> Path:
        """Writes the data by its extension, and beside it a certificate that carries the file's hash.

        Both appear whole or not at all. Returns where the certificate is.
        """
        path = Path(path)
        if path.suffix.lower() not in FORMATS:
            raise ParameterError(
                "the file type is unknown",
                given=str(path),
                needed=" ".join(FORMATS),
                fix=f"{path.with_suffix('').name}.parquet",
            )
        content = (
            self._content if path.suffix.lower() == ".parquet" else _encode(self._table, path.suffix.lower())
        )
        signed = certify_file(self.certificate, path.name, content, self._sign)
        where = (
            Path(certificate) if certificate is not None else path.with_name(path.name + ".certificate.json")
        )
        write_whole(path, content)
        signed.save(where)
        return where

    def __str__(self) -> str:
        """In the reader's language."""
        about_it = [
            labelled("guarantee", said(str(self.guarantee))),
            labelled("unit", said(str(self.unit))),
            labelled("dataset", self.certificate.record["dataset"]),
        ]
        if getattr(self.plan, "intervals", None) is not None:
            covered = getattr(self.plan, "leaves_out", "covers the noise alone")
            about_it.append(labelled("interval", f"95%, {said(covered)}"))
        return "\n".join([phrase(self.certificate.record["released"]), "", *self._lines(), "", *about_it])

    __repr__ = __str__

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        table = self._table.slice(0, _SHOWN)
        if getattr(self.plan, "intervals", None) is None:
            return table.column_names, [[_text(v) for v in row.values()] for row in table.to_pylist()]
        low, high = self.plan.intervals(table, 0.95)  # type: ignore[attr-defined]
        rows = [[_text(v) for v in row.values()] for row in table.to_pylist()]
        ranges = [
            phrase(f"{_text(a)} to {_text(b)}") for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        return [*table.column_names, said("95% interval")], [
            [*row, span] for row, span in zip(rows, ranges, strict=True)
        ]

    def _lines(self) -> list[str]:
        head, rows = self._shown()
        widths = [max(room(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  " + "  ".join(right(cell, width) for cell, width in zip(row, widths, strict=True))
            for row in [head, *rows]
        ]
        more = self._table.num_rows - len(rows)
        return [*lines, "  " + said(f"... {more:,} more")] if more > 0 else lines

    def _repr_html_(self) -> str:
        head, rows = self._shown()
        top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        more = self._table.num_rows - len(rows)
        rest = f"<p>{said(f'... {more:,} more')}</p>" if more > 0 else ""
        facts = (
            f"<p><b>{html.escape(said(str(self.guarantee)))}</b> · {html.escape(said(str(self.unit)))}</p>"
        )
        return f"<h4>{html.escape(phrase(self.certificate.record['released']))}</h4><table><tr>{top}</tr>{body}</table>{rest}{facts}"


def to_content(table: pa.Table) -> bytes:
    """The stored form of a release: Parquet."""
    return _encode(table, ".parquet")


def from_content(
    plan: Plan,
    ledger: Ledger,
    name: str | None,
    cost: Guarantee,
    committed: Entry,
    content: bytes,
    table: Any = None,
) -> Release:
    """A release from what the ledger keeps of it."""
    if table is None:
        import pyarrow.parquet as pq

        table = pq.read_table(io.BytesIO(content))
    return Release(
        plan, name, cost, certify(plan, ledger, name, cost, committed), table, content, ledger.sign
    )


def _encode(table: pa.Table, suffix: str) -> bytes:
    sink = io.BytesIO()
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        # differences of sorted keys are small: half the bytes, in a third of the time
        packed = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        others = [name for name in table.column_names if name not in packed]
        encoding = dict.fromkeys(packed, "DELTA_BINARY_PACKED")
        pq.write_table(
            table, sink, compression="zstd", use_dictionary=others, column_encoding=encoding or None
        )
    elif suffix == ".csv":
        import pyarrow.csv as csv

        csv.write_csv(table, sink)
    elif suffix == ".arrow":
        import pyarrow as pa

        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        import json

        sink.write(json.dumps(table.to_pylist(), ensure_ascii=False, default=str, indent=1).encode())
    return sink.getvalue()


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else about(value, 6)
