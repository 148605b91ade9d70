"""DuckDB's names of types, by what their values are."""

from __future__ import annotations

WHOLE = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
)
FLOATS = ("FLOAT", "DOUBLE")


def base_type(type_name: str) -> str:
    """DECIMAL for DECIMAL(9,2); but DECIMAL(9,2)[] is a list of them, and no number."""
    return "LIST" if type_name.endswith("]") else type_name.partition("(")[0].upper()
