"""oboro: publish statistics about people without publishing people.

    import oboro as ob

Everything is one dot away and loads on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oboro._version import __version__

if TYPE_CHECKING:
    from oboro import (
        audit,
        domain,
        dynamics,
        engine,
        errors,
        ledger,
        noise,
        privacy,
        release,
        report,
        secure,
        service,
        statistics,
        synth,
        tables,
    )
    from oboro.domain import Areas, Category, Date, Domain, Grid, Integer, Mesh, Real
    from oboro.errors import OboroError
    from oboro.ledger import Ledger
    from oboro.privacy import ZCDP, Approx, Conditional, Pure, Renyi, Unit, compose, parallel
    from oboro.release import (
        Certificate,
        Forecast,
        Plan,
        Release,
        load_plan,
        price,
        run,
        save_plan,
        verify_certificate,
    )
    from oboro.service import connect
    from oboro.statistics import PersonTables, Session, histogram, histogram_plan

_WHERE = {
    "domain": ("Areas", "Category", "Date", "Domain", "Grid", "Integer", "Mesh", "Real"),
    "errors": ("OboroError",),
    "ledger": ("Ledger",),
    "privacy": ("Approx", "Conditional", "Pure", "Renyi", "Unit", "ZCDP", "compose", "parallel"),
    "release": (
        "Certificate",
        "Forecast",
        "Plan",
        "Release",
        "load_plan",
        "price",
        "run",
        "save_plan",
        "verify_certificate",
    ),
    "service": ("connect",),
    "statistics": ("PersonTables", "Session", "histogram", "histogram_plan"),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "ZCDP",
    "Approx",
    "Areas",
    "Category",
    "Certificate",
    "Conditional",
    "Date",
    "Domain",
    "Forecast",
    "Grid",
    "Integer",
    "Ledger",
    "Mesh",
    "OboroError",
    "PersonTables",
    "Plan",
    "Pure",
    "Real",
    "Release",
    "Renyi",
    "Session",
    "Unit",
    "__version__",
    "audit",
    "compose",
    "connect",
    "domain",
    "dynamics",
    "engine",
    "errors",
    "histogram",
    "histogram_plan",
    "ledger",
    "load_plan",
    "noise",
    "parallel",
    "price",
    "privacy",
    "release",
    "report",
    "run",
    "save_plan",
    "secure",
    "service",
    "statistics",
    "synth",
    "tables",
    "verify_certificate",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"oboro.{_HOME[name]}"), name)
    elif name in __all__:
        value = importlib.import_module(f"oboro.{name}")
    else:
        raise AttributeError(f"module 'oboro' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
