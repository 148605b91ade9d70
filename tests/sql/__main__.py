"""The long run of statements by chance, outside CI:

    python tests/sql --examples 100000 [--audited 25] [--corpus PATH ...]

Each is refused as an input, or becomes a plan whose record makes it again and whose guarantee covers its parts; every
25th of those is attacked: its worst cases are computed where their law can be, and measured where not. What is
refused is also asked of a session with a ledger, whose head must stay where it was. A corpus is a file of statements, one a
line, or Python whose texts are tried, or a folder of both, such as the tests of sqlglot (`git clone
https://github.com/tobymao/sqlglot`, its `tests`). Each of its statements is tried as it is, and with names of the
tables and columns that are known here in place of its own. Prints what was tried; exit code 1 if anything else happens.
"""

from __future__ import annotations

import argparse
import ast
import logging
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sql_grammar import CHOICES, DOMAIN, FIGURES, PERSONS, UNIT, asked, bent, ended, people, statement

import oboro as ob
from oboro import audit
from oboro.errors import InputError
from oboro.release import Plan, plan_from
from oboro.statistics.statement import StatementPlan

TRIALS = 2000
ALARM = 1e-12  # of each attack that measures


def planned(text: str, of: ob.Session | ob.PersonTables) -> StatementPlan | None:
    """The plan of a statement; None if it is refused, also where it is asked in earnest."""
    try:
        return of.plan(text, eps=1) if isinstance(of, ob.PersonTables) else asked().sql(text, eps=1)
    except InputError:
        pass
    try:
        of.sql(text, eps=1)
    except InputError:
        return None
    raise AssertionError("refused as a plan, and answered")


def attacked(plan: StatementPlan) -> None:
    """The whole statement, or where its law cannot be computed each question by itself."""
    whole: list[Plan] = [plan] if plan.added() is not None else list(plan.batch.plans)
    for one in whole:
        report = audit.exact(one) if one.added() is not None else measured(one)
        assert report.verdict == "holds", str(report)


def measured(plan: Plan) -> audit.AuditReport:
    return audit.run(plan, TRIALS, search=0, alarm=ALARM)


def texts(paths: list[Path]) -> Iterator[str]:
    """The statements of a corpus: lines of .sql, texts of .py."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix == ".py":
                tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                nodes = (node.value for node in tree if isinstance(node, ast.Constant))
                yield from (value for value in nodes if isinstance(value, str) and " " in value)
            elif file.suffix in (".sql", ".txt"):
                lines = file.read_text(encoding="utf-8").splitlines()
                yield from (line for line in lines if line.strip())


def at_home(rng: random.Random, text: str) -> str:
    """The statement with our tables and columns in place of its own; as it is where it cannot be taken apart."""
    import sqlglot
    from sqlglot import exp

    logging.getLogger("sqlglot").disabled = True

    def ours(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            node.set("this", exp.to_identifier("people"))
            node.set("db", None), node.set("catalog", None)
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            return exp.column(rng.choice(["age", "income", "region", "day", "person"]))
        return node

    try:
        return sqlglot.parse_one(text, read="duckdb").transform(ours).sql(dialect="duckdb")
    except Exception:
        return text


def main() -> None:
    options = argparse.ArgumentParser(description="Statements of SQL by chance.")
    options.add_argument("--examples", type=int, default=100_000)
    options.add_argument("--audited", type=int, default=25)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--corpus", type=Path, nargs="*", default=[])
    given = options.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        ledger = ob.Ledger.create(Path(folder) / "s", dataset="s", unit=UNIT, budget=ob.Pure(10))
        session = ob.Session(people(30), domain=DOMAIN, ledger=ledger, name="people")
        rows = people(30)
        parts = {"visits": (rows, DOMAIN), "homes": ({"person": [0, 1], "rooms": [2, 3]}, PERSONS)}
        tables = ob.PersonTables(parts, one_row=["homes"], ledger=ledger)
        head, wrong, tally = str(ledger.head()), 0, {"corpus": [0, 0], "grammar": [0, 0]}
        found = 0

        def tried(text: str, kind: str) -> None:
            nonlocal wrong, found
            try:
                plan = planned(text, tables if "homes" in text else session)
                tally[kind][plan is not None] += 1
                if plan is None:
                    return
                assert plan_from(plan.to_dict()) == plan
                assert plan.guarantee.covers(plan.cost)
                found += 1
                if found % given.audited == 0:
                    attacked(plan)
            except Exception as error:
                wrong += 1
                print(f"{type(error).__name__}: {error}\n  {text}", file=sys.stderr)

        for text in texts(given.corpus):
            tried(text, "corpus")
            tried(at_home(rng, text), "corpus")
        for place in range(given.examples):
            good = ended(rng, statement(rng, [*FIGURES, *CHOICES]))
            tried(good if place % 4 == 0 else bent(rng, good), "grammar")
        unspent = str(ledger.head()) == head
    for kind, (refusals, plans) in tally.items():
        print(f"{kind}: {refusals + plans} statements, {refusals} refused, {plans} planned")
    print(
        f"{found // given.audited} plans attacked, {wrong} wrong, ledger {'as it was' if unspent else 'SPENT'}"
    )
    sys.exit(0 if unspent and not wrong else 1)


if __name__ == "__main__":
    main()
