"""A small generated population with every kind of column, for tests of synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import oboro as ob

DOMAIN = ob.Domain(
    [
        ob.Integer("age", 0, 120),
        ob.Real("score", 0, 10, "0.5"),
        ob.Category("sex", ["F", "M"]),
        ob.Category("region", ["north", "south", "east", "west"], missing="west"),
        ob.Date("joined", "2020-01-01", "2025-12-31"),
        ob.Integer("amount", 0, 99_999),
    ]
)


def people(n: int = 4000, seed: int = 3) -> pa.Table:
    """Scores follow age, sex follows region, half of the amounts are 0, a tenth of the scores is missing."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 18, n), 0, 120).astype(int)
    score = np.round(np.clip(age / 12 + rng.normal(0, 1, n), 0, 10) * 2) / 2
    region = rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    sex = np.where(rng.random(n) < np.where(region == "north", 0.8, 0.3), "F", "M")
    amount = np.where(rng.random(n) < 0.5, 0, rng.integers(0, 99_999, n))
    day = np.datetime64("2020-01-01") + rng.integers(0, 2192, n).astype("timedelta64[D]")
    return pa.table(
        {
            "age": age,
            "score": pa.array(score, mask=rng.random(n) < 0.1),
            "sex": sex,
            "region": region,
            "joined": pa.array(day, pa.date32()),
            "amount": amount,
        }
    )


def ledger_in(folder: Path, unit: ob.Unit | None = None, **budget: Any) -> ob.Ledger:
    return ob.Ledger.create(
        folder / "people.ledger",
        dataset="people",
        unit=unit or ob.Unit.row("replace"),
        budget=ob.Approx(1000, "0.01"),
    )
