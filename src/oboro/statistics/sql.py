"""Reads a statement of SQL: SELECT figures FROM a table WHERE ... GROUP BY ... HAVING ... ORDER BY ... LIMIT ...

sqlglot takes the text apart. Every node of what it finds, and every argument of each node, is then either known here or refused,
and what is known becomes questions (session.py): nothing of the text ever reaches an engine. What is missing from this
module cannot be asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from oboro.domain import Column, Domain
from oboro.errors import ParameterError
from oboro.exact import rational, show
from oboro.statistics.figures import Aggregate, Statement
from oboro.statistics.scope import Bins, even_bins
from oboro.statistics.session import Learning
from oboro.statistics.statement import (
    DEEPEST,
    Call,
    Constant,
    Expression,
    Group,
    Ordering,
    Output,
    encodable,
)
from oboro.statistics.where import Condition, Junction, Test, absent, compare, parse

if TYPE_CHECKING:
    from sqlglot.expressions import Expression as Node

LONGEST = 10_000  # signs of a statement
_NESTED = 100  # open brackets
_MOST_PARTS = 1000  # of what aliases stand for: each may stand for two of the one before
_FUNCTIONS = "COUNT, SUM, AVG, VAR_POP, STDDEV_POP, COVAR_POP, CORR, MEDIAN, QUANTILE_CONT, PERCENTILE_CONT, MODE, APPROX_TOP_K"
Find = Callable[
    [str, "str | None", "str | None"], Learning[Any]
]  # by table, joined table, and the key of the join


# -- reading -------------------------------------------------------------------------------------------------------------------------


def read_statement(text: str, find: Find) -> Statement:
    """What a text asks, or an error that says what can be asked instead. `find` knows the tables."""
    return _Reader(_parsed(text), find).statement()


def refused(
    what: str, given: str, fix: str = "SELECT region, AVG(age) FROM people GROUP BY region"
) -> ParameterError:
    """The error for what cannot be asked."""
    given = " ".join(given.split())
    return ParameterError(
        what,
        given=given if len(given) <= 120 else given[:117] + "...",
        needed="SELECT groups and figures FROM a declared table, with WHERE, GROUP BY, HAVING, ORDER BY, LIMIT; "
        f"figures are {_FUNCTIONS}",
        fix=fix,
    )


def _parsed(text: str) -> Node:
    try:
        import sqlglot
    except ImportError:
        raise ParameterError(
            "SQL needs sqlglot, which is not installed",
            given="no sqlglot",
            needed="the extra sql",
            fix='pip install "oboro[sql]"',
        ) from None
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not encodable(text):
        raise refused(
            "the statement is not a text that can be read",
            ascii(text[:80])[1:-1] if isinstance(text, str) else repr(text),
        )
    depth = deepest = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        deepest = max(deepest, depth)
    try:
        with _quietly():
            found = (
                sqlglot.parse(text, read="duckdb", error_level=sqlglot.ErrorLevel.IMMEDIATE)
                if deepest <= _NESTED
                else []
            )
    except Exception:  # of whatever kind: a text that its parser does not understand is none that we do
        found = []
    if len(found) != 1 or type(found[0]) is not sqlglot.exp.Select:
        raise refused(
            "the statement is not understood" if len(found) < 2 else "one statement at a time", text
        )
    return found[0]


def _size(expression: Expression) -> int:
    return 1 + sum(map(_size, expression.parts)) if isinstance(expression, Call) else 1


@contextmanager
def _quietly() -> Iterator[None]:
    """sqlglot logs what it makes of a text; what is wrong with it is for us to say."""
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class _Reader:
    """The whitelist: a node that no method takes, or an argument that `only` does not name, is refused."""

    def __init__(self, select: Node, find: Find) -> None:
        from sqlglot import exp

        self.exp, self.find, self.select = exp, find, select
        self.names: dict[str, Output] = {}
        self.listed: list[Output] = []
        self.tables: set[str] = set()
        self.groups: list[tuple[Bins, str]] = []
        self.aliased: set[str] = set()
        self.meanings = 0

    def statement(self) -> Statement:
        parts = self.only(
            self.select, "expressions", "from_", "joins", "where", "group", "having", "order", "limit"
        )
        self.asked = self.table(parts["from_"], parts["joins"] or [])
        self.domain: Domain = self.asked.domain
        if self.asked.groups:
            raise refused("the groups are said twice", "by(...) and a statement", "GROUP BY in the statement")
        condition = self.asked.condition
        if parts["where"] is not None:
            tree = self.condition(self.only(parts["where"], "this")["this"])
            own = Condition(tree)
            condition = self.checked(own if condition is None else condition.and_also(own))
        aliases = {
            self.word(self.only(one, "this", "alias")["alias"]): one.args["this"]
            for one in parts["expressions"]
            if type(one) is self.exp.Alias
        }
        for one in self.several_of(parts["group"]):
            node = self.meant(one, parts["expressions"], aliases)
            self.groups.append(self.group(node))
        outputs = self.outputs(parts["expressions"])
        having = None if parts["having"] is None else self.test(self.only(parts["having"], "this")["this"])
        order = self.several_of(parts["order"])
        return Statement(
            self.asked,
            condition,
            tuple(bins for bins, _ in self.groups),
            tuple(outputs),
            having,
            tuple(map(self.ordering, order)),
            None
            if parts["limit"] is None
            else self.whole(self.only(parts["limit"], "expression")["expression"]),
        )

    # -- what every node goes through

    def only(self, node: Any, *names: str, **fixed: object) -> dict[str, Any]:
        """The arguments of a node, which has no others; those in `fixed` have one of these values."""
        given = node.args
        for name, value in given.items():
            if name in names or value is None or value is False or value == []:
                continue
            if name not in fixed or value != fixed[name]:
                raise self.no(node)
        return {name: given.get(name) for name in names}

    def several_of(self, clause: Any) -> list[Any]:
        """What a clause lists, if it is there."""
        if clause is None:
            return []
        found = self.only(clause, "expressions")["expressions"]
        if not found:
            raise self.no(clause)
        return list(found)

    def no(self, node: Any, what: str = "this cannot be asked") -> ParameterError:
        try:
            with _quietly():
                text = node.sql(dialect="duckdb")
        except Exception:  # what cannot be written down is named by its kind
            text = type(node).__name__
        return refused(what, text)

    def word(self, node: Any) -> str:
        if type(node) is not self.exp.Identifier:
            raise self.no(node)
        return str(self.only(node, "this", "quoted")["this"])

    def whole(self, node: Any) -> int:
        number = self.number(node)
        if number.denominator != 1 or not 0 <= number < 2**31:
            raise self.no(node, "a whole number is needed")
        return int(number)

    def number(self, node: Any) -> Fraction:
        if type(node) is self.exp.Neg:
            return -self.number(self.only(node, "this")["this"])
        if type(node) is not self.exp.Literal or self.only(node, "this", "is_string")["is_string"]:
            raise self.no(node, "a number is needed")
        text = str(node.args["this"])
        if len(text) > 40:
            raise self.no(node, "a number is needed")
        return rational("the number", text)

    # -- tables, columns, groups

    def table(self, clause: Any, joins: list[Any]) -> Learning[Any]:
        if clause is None:
            raise refused("the statement names no table", "no FROM")
        name = self.named(self.only(clause, "this")["this"])
        if len(joins) > 1:
            raise self.no(joins[1], "one JOIN at most")
        joined = key = None
        if joins:
            parts = self.only(joins[0], "this", "using", kind="INNER")
            using = parts["using"] or []
            if len(using) != 1:
                raise self.no(joins[0], "a JOIN is on the person: USING (person)")
            joined, key = self.named(parts["this"]), self.word(using[0])
        return self.find(name, joined, key)

    def named(self, node: Any) -> str:
        if type(node) is not self.exp.Table:
            raise self.no(node, "FROM takes the name of a declared table")
        parts = self.only(node, "this", "alias")
        if type(parts["this"]) is not self.exp.Identifier:
            raise self.no(node, "FROM takes the name of a declared table")
        name = self.word(parts["this"])
        self.tables.add(name)
        if parts["alias"] is not None:
            self.tables.add(self.word(self.only(parts["alias"], "this")["this"]))
        return name

    def column_name(self, node: Any) -> str:
        if type(node) is not self.exp.Column:
            raise self.no(node, "a declared column is needed")
        parts = self.only(node, "this", "table")
        if parts["table"] is not None and self.word(parts["table"]) not in self.tables:
            raise self.no(node, "the table of the column is not in FROM")
        name = self.word(parts["this"])
        if name in self.domain.names or name == self.asked.unit.column or parts["this"].args.get("quoted"):
            return name
        alike = [one for one in self.domain.names if one.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else name

    def column(self, node: Any) -> Column:
        return self.domain[self.column_name(node)]

    def meant(self, node: Any, outputs: list[Any], aliases: dict[str, Any]) -> Any:
        """A group by its place among the outputs, or by its alias, as what it stands for."""
        if type(node) is self.exp.Literal:
            place = self.whole(node)
            if not 1 <= place <= len(outputs):
                raise self.no(node, "there is no such column")
            node = outputs[place - 1]
            return node.args["this"] if type(node) is self.exp.Alias else node
        if type(node) is self.exp.Column and node.args.get("table") is None:
            name = self.word(node.args["this"])
            if name not in self.domain.names and name in aliases:
                return aliases[name]
        return node

    def group(self, node: Any) -> tuple[Bins, str]:
        """What a group is made of, and how it is called."""
        exp = self.exp
        if type(node) is exp.Column:
            column = self.column(node)
            return Bins(column), column.name
        if type(node) in (exp.Year, exp.Month):
            column = self.column(self.only(node, "this")["this"])
            bins = Bins(column, period="year" if type(node) is exp.Year else "month")
            return bins, bins.name
        if type(node) is exp.TimeToStr:
            parts = self.only(node, "this", "format")
            form = parts["format"]
            if type(form) is exp.Literal and form.args["this"] == "%Y-%m":
                column = self.column(parts["this"])
                return Bins(column, period="year-month"), f"strftime({column.name}, '%Y-%m')"
        if type(node) is exp.Anonymous:
            parts = self.only(node, "this", "expressions")
            if str(parts["this"]).lower() == "bins" and len(parts["expressions"]) == 2:
                column, width = self.column(parts["expressions"][0]), self.number(parts["expressions"][1])
                return even_bins(column, width), f"bins({column.name}, {show(width)})"
        raise self.no(
            node, "groups are columns, bins(age, 10), year(day), month(day) or strftime(day, '%Y-%m')"
        )

    # -- conditions on rows

    def condition(self, node: Any, depth: int = 0) -> Test | Junction:
        exp = self.exp
        if depth > DEEPEST * 4:
            raise self.no(node, "the condition is nested too deeply")
        if type(node) is exp.Paren:
            return self.condition(self.only(node, "this")["this"], depth + 1)
        if type(node) in (exp.And, exp.Or):
            word = "and" if type(node) is exp.And else "or"
            parts = self.only(node, "this", "expression")
            found: list[Test | Junction] = []
            for one in (parts["this"], parts["expression"]):
                tree = self.condition(one, depth + 1)
                same = isinstance(tree, Junction) and tree.word == word
                found += tree.parts if isinstance(tree, Junction) and same else [tree]
            return Junction(word, tuple(found))
        if type(node) is exp.Not:
            return Junction("not", (self.condition(self.only(node, "this")["this"], depth + 1),))
        if type(node) is exp.In:
            parts = self.only(node, "this", "expressions")
            column = self.column(parts["this"])
            tests = [compare(column, "=", self.constant(one)) for one in parts["expressions"] or []]
            if not tests:
                raise self.no(node)
            return tests[0] if len(tests) == 1 else Junction("or", tuple(tests))
        if type(node) is exp.Between:
            parts = self.only(node, "this", "low", "high")
            column = self.column(parts["this"])
            ends = [
                compare(column, op, self.constant(parts[end])) for op, end in ((">=", "low"), ("<=", "high"))
            ]
            return Junction("and", tuple(ends))
        if type(node) is exp.Is:
            parts = self.only(node, "this", "expression")
            if type(parts["expression"]) is not exp.Null or self.only(parts["expression"]):
                raise self.no(node)
            return absent(self.column(parts["this"]))
        ops = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        if type(node) in ops:
            parts = self.only(node, "this", "expression")
            one, other, op = parts["this"], parts["expression"], ops[type(node)]
            if type(one) is not exp.Column:
                one, other = other, one
                op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
            return compare(self.column(one), op, self.constant(other))
        raise self.no(node, "WHERE takes comparisons of declared columns with constants")

    def constant(self, node: Any) -> tuple[str, str]:
        exp = self.exp
        if type(node) is exp.Cast:  # DATE '2026-04-01'
            parts = self.only(node, "this", "to", "_type")
            if parts["to"].sql() != "DATE" or type(parts["this"]) is not exp.Literal:
                raise self.no(node)
            node = parts["this"]
        if type(node) is exp.Literal and self.only(node, "this", "is_string")["is_string"]:
            return "text", str(node.args["this"])
        return "number", show(self.number(node))

    def checked(self, condition: Condition) -> Condition:
        """The condition, if its text says the same: records carry the text. A count of a column adds that it is there."""
        longest = max(self.domain, key=lambda column: len(column.name))
        added = condition.and_also(Condition(Junction("not", (absent(longest),))))
        try:
            same = [parse(str(one), self.domain) == one for one in (condition, added)]
        except ParameterError:
            same = [False]
        if not all(same):
            raise refused("the condition is too long or nested too deeply", str(condition))
        return condition

    # -- figures

    def outputs(self, nodes: list[Any]) -> list[Output]:
        found = self.listed
        for node in nodes:
            alias = None
            if type(node) is self.exp.Alias:
                parts = self.only(node, "this", "alias")
                node, alias = parts["this"], self.word(parts["alias"])
            if type(node) is self.exp.Star:
                raise self.no(node, "rows are never shown")
            several = self.several(node)
            made = several or [self.shown(node)]
            for place, (expression, name) in enumerate(made, 1):
                called = (f"{alias} {place}" if several else alias) if alias is not None else name
                taken = {one.name for one in found}
                names = (called, *(f"{called} ({more})" for more in range(2, len(taken) + 3)))
                output = Output(next(one for one in names if one not in taken), expression)
                found.append(output)
                if not several:
                    self.names.setdefault(output.name, output)
                    self.aliased |= {called} if alias is not None else set()
        return found

    def several(self, node: Any) -> list[tuple[Expression, str]]:
        """The k most frequent values are k columns."""
        if type(node) is not self.exp.ApproxTopK:
            return []
        parts = self.only(node, "this", "expression")
        column, k = self.column(parts["this"]), self.whole(parts["expression"])
        if not 1 <= k <= 100:
            raise self.no(node, "1 to 100 of the most frequent values")
        name = f"approx_top_k({column.name}, {k})"
        return [
            (Aggregate("top", (column.name,), Fraction(k), place), f"{name} {place + 1}")
            for place in range(k)
        ]

    def shown(self, node: Any, depth: int = 0) -> tuple[Expression, str]:
        """A group, or what is worked out from figures; and what it is called."""
        if type(node) in (
            self.exp.Column,
            self.exp.Year,
            self.exp.Month,
            self.exp.TimeToStr,
            self.exp.Anonymous,
        ):
            name = (
                self.word(node.args["this"])
                if type(node) is self.exp.Column and not node.args.get("table")
                else ""
            )
            if name in self.names and name not in self.domain.names:
                self.meanings += _size(self.names[name].of)
                if self.meanings > _MOST_PARTS:
                    raise self.no(node, "the arithmetic of aliases is too long")
                return self.names[name].of, name
            bins, called = self.group(node)
            for place, (one, _) in enumerate(self.groups):
                if one == bins:
                    return Group(place), called
            raise self.no(node, "a column stands in GROUP BY, or within a figure such as AVG(age)")
        return self.worked(node, depth)

    def worked(self, node: Any, depth: int = 0) -> tuple[Expression, str]:
        exp = self.exp
        if depth > DEEPEST - 2:
            raise self.no(node, "the arithmetic is nested too deeply")
        signs = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
        if type(node) is exp.Paren:
            inner, name = self.worked(self.only(node, "this")["this"], depth + 1)
            return inner, f"({name})"
        if type(node) in signs:
            parts = self.only(node, "this", "expression", typed=True, safe=True)
            pair = [self.worked(parts[end], depth + 1) for end in ("this", "expression")]
            sign = signs[type(node)]
            return Call(sign, tuple(one for one, _ in pair)), f"{pair[0][1]} {sign} {pair[1][1]}"
        if type(node) is exp.Neg:
            inner, name = self.worked(self.only(node, "this")["this"], depth + 1)
            return Call("negative", (inner,)), f"-{name}"
        if type(node) is exp.Round:
            parts = self.only(node, "this", "decimals")
            inner, name = self.worked(parts["this"], depth + 1)
            digits = Fraction(0) if parts["decimals"] is None else self.number(parts["decimals"])
            return Call("round", (inner, Constant(digits))), f"round({name}, {show(digits)})"
        if type(node) is exp.Literal:
            number = self.number(node)
            return Constant(number), show(number)
        if type(node) is exp.Column:
            found, name = self.shown(node)
            if isinstance(found, Group):
                raise self.no(node, "arithmetic is for figures")
            return found, name
        return self.figure(node)

    def figure(self, node: Any) -> tuple[Expression, str]:
        exp = self.exp
        if type(node) is exp.Count:
            return self.count(node)
        plain = {
            exp.Avg: ("avg", "avg"),
            exp.Sum: ("sum", "sum"),
            exp.VariancePop: ("variance", "var_pop"),
            exp.StddevPop: ("deviation", "stddev_pop"),
        }
        if type(node) in plain:
            word, name = plain[type(node)]
            column = self.column(self.only(node, "this")["this"]).name
            return Aggregate(word, (column,)), f"{name}({column})"
        if type(node) in (exp.CovarPop, exp.Corr):
            parts = self.only(node, "this", "expression")
            names = tuple(self.column(parts[end]).name for end in ("this", "expression"))
            word, name = ("corr", "corr") if type(node) is exp.Corr else ("covariance", "covar_pop")
            if names[0] == names[1]:
                raise self.no(node, "two different columns are needed")
            ordered = tuple(sorted(names, key=self.domain.names.index))  # the same either way round
            return Aggregate(word, ordered), f"{name}({names[0]}, {names[1]})"
        if type(node) in (exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.WithinGroup):
            return self.quantile(node)
        if type(node) is exp.Mode:
            column = self.column(self.only(node, "this")["this"]).name
            return Aggregate("top", (column,), Fraction(1)), f"mode({column})"
        instead = {
            exp.Variance: "VAR_POP, which divides by n",
            exp.Stddev: "STDDEV_POP, which divides by n",
            exp.StddevSamp: "STDDEV_POP, which divides by n",
            exp.CovarSamp: "COVAR_POP, which divides by n",
            exp.ApproxDistinct: "COUNT(DISTINCT person), for the person that is protected",
            exp.Max: "QUANTILE_CONT(column, 0.99): a largest value is one person's",
            exp.Min: "QUANTILE_CONT(column, 0.01): a smallest value is one person's",
        }
        if type(node) in instead:
            raise self.no(node, f"this cannot be asked; ask {instead[type(node)]}")
        if type(node) is exp.ApproxTopK:
            raise self.no(node, "APPROX_TOP_K stands by itself")
        raise self.no(node)

    def count(self, node: Any) -> tuple[Expression, str]:
        exp = self.exp
        inner = self.only(node, "this", big_int=True)["this"]
        if type(inner) is exp.Star:
            self.only(inner)
            return Aggregate("rows"), "count(*)"
        if type(inner) is not exp.Distinct:
            name = self.column(inner).name
            return Aggregate("count", (name,)), f"count({name})"
        columns = self.only(inner, "expressions")["expressions"]
        person = self.asked.unit.column
        if len(columns) != 1 or person is None or self.column_name(columns[0]) != person:
            raise self.no(node, "COUNT(DISTINCT ...) is for the person that is protected")
        return Aggregate("persons"), f"count(distinct {person})"

    def quantile(self, node: Any) -> tuple[Expression, str]:
        exp = self.exp
        if type(node) is exp.Median:
            column, share, name = self.column(self.only(node, "this")["this"]), Fraction(1, 2), "median({})"
        elif type(node) is exp.WithinGroup:
            parts = self.only(node, "this", "expression")
            inner, order = parts["this"], parts["expression"]
            if type(inner) not in (exp.PercentileCont, exp.PercentileDisc) or type(order) is not exp.Order:
                raise self.no(node)
            share = self.number(self.only(inner, "this")["this"])
            keys = self.several_of(order)
            if len(keys) != 1 or type(keys[0]) is not exp.Ordered:
                raise self.no(node)
            column = self.column(self.only(keys[0], "this")["this"])
            name = f"percentile_cont({show(share)}) within group (order by {{}})"
        else:
            parts = self.only(node, "this", "expression")
            column, share = self.column(parts["this"]), self.number(parts["expression"])
            name = f"quantile_cont({{}}, {show(share)})"
        if not 0 < share < 1:
            raise self.no(node, "a quantile lies between 0 and 1")
        return Aggregate("quantile", (column.name,), share), name.format(column.name)

    # -- conditions on figures, and order

    def test(self, node: Any, depth: int = 0) -> Expression:
        exp = self.exp
        if depth > DEEPEST - 2:
            raise self.no(node, "the condition is nested too deeply")
        if type(node) is exp.Paren:
            return self.test(self.only(node, "this")["this"], depth + 1)
        if type(node) in (exp.And, exp.Or):
            parts = self.only(node, "this", "expression")
            pair = tuple(self.test(parts[end], depth + 1) for end in ("this", "expression"))
            return Call("and" if type(node) is exp.And else "or", pair)
        if type(node) is exp.Not:
            return Call("not", (self.test(self.only(node, "this")["this"], depth + 1),))
        if type(node) is exp.Between:
            parts = self.only(node, "this", "low", "high")
            middle, low, high = (self.worked(parts[name])[0] for name in ("this", "low", "high"))
            return Call("and", (Call(">=", (middle, low)), Call("<=", (middle, high))))
        ops = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        if type(node) in ops:
            parts = self.only(node, "this", "expression")
            return Call(ops[type(node)], tuple(self.worked(parts[end])[0] for end in ("this", "expression")))
        raise self.no(node, "HAVING takes comparisons of figures; groups are chosen by WHERE")

    def ordering(self, node: Any) -> Ordering:
        if type(node) is not self.exp.Ordered:
            raise self.no(node)
        parts = self.only(node, "this", "desc")
        inner = parts["this"]
        if type(inner) is self.exp.Literal:
            place = self.whole(inner)
            if not 1 <= place <= len(self.listed):
                raise self.no(node, "there is no such column")
            return Ordering(self.listed[place - 1].of, bool(parts["desc"]))
        if type(inner) is self.exp.Column and not inner.args.get("table"):
            alias = self.word(inner.args["this"])
            if alias in self.aliased:  # before a column of that name, as in SQL
                return Ordering(self.names[alias].of, bool(parts["desc"]))
        return Ordering(self.shown(inner)[0], bool(parts["desc"]))
