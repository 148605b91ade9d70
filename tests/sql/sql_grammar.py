"""Statements by chance: of a grammar whose every statement can be asked, and bent into ones that may not be."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import oboro as ob
from oboro.statistics.session import Plans

DOMAIN = ob.Domain(
    [
        ob.Integer("age", 0, 99),
        ob.Integer("income", 0, 10_000, step=100),
        ob.Category("region", ["north", "south", "west"]),
        ob.Date("day", "2025-11-15", "2026-12-31"),
    ]
)
PERSONS = ob.Domain([ob.Integer("rooms", 1, 9)])  # a record of each person, for joins
UNIT = ob.Unit.person("person", 3)


def asked(unit: ob.Unit = UNIT) -> Plans:
    return Plans(DOMAIN, unit, None, table="people")


def people(rows: int = 600, seed: int = 1) -> dict[str, list[Any]]:
    """Rows within bounds and on the grid, at most 3 of a person."""
    rng = random.Random(seed)
    return {
        "person": [row // 3 for row in range(rows)],
        "age": [rng.randint(0, 99) for _ in range(rows)],
        "income": [100 * rng.randint(0, 100) for _ in range(rows)],
        "region": [rng.choice(["north", "south", "west"]) for _ in range(rows)],
        "day": [date(2025, 11, 15) + timedelta(days=rng.randint(0, 411)) for _ in range(rows)],
    }


GROUPS = ["region", "bins(age, 10)", "year(day)", "month(day)", "strftime(day, '%Y-%m')"]
FIGURES = [
    "COUNT(*)", "COUNT(age)", "COUNT(income)", "SUM(age)", "SUM(income)", "AVG(age)", "AVG(income)", "VAR_POP(age)",
    "STDDEV_POP(income)", "COVAR_POP(age, income)", "CORR(income, age)", "COUNT(DISTINCT person)",
]  # fmt: skip
CHOICES = [
    "MEDIAN(age)",
    "QUANTILE_CONT(income, 0.9)",
    "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age)",
    "MODE(age)",
]
TESTS = [
    "age >= 20", "age < 65", "age = 30", "age <> 30", "20 <= age", "income BETWEEN 1000 AND 5000", "region IN ('north', 'west')",
    "NOT region = 'south'", "day >= DATE '2026-02-01'", "day < '2026-10-01'", "income IS NOT NULL", "age IS NULL OR age > 10",
]  # fmt: skip


def statement(rng: random.Random, figures: list[str] = FIGURES) -> str:
    """A statement that can be asked."""
    groups = rng.sample(GROUPS, rng.choice([0, 0, 1, 1, 2]))
    if {"strftime(day, '%Y-%m')"} <= set(groups) and len(groups) == 2:
        groups = groups[:1]
    fits = [one for one in figures if one not in CHOICES or "age" not in one or "bins(age, 10)" not in groups]
    chosen = rng.sample(fits, rng.randint(1, 4))
    numbers = [one for one in chosen if one not in CHOICES]
    if numbers and rng.random() < 0.4:
        one, other = rng.choice(numbers), rng.choice([*numbers, "2", "(1 + 3.5)"])
        chosen.append(f"{one} {rng.choice('+-*/')} {other} AS worked")
    text = f"SELECT {', '.join([*groups, *chosen])} FROM people"
    if rng.random() < 0.6:
        tests = rng.sample(TESTS, rng.randint(1, 3))
        joined = tests[0]
        for test in tests[1:]:
            joined = f"({joined}) {rng.choice(['AND', 'OR'])} ({test})"
        text += f" WHERE {joined}"
    if groups:
        text += f" GROUP BY {', '.join(groups)}"
    return text


def ended(rng: random.Random, text: str) -> str:
    """The statement with a table joined to it, and with HAVING, ORDER BY and LIMIT: any of them, or none."""
    if rng.random() < 0.2:
        text = text.replace("FROM people", "FROM visits JOIN homes USING (person)").replace(
            "WHERE ", rng.choice(["WHERE ", "WHERE rooms > 2 AND "])
        )
    if rng.random() < 0.2:
        text = text.replace("SELECT ", "SELECT ROUND(AVG(income), 1) AS r, ", 1)
    if rng.random() < 0.2:
        text = (
            text.replace("SELECT ", "SELECT APPROX_TOP_K(region, 2), ", 1) if "region," not in text else text
        )
    if rng.random() < 0.3:
        text += rng.choice(
            [" HAVING COUNT(*) > 5", " HAVING AVG(income) BETWEEN 0 AND 50 OR NOT SUM(age) < 2"]
        )
    if rng.random() < 0.3:
        text += rng.choice(
            [" ORDER BY 1", " ORDER BY 1 DESC", " ORDER BY COUNT(*) DESC", " ORDER BY SUM(age)"]
        )
    return text + rng.choice(["", "", "", " LIMIT 5", " LIMIT 0"])


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "DISTINCT",
    "UNION",
    "ALL",
    "JOIN",
    "LEFT",
    "USING",
    "ON",
    "TABLESAMPLE",
    "10%",
    "EXISTS",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "OVER",
    "PARTITION",
    "ROWS",
    "FILTER",
    "WITHIN",
    "LATERAL",
    "UNNEST",
    "PIVOT",
    "QUALIFY",
    "WINDOW",
    "WITH",
    "RECURSIVE",
    "AS",
    "INTO",
    "VALUES",
    "NULL",
    "TRUE",
    "CAST",
    "INTERVAL",
    "people",
    "other",
    "read_parquet('/etc/passwd')",
    "age",
    "income",
    "region",
    "nobody",
    "person",
    "*",
    "(",
    ")",
    ",",
    ";",
    ".",
    "=",
    "<>",
    "<",
    "1",
    "-1",
    "1e9",
    "''",
    "'north'",
    '"age"',
    "$1",
    "?",
    ":x",
    "[1]",
    "{}",
    "--",
    "/*",
    "*/",
    "||",
    "%",
    "^",
    "~",
    "::",
    "@",
    "#",
    "COUNT(*)",
    "SUM(age)",
    "AVG(age)",
    "MAX(age)",
    "LIST(age)",
    "STRING_AGG(region)",
    "RANDOM()",
    "getenv('HOME')",
    "sqlite_scan('x','y')",
    "GLOB",
    "COPY",
    "ATTACH",
    "PRAGMA",
    "EXPLAIN",
    "DESCRIBE",
    "SUMMARIZE",
    "FOR",
    "UPDATE",
    "AT",
    "TIMESTAMP",
    "bins(age,0)",
    "bins(age,-1)",
    "year(age)",
    "month(region)",
    "QUANTILE_CONT(age,2)",
    "QUANTILE_CONT(age,[0.1,0.2])",
    "APPROX_TOP_K(age,0)",
    "ROUND(age)",
    "p.age",
]


def bent(rng: random.Random, text: str) -> str:
    """The statement with words left out, doubled, exchanged or put in."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 4)):
        place, kind = rng.randrange(len(words) or 1), rng.randrange(4)
        if kind == 0 and words:
            del words[place]
        elif kind == 1 and words:
            words.insert(place, words[rng.randrange(len(words))])
        elif kind == 2:
            words.insert(place, rng.choice(WORDS))
        elif words:
            words[place] = rng.choice(WORDS)
    return " ".join(words)
