"""The TOML file that declares a dataset: where data and ledger are, who is protected, what values are possible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oboro.errors import DataError, OboroError
from oboro.language import Lines, plain

if TYPE_CHECKING:
    from oboro.domain import Domain
    from oboro.privacy import Unit

EXAMPLE = """data = "{data}"
ledger = "{ledger}"

[unit]
kind = "row"

[[columns]]
kind = "integer"
name = "{column}"
low = 0
high = 120"""
_DATA = (".csv", ".tsv", ".gz", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class Declared:
    """What a TOML file says about a dataset; paths are relative to the file."""

    data: Path
    ledger: str
    unit: Unit | None
    domain: Domain


def read(file: Path, question: str = "") -> Declared:
    """The declaration of a dataset."""
    from oboro.domain import Domain, read_toml
    from oboro.privacy import unit_from

    if file.suffix.lower() in _DATA and file.is_file():
        raise _data_itself(file, question)
    record = read_toml(file)
    for key in ("data", "ledger"):
        if not isinstance(record.get(key), str):
            raise DataError(
                f"{file} does not say where the {key} is",
                given=f"no {key}",
                needed=f'{key} = "..."',
                fix=_example("people.parquet", "people.ledger", "age"),
            )
    ledger = record["ledger"]
    return Declared(
        data=file.parent / record["data"],
        ledger=ledger if "://" in ledger else str(file.parent / ledger),
        unit=unit_from(record["unit"]) if "unit" in record else None,
        domain=Domain.from_dict(record, where=str(file)),
    )


def _data_itself(file: Path, question: str) -> DataError:
    """Data was given in place of the file that declares it: the lines to write, with columns that are there."""
    names = _names(file)
    asked = [name for name in names if name in question.replace(",", " ").split()]
    column = (asked or names or ["age"])[0]
    stem = file.name.partition(".")[0]
    lines = _example(file.name, f"{stem}.ledger", column)
    declared = file.with_name(f"{stem}.toml")
    write = plain(f"write {stem}.toml, and ask {stem}.toml:")
    return DataError(
        f"{file} is data; a question needs a file that declares it",
        given=f"columns: {', '.join(names)}" if names else str(file),
        needed="a TOML file with data, ledger, who is protected, and the bounds of each column, "
        "known without looking at the data",
        fix=f"oboro query {declared} ..." if declared.exists() else Lines(f"{write}\n{lines}"),
    )


def _example(data: str, ledger: str, column: str) -> Lines:
    return Lines(EXAMPLE.format(data=plain(data), ledger=plain(ledger), column=plain(column)))


def _names(file: Path) -> list[str]:
    """The names of the columns: public in a schema, and in a text file if its first line reads as names."""
    from oboro.engine import open_data

    try:
        names = list(open_data(file).types)
    except OboroError:
        return []
    header = all(name.replace(" ", "_").replace("-", "_").isidentifier() for name in names)
    return names if header else []
