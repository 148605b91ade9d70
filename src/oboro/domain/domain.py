"""The public description of what values are possible, for all capabilities."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from oboro.domain.areas import Areas
from oboro.domain.columns import EXAMPLES, LARGEST, Category, Column, Date, Integer, Real
from oboro.domain.mesh import Grid, Mesh
from oboro.domain.rules import RULES, Rules, rules_of
from oboro.errors import BoundsError, Declaration, DomainError, InputError, declaration, told
from oboro.files import reads, write_whole
from oboro.kinds import list_of, nearest, path_of, shown, takes
from oboro.language import Lines, plain
from oboro.records import Columns, Record

# Columns from their canonical form: the `[[columns]]` tables of a TOML file.


def _grid(names: Sequence[str], shape: Sequence[int], **where: Any) -> Grid:
    if not isinstance(names, list | tuple):
        raise DomainError(
            "a grid needs the names of its columns",
            given=told(names=repr(names)),
            fix='names = ["row", "col"]',
        )
    return Grid(*names, shape=shape, **where)


def _areas(name: str, levels: Sequence[str], of: object = None, **table: Any) -> Areas:
    cells = None if of is None else column_from(of)
    return Areas(name, levels, of=cells, **table)  # type: ignore[arg-type]  # what it is not, it refuses


KINDS: dict[
    str, tuple[Callable[..., Column], tuple[str, ...]]
] = {  # what makes it, and what may be said besides
    "integer": (Integer, ("step", "missing")),
    "real": (Real, ("missing",)),
    "category": (Category, ("missing",)),
    "date": (Date, ("missing",)),
    "grid": (_grid, ("crs", "origin", "cell", "rows")),
    "mesh": (Mesh, ("region",)),
    "areas": (_areas, ("of",)),
}


def column_from(record: object) -> Column:
    """The column that one `[[columns]]` table describes.

    >>> ob.domain.column_from({"name": "age", "kind": "integer", "low": 0, "high": 99})
    Integer(name='age', low=0, high=99, step=1, missing=None)
    """
    given = dict(record) if isinstance(record, dict) else {}
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise DomainError(
            f"column {given.get('name', '?')!r} has an unknown kind",
            given=told(kind=repr(kind)),
            needed=", ".join(KINDS),
            fix=declaration("integer", **EXAMPLES["integer"]).toml,
        )
    make, besides = KINDS[kind]
    if misplaced := next((name for name in given if name in _OF_THE_FILE), None):
        raise DomainError(
            f"column {given.get('name', '?')!r} holds {misplaced}, which is said of the whole file",
            given=f"{misplaced} after [[columns]]: TOML takes it for a part of that column",
            needed=f"{misplaced} above the first line in brackets, [unit] included",
            fix=Lines(f"{misplaced} = {_as_toml(given[misplaced])}\n\n[[columns]]"),
            argument=misplaced,
        )
    try:
        return make(**given)
    except TypeError:
        needed = ", ".join(EXAMPLES[kind])
        raise BoundsError(
            f"column {given.get('name', '?')!r} of kind {kind!r} has wrong or missing parts",
            given=", ".join(map(str, given)) or "nothing else",
            needed=f"{needed}, and perhaps {', '.join(besides)}" if besides else needed,
            fix=_mended(kind, given, besides).toml,
        ) from None
    except InputError as error:
        if isinstance(error.fix, Declaration):  # whoever declares it writes TOML
            error.fix = error.fix.toml
        raise


def _mended(kind: str, given: Mapping[str, object], besides: tuple[str, ...]) -> Declaration:
    """A column that can be declared: with the parts that were given, also where their names were misspelt."""
    example = EXAMPLES[kind]
    known = (*example, *besides)
    parts = {name if name in known else nearest(name, known): value for name, value in given.items()}
    parts |= {name: value for name, value in given.items() if name in known}  # what is spelt right goes first
    usable = {
        name: str(value) if isinstance(value, date) else value
        for name, value in parts.items()
        if isinstance(value, str | int | float | list | date)
        and isinstance(value, list) == isinstance(example.get(name or "", value), list)
    }
    return declaration(kind, **{**example, **{name: usable[name] for name in known if name in usable}})


# What a TOML file says about a dataset: its domain, and for commands also who is protected, and where data and ledger are.
DECLARES = ("columns", "labels", *RULES, "unit", "data", "ledger", "draft", "name", "count", "service")

SERVED = ("rows", "edition", "sharing", "approve_above")  # what [service] says there: how a service serves it

_OF_THE_FILE = tuple(name for name in DECLARES if name not in ("columns", "name"))


def _as_toml(value: object) -> str:
    """A value on one line, as a file says it; of a very long one that it is there."""
    written = plain(_inline(value))
    return written if len(written) <= 500 else "..."


def _inline(value: object) -> str:
    if isinstance(value, dict):
        parts = (
            f"{name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else json.dumps(name, ensure_ascii=False)} = {_inline(one)}"
            for name, one in value.items()
        )
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    texts = isinstance(value, str | bool)
    return json.dumps(value, ensure_ascii=False) if texts else str(value)  # numbers, days and times


@dataclass(frozen=True, slots=True)
class Domain:
    """Columns with bounds, steps and categories.

    >>> people = ob.Domain([ob.Integer("age", 0, 99), ob.Category("sex", ["f", "m"])])
    >>> people.size
    200
    >>> people.only("sex").to_dict()
    {'columns': [{'kind': 'category', 'name': 'sex', 'values': ['f', 'm']}]}
    """

    columns: tuple[Column, ...]
    labels: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # what columns are called on pages
    rules: Rules = field(default_factory=Rules)  # what else is known of records: synthetic data keep it

    @takes(columns=list_of)
    def __init__(
        self,
        columns: Iterable[Column],
        labels: Mapping[str, str] | None = None,
        *,
        impossible: Any = None,
        known: Any = None,
        sums: Any = None,
    ) -> None:
        given = tuple(columns)
        wrong = [column for column in given if not isinstance(column, Column)]
        if not given or wrong:
            raise DomainError(
                "a domain is a list of columns",
                given=repr(wrong[0]) if wrong else "no column",
                needed="Integer, Real, Category, Date, Grid, Mesh or Areas columns",
                fix=declaration("integer", name="age", low=0, high=120),
            )
        seen: set[str] = set()
        for name in [name for column in given for name in column.asked]:
            if name in seen:
                raise DomainError(f"column {name!r} is declared twice", fix="one declaration for each column")
            seen.add(name)
        object.__setattr__(self, "columns", given)
        object.__setattr__(self, "labels", _labels(labels))
        object.__setattr__(self, "rules", rules_of(given, impossible, known, sums))

    def label(self, name: str) -> str:
        """What a column is called on pages: its name, unless it has a label.

        >>> ob.Domain([ob.Integer("age", 0, 99)], labels={"T001101001": "population"}).label("T001101001")
        'population'
        """
        return dict(self.labels).get(name, name)

    @classmethod
    def from_toml(cls, path: str | Path) -> Domain:
        """Reads the `[[columns]]` of a TOML file."""
        return cls.from_dict(read_toml(path), where=str(path))

    @classmethod
    @takes(record=dict)
    def from_dict(cls, record: dict[str, object], where: str = "the domain") -> Domain:
        if record.get("draft", False) is not False:
            raise _still_a_draft(where, f"draft = {str(record['draft']).lower()}")
        check_entries(where, record, DECLARES)
        for name in ("data", "ledger", "name", "count"):
            if name in record and not isinstance(record[name], str):
                raise DomainError(
                    f"{where} does not say where the {name} is",
                    given=told(**{name: shown(record[name])}),
                    needed=f'{name} = "..."',
                )
        columns = record.get("columns")
        if not isinstance(columns, list) or not columns:
            raise DomainError(
                f"{where} declares no columns",
                needed="one [[columns]] table for each column",
                fix=declaration("integer", **EXAMPLES["integer"]).toml,
            )
        labels: Any = record.get("labels")
        rules = {name: record.get(name) for name in RULES}
        try:
            return cls((column_from(column) for column in columns), labels, **rules)
        except InputError as error:
            if error.argument in RULES:  # whoever declares rules in a file writes TOML
                error.fix = getattr(error.fix, "toml", error.fix)
                error.given = f"{error.given}; declared in {where}"
            raise

    def to_dict(self) -> dict[str, object]:
        """The canonical form; what `from_dict` and `from_toml` read."""
        labels: dict[str, object] = {"labels": dict(self.labels)} if self.labels else {}
        rules = self.rules.to_dict({column.name: column for column in self.columns})
        return {"columns": [column.to_dict() for column in self.columns], **labels, **rules}

    def ruled(self, impossible: Any = None, known: Any = None, sums: Any = None) -> Domain:
        """The same columns with these rules in place of those that were declared under the same word.

        >>> people = ob.Domain([ob.Integer("age", 0, 99), ob.Category("work", ["none", "retired"])])
        >>> people.ruled(impossible=[{"work": "retired", "age": (0, 29)}]).to_dict()["impossible"]
        [{'age': ['0..29'], 'work': ['retired']}]
        """
        given = {"impossible": impossible, "known": known, "sums": sums}
        declared = self.to_dict()
        rules = {name: declared.get(name) if one is None else one for name, one in given.items()}
        return Domain(self.columns, dict(self.labels), **rules)

    def as_record(self, columns: Columns | None) -> dict[str, object]:
        return self.to_dict()

    @classmethod
    def from_record(cls, record: object, columns: Columns | None, where: str) -> Domain:
        order = [
            name for name in ("columns", "labels", *RULES) if isinstance(record, dict) and name in record
        ]
        if type(record) is not dict or list(record) != order or "columns" not in record:
            raise DomainError(
                f"{where} is not a domain",
                given=shown(record),
                needed="columns, perhaps labels and rules, and nothing else",
            )
        for column in record["columns"] if isinstance(record["columns"], list) else ():
            if isinstance(column, dict) and "table" in column:  # a record means the same wherever it is read
                raise DomainError(
                    f"{where} names a table of areas",
                    given=shown(column["table"]),
                    needed="the areas themselves",
                )
        if not isinstance(record.get("impossible", []), list):
            raise DomainError(
                f"{where} does not hold what is impossible, but names it",
                given=shown(record["impossible"]),
                needed="the conditions themselves",
            )
        return cls.from_dict(record, where)

    @takes(path=path_of)
    def to_toml(self, path: str | Path) -> None:
        import tomli_w

        write_whole(Path(path), tomli_w.dumps(self.to_dict()).encode())

    @property
    def size(self) -> int:
        """How many combinations of values are possible."""
        return math.prod(column.size for column in self.columns)

    @property
    def cells(self) -> int:
        """The same as `size`, for answers that number every combination: refused beyond 2^62."""
        if self.size > LARGEST:
            raise DomainError(
                "the domain has too many cells",
                given=" x ".join(str(column.size) for column in self.columns),
                needed="at most 2^62 in all",
                fix="larger steps, or fewer columns",
            )
        return self.size

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def only(self, *names: str) -> Domain:
        """The same domain with these columns alone, in this order."""
        kept = tuple(self[name] for name in names)
        rules = self.rules.only(names).to_dict({column.name: column for column in kept})
        return Domain(kept, dict(self.labels), **rules)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if isinstance(name, str) and column.name == name:
                return column
        given = f"{name if isinstance(name, str) else shown(name)} in no column of the domain ({', '.join(self.names)})"
        if close := nearest(name, self.names):
            raise BoundsError(
                f"column {shown(name)} is not declared: did you mean {close!r}?",
                given=given,
                needed="a column that is declared",
                fix=f'"{close}"',
            )
        raise BoundsError(
            f"column {shown(name)} has no bounds.",
            given=given,
            needed="the smallest and largest value that count, known without looking at the data",
            fix=declaration("integer", name=name, low=0, high=120),
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def _labels(given: object) -> tuple[tuple[str, str], ...]:
    """What columns are called on pages, in the order of their names."""
    if given is None:
        return ()
    pairs = list(given.items()) if isinstance(given, Mapping) else [(None, given)]
    for pair in pairs:
        if not all(isinstance(text, str) and text and text.isprintable() for text in pair):
            raise DomainError(
                "labels say what columns are called",
                given=told(labels=shown(given)),
                needed="a text for each name of a column",
                fix='labels = {people = "population"}',
                argument="labels",
            )
    return tuple(sorted(pairs))


# What a draft made by looking at data carries until somebody who knows has gone through it. Comments are gone once TOML is read,
# so they are looked for in the text; `draft = true` is the same for whoever reads the file in another way.
DRAFT_HEADER = (
    "# NOT PRIVATE: not to be shown to others until every bound and value in it is known without the data."
)
DRAFT_RARE = "# RARE: held by fewer than"
_TEXTS_AND_COMMENTS = re.compile(  # of valid TOML: what stands in quotes is no comment
    r'''"""(?:\\.|[^\\])*?"""+|'{3}.*?'{3,}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|(#[^\n]*)''', re.DOTALL
)
_NOT_PRIVATE = re.compile(r"#\s*not\W*private\b", re.IGNORECASE)
_RARE = re.compile(r"#\s*rare\s*(?:$|held\b|[^\w\s])", re.IGNORECASE)  # not: rare diseases


_OF_DATA = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow", ".feather", ".xlsx")
_EXAMPLE = Lines('low = 0\nname = "age"')


def _with_quotes(text: str, error: str) -> str:
    """The line that is wrong with its key in quotes, where that is what it lacks: TOML takes no key in kanji without them."""
    at = re.search(r"at line (\d+)", error)
    line = text.split("\n")[int(at[1]) - 1].strip() if at else ""
    found = re.fullmatch(r"""(\[*)\s*([^\s"'=\[\]#.]+)\s*(\]+|=.*)""", line)
    if found is None or found[2].isascii():
        return _EXAMPLE
    opening, key, rest = found.groups()
    return f'{opening}"{key}"{" " if rest.startswith("=") else ""}{rest}'


@takes(path=path_of)
def read_toml(path: str | Path, argument: str | None = None) -> Record:
    """A TOML file as a dictionary, with errors that name the file, and the argument that named it.

    A draft is refused as long as it carries a mark.

    >>> from pathlib import Path
    >>> _ = Path("unit.toml").write_text("unit.kind = 'row'")
    >>> ob.domain.read_toml("unit.toml")
    {'unit': {'kind': 'row'}}
    """
    reads(path)
    if Path(path).name.lower().endswith(_OF_DATA) and Path(path).is_file():
        raise DomainError(
            f"{path} is data, where a TOML file is read",
            given=told(**{argument: str(path)}) if argument else str(path),
            needed="the TOML file that says what values are possible",
            fix="the TOML file in this place: it looks swapped with the data",
            argument=argument or "path",
        )
    try:
        text = Path(path).read_text(encoding="utf-8")
        record = tomllib.loads(text)
    except FileNotFoundError:
        raise DomainError(
            f"no such file: {path}",
            given=told(**{argument: str(path)}) if argument else str(path),
            fix="the path of a TOML file",
            argument=argument or "path",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DomainError(
            f"{path} is not valid TOML",
            given=str(error),
            needed="TOML in UTF-8",
            fix=_with_quotes(text, str(error)) if isinstance(error, tomllib.TOMLDecodeError) else _EXAMPLE,
        ) from None
    except OSError as error:
        raise DomainError(f"{path} cannot be read", given=error.strerror or str(error)) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits, tables within tables without end
        raise DomainError(
            f"{path} cannot be read",
            given="tables nested too deeply"
            if isinstance(error, RecursionError)
            else "a number of too many digits",
            needed="numbers of at most 4,300 digits, and a few tables within one another",
        ) from None
    _refuse_misplaced(str(path), record, text)
    _check_service(str(path), record)
    comments = [found for found in _TEXTS_AND_COMMENTS.findall(text) if found]
    if any(_NOT_PRIVATE.search(comment) for comment in comments):
        raise _still_a_draft(str(path), "its line # NOT PRIVATE")
    if found := sum(_RARE.search(comment) is not None for comment in comments):
        raise _still_a_draft(str(path), f"values marked # RARE: {found}")
    columns = record.get("columns")
    for column in columns if isinstance(columns, list) else ():
        if isinstance(column, dict) and isinstance(column.get("table"), str):  # beside the file that names it
            column["table"] = str(Path(path).parent / column["table"])
    if isinstance(record.get("impossible"), str):  # a file of combinations lies beside it, too
        record["impossible"] = str(Path(path).parent / record["impossible"])
    return record


def check_entries(where: str, record: Mapping[Any, Any], known: Sequence[str]) -> None:
    """Refuses an entry that nobody reads: what is misspelt would go without it, unnoticed."""
    for name in record:
        if name not in known:
            close = nearest(name, known)
            raise DomainError(
                f"{where} has an entry that nobody reads" + (f": did you mean {close!r}?" if close else ""),
                given=shown(name),
                needed=", ".join(known),
                fix=f"{close} = ..." if close else None,
            )


# What may also be said of a whole file, in those that declare no domain.
_OF_ANY_FILE = (*DECLARES, "horizon", "sigma", "tables", "system")


def _refuse_misplaced(where: str, record: Record, text: str) -> None:
    """Refuses what is said of the whole file below a line in brackets: TOML takes it for a part of that table."""
    columns = [one for one in _listed(record.get("columns")) if isinstance(one, dict)]
    names = {
        name
        for one in columns
        for name in (one.get("name"), *_listed(one.get("names")), *_listed(one.get("levels")))
    }
    places: list[tuple[str, object, Callable[[str, object], bool]]] = [
        (f"[{table}]", record.get(table), lambda name, value: True) for table in ("unit", "service", "system")
    ]
    if isinstance(tables := record.get("tables"), dict):  # which may have any name, and have data
        entries = [("[tables]", tables), *((f"[tables.{name}]", one) for name, one in tables.items())]
        places += [
            (place, one, lambda name, value: name in ("unit", "ledger") and "data" not in _table(value))
            for place, one in entries
        ]
    if columns:
        totals = _table(record.get("known")).items()
        by_name: list[tuple[str, object]] = [
            *((f"[{table}]", record.get(table)) for table in ("labels", "sums", "known")),
            *(("[[impossible]]", one) for one in _listed(record.get("impossible"))),
        ]
        places += [(place, table, lambda name, value: name not in names) for place, table in by_name]
        places += [
            (f"[known.{name}]", one, lambda name, value: not isinstance(value, int)) for name, one in totals
        ]
    for place, table, is_misplaced in places:
        for name, value in _table(table).items():
            if name == "columns" and not any(_table(one) for one in _listed(value)):
                continue  # a word that is misspelt
            if name in _OF_ANY_FILE and is_misplaced(name, value):
                first = re.search(r"^[ \t]*(\[.*\])", text, re.MULTILINE)
                raise DomainError(
                    f"{where}: {place} holds {name}, which is said of the whole file",
                    given=f"{name} after {place}: TOML takes it for a part of that table",
                    needed=f"{name} above the first line in brackets, [unit] included",
                    fix=Lines(f"{name} = {_as_toml(value)}\n\n{plain(first[1]) if first else place}"),
                    argument=name,
                )


def _check_service(where: str, record: Record) -> None:
    """[service] is read by a service alone: what is wrong with it is said to whoever reads the file."""
    served = record.get("service", {})
    if not isinstance(served, dict):
        raise DomainError(
            f"{where}: service is not understood",
            given=shown(served),
            needed="a table",
            fix=Lines("[service]\nrows = 200_000"),
        )
    check_entries(f"{where}: [service]", served, SERVED)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _still_a_draft(where: str, given: str) -> DomainError:
    return DomainError(
        f"{where} is still a draft, made by looking at the data",
        given=given,
        needed="bounds and values that are known without the data: they are published with every release",
        fix="edit it; delete each mark once what it stands at is known, and draft = true at the end",
    )
