"""Questions as they travel, and the plans that the server makes of them.

A question is a small JSON object of public words. Plans never travel: one that came from outside could name undeclared columns, any
`max_rows`, or more bins than a machine can hold. The server makes the plan from its own domain, unit and n.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from oboro.domain import Domain
from oboro.domain.rules import RULES
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, show, whole
from oboro.kinds import shown
from oboro.ledger.chain import sha256
from oboro.privacy import Approx, Pure, Unit
from oboro.records import Record
from oboro.release import Plan
from oboro.service.settings import Limits
from oboro.statistics import Ball
from oboro.statistics.questions import batch_of
from oboro.statistics.scope import Bins, bins_of, group_of
from oboro.statistics.session import Builds
from oboro.statistics.terms import Promise, promised
from oboro.statistics.where import parse

Question = Mapping[str, Any]
KINDS = (
    "count", "persons", "sum", "mean", "variance", "covariance", "median", "quantile", "histogram", "top", "mode", "table", "synthetic", "batch", "sql",
)  # fmt: skip
SIZES = (1, 16, 256, 4_096, 65_536, 1 << 20)  # what slots are made for: numbers that an answer has, at most
LONGEST = 2_000  # signs of a condition


@dataclass(frozen=True, slots=True)
class Facts:
    """What is public about a dataset: all that a plan is made of."""

    dataset: str
    domain: Domain
    unit: Unit
    n: int | None
    count: str | None
    edition: str
    limits: Limits
    table: str = "data"  # what it is called in SQL

    @property
    def tabled(self) -> bool:
        """Whether the data are cells that are counted already, which tables alone can read."""
        return self.unit.kind not in ("row", "person")


@dataclass(frozen=True, slots=True)
class Shape:
    """How much work a question is, by public facts alone: what its slot is found by."""

    kind: str
    size: int

    @classmethod
    def of(cls, kind: str, numbers: int) -> Shape:
        return cls(kind, next((size for size in SIZES if numbers <= size), SIZES[-1]))


def canonical_question(question: Question) -> str:
    """One spelling for one question."""
    return json.dumps(question, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest_of(plan: Mapping[str, object], edition: str) -> str:
    """What makes two questions the same: the plan that is made of them, and the data that it is asked of."""
    return sha256(json.dumps([plan, edition], sort_keys=True, ensure_ascii=False).encode())


def plan_of(question: Question, facts: Facts) -> tuple[Plan, Shape]:
    """The plan of a question, and its shape. What is too large is refused before anything is built."""
    kind = question.get("question")
    if kind == "batch":
        return _batch(question, facts)
    if kind == "table":
        return _table(question, facts)
    if kind == "sql":
        return _statement(question, facts)
    if kind == "synthetic":
        return _synthetic(question, facts)
    _refuse_cells(kind, facts)
    shape = _shape(question, facts)
    build = build_of(question, facts)
    return _paid(build(promised(question.get("eps"), question.get("rho")))), shape


def _paid(plan: Plan) -> Plan:
    if plan.guarantee == Pure(0):
        raise ParameterError(
            "the answer is public: there is nothing to pay for",
            given=str(plan.describe()["released"]),
            needed="a question whose answer depends on values",
        )
    return plan


def _refuse_cells(kind: object, facts: Facts) -> None:
    if facts.tabled:
        raise ParameterError(
            "the data are cells that are counted already",
            given=told(question=shown(kind)),
            needed="a table of them",
            fix=setting(question="table"),
        )


def build_of(question: Question, facts: Facts) -> Any:
    """What makes the plan, for a price."""
    asked: Any = Builds(facts.domain, facts.unit, facts.n)
    if (where := question.get("where")) is not None:
        if len(where) > LONGEST:
            raise _too_much("where", len(where), LONGEST, "signs")
        asked = asked.where(one_spelling(where, facts.domain))
    if by := question.get("by"):
        asked = asked.by(*by)
    kind, columns = question["question"], question.get("columns") or []
    said: Record = {}
    if (expected := question.get("expected_n")) is not None:
        said["expected_n"] = whole("expected_n", expected, least=1, most=2**40)
    if kind in ("count", "persons"):
        return getattr(asked, kind)(**said)
    if kind in ("sum", "mean", "covariance"):
        return getattr(asked, kind)(columns, ball=_ball(question.get("ball")), **said)
    if kind == "variance":
        return asked.variance(*columns, **said)
    if kind == "median":
        return asked.median(*columns, method=question.get("method"), **said)
    if kind == "quantile":
        at = question["quantiles"]
        return asked.quantile(*columns, at[0] if len(at) == 1 else at, method=question.get("method"), **said)
    if kind == "histogram":
        return asked.histogram(columns, edges=question.get("edges"), **said)
    if kind in ("top", "mode"):
        return asked.top(*columns, question["k"], **said) if kind == "top" else asked.mode(*columns, **said)
    raise ParameterError(
        "the question is unknown",
        given=told(question=shown(kind)),
        needed=", ".join(KINDS),
        fix=setting(question="mean"),
    )


def one_spelling(where: str, domain: Domain) -> str:
    """A condition as its plan's record has it, however it was written. Refused if that is too long to be read back."""
    found = parse(where, domain).normal
    text = str(found)
    try:
        same = parse(text, domain) == found
    except ParameterError:
        same = False
    if not same:
        raise ParameterError(
            "the condition is too long or nested too deeply",
            given=where if len(where) <= 200 else where[:197] + "...",
            needed="a condition of fewer parts",
            fix="age >= 20 and region = 'north'",
        )
    return text


def _ball(ball: Mapping[str, Any] | None) -> Ball | None:
    return None if ball is None else Ball(ball["norm"], ball["radius"], ball.get("origin"))


def _shape(question: Question, facts: Facts) -> Shape:
    """How many numbers an answer has; refused above the public limits."""
    limits, kind, columns = facts.limits, question["question"], question.get("columns") or []
    if len(columns) > limits.columns:
        raise _too_much("columns", len(columns), limits.columns, "columns")
    groups: Sequence[Bins] = [group_of(facts.domain, name) for name in question.get("by") or ()]
    many = prod(bins.size for bins in groups)
    most = limits.groups
    if kind in ("histogram", "count"):
        most = limits.cells
    if kind == "histogram":
        many *= prod(bins.size for bins in bins_of(facts.domain, columns, question.get("edges")))
    elif kind in ("top", "mode"):
        many *= prod(facts.domain[name].size for name in columns)
        most = limits.cells
    if many > most:
        raise _too_much(
            kind, many, most, "groups" if kind not in ("histogram", "count", "top", "mode") else "bins"
        )
    each = {"covariance": len(columns) ** 2, "quantile": len(question.get("quantiles") or ())}.get(
        kind, max(1, len(columns))
    )
    return Shape.of(kind, many * (each if kind not in ("histogram", "top", "mode") else 1))


def _table(question: Question, facts: Facts) -> tuple[Plan, Shape]:
    from oboro import tables
    from oboro.tables.tree.workload import Workload

    names = question.get("columns") or facts.domain.names
    if question.get("rho") is not None or question.get("eps") is None:
        raise ParameterError(
            "a table is priced by eps, with a delta or without",
            given="rho" if question.get("rho") is not None else "no eps",
            fix=setting(eps="0.5"),
        )
    domain = facts.domain.only(*names)
    if domain.size > facts.limits.table_cells:
        raise _too_much("table", domain.size, facts.limits.table_cells, "cells")
    workload = question.get("workload")
    plan = tables.plan(
        domain,
        unit=facts.unit,
        eps=question["eps"],
        delta=question.get("delta"),
        strategy=question.get("strategy"),
        workload=None if workload is None else Workload.from_record(workload, None, "workload"),
        count=facts.count,
    )
    return plan, Shape.of("table", domain.size)


def _synthetic(question: Question, facts: Facts) -> tuple[Plan, Shape]:
    """A model of which records are drawn afterwards, free."""
    from oboro import synth
    from oboro.synth.plan import TablesPlan

    _refuse_cells("synthetic", facts)
    domain = facts.domain.only(*(question.get("columns") or facts.domain.names))
    size = sum(column.size for column in domain)
    if size > facts.limits.cells:
        raise _too_much("synthetic", size, facts.limits.cells, "values")
    known = facts.n if facts.unit.kind == "row" and facts.unit.adjacency == "replace" else None
    plan = synth.plan(
        domain,
        unit=facts.unit,
        eps=question.get("eps"),
        delta=question.get("delta"),
        rho=question.get("rho"),
        n=known,
        method=question.get("method") or "quality",
        **{word: question.get(word) for word in RULES},
    )
    tied = plan.tied_cells if isinstance(plan, TablesPlan) else 0
    if question.get("impossible") and tied > facts.limits.cells:  # beyond what slots are made for
        raise _too_much("synthetic", tied, facts.limits.cells, "combinations that are ruled out or not")
    return plan, Shape.of("synthetic", size)


def _batch(question: Question, facts: Facts) -> tuple[Plan, Shape]:
    _refuse_cells("batch", facts)
    parts = question["questions"]
    if len(parts) > facts.limits.questions:
        raise _too_much("questions", len(parts), facts.limits.questions, "questions")
    if any(part.get(name) is not None for part in parts for name in ("eps", "rho")):
        raise ParameterError(
            "a batch has one price for all its questions",
            given="eps or rho",
            needed="a weight, if a question matters more than others",
            fix=setting(weight=2),
        )
    shapes = [_shape(part, facts) for part in parts]
    if sum(shape.size for shape in shapes) > facts.limits.cells:
        raise _too_much("questions", sum(shape.size for shape in shapes), facts.limits.cells, "numbers")
    builds = [build_of(part, facts) for part in parts]
    weights = [positive("weight", part.get("weight") or 1) for part in parts]
    promise = priced(question.get("eps"), question.get("rho"), question.get("delta"))
    return _paid(batch_of(builds, weights, promise)), Shape.of("batch", sum(shape.size for shape in shapes))


def _statement(question: Question, facts: Facts) -> tuple[Plan, Shape]:
    """What a statement of SQL asks: its text is read here, and nothing of it reaches an engine."""
    from oboro.statistics.sql import read_statement, refused

    _refuse_cells("sql", facts)
    known = {facts.table.casefold(), facts.dataset.casefold()}

    def find(name: str, joined: str | None, key: str | None) -> Builds:
        if name.casefold() not in known or joined is not None:
            raise refused("there is no such table", f"FROM {name}", f"SELECT COUNT(*) FROM {facts.table}")
        return Builds(facts.domain, facts.unit, facts.n)

    statement = read_statement(question["sql"], find)
    if statement.condition is not None:
        text = one_spelling(str(statement.condition), facts.domain)
        statement = replace(statement, condition=parse(text, facts.domain))
    wanted, limits = statement.wanted, facts.limits
    groups, values = prod(bins.size for bins in statement.groups), 0
    for one in wanted:
        chosen = prod(facts.domain[name].size for name in one.columns) if one.word == "top" else 1
        most = limits.cells if one.word in ("rows", "count", "top") else limits.groups
        if groups * chosen > most:
            raise _too_much("sql", groups * chosen, most, "groups" if chosen == 1 else "bins")
        values += groups * chosen
    if len(wanted) > limits.questions or values > limits.cells:
        raise _too_much("sql", len(wanted), limits.questions, "figures of so many groups")
    expected = question.get("expected_n")
    asked: Any = (
        {} if expected is None else {"expected_n": whole("expected_n", expected, least=1, most=2**40)}
    )
    promise = priced(question.get("eps"), question.get("rho"), question.get("delta"))
    return _paid(statement.plan(promise, asked)), Shape.of("sql", values)


def priced(eps: Number | None, rho: Number | None, delta: Number | None) -> Promise | Approx:
    promise = promised(eps, rho)
    if delta is None:
        return promise
    if not isinstance(promise, Pure):
        raise ParameterError("delta goes with eps", given="rho and delta", fix=setting(eps="1", delta="1e-6"))
    return Approx(promise.eps, positive("delta", delta))


def _too_much(name: str, given: int, most: int, what: str) -> ParameterError:
    return ParameterError(
        f"the question is too large for this service: {name}",
        given=f"{given:,} {what}",
        needed=f"at most {most:,}",
        fix="a smaller question",
    )


def with_eps(question: Question, eps: Number) -> Question:
    """The same question at another price."""
    return {**question, "eps": show(positive("eps", eps)), "rho": None}
