"""A release: what a plan run on data gives. It is public, and it can be printed, converted and saved."""

from __future__ import annotations

import html
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oboro.errors import LedgerError, OboroError, ParameterError, setting, told
from oboro.exact import about
from oboro.files import CERTIFICATE, write_whole
from oboro.kinds import names_of, path_of, takes
from oboro.language import aligned, chosen, labelled, phrase, said
from oboro.ledger import Entry, Ledger
from oboro.privacy import Guarantee, Unit, guarantee_from
from oboro.release import workbook
from oboro.release.certificate import (
    BUNDLED,
    Certificate,
    certify,
    certify_file,
    laws_of,
)
from oboro.release.forecast import Forecast
from oboro.release.plan import BUNDLE, Plan, bundled, encoded

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from oboro.arrays import Ends

_HEADINGS = (
    "count",
    "of",
    "quantile",
    "question",
    "ranks within (95%)",
    "sum",
    "value",
)  # ours, not a column's
_SHOWN = 12  # rows of a table that are printed
_ENDS = (
    b"oboro.interval"  # in the metadata of a table: the level of the interval that its last two columns are
)


def with_ends(table: pa.Table, ends: Ends) -> pa.Table:
    """The table with two columns more, `low` and `high`, or names that are not taken."""
    for name, end in zip(("low", "high"), ends, strict=True):
        while name in table.column_names:
            name = f"interval {name}"
        table = table.append_column(name, [end])
    return table


def raw_and_cut(table: pa.Table, counts: pa.ChunkedArray, raw: Ends, cut: Ends) -> pa.Table:
    """The table with the ends of its counts, and with the counts at 0 or more and their ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = with_ends(table, raw)
    more = {
        "at 0 or more": pc.max_element_wise(counts, pa.scalar(0, counts.type)),
        "at 0 or more low": pa.array(cut[0]),
        "at 0 or more high": pa.array(cut[1]),
    }
    for name, column in more.items():
        table = table.append_column(name, column)
    return table


def check_counts(plan: Plan) -> None:
    """Refuses to give what has no counts at 0 or more."""
    if not plan.has_counts:
        raise ParameterError(
            "this release has no counts that noise can take below 0",
            given=plan.kind,
            needed="a count, or a histogram",
            fix=setting(not_negative=None),
            argument="not_negative",
        )


def carrying_ends(table: pa.Table, ends: Ends) -> pa.Table:
    """The same for a table that is published with them: of 95%, and it says so."""
    found = with_ends(table, ends)
    return found.replace_schema_metadata({**(found.schema.metadata or {}), _ENDS: b"0.95"})


def carries_ends(table: pa.Table, level: float = 0.95) -> bool:
    """Whether the table itself has the interval of this level."""
    return level == 0.95 and (table.schema.metadata or {}).get(_ENDS) == b"0.95"


@dataclass(frozen=True, slots=True)
class Release:
    """Value, guarantee and certificate of one run. Nothing in it is private.

    >>> release = ob.run(plan, data, ledger)
    >>> release.cost, release.to_arrow().column_names, release.to_arrow().num_rows
    (Pure('0.1'), ['age', 'count'], 10)
    >>> release.interval().column_names
    ['age', 'count', 'low', 'high']
    >>> str(release.save("ages.csv"))
    'ages.csv.certificate.json'
    """

    _plan: Plan | Callable[[], Plan] = field(
        repr=False, compare=False
    )  # or what makes it, when it is asked for
    name: str | None
    cost: Guarantee
    certificate: Certificate
    _table: pa.Table = field(repr=False)
    _content: bytes = field(repr=False)
    _sign: Callable[[bytes], bytes] = field(repr=False)

    @property
    def plan(self) -> Plan:
        if not isinstance(self._plan, Plan):
            object.__setattr__(self, "_plan", self._plan())
        assert isinstance(self._plan, Plan)
        return self._plan

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

    @property
    def content(self) -> bytes:
        """The very bytes that the ledger keeps, whose hash the certificate carries: Parquet."""
        return self._content

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        return self._table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        import polars

        return polars.from_arrow(self._table)

    def interval(self, level: float = 0.95, **where: object) -> Any:
        """The table with `low` and `high` columns that cover the noise; only where their width is public.

        With `where`, such as row=(100, 131), sex="F": the answer for that part of the table, where the plan has one.
        """
        if where and self.plan.ask is not None:
            return self.plan.ask(self._table, where, level)
        if where:
            raise ParameterError(
                "this release has no parts to ask for",
                given=", ".join(where),
                needed="level alone, or a table of counts",
                fix="release.interval(0.95)",
            )
        intervals = self.plan.intervals
        if intervals is None:
            raise ParameterError(
                "this release has no interval",
                given=self.plan.kind,
                needed="a plan whose noise has a public width",
                fix="release.value",
            )
        return self._with_ends(intervals, level)

    def not_negative(self, level: float = 0.95) -> pa.Table:
        """Counts as they were drawn, and at 0 or more, which is closer to the truth; each with its interval.

        Of a batch those of its counts and histograms, one row each. Raw counts add up to sums that are right on average. Counts that are cut at 0 do not: where many are small, their
        sum comes out too high.
        """
        check_counts(self.plan)
        return self.plan.not_negative(self._table, level)

    def _by(self, by: str | Sequence[str]) -> pa.Table:
        if self.plan.table_by is None:
            raise ParameterError(
                "this release has no tables of its own by area",
                given=told(by=repr(by)),
                needed="a table of counts over areas",
                fix=setting(by=None),
            )
        return self.plan.table_by(self._table, [by] if isinstance(by, str) else list(by), 0.95)

    def outgoing(self) -> pa.Table:
        """What files and JSON carry: the table and, where the plan asks for it, `low` and `high` of 95%.

        The interval follows from the noisy values and public facts, so it is added on the way out. What the ledger
        stores, and the certificate's `content` hash, stay the values alone; its `file` hash is of the file as it
        is written. Tables of counts do not ask for it: their files would double, and carry what it comes from. Where that
        is too much for a file, the interval is published as part of the table.
        """
        if self.plan.intervals is None or not self.plan.interval_in_files:
            return self.plan.filed(self._table)
        return self.plan.filed(self._with_ends(self.plan.intervals, 0.95))

    def _with_ends(self, intervals: Callable[[pa.Table, float], Ends], level: float) -> pa.Table:
        table = self._table
        return table if carries_ends(table, level) else with_ends(table, intervals(table, level))

    def bundle(self) -> bytes:
        """The release and its certificate as one file, .oboro."""
        inside = certify_file(self.certificate, BUNDLED[0], self._content, self._sign)
        return bundled(dict(zip(BUNDLED, (self._content, inside.to_bytes()), strict=True)))

    @takes(path=path_of, certificate=path_of, by=names_of, outlines=path_of)
    def save(
        self,
        path: str | Path,
        *,
        certificate: str | Path | None = None,
        by: str | Sequence[str] | None = None,
        outlines: str | Path | None = None,
        not_negative: bool = False,
    ) -> Path:
        """Writes the data by its extension, and beside it a certificate that carries the file's hash.

        With `not_negative`: counts raw and at 0 or more, with the 95% interval of each, in any file but .oboro, which has the release itself.
        With `by`, such as "municipality" or ["municipality", "sex"]: a table of its own, of areas of that level, with the 95%
        interval of each; where the plan has areas. With `outlines` too, a file of polygons with a property of that name, these are the
        areas' shapes in a file that GIS reads. Both files appear whole or not at all. Returns where the certificate is: in
        the file itself where that is .oboro.
        """
        path = Path(path)
        ending = checked_ending(self.plan, path)
        if not_negative:
            table = self.not_negative()
        else:
            table = self.outgoing() if by is None and outlines is None else self._by(by or [])
        if outlines is not None:
            if self.plan.outlined is None or ending not in self.plan.with_shapes:
                raise ParameterError(
                    "outlines are for files that GIS reads",
                    given=told(outlines=str(outlines)) + f" and {ending}",
                    needed=", ".join(self.plan.with_shapes) or setting(outlines=None),
                    argument="outlines",
                )
            table = self.plan.outlined(table, [by] if isinstance(by, str) else list(by or []), Path(outlines))
        if ending == BUNDLE:
            write_whole(path, self.bundle())
            return path
        if ending == workbook.ENDING:
            content = self._workbook(None if by is None and not not_negative else table)
        elif ending == ".parquet" and table is self._table:
            content = self._content
        else:
            content = self.plan.encoded(table, ending)
        signed = certify_file(self.certificate, path.name, content, self._sign)
        where = Path(certificate) if certificate is not None else path.with_name(path.name + CERTIFICATE)
        if where.resolve() == path.resolve():
            raise ParameterError(
                "the certificate would overwrite the release", given=str(where), needed="a file of its own"
            )
        write_whole(path, content)
        signed.save(where)
        return where

    def _workbook(self, own: pa.Table | None) -> bytes:
        """Two sheets: the figures, with the interval of each where there is one, and the certificate in words."""
        record = self.certificate.record
        table, interval = (self.plan.filed(self._table) if own is None else own), self.plan.leaves_out
        if own is None and self.plan.intervals is not None:
            try:
                table = self.plan.filed(self._with_ends(self.plan.intervals, 0.95))
            except OboroError as error:  # as where it is printed: the figures go out without it
                interval = error.message
        facts = {
            "released": phrase(record["released"]),
            "dataset": record["dataset"],
            "name": record["name"] or "",
            "unit": said(str(self.unit)),
            "guarantee": said(str(self.guarantee)),
            "noise": ", ".join(map(said, laws_of(record["noise"]))) or said("none"),
            "interval": "" if self.plan.intervals is None else f"{said('95%, ')}{said(interval)}",
            "note": "" if self.plan.footnote is None else said(self.plan.footnote),
            "expected error": self.plan.forecast(),
            "ledger": said(f"entry {record['ledger']['reserved_at']} of {record['ledger']['id']}"),
            "spent": str(self.cost),
            "budget": str(guarantee_from(record["ledger"]["budget"])),
            "time": record["time"],
            "software": record["software"],
            "signed by": record["public_key"],
            "certificate": said(
                f"the signed one is the file beside this one, with {CERTIFICATE} after its name"
            ),
        }
        words: list[tuple[str, ...]] = []
        for label, text in facts.items():
            lines = text.cells() if isinstance(text, Forecast) else [[line] for line in text.split("\n")]
            if text:
                words += [(said(label) if at == 0 else "", *line) for at, line in enumerate(lines)]
        return workbook.encoded_workbook(table, words, datetime.fromisoformat(record["time"]))

    def __str__(self) -> str:
        """In the reader's language."""
        about_it = [
            labelled("guarantee", said(str(self.guarantee))),
            labelled("unit", said(str(self.unit))),
            labelled("dataset", self.certificate.record["dataset"]),
        ]
        if not self.plan.readable:
            return "\n".join([phrase(self.certificate.record["released"]), "", *about_it, *self._note()])
        head, rows, missing = self._shown()
        if missing is not None:
            about_it.append(labelled("interval", f"{said('none')}: {said(missing)}"))
        elif self.plan.intervals is not None:
            about_it.append(labelled("interval", f"{said('95%, ')}{said(self.plan.leaves_out)}"))
        lines = self._lines(head, rows)
        told = [phrase(self.certificate.record["released"]), "", *lines, "", *about_it, *self._note()]
        return "\n".join(told)

    __repr__ = __str__

    def _note(self) -> list[str]:
        return [] if self.plan.footnote is None else [labelled("note", said(self.plan.footnote))]

    def _shown(self) -> tuple[list[str], list[list[str]], str | None]:
        """The head and the first rows as text, and why they have no interval though the plan has one.

        A release is paid for before it is printed: what cannot be printed is left out, and never fails it.
        """
        table = self._table.slice(0, _SHOWN)
        # a code or a year of the domain is written as it is: 533900054, 2026
        keys = self.plan.key_columns
        rows = [
            [str(v) if name in keys and isinstance(v, int) else _text(v) for name, v in row.items()]
            for row in table.to_pylist()
        ]
        if self.plan.intervals is None or carries_ends(self._table):
            return self._heads(), rows, None
        try:
            low, high = self.plan.intervals(table, 0.95)
        except OboroError as error:
            return self._heads(), rows, error.message
        except MemoryError:
            return self._heads(), rows, "not enough memory"
        ranges = [
            phrase(f"{_text(a)} to {_text(b)}") for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        spanned = [[*row, span] for row, span in zip(rows, ranges, strict=True)]
        return [*self._heads(), said("95% interval")], spanned, None

    def _heads(self) -> list[str]:
        """What columns are called in print: by their labels, where they have one. Files keep the names."""
        own = self.plan.key_columns
        return [
            said(name) if name in _HEADINGS and name not in own else self.plan.heading(name)
            for name in self._table.column_names
        ]

    def _lines(self, head: list[str], rows: list[list[str]]) -> list[str]:
        sides = "".join("<" if "string" in str(kind) else ">" for kind in self._table.schema.types) + ">"
        lines = aligned([head, *rows], sides)
        more = self._table.num_rows - len(rows)
        return [*lines, "  " + said(f"... {more:,} more")] if more > 0 else lines

    @property
    def is_cut(self) -> bool:
        """Whether it has more rows than are printed."""
        return self.plan.readable and self._table.num_rows > _SHOWN

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows with their intervals, and below them what was paid and what is left."""
        head, rows, missing = self._shown() if self.plan.readable else ([], [], None)
        top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        more = self._table.num_rows - len(rows) if self.plan.readable else 0
        rest = f"<p>{said(f'... {more:,} more')}</p>" if more > 0 else ""
        facts = [(said("guarantee"), said(str(self.guarantee))), (said("unit"), said(str(self.unit)))]
        if missing is not None:
            facts.append((said("interval"), f"{said('none')}: {said(missing)}"))
        elif self.plan.intervals is not None:
            facts.append((said("interval"), f"{said('95%, ')}{said(self.plan.leaves_out)}"))
        facts += [(said(name), said(text)) for name, text in self._price().items()]
        colon = "：" if chosen() == "ja" else ": "
        told = "".join(f"<br>{html.escape(name)}{colon}<b>{html.escape(text)}</b>" for name, text in facts)
        return (
            f"<h4>{html.escape(phrase(self.certificate.record['released']))}</h4><table><tr>{top}</tr>{body}</table>"
            f"{rest}<p>{told.removeprefix('<br>')}</p>"
        )

    def _price(self) -> dict[str, str]:
        """What this release cost, what all releases so far cost, and the most that they may."""
        paid = self.certificate.record["ledger"]
        cost, spent, budget = (str(guarantee_from(paid[name])) for name in ("cost", "spent", "budget"))
        return {"price": cost, "spent in all": spent, "budget": budget}


def checked_ending(plan: Plan, path: Path, spelled: str = "{}") -> str:
    """How the name of a file ends; refused where no release of this plan is kept in such a file."""
    ending = path.suffix.lower()
    if plan.formats and ending not in plan.formats:
        name = f"{path.stem or 'published'}{plan.formats[0]}"
        raise ParameterError(
            "the file type does not fit what is released",
            given=spelled.format(path),
            needed=" ".join(plan.formats),
            fix=spelled.format(shlex.quote(name) if spelled != "{}" else name),
        )
    return ending


def to_content(table: pa.Table) -> bytes:
    """The stored form of a release: Parquet."""
    return encoded(table, ".parquet")


def from_content(
    plan: Plan,
    ledger: Ledger,
    name: str | None,
    cost: Guarantee,
    committed: Entry,
    content: bytes,
    table: pa.Table | None = None,
    *,
    record: dict[str, object] | None = None,
    forecast: Forecast | None = None,
    own: Plan | Callable[[], Plan] | None = None,
) -> Release:
    """A release from what the ledger keeps of it. `own`: the plan that it is to have, or what makes it, if that is another object."""
    certificate = certify(plan, ledger, name, cost, committed, record=record, forecast=forecast)
    if table is None:
        table = table_in(content, f"entry {committed.position}")
    return Release(plan if own is None else own, name, cost, certificate, table, content, ledger.sign)


def table_in(content: bytes, where: str) -> pa.Table:
    """The table in the stored form of a release; `where` is how an error calls it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    except (pa.ArrowException, OSError):
        raise LedgerError("what is stored is not a table", given=where, needed="what run stores") from None


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else about(value, 6)
