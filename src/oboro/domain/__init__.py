"""What values are possible: columns and domains."""

from oboro.domain.columns import Category, Column, Date, Integer, Real, column_from
from oboro.domain.domain import Domain, read_toml

__all__ = ["Category", "Column", "Date", "Domain", "Integer", "Real", "column_from", "read_toml"]
