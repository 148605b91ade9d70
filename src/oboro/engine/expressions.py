"""Values to codes on the public grid, as columns of Spark: the same rules as codes.py has for DuckDB.

Only expressions that are total, whatever a session's settings for ANSI are: `try_cast` gives a null, a text is admitted by the
grammar before it is cast, and whole numbers are divided as whole numbers. Columns are built, never SQL texts: in those '\\f' is f.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np

from oboro.domain import Category, Column, Date, Integer, Real
from oboro.domain.grammar import BLANKS, DAY, ENDLESS, PLAIN, WHOLE
from oboro.engine.protocol import WORD, Condition, Field, Runs, Whole
from oboro.errors import DomainError

Frame = Any  # pyspark's DataFrame, classic or of Connect
Expression = Any  # pyspark's Column

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
TEXTS = ("string", "char", "varchar")
INSTANTS = ("date", "timestamp", "timestamp_ntz")


def functions_for(frame: Frame) -> Any:
    """pyspark.sql.functions, of the classic API or of Connect."""
    if ".connect." in type(frame).__module__:
        from pyspark.sql.connect import functions
    else:
        from pyspark.sql import functions  # type: ignore[no-redef,unused-ignore]
    return functions


@dataclass(frozen=True, slots=True)
class Codes:
    """Values to codes, by the rules of domain/columns.py: the same as codes.py has for DuckDB."""

    functions: Any
    types: Mapping[str, str]

    def field(self, name: str) -> Expression:
        return self.functions.col("`" + name.replace("`", "``") + "`")

    def code(self, column: Column) -> Expression:
        """The code of a column's value; null where the record is left out."""
        code = self.bare(column)
        if column.missing_code is not None:
            code = self.functions.coalesce(code, self.whole(column.missing_code))
        return code

    def bare(self, column: Column) -> Expression:
        """The same without what stands in for a missing value."""
        f = self.functions
        if isinstance(column, Category):
            return self._category(column)
        if isinstance(column, Date):
            days = self.since(column)
            return (
                f.when(days < 0, self.whole(0))
                .when(days > column.size - 1, self.whole(column.size - 1))
                .otherwise(days)
            )
        if isinstance(column, Integer):
            return self._integer(column)
        if isinstance(column, Real):
            low, high, step = float(column.low), float(column.high), float(column.step)
            return self._within(self.number(column.name), low, high, step, column.size)
        raise DomainError(
            f"column {column.name!r} cannot be read from rows here",
            given=column.kind,
            needed="integer, real, category or date",
        )

    def present(self, one: Field) -> Expression | None:
        """Whether a value has a code, as cheaply as its type allows; None where every one has.

        Spark evaluates a filter on a code and the code itself one after the other: what the filter can know from the
        value as it stands need not be computed twice.
        """
        if isinstance(one, Whole):
            return self.place(one).isNotNull()
        if one.missing_code is not None:
            return None
        field, kind = self.field(one.name), self.kind(one.name)
        if isinstance(one, Integer | Real) and kind in FLOATS:
            return field.isNotNull() & ~self.functions.isnan(field)
        sure = INSTANTS if isinstance(one, Date) else (*INTEGERS, "decimal", "boolean")
        if not isinstance(one, Category) and kind in sure:
            return field.isNotNull()
        return self.bare(one).isNotNull()

    def whole(self, number: int) -> Expression:
        return self.functions.lit(number).cast("bigint")

    def wide(self, number: int) -> Expression:
        return self.functions.lit(Decimal(number)).cast("decimal(38,0)")

    def kind(self, name: str) -> str:
        return self.types[name].partition("(")[0].partition(" ")[0].lower()

    def text(self, name: str) -> Expression:
        return self.field(name).cast("string")

    def number(self, name: str) -> Expression:
        """The double nearest to a number; null, or not a number, for what is none."""
        f, kind = self.functions, self.kind(name)
        if kind in (*INTEGERS, *FLOATS, "decimal", "boolean"):
            return self.field(name).cast("double")
        if kind not in TEXTS:
            return f.lit(None).cast("double")
        plain = f.regexp_extract(self.text(name), rf"^{BLANKS}({PLAIN}){BLANKS}\z", 1)
        endless = f.lower(f.regexp_extract(self.text(name), rf"^{BLANKS}({ENDLESS}){BLANKS}\z", 1))
        return (
            f.when(plain != "", plain.try_cast("double"))
            .when(endless.isNull() | (endless == ""), f.lit(None).cast("double"))
            .when(endless.startswith("-"), f.lit(float("-inf")))
            .otherwise(f.lit(float("inf")))
        )

    def digits(self, name: str) -> Expression:
        """A whole number that is written in digits, of up to 38 of them; null for what is not."""
        return self.functions.regexp_extract(self.text(name), rf"^{BLANKS}{WHOLE}{BLANKS}\z", 1).try_cast(
            "decimal(38,0)"
        )

    def day(self, name: str) -> Expression:
        f, kind = self.functions, self.kind(name)
        if kind in INSTANTS:
            return self.field(name).cast("date")
        if kind not in TEXTS:
            return f.lit(None).cast("date")
        return f.regexp_extract(self.text(name), rf"^{BLANKS}((?!0000){DAY})", 1).try_cast("date")

    def since(self, column: Date) -> Expression:
        """How many days after the first of the column; negative before it."""
        epoch = (column.first - type(column.first)(1970, 1, 1)).days
        return self.functions.unix_date(self.day(column.name)).cast("bigint") - self.whole(epoch)

    def _within(self, number: Expression, low: float, high: float, step: float, size: int) -> Expression:
        """Clamped before anything is computed. In between it is not negative, so that a cast, which cuts off, is the floor."""
        f = self.functions
        step_of = ((number - f.lit(low)) / f.lit(step) + f.lit(0.5)).try_cast("bigint")
        return (
            f.when(number.isNull() | f.isnan(number), f.lit(None).cast("bigint"))
            .when(number <= low, self.whole(0))
            .when(number >= high, self.whole(size - 1))
            .otherwise(f.least(f.greatest(step_of, self.whole(0)), self.whole(size - 1)))
        )

    def _integer(self, column: Integer) -> Expression:
        f, kind = self.functions, self.kind(column.name)
        low, high, step, last = column.low, column.high, column.step, column.size - 1
        if kind in INTEGERS and max(abs(low), abs(high)) < 2**61:
            number = self.field(column.name).cast("bigint")
            clamped = f.least(f.greatest(number, self.whole(low)), self.whole(high))  # both skip a null
            moved = f.when(number.isNotNull(), clamped - self.whole(low))
            return (
                moved
                if step == 1
                else f.call_function("div", moved + self.whole(step // 2), self.whole(step))
            )
        number = self.number(column.name)
        if column.exact_in_doubles:
            return self._within(number, float(low), float(high), float(step), column.size)
        exact = number.try_cast("bigint").cast("decimal(38,0)")
        if kind in INTEGERS:
            exact = self.field(column.name).cast("decimal(38,0)")
        elif kind not in FLOATS:
            exact = f.coalesce(self.digits(column.name), exact)
        near = f.abs(number) < float(2**52)
        doubled = f.floor(f.when(near, number * 2.0)).cast("decimal(20,0)")
        halves = f.call_function("div", doubled - self.wide(2 * low) + self.wide(step), self.wide(2 * step))
        clamped = (
            f.when(exact < self.wide(low), self.wide(low))
            .when(exact > self.wide(high), self.wide(high))
            .otherwise(exact)
        )
        # within the bounds 21 digits are enough, and sums of so many do not lose any
        inside = f.call_function(
            "div",
            clamped.cast("decimal(21,0)")
            - self.wide(low).cast("decimal(21,0)")
            + self.wide(step // 2).cast("decimal(21,0)"),
            self.wide(step).cast("decimal(21,0)"),
        )
        return (
            f.when(number.isNull() | f.isnan(number), f.lit(None).cast("bigint"))
            .when(near, f.least(f.greatest(halves.cast("bigint"), self.whole(0)), self.whole(last)))
            .when(exact.isNull(), f.when(number < 0, self.whole(0)).otherwise(self.whole(last)))
            .otherwise(inside.cast("bigint"))
        )

    def _category(self, column: Category) -> Expression:
        kind, name = self.kind(column.name), column.name
        if isinstance(column.values[0], int):
            return self._whole_label(column)
        if (
            kind in FLOATS
        ):  # by its value, if a label is how it is written: texts of doubles differ between engines
            width = np.float32 if kind == "float" else np.float64
            number, labels = self.number(name), dict(enumerate(map(str, column.values)))
            zeros = {
                code: text for code, text in labels.items() if text in ("0.0", "-0.0")
            }  # equal, but two texts
            others = {
                code: float(width(text))
                for code, text in labels.items()
                if code not in zeros and _is_written(text, width)
            }
            zero = self._cases(number.cast("string"), zeros)
            return self.functions.when(number == 0.0, zero).otherwise(self._cases(number, others))
        return self._cases(self.text(name), dict(enumerate(map(str, column.values))))

    def _whole_label(self, column: Category) -> Expression:
        f, kind = self.functions, self.kind(column.name)
        labels = {code: value for code, value in enumerate(column.values) if isinstance(value, int)}
        wide = {code: Decimal(value) for code, value in labels.items() if abs(value) < 10**38}
        if kind in INTEGERS:
            return self._cases(self.field(column.name).cast("decimal(38,0)"), wide)
        number = self.number(column.name)
        small = self._cases(
            number, {code: float(value) for code, value in labels.items() if abs(value) < 2**53}
        )
        if column.exact_in_doubles:
            return small
        exact = (
            number.try_cast("bigint").cast("decimal(38,0)") if kind in FLOATS else self.digits(column.name)
        )
        return f.when(f.abs(number) < float(2**53), small).otherwise(self._cases(exact, wide))

    def _cases(self, value: Expression, labels: Mapping[int, object]) -> Expression:
        f = self.functions
        found = f.lit(None).cast("bigint")
        if not labels:
            return found
        chain = f
        for code, label in labels.items():
            wanted = f.lit(label).cast("decimal(38,0)") if isinstance(label, Decimal) else f.lit(label)
            chain = chain.when(value == wanted, self.whole(code))
        return chain.otherwise(found)

    def place(self, one: Field) -> Expression:
        """A whole number below the field's size; null where there is none."""
        f = self.functions
        if not isinstance(one, Whole):
            return self.code(one)
        if self.kind(one.name) in INTEGERS:
            number = self.field(one.name).cast("bigint")
        else:
            double = self.number(one.name)
            cut = f.when(f.abs(double) < float(2**53), double).try_cast("bigint")
            number = f.when(cut.cast("double") == double, cut)
        return f.when((number >= 0) & (number < one.size), number)

    def count(self, name: str, most: int) -> Expression:
        """A count, at most `most`; 0 for what is none."""
        f, kind = self.functions, self.kind(name)
        zero = self.whole(0)
        if kind in INTEGERS:
            return f.least(f.greatest(self.field(name).cast("bigint"), zero), self.whole(most))
        number = self.number(name)
        most = min(most, 2**24 if kind == "float" else most if kind == "decimal" else 2**53)
        near = f.abs(number) < float(2**52)
        nearest = f.when(near, f.ceil(f.when(near, number - f.lit(0.5)))).otherwise(number.try_cast("bigint"))
        if kind not in FLOATS:
            exact = (
                self.field(name)
                if kind == "decimal"
                else f.regexp_extract(self.text(name), rf"^{BLANKS}({PLAIN}){BLANKS}\z", 1)
            )
            exact = exact.try_cast("decimal(38,18)")
            below = f.floor(exact).cast("decimal(20,0)")
            half = (below + f.lit(Decimal("0.5"))).try_cast("decimal(38,18)")
            up = f.when(exact > half, self.whole(1)).otherwise(zero)
            nearest = f.coalesce(below.try_cast("bigint") + up, nearest)
        return (
            f.when(number.isNull() | f.isnan(number), zero)
            .when(number >= float(most), self.whole(most))
            .otherwise(f.greatest(nearest, zero))
        )

    def group(self, by: Sequence[Field]) -> Expression:
        group = self.whole(0)
        for one in by:
            group = group * self.whole(one.size) + self.place(one)
        return group

    def binned(self, code: Expression, runs: Runs) -> Expression:
        """The bin of a code."""
        if not runs:
            return code
        chain = self.functions.when(code.isNull(), self.functions.lit(None).cast("bigint"))
        for (_, place), (following, _) in pairwise(runs):
            chain = chain.when(code < self.whole(following), self.whole(place))
        return chain.otherwise(self.whole(runs[-1][1]))

    def holds(self, condition: Condition) -> Expression:
        """True for the rows that are meant; null or false for all others."""

        def test(column: Column, op: str, to: int) -> Expression:
            code, wanted = self.code(column), self.whole(to)
            if op == "null":
                return code.isNull()
            return {"=": code == wanted, "!=": code != wanted, "<": code < wanted, ">=": code >= wanted}[op]

        def join(word: str, parts: list[Expression]) -> Expression:
            found = ~parts[0] if word == "not" else parts[0]
            for part in parts[1:]:
                found = found & part if word == "and" else found | part
            return found

        found = condition.fold(test, join)
        for column in condition.needed:
            found = self.code(column).isNotNull() & found
        return found

    def person(self, name: str) -> Expression:
        """Whose a row is; null where it is nobody's."""
        f, kind = self.functions, self.kind(name)
        if kind in FLOATS:  # not a number is nobody; 0.0 and -0.0 are one person
            number = self.field(name).cast("double")
            return f.when(~f.isnan(number), number + f.lit(0.0))
        return self.field(name) if kind in (*INTEGERS, "decimal") else self.text(name)

    def word(self, name: str, person: Expression) -> Expression:
        """The word of a person, as protocol.word_of has it."""
        f, kind = self.functions, self.kind(name)
        if kind in FLOATS:
            near = (
                f.when(f.abs(person) < 2.0**40, person * 4096.0)
                .when(f.abs(person) < 2.0**62, person)
                .otherwise(f.lit(0.0))
            )
            return f.pmod(f.floor(near), self.whole(WORD))
        if kind in INTEGERS:
            return f.pmod(person.cast("bigint"), self.whole(WORD))
        if self.types[name].endswith(",0)"):
            return f.pmod(person, self.wide(WORD)).cast("bigint")
        digits = f.substring(f.md5(person.cast("string").cast("binary")), 1, 8)
        return f.conv(digits, 16, 10).cast("bigint").bitwiseAND(self.whole(WORD))


def _is_written(text: str, width: type) -> bool:
    """Whether a text is how DuckDB writes a double."""
    try:
        return str(float(text)) == text if width is np.float64 else str(np.float32(text)) == text
    except ValueError:
        return False
