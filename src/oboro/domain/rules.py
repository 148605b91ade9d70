"""What is known of records without looking at them, beyond the values of each column: combinations that cannot occur, totals, sums.

    [[impossible]]           # in the file of a domain: no record meets all of these conditions at once
    work = "retired"
    age = "..29"

    [known.sex]              # how many records there are with this value, public from elsewhere
    f = 2700

    [sums]                   # this column is the sum of those
    income = ["wages", "rent"]

A condition names a value, a list of values, or of a number or date a range "LOW..HIGH" with both ends, where either may be left out. What is missing meets
no condition. All of it is public: it goes out with every plan, and nothing here is read off data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from oboro.arrays import Table
from oboro.domain.columns import Category, Column, Date, Integer, Real
from oboro.domain.places import place_of, places_of
from oboro.domain.spellings import (
    COLUMN,
    HIGH,
    LOW,
    VALUE,
    Span,
    meant_column,
    meant_columns,
    meant_count,
    meant_spans,
    meant_value,
    spelt,
)
from oboro.domain.texts import texts_of
from oboro.errors import DomainError, InputError, declaration, setting, told
from oboro.exact import rational, show
from oboro.files import reads
from oboro.kinds import nearest, shown
from oboro.language import Lines, plain

Range = tuple[int, int]  # codes [start, stop)
Condition = tuple[tuple[str, tuple[Range, ...]], ...]
RULES = ("impossible", "known", "sums")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rules:
    """Conditions and totals by code, columns by name: as `rules_of` reads them."""

    impossible: tuple[Condition, ...] = ()
    known: tuple[
        tuple[str, tuple[tuple[int, int], ...]], ...
    ] = ()  # column, and (code, records) of its values
    sums: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def only(self, names: Sequence[str]) -> Rules:
        """Those that speak of these columns alone. What names a column that is not there cannot be broken."""
        kept = set(names)
        return Rules(
            tuple(one for one in self.impossible if {name for name, _ in one} <= kept),
            tuple(one for one in self.known if one[0] in kept),
            tuple((total, parts) for total, parts in self.sums if {total, *parts} <= kept),
        )

    def to_dict(self, columns: Mapping[str, Column]) -> dict[str, object]:
        """As a file declares them; what is not declared is left out."""
        record: dict[str, object] = {}
        if self.impossible:
            record["impossible"] = [
                {name: _written(columns[name], ranges) for name, ranges in one} for one in self.impossible
            ]
        if self.known:
            record["known"] = {
                name: {str(columns[name].value(code)): count for code, count in totals}
                for name, totals in self.known
            }
        if self.sums:
            record["sums"] = {total: list(parts) for total, parts in self.sums}
        return record


class Rule(str):
    """A rule as Python has it; `toml` is the same as lines of a file, `entry` what of the rule is changed: a column, and what is said of it."""

    __slots__ = ("entry", "toml")
    toml: Lines
    entry: tuple[str, object] | None

    def __new__(cls, text: str, toml: str, entry: tuple[str, object] | None = None) -> Rule:
        made = super().__new__(cls, text)
        made.toml = Lines(toml)
        made.entry = entry
        return made

    def among(self, argument: str, rules: Any, one: Any) -> Rule:
        """In place of what is said of its column in `one`, among all rules: whoever does a fix loses none of them."""
        if self.entry is None or not isinstance(one, Mapping):
            return self
        name, value = self.entry
        mended = {key: value if key == name else said for key, said in one.items()}
        every = mended if rules is one else [mended if other is one else other for other in rules]
        if argument == "impossible" and rules is one:
            every = [mended]
        text = setting(**{argument: every})
        if len(text) > _LONGEST and argument == "impossible":
            text = setting(impossible=[mended, ...])
        return Rule(text if len(text) <= _LONGEST else str(self), self.toml, self.entry)


_LONGEST = 400  # characters of a fix


def _key(name: object) -> str:
    """A name as TOML has it: in quotes, unless it is plain."""
    text = plain(str(name))
    return text if text.isascii() and text.replace("_", "").replace("-", "").isalnum() else _text(text)


def _text(value: object) -> str:
    """A value as TOML has it; NUMBER for one that only the user knows."""
    return "NUMBER" if value is ... else plain(json.dumps(value, ensure_ascii=False))


def _never(name: str, value: object) -> Rule:
    return Rule(setting(impossible=[{name: value}]), f"{_key(name)} = {_text(value)}", (name, value))


def _total(name: str, value: object, count: object, beside: Mapping[Any, Any] | None = None) -> Rule:
    """`beside`: all totals of the column, with this one in its place."""
    every = {value: count} if beside is None else dict(beside)
    lines = f"[known.{_key(name)}]\n{_key(value)} = {_text(count)}"
    return Rule(setting(known={name: every}), lines, (name, every))


def _adds_up(total: str, parts: Sequence[str]) -> Rule:
    lines = f"[sums]\n{_key(total)} = {_text(list(parts))}"
    return Rule(setting(sums={total: list(parts)}), lines, (total, list(parts)))


def rules_of(columns: Sequence[Column], impossible: Any = None, known: Any = None, sums: Any = None) -> Rules:
    """The rules that were declared, or refused where they cannot hold together."""
    by_name = {column.name: column for column in columns}
    conditions = _conditions(impossible, list(by_name))
    places = {name: _places(by_name[name]) for name in {n for one in conditions for n in one} & {*by_name}}
    listed = impossible if isinstance(impossible, Mapping | list | tuple) else None
    found = Rules(
        tuple(_mended("impossible", listed, one, _condition, one, by_name, places) for one in conditions),
        tuple(_mended("known", known, known, _totals, *one, by_name) for one in _mapping("known", known)),
        tuple(_mended("sums", sums, sums, _sum, *one, by_name) for one in _mapping("sums", sums)),
    )
    totals = [total for total, _ in found.sums]
    used = [name for one in found.impossible for name, _ in one] + [name for name, _ in found.known]
    used += [name for _, parts in found.sums for name in parts]
    for name in totals:
        if totals.count(name) > 1 or name in used:
            raise DomainError(
                f"column {name!r} is the sum of others, and nothing else can be said of it",
                given=told(sums=f"{{{name!r}: ...}}") + ", and another rule that names it",
                needed="rules for the columns that it is the sum of",
                argument="sums",
            )
    return found


def _mended(argument: str, rules: object, one: object, read: Callable[..., T], *given: Any) -> T:
    """What `read` makes of one rule; its fix in Python is the whole argument, with what is wrong mended."""
    try:
        return read(*given)
    except DomainError as error:
        if rules is not None and isinstance(error.fix, Rule):
            error.fix = error.fix.among(argument, rules, one)
        raise


# How each is written, with placeholders: an example with columns that may be there would be a rule of its own.
_EXAMPLES = {
    "impossible": (f'impossible=[{{"{COLUMN}": "{LOW}..{HIGH}"}}]', f'[[impossible]]\n{COLUMN} = "{LOW}..{HIGH}"'),
    "known": (f'known={{"{COLUMN}": {{"{VALUE}": ...}}}}', f"[known.{COLUMN}]\n{VALUE} = NUMBER"),
    "sums": (f'sums={{"TOTAL": ["{COLUMN}", "{COLUMN}"]}}', f'[sums]\nTOTAL = ["{COLUMN}", "{COLUMN}"]'),
}  # fmt: skip


def _mapping(name: str, given: Any) -> list[tuple[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given):
        raise DomainError(
            f"{name} is not understood",
            given=told(**{name: shown(given)}),
            needed="what is said of each column, by its name",
            fix=Rule(*_EXAMPLES[name]),
            argument=name,
        )
    return list(given.items())


def _conditions(given: Any, names: Sequence[str]) -> list[Mapping[str, object]]:
    """A list of conditions; or a table, each row of which is one: an Arrow table, or the path of a CSV file."""
    if given is None:
        return []
    source = str(given) if isinstance(given, str | Path) else type(given).__name__
    if isinstance(given, str | Path):
        given = _table(Path(given), names)
    is_table = hasattr(given, "to_pylist")
    rows, named = _rows(given, source) if is_table else (given, [])
    rows = [rows] if isinstance(rows, Mapping) else rows
    rows = None if len(set(named)) < len(named) else rows  # of two columns of one name a row would keep one
    if not isinstance(rows, list | tuple) or not all(isinstance(one, Mapping) and one for one in rows):
        raise DomainError(
            "impossible is not understood",
            given=told(impossible=shown(given)),
            needed="conditions that no record meets all at once, by column",
            fix=Rule(*_EXAMPLES["impossible"]),
            argument="impossible",
        )
    if is_table and not rows:  # an empty list says that there is no rule; a table that lost its rows does not
        raise DomainError(
            "the table of combinations has no rows",
            given=told(impossible=source),
            needed="a row for each combination that cannot occur",
            fix="leave impossible out, if every combination can occur",
            argument="impossible",
        )
    return list(rows)


def _rows(table: Table, source: str) -> tuple[Any, list[str]]:
    """The rows of an Arrow table, and the names of its columns. Its texts are not looked at before."""
    try:
        return table.to_pylist(), list(getattr(table, "column_names", ()))
    except (ValueError, OverflowError):
        raise DomainError(
            "the table of combinations cannot be read",
            given=told(impossible=source),
            needed="texts in UTF-8, numbers and days",
            argument="impossible",
        ) from None


def _table(path: Path, names: Sequence[str]) -> Table:
    reads(path)
    try:
        return texts_of(path, "impossible", names)
    except InputError:
        raise
    except FileNotFoundError:
        raise DomainError(
            f"no such file: {path}",
            given=told(impossible=str(path)),
            needed="a CSV file with a column for each column that it speaks of, and a row for each combination",
            fix="the path of a CSV file",
            argument="impossible",
        ) from None
    except (OSError, ValueError):
        raise DomainError(
            f"{path} holds no combinations",
            given=told(impossible=str(path)),
            needed="a CSV file with a column for each column that it speaks of, and a row for each combination",
            argument="impossible",
        ) from None


def _known_column(name: object, columns: Mapping[str, Column], argument: str) -> Column:
    if not isinstance(name, str) or name not in columns:
        close = nearest(name, columns)
        raise DomainError(
            f"column {shown(name)} is not declared" + (f": did you mean {close!r}?" if close else ""),
            given=told(**{argument: shown(name)}),
            needed=f"columns of the domain: {', '.join(columns)}",
            fix=Rule(f'"{close}"', _key(close)) if close else None,  # another column is another rule
            argument=argument,
        )
    return columns[name]


def _condition(
    given: Mapping[str, object], columns: Mapping[str, Column], places: Mapping[str, Mapping[str, int]]
) -> Condition:
    found = {}
    for name, value in given.items():
        column = _known_column(name, columns, "impossible")
        if not isinstance(column, Integer | Real | Category | Date):
            raise _not_understood(column, value, [value])
        found[name] = ranges_of(column, value, places[name])
    return tuple((name, found[name]) for name in columns if name in found)  # in the order of the domain


def _places(column: Column) -> dict[str, int]:
    """The code of each value of a column of categories, by its text: looked up once for all conditions."""
    if not isinstance(column, Category):
        return {}
    return {str(value): code for code, value in reversed(list(enumerate(column.values)))}


_MISSING = ("None", "nan", "NaN", "NaT", "<NA>")  # as what is no text, and missing, writes itself


def _code(value: object, places: Mapping[str, int]) -> int | None:
    """The code of a category, by its text. What is missing has none, also where a category is called None or nan."""
    try:
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    except ValueError:  # a whole number of more digits than Python writes
        return None
    if isinstance(value, bool) or (not isinstance(value, str) and text in _MISSING):
        return None
    return places.get(text)


def ranges_of(column: Column, value: object, places: Mapping[str, int]) -> tuple[Range, ...]:
    """The codes that a condition on one column means, as ranges that neither touch nor overlap."""
    if isinstance(value, range):
        return _ranges_by_steps(column, value, places)
    pair = isinstance(value, tuple) and not isinstance(column, Category)
    values = [value] if pair or not isinstance(value, list | set | tuple) else list(value)
    found: list[Range] = []
    for start, stop in sorted(_range(column, one, places, values) for one in values):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    if not found:
        raise _not_understood(column, value, [value])
    return tuple(found)


def _ranges_by_steps(column: Column, value: range, places: Mapping[str, int]) -> tuple[Range, ...]:
    """Of a range of Python's, however long: from step to step it is one range of codes."""
    if isinstance(column, Category):  # one more than there can be is none of them
        return ranges_of(column, list(value[: column.size + 1]), places)
    codes = places_of(column, value, "impossible")
    if codes is None:
        raise _not_understood(column, value, [value])
    if codes.step == 1:
        return ((codes[0], codes[-1] + 1),)
    return tuple((code, code + 1) for code in codes)


def _range(column: Column, value: object, places: Mapping[str, int], beside: Sequence[object]) -> Range:
    if isinstance(column, Category):
        code = _code(value, places)
        if code is None:
            raise _not_understood(column, value, beside)
        return code, code + 1
    if type(value) is int and isinstance(column, Integer):  # there may be many of them
        code, rest = divmod(value - column.low, column.step)
        if rest == 0 and 0 <= code < column.size:
            return code, code + 1
    if isinstance(value, tuple):
        ends: Sequence[object] = value
    elif isinstance(value, str) and value.count("..") == 1:
        ends = [end.strip() or None for end in value.split("..")]
    else:
        ends = (value, value) if value is not None else ()
    if len(ends) != 2:
        raise _not_understood(column, value, beside)
    low, high = (
        Fraction(edge) if end is None else place_of(column, end)
        for end, edge in zip(ends, (0, column.size - 1), strict=True)
    )
    if low is None or high is None:
        raise _not_understood(column, value, beside)
    start, stop = math.ceil(low), math.floor(high) + 1
    if start >= stop or start < 0 or stop > column.size:
        raise _not_understood(column, value, beside)
    return start, stop


def _grid(column: Column) -> tuple[Any, Any, Any]:
    if isinstance(column, Date):
        return column.first.toordinal(), column.last.toordinal(), rational("step", 1)
    assert isinstance(column, Integer | Real)
    return rational("low", column.low), rational("high", column.high), rational("step", column.step)


_MOST_SHOWN = 8


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:_MOST_SHOWN])) + (", ..." if len(values) > _MOST_SHOWN else "")


def _not_understood(column: Column, value: object, beside: Sequence[object]) -> DomainError:
    """`beside`: all values of the condition, which the fix keeps."""
    fix: Rule | None = None
    needed = "integer, real, category or date"
    said = [_meant(column, one) for one in (beside if len(beside) <= _MOST_KEPT else [value])]
    meant = [one for several in said for one in several]
    if isinstance(column, Category):
        needed = f"values of the domain: {_listed(column.values)}; what is missing meets no condition"
        fix = _never(column.name, meant[0] if len(meant) == 1 else meant) if all(said) else None
    elif isinstance(column, Integer | Real | Date):
        low, high = (_exactly(column, code) for code in (0, column.size - 1))
        needed = f"values, or a range LOW..HIGH, from {low} to {high}; what is missing meets no condition"
        if not isinstance(column, Date):
            step = show(Fraction(column.step))
            needed = f"values, or a range LOW..HIGH, from {low} to {high} in steps of {step}; what is missing meets no condition"
        fix = _never(column.name, meant[0] if len(meant) == 1 else meant)
    return DomainError(
        f"column {column.name!r} has no such value",
        given=told(impossible=f"{{{column.name!r}: {shown(value)}}}"),
        needed=needed,
        fix=fix,
        argument="impossible",
    )


_MOST_KEPT = 64  # values of a condition


def _meant(column: Column, value: object) -> list[object]:
    """What a value or range may have said, as it is written; of numbers and days that cannot be read how they are written.

    Of a category nothing, if no value is near: a rule about any other would be another rule.
    """
    if isinstance(column, Category):
        texts = [str(one) for one in column.values]
        several = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
        if len(several) > 1 and all(part in texts for part in several):
            return [*several]
        meant = meant_value(column, value)
        return [] if meant is None else [meant]
    spans = meant_spans(column, value)
    return [f"{LOW}..{HIGH}"] if spans is None else [_spanned(column, span) for span in spans]


def _spanned(column: Column, span: Span) -> str:
    low, high = ("" if code is None else _exactly(column, code) for code in span)
    return low if low and low == high else f"{low}..{high}"


def _written(column: Column, ranges: Iterable[Range]) -> object:
    if isinstance(column, Category):
        return [column.value(code) for start, stop in ranges for code in range(start, stop)]
    return [f"{_exactly(column, start)}..{_exactly(column, stop - 1)}" for start, stop in ranges]


def _exactly(column: Column, code: int) -> str:
    """The value of a code as it is read back: a third is 1/3, not the number nearest to it."""
    if isinstance(column, Date):
        return str(column.value(code))
    lowest, _, step = _grid(column)
    return show(lowest + code * step)


_MOST = 2**38  # records of one value


def _totals(name: str, given: Any, columns: Mapping[str, Column]) -> tuple[str, tuple[tuple[int, int], ...]]:
    column = _known_column(name, columns, "known")
    if not isinstance(column, Category):
        others = [one for one in columns.values() if isinstance(one, Category)]
        raise _no_totals(
            f"the known totals of {name!r} cannot be kept: it is no column of categories",
            {name: given},
            f"a column of categories: {_listed([one.name for one in others])}" if others else "a column of categories",
            Rule(*_EXAMPLES["known"]) if others else None,
        )  # fmt: skip
    if not isinstance(given, Mapping) or not given:
        needed = "for values of the column, how many records there are"
        form = _total(name, VALUE, ...)
        raise _no_totals(f"the known totals of {name!r} are not understood", {name: given}, needed, form)
    places, counts = _places(column), dict[int, int]()
    for value, count in given.items():
        code = _code(value, places)
        near = value if code is not None else meant_value(column, value)
        if type(count) is not int or not 0 <= count < _MOST:
            raise _no_totals(
                f"the known totals of {name!r} hold one that is no number of records",
                {name: {value: count}},
                f"whole numbers from 0 to {_MOST - 1:,}",
                None if near is None else _total_in(column, given, value, near),
            )
        if code is None:
            raise _no_totals(
                f"the known totals of {name!r} name a value that it does not have",
                {name: {value: count}},
                f"values of the domain: {_listed(column.values)}",
                None if near is None else _total_in(column, given, value, near),
            )
        if code in counts:
            raise _no_totals(
                f"the known totals of {name!r} name a value twice",
                {name: given},
                "each value once",
                _total(name, value, count if counts[code] == count else ...),
            )
        counts[code] = count
    if not any(counts.values()):
        form = _total(name, next(iter(given)), ..., dict.fromkeys(given, ...))
        raise _no_totals(f"the known totals of {name!r} are all 0", {name: given}, "a total above 0", form)
    return name, tuple(sorted(counts.items()))


def _total_in(column: Category, given: Mapping[Any, Any], value: object, near: object) -> Rule:
    """The totals of a column with that of one value mended, which was mistyped or is no number of records."""
    meant = meant_count(given[value])
    count: object = ... if meant is None or meant >= _MOST else meant
    every = {near if key is value else key: count if key is value else one for key, one in given.items()}
    return _total(column.name, near, count, every)


def _no_totals(message: str, given: object, needed: str, fix: Rule | None) -> DomainError:
    return DomainError(message, given=told(known=shown(given)), needed=needed, fix=fix, argument="known")


def _sum(total: str, given: Any, columns: Mapping[str, Column]) -> tuple[str, tuple[str, ...]]:
    names = (total, *given) if isinstance(given, list | tuple) else ()
    texts = [one for one in names if isinstance(one, str)]
    if len(names) < 3 or len(set(texts)) < len(texts):
        raise DomainError(
            f"it is not understood which columns {total!r} is the sum of",
            given=told(sums=shown({total: given})),
            needed="two columns or more, each once",
            fix=_addable(total, given, columns),
            argument="sums",
        )
    whole, *parts = (_known_column(name, columns, "sums") for name in names)
    why = _why_no_sum(whole, parts)
    numbers = all(isinstance(column, Integer | Real) for column in (whole, *parts))
    if why:
        raise DomainError(
            f"column {total!r} cannot be the sum of {', '.join(map(str, given))}: {why}",
            given=told(sums=shown({total: list(given)})),
            needed="every sum of possible values is a possible value of the total",
            fix=_wide_enough(whole, parts) if numbers else _addable(total, given, columns),
            argument="sums",
        )
    return total, tuple(given)


def _addable(total: str, given: Any, columns: Mapping[str, Column]) -> Rule:
    """The columns that are named, in their order; COLUMN for each that cannot be added: any other would be another sum."""
    numbers = [one.name for one in columns.values() if isinstance(one, Integer | Real) and one.name != total]
    if isinstance(given, str):
        given = spelt(given).removeprefix(spelt(total)).lstrip().removeprefix("=")
        named = meant_columns(given, [*columns])
    else:
        several = given if isinstance(given, list | tuple) else []
        named = [meant_column(one, [*columns]) if isinstance(one, str) else None for one in several]
    parts: list[str] = []
    for name in named[:_MOST_KEPT]:
        parts.append(name if name in numbers and name not in parts else COLUMN)
    return _adds_up(total, [*parts, *[COLUMN] * (2 - len(parts))])


def _wide_enough(whole: Column, parts: Sequence[Column]) -> Rule | None:
    """The total as it must be declared to hold every sum; as lines of a file, what changes of it."""
    if not isinstance(whole, Integer | Real) or not all(isinstance(one, Integer | Real) for one in parts):
        return None
    lowest, highest, step = _grid(whole)
    low, high, steps = _reach(parts)
    step = _common(step, low - lowest, *steps)
    need: dict[str, Any] = {
        "low": lowest - max(0, math.ceil((lowest - low) / step)) * step,
        "high": highest + max(0, math.ceil((high - highest) / step)) * step,
        "step": step,
    }
    written = {name: int(one) if one.denominator == 1 else show(one) for name, one in need.items()}
    changed = [name for name, before in zip(need, _grid(whole), strict=True) if need[name] != before]
    if not changed:
        return None
    missing = {} if whole.missing is None else {"missing": whole.missing}
    fractions = any(one.denominator != 1 for one in need.values())
    kind = "real" if fractions else whole.kind
    lines = [f"{name} = {_text(written[name])}" for name in changed]
    return Rule(
        declaration(kind, name=whole.name, **written, **missing),
        "\n".join([*([] if kind == whole.kind else [f'kind = "{kind}"']), *lines]),
    )


def _common(*numbers: Fraction) -> Fraction:
    """The largest step of which all these are multiples."""
    over = math.lcm(*(number.denominator for number in numbers))
    return Fraction(math.gcd(*(int(number * over) for number in numbers)), over)


def _reach(parts: Sequence[Column]) -> tuple[Any, Any, list[Any]]:
    """The lowest and the highest sum of columns, and their steps."""
    grids = [_grid(part) for part in parts]
    low = sum(one[0] for one in grids)
    high = sum(one[0] + (part.size - 1) * one[2] for one, part in zip(grids, parts, strict=True))
    return low, high, [one[2] for one in grids]


def _why_no_sum(whole: Column, parts: Sequence[Column]) -> str | None:
    if not all(isinstance(column, Integer | Real) for column in (whole, *parts)):
        return "not all of them are numbers"
    lowest, highest, step = _grid(whole)
    low, high, steps = _reach(parts)
    if low < lowest or high > highest:
        return f"their sums go from {show(low)} to {show(high)}, its values from {show(lowest)} to {show(highest)}"
    if any(
        ((one - base) / step).denominator != 1
        for one, base in ((low, lowest), *((of_part, 0) for of_part in steps))
    ):
        return "their steps lead between its steps"
    if whole.missing_code is not None and any(part.missing_code is None for part in parts):
        return f"{whole.name} declares what stands in for missing values, and not all of its parts do"
    return None
