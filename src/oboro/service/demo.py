"""`oboro serve --demo`: people who do not exist, an analyst who may ask about them, a steward and an auditor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oboro.domain import Category, Domain, Integer
from oboro.ledger import Ledger
from oboro.privacy import Pure, Unit
from oboro.service import people
from oboro.service.database import Database
from oboro.service.settings import Settings, read_settings

if TYPE_CHECKING:
    from oboro.arrays import Table

DATASET = "people 2026"
ROWS = 20_000
_REGIONS = ("north", "east", "south", "west")
UNIT = Unit.person("who", 4, "replace")
_SERVICE = """address = "127.0.0.1:{port}"
database = "service.db"
workers = 2

[[datasets]]
declared = "people.toml"
rows = {rows}
edition = "2026"
approve_above = "0.3"
"""
_PEOPLE = """data = "people.parquet"
ledger = "people.ledger"

[unit]
kind = "person"
column = "who"
max_rows = 4
adjacency = "replace"
"""


@dataclass(frozen=True, slots=True)
class Demo:
    """A service that is ready to start, and what opens it."""

    settings: Settings
    analyst: str
    steward: str
    auditor: str


def domain() -> Domain:
    return Domain(
        [Integer("age", 0, 99), Integer("income", 0, 20_000, step=100), Category("region", _REGIONS)]
    )


def generated(rows: int = ROWS, seed: int = 2026) -> Table:
    """So many rows about people who do not exist."""
    import pyarrow as pa

    random = np.random.default_rng(seed)
    age = np.clip(random.normal(44, 20, rows), 0, 99).astype(np.int64)
    income = (np.clip(random.lognormal(8, 0.6, rows) * (0.4 + age / 80), 0, 20_000) // 100 * 100).astype(
        np.int64
    )
    region = pa.array(_REGIONS).take(pa.array(random.choice(4, rows, p=[0.1, 0.4, 0.3, 0.2])))
    return pa.table(
        {"who": random.integers(0, max(1, rows // 2), rows), "age": age, "income": income, "region": region}
    )


def make(folder: Path, port: int = 8750) -> Demo:
    """Everything that a service needs, in a new folder."""
    import pyarrow.parquet as pq
    import tomli_w

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "people.parquet").open("wb") as file:  # by its path, pyarrow might take it for an address
        pq.write_table(generated(), file)
    (folder / "people.toml").write_text(_PEOPLE + "\n" + tomli_w.dumps(domain().to_dict()), encoding="utf-8")
    (folder / "service.toml").write_text(_SERVICE.format(port=port, rows=ROWS), encoding="utf-8")
    ledger = Ledger.create(folder / "people.ledger", dataset=DATASET, unit=UNIT, budget=Pure(10))
    settings = read_settings(folder / "service.toml")
    database = Database(settings.database)
    tokens = {}
    for name, role in (("lab-3", "analyst"), ("steward", "steward"), ("auditor", "auditor")):
        people.add(database, name, role)
        tokens[name] = people.create_token(database, name)
    ledger.grant("lab-3", Pure(1), per="month", by="steward")
    ledger.close()
    database.close()
    return Demo(settings, tokens["lab-3"], tokens["steward"], tokens["auditor"])
