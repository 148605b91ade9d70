"""What separates the columns of a CSV: a comma, unless its header says otherwise; then the file is refused, with the line that mends it.

Excel writes semicolons where numbers have a decimal comma, and tabs as "Unicode text". Such a file is not read as it is: `1,5` would be a
missing value without a word. The header alone decides, which is public; of the records nothing is looked at.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from oboro.errors import DataError
from oboro.kinds import shown
from oboro.language import Lines

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True, slots=True)
class Header:
    """The first record of a text file, and what separates its columns by the name of the file."""

    path: Path
    separator: str
    text: str

    def names(self, separator: str) -> tuple[str, ...]:
        """The columns, were they separated so."""
        try:
            return tuple(next(csv.reader(io.StringIO(self.text, newline=""), delimiter=separator), ()))
        except csv.Error:
            return ()

    def check(self, wanted: Collection[str] | None = None, argument: str | None = None) -> None:
        """Refuses the file if another separator gives more of the columns that are wanted; or, where none are asked for, more than one."""
        own = self.names(self.separator)
        if (len(own) > 1) if wanted is None else all(name in own for name in wanted):
            return
        readings = {one: self.names(one) for one in SEPARATORS}
        met = {one: [n for n in names if wanted is None or n in wanted] for one, names in readings.items()}
        best = max(SEPARATORS, key=lambda one: (len(met[one]), one == self.separator))
        if best == self.separator:
            return
        name = next((name for name in met[best] if name), "")
        raise DataError(
            f"the columns of {self.path} are separated by semicolons"
            if best == ";"
            else f"the columns of {self.path} are separated by tabs"
            if best == "\t"
            else f"the columns of {self.path} are separated by commas",
            given=f"a first line that has a column {shown(name)} only if it is read so",
            needed="commas between columns, and numbers such as 1.5, not 1,5"
            if best == ";"
            else "commas between columns, and numbers such as 1.5 and 1234, not 1,5 and 1,234",
            fix=with_commas(self.path, best),
            argument=argument,
        )


# What a field is stays as it is: marks, line ends, commas. A semicolon comes from where 1,5 means 1.5, and from CP1252 wherever a byte is
# not UTF-8; of a file with tabs neither is known, so that numbers and bytes stay for `check` to count. In a column where every comma has one
# to three digits before it and three behind, it may stand for thousands: 1,230 as 1.23 would be wrong without a word, so it stays, too.
_OF_SEMICOLONS = (
    "import codecs, csv, io, re, sys; csv.field_size_limit(2**24); "
    'codecs.register_error("cp1252", lambda e: (e.object[e.start:e.end].decode("cp1252", "replace"), e.end)); '
    'sys.stdin.reconfigure(encoding="utf-8-sig", errors="cp1252", newline=""); '
    'sys.stdout.reconfigure(encoding="utf-8", newline=""); '
    'text = sys.stdin.read(); rows = lambda: enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=";")); '
    r'points = {i for n, row in rows() if n for i, c in enumerate(row) if re.match(r"(?![+-]?[1-9]\d?\d?,\d{3}$)[+-]?\d+,\d+$", c)}; '
    r'csv.writer(sys.stdout).writerows([re.sub(r"^([+-]?\d+),(\d+)$", r"\1.\2", c) if n and i in points else c for i, c in enumerate(row)] for n, row in rows())'
)
_OF_OTHERS = (
    "import csv, sys; csv.field_size_limit(2**24); "
    'sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape", newline=""); '
    'sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline=""); '
    'csv.writer(sys.stdout).writerows(csv.reader(sys.stdin, delimiter="{}"))'
)


def with_commas(path: Path, separator: str) -> str:
    """The command that writes a text file anew with commas between its columns."""
    packed = path.suffix.lower() == ".gz"
    plain = path.with_suffix("") if packed else path
    name = f"comma-{plain.stem}.csv" if plain.suffix.lower() == ".tsv" else f"comma-{plain.name}"
    file, into = shlex.quote(str(path)), shlex.quote(str(path.with_name(f"{name}.gz" if packed else name)))
    code = _OF_SEMICOLONS if separator == ";" else _OF_OTHERS.format(separator.replace("\t", r"\t"))
    convert = f"python3 -c {shlex.quote(code)}"
    line = f"gzip -dc {file} | {convert} | gzip > {into}" if packed else f"{convert} < {file} > {into}"
    return line if "\n" in line else Lines(line)  # cut where a text of anybody's is, it could not be pasted
